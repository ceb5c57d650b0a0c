"""The specs that the administrator's settings allow: defaults, cluster profiles and limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from traitlets import TraitError

from ..errors import GpuDaskError, LimitError, OptionConflictError, ProfileNotFoundError, SpecError
from ..machine.lease_registry import LeaseRegistry
from ..protocol import ClassProfile, ClusterClass, ClusterSpec
from ..protocol.rest import Profile
from ..protocol.spec import DEVICES, flag_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .settings import ServerSettings

_OPTIONS_OF_CLASSES = ("start_timeout", "workers", "adapt")
"""The options that users can set of a cluster that a class creates."""


class Policy:
    """Applies the settings to the options that users ask for."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings

    def validate_settings(self) -> None:
        """Raise `TraitError` if the default options, a cluster profile or the directory of leases are invalid."""
        try:
            self.spec({})
            self.listed_profiles()
        except GpuDaskError as error:
            raise TraitError(f"Invalid configuration of GpuDask: {error}") from None
        directory = self.settings.lease_directory
        try:
            if directory:
                LeaseRegistry(Path(directory)).check()
        except OSError as error:
            raise TraitError(
                f"The lease_directory {directory} of GpuDask cannot be used: {error.strerror}. "
                f"Type as root: install -d -m 1777 {directory}"
            ) from None

    def spec(self, options: Mapping[str, Any], profile: str = "") -> ClusterSpec:
        """The spec of a new cluster.

        `options`: the options that the user gave; they override those of the profile, or else the default ones.
        `profile`: the name of a cluster profile, which may also be one of the options. Raises `ProfileNotFoundError` if
        there is no such profile. Raises `SpecError` if an option has a value that is not allowed. Raises `LimitError`
        if the spec exceeds a limit.
        """
        return self.check(self._unchecked_spec(options, profile))

    def _unchecked_spec(self, options: Mapping[str, Any], profile: str) -> ClusterSpec:
        if not profile and not options.get("profile"):
            options = self._default_options(options) | dict(options)
        profile = profile or ClusterSpec.parse({"profile": options.get("profile", "")}, strict=True).profile
        if profile and profile not in self.settings.profiles:
            raise ProfileNotFoundError(
                "no-profile" if self.settings.profiles else "no-profiles",
                name=repr(profile),
                known=", ".join(self.settings.profiles),
            )
        options = {name: value for name, value in options.items() if name != "profile"}
        if (class_profile := self._class_profile(profile)) is not None:
            return _class_spec(profile, class_profile, options)
        base = _without_overridden({"share": self.settings.share_gpus} | self._profile_options(profile), options)
        return ClusterSpec.parse(base | options, strict=True)

    def cluster_class(self, profile: str) -> ClusterClass | None:
        """The Dask cluster class of a cluster profile; `None` if the profile names none."""
        class_profile = self._class_profile(profile)
        return None if class_profile is None else ClusterClass(path=class_profile.path, options=class_profile.options)

    def updated_spec(self, spec: ClusterSpec, options: Mapping[str, Any]) -> ClusterSpec:
        """`spec` with some options replaced; raises the same errors as `spec`."""
        if "profile" in options:
            return self.spec(options)
        if spec.profile:
            kept = {name: getattr(spec, name) for name in _OPTIONS_OF_CLASSES if getattr(spec, name) is not None}
            return self.spec(kept | dict(options), spec.profile)
        base = _without_overridden(spec.model_dump(), options)
        if "gpus" in options and spec.engine == "cuda":  # which is where there are GPUs
            base["engine"] = "cuda"
        return self.check(ClusterSpec.parse(base | dict(options), strict=True))

    def check(self, spec: ClusterSpec) -> ClusterSpec:
        """Return `spec` unchanged if it is within the limits; raises `LimitError` if it is not."""
        if spec.protocol == "ucx" and not self.settings.allow_ucx:
            raise LimitError("no-ucx")
        workers = spec.gpus if isinstance(spec.gpus, int) else spec.workers
        if isinstance(spec.gpus, list):
            workers = len(spec.gpus)
        for number in (workers, spec.adapt and spec.adapt[1]):
            if number is not None:
                self.check_workers(number)
        if self.settings.profiles_only and not self._is_offered(spec):
            names = list(self.settings.profiles)
            raise LimitError(
                "profiles-only" if names else "defaults-only", names=", ".join(names), first=next(iter(names), "")
            )
        return spec

    def _is_offered(self, spec: ClusterSpec) -> bool:
        """Whether a spec is that of a cluster profile or the default; on the free GPUs instead of all if it has all."""
        offered = [self._unchecked_spec({}, ""), *(self._unchecked_spec({}, name) for name in self.settings.profiles)]
        return any(_comparable(spec) == _comparable(each) for each in offered)

    def check_workers(self, workers: int) -> None:
        """Raise `LimitError` if a cluster may not have so many workers."""
        limit = self.settings.max_workers
        if limit is not None and workers > limit:
            raise LimitError("too-many-workers", limit=limit, workers=workers)

    def listed_profiles(self) -> tuple[Profile, ...]:
        """All cluster profiles, with their specs."""
        return tuple(
            Profile(name=name, title=str(options.get("title", name)), spec=self.spec({}, name))
            for name, options in self.settings.profiles.items()
        )

    def _class_profile(self, profile: str) -> ClassProfile | None:
        entry = self.settings.profiles.get(profile, {})
        if "class" not in entry:
            return None
        try:
            return ClassProfile.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            value = entry.get(name)
            shown = type(value).__name__ if isinstance(value, dict | list) else value  # which can hold secrets
            raise SpecError(
                "profile-option", profile=profile, option=name, value=repr(shown), error=first["msg"]
            ) from None

    def _profile_options(self, profile: str) -> dict[str, Any]:
        options = {name: value for name, value in self.settings.profiles.get(profile, {}).items() if name != "title"}
        if "profile" in options:
            raise SpecError("profile-in-profile", profile=profile)
        return options

    def _default_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The default options that `options` do not override."""
        defaults = {name: value for name, value in self.settings.default_spec.items() if name != "title"}
        # A cluster class decides where its workers run: selecting GPUs or CPU workers overrides such a profile.
        if DEVICES & options.keys() and self._class_profile(defaults.get("profile", "")) is not None:
            del defaults["profile"]
        return _without_overridden(defaults, options)


def _comparable(spec: ClusterSpec) -> ClusterSpec:
    """A spec without what users may change whatever the profile."""
    gpus = "all" if spec.gpus == "free" else spec.gpus
    workers = None if spec.profile else spec.workers
    return spec.model_copy(
        update={
            "gpus": gpus,
            "workers": workers,
            "adapt": None,
            "start_timeout": 0.0,
            "dashboard": False,
            "wait": False,
        }
    )


def _without_overridden(base: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`base` without its resource options where `options` have any: these three are only valid together."""
    overridden = DEVICES if DEVICES & options.keys() else frozenset()
    return {name: value for name, value in base.items() if name not in overridden}


def _class_spec(profile: str, class_profile: ClassProfile, options: Mapping[str, Any]) -> ClusterSpec:
    """The spec of a cluster that a class creates; a user can set `_OPTIONS_OF_CLASSES`."""
    fixed = {"profile": profile, "engine": class_profile.engine}
    base = ClusterSpec.parse(fixed | {"start_timeout": class_profile.start_timeout})
    spec = ClusterSpec.parse(base.model_dump() | dict(options), strict=True)
    for name in options:
        if name not in _OPTIONS_OF_CLASSES and getattr(spec, name) != getattr(base, name):
            raise OptionConflictError("with-profile", option=flag_of(name), profile=profile, field=name)
    return spec
