"""What the administrator allows and wishes, checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from ...errors import LimitError, ProfileNotFoundError, SpecError
from ...protocol import ClassProfile, ClusterClass, ClusterSpec
from ...protocol.rest import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping

RestartPolicy = Literal["keep", "renew", "stop"]

_CHOICE = frozenset({"engine", "gpus", "workers"})
"""The options that choose GPUs or the stand-in."""


@dataclass(frozen=True)
class Policy:
    """The settings of the manager of clusters; see the traits of `GpuDask`."""

    default_spec: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    idle_timeout: float = 0.0
    restart: RestartPolicy = "keep"
    share: bool = False
    ucx: bool = True
    standby: bool = False
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
        if not profile and not options.get("profile"):
            options = self._defaults_beside(options) | dict(options)
        profile = profile or ClusterSpec.parse({"profile": options.get("profile", "")}, strict=True).profile
        if profile and profile not in self.profiles:
            raise ProfileNotFoundError(profile, self.profiles)
        options = {name: value for name, value in options.items() if name != "profile"}
        if (by_class := self._class_profile(profile)) is not None:
            return self.check(_spec_of_class(profile, by_class, options))
        base = _without_replaced({"share": self.share} | self._options(profile), options)
        return self.check(ClusterSpec.parse(base | options, strict=True))

    def cluster_class(self, profile: str) -> ClusterClass | None:
        """The class that makes the clusters of a profile, if one does."""
        by_class = self._class_profile(profile)
        return None if by_class is None else ClusterClass(path=by_class.path, options=by_class.options)

    def changed(self, spec: ClusterSpec, options: Mapping[str, Any]) -> ClusterSpec:
        """`spec` with other `options`; raises like `spec`."""
        if "profile" in options:
            return self.spec(options)
        if spec.profile:
            return self.spec({"start_timeout": spec.start_timeout} | dict(options), spec.profile)
        base = _without_replaced(spec.model_dump(), options)
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

    def _class_profile(self, profile: str) -> ClassProfile | None:
        entry = self.profiles.get(profile, {})
        if "class" not in entry:
            return None
        try:
            return ClassProfile.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise SpecError(f"profile {profile}: {name}", entry.get(name), "what docs/server.md says") from None

    def _options(self, profile: str) -> dict[str, Any]:
        options = {name: value for name, value in self.profiles.get(profile, {}).items() if name != "title"}
        if "profile" in options:
            raise SpecError(f"profile {profile}: profile", options["profile"], "the options of this one")
        return options

    def _defaults_beside(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What is taken as given where `options` name no profile."""
        defaults = {name: value for name, value in self.default_spec.items() if name != "title"}
        # A class decides where its workers are; who chooses that does without the class.
        if _CHOICE & options.keys() and self._class_profile(defaults.get("profile", "")) is not None:
            del defaults["profile"]
        return _without_replaced(defaults, options)


def _without_replaced(base: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`base` without its choice of GPUs or of the stand-in where `options` have one, which takes its place."""
    replaced = _CHOICE if _CHOICE & options.keys() else frozenset()
    return {name: value for name, value in base.items() if name not in replaced}


def _spec_of_class(profile: str, by_class: ClassProfile, options: Mapping[str, Any]) -> ClusterSpec:
    """The spec of a cluster that a class makes; of its options the user may give only the time of the start."""
    fixed = {"profile": profile, "engine": by_class.engine}
    base = ClusterSpec.parse(fixed | {"start_timeout": by_class.start_timeout})
    spec = ClusterSpec.parse(base.model_dump() | dict(options), strict=True)
    for name, value in options.items():
        if name != "start_timeout" and getattr(spec, name) != getattr(base, name):
            raise SpecError(
                "--" + name.replace("_", "-"), value, f"it without the profile {profile}, which decides on all options"
            )
    return spec
