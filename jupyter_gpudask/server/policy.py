"""What the administrator allows and wishes, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..errors import LimitError, ProfileNotFoundError
from ..models import ClusterSpec
from ..models.api import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

RestartPolicy = Literal["keep", "renew", "stop"]


@dataclass(frozen=True)
class Policy:
    """The settings of the manager of clusters; see the traits of `GpuDask`."""

    default_spec: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    idle_timeout: float = 0.0
    restart: RestartPolicy = "keep"
    share: bool = False
    ucx: bool = True
    max_clusters: int | None = None
    max_workers: int | None = None

    def spec(self, options: Mapping[str, Any], profile: str = "") -> ClusterSpec:
        """The spec of a cluster for which `options` and a profile were given.

        Raises
        ------
        ProfileNotFoundError
            There is no such profile.
        SpecError
            An option is not allowed.
        LimitError
            The administrator does not allow it.
        """
        if profile and profile not in self.profiles:
            raise ProfileNotFoundError(profile, self.profiles)
        base = {name: value for name, value in self._base(profile).items() if not _is_replaced(name, options)}
        return self.check(ClusterSpec.parse(base | dict(options), strict=True))

    def changed(self, spec: ClusterSpec, options: Mapping[str, Any]) -> ClusterSpec:
        """`spec` with other `options`; raises like `spec`."""
        base = {name: value for name, value in spec.model_dump().items() if not _is_replaced(name, options)}
        return self.check(ClusterSpec.parse(base | dict(options), strict=True))

    def check(self, spec: ClusterSpec) -> ClusterSpec:
        """The same spec, if it is allowed.

        Raises
        ------
        LimitError
            It is not.
        """
        if spec.protocol == "ucx" and not self.ucx:
            raise LimitError("This server does not allow UCX, which has no credentials.", "Take the protocol tcp.")
        wanted = spec.gpus if isinstance(spec.gpus, int) else len(spec.gpus) if spec.gpus != "all" else spec.workers
        if wanted is not None:
            self.check_workers(wanted)
        return spec

    def check_workers(self, workers: int) -> None:
        """Refuse more workers than are allowed, by a `LimitError`."""
        if self.max_workers is not None and workers > self.max_workers:
            raise LimitError(f"This server allows a cluster {self.max_workers} workers.", "Ask for fewer.")

    def listed_profiles(self) -> tuple[Profile, ...]:
        """The profiles, with all that they mean."""
        return tuple(
            Profile(name=name, title=str(options.get("title", name)), spec=self.spec({}, name))
            for name, options in self.profiles.items()
        )

    def _base(self, profile: str) -> dict[str, Any]:
        options = dict(self.profiles[profile]) if profile else dict(self.default_spec)
        options.pop("title", None)
        return {"share": self.share} | options


def _is_replaced(name: str, options: Mapping[str, Any]) -> bool:
    """Whether a choice of GPUs or of the stand-in takes the place of the other one in a profile."""
    return name in ("engine", "gpus", "workers") and bool({"engine", "gpus", "workers"} & options.keys())
