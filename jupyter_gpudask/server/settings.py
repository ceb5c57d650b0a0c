"""The server's settings, as the administrator writes them in ``jupyter_server_config.py``, and what they allow."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from traitlets import Bool, Dict, Enum, Float, Int, TraitError, Unicode
from traitlets.config import LoggingConfigurable

from ..errors import GpuDaskError, LimitError, OptionConflictError, PresetNotFoundError, SpecError
from ..machine.lease_registry import LeaseRegistry
from ..protocol.engines import has_gpus
from ..protocol.rest import Preset
from ..protocol.spec import (
    DEVICES,
    ClassPreset,
    ClusterClass,
    ClusterSpec,
    StartOption,
    flag_of,
    start_options,
)


class ServerSettings(LoggingConfigurable):
    """Settings of the clusters of one Jupyter server.

    Each setting is declared here and nowhere else. `Policy` applies those that concern a single cluster. Those with the
    tag `limit` limit what users can do.
    """

    default_spec = Dict(
        help="""Default options of a cluster, such as `{'gpus': 1, 'pool': 0.5}`; `{'preset': 'small'}` makes the
        options of that preset the default, and other keys override them."""
    ).tag(config=True)
    presets = Dict(
        value_trait=Dict(),
        key_trait=Unicode(),
        help="""Named sets of cluster options that users can choose from, such as
        `{'small': {'title': 'One GPU', 'gpus': 1}}`; or a class of Dask clusters and its keyword arguments, such as
        `{'queue': {'class': 'dask_jobqueue.SLURMCluster', 'options': {'n_workers': 4}, 'engine': 'cuda'}}`, where
        `engine` is `cuda` if the workers have GPUs. Users choose a preset by name; only the administrator can name a
        class.""",
    ).tag(config=True)
    presets_only = Bool(
        default_value=False,
        help="""Whether users can start only clusters with the options of a preset, or with the default options. They
        can still change the number of workers within that.""",
    ).tag(config=True, limit=True)
    idle_timeout = Float(
        0.0,
        min=0.0,
        help="Seconds after which a cluster without work is closed, unless its kernel is busy; 0 disables this.",
    ).tag(config=True, limit=True)
    max_lifetime = Float(
        0.0,
        min=0.0,
        help="""Seconds after which a running cluster is closed, also if it works; its user is warned 10 minutes before;
        0 disables this.""",
    ).tag(config=True, limit=True)
    restart_policy = Enum(
        ("keep", "renew", "stop"),
        "keep",
        help="""What happens to a cluster when its kernel is restarted: `keep` resets it and keeps its workers,
        `renew` starts a new one, `stop` closes it.""",
    ).tag(config=True)
    share_gpus = Bool(
        default_value=False, help="Whether clusters share their GPUs with other clusters by default."
    ).tag(config=True)
    lease_directory = Unicode(
        "",
        help="""A directory in which the clusters of all users of this machine reserve their GPUs, writable for all and
        sticky, on a local file system: `install -d -m 1777 /run/gpudask-leases`. Without it, leases only
        keep each user's own clusters on separate GPUs. Kernels get the directory as the environment variable
        `JUPYTER_GPUDASK_LEASE_DIRECTORY`.""",
    ).tag(config=True, limit=True)
    allow_ucx = Bool(
        default_value=True,
        help="""Whether the protocol UCX is allowed. UCX does not support TLS: every user of this machine can connect
        to such a cluster.""",
    ).tag(config=True, limit=True)
    max_clusters = Int(
        None, allow_none=True, min=0, help="Maximum number of clusters at a time; `None` for no limit."
    ).tag(config=True, limit=True)
    max_workers = Int(
        None, allow_none=True, min=1, help="Maximum number of workers of a cluster; `None` for no limit."
    ).tag(config=True, limit=True)
    max_gpus = Int(
        None,
        allow_none=True,
        min=1,
        help="""Maximum number of GPUs that all clusters of a user reserve together, in all servers of that user; `None`
        for no limit.""",
    ).tag(config=True, limit=True)
    hand_over_after = Float(
        0.0,
        min=0.0,
        help="""Seconds without work after which a cluster hands its GPUs over to a start that waits in the queue: its
        user gets a notice, and the cluster is closed if nobody answers it within 60 seconds; 0 disables this.""",
    ).tag(config=True, limit=True)
    hand_over_results = Bool(
        default_value=False,
        help="""Whether a cluster counts as idle for `hand_over_after` even if variables of its notebook hold results on
        the GPUs.""",
    ).tag(config=True)
    price_per_gpu_hour = Float(
        0.0, min=0.0, help="What a GPU costs per hour, for the cost that is shown under each cell; 0 shows none."
    ).tag(config=True)
    currency = Unicode("USD", help="The currency of `price_per_gpu_hour`.").tag(config=True)
    metrics_interval = Float(
        1.0,
        min=0.1,
        max=1.0,
        help="""Seconds between two reads of the metrics of GPUs and machine while a page shows them or a cluster works,
        from 0.1 to 1. The driver averages utilization over a sixth of a second or more.""",
    ).tag(config=True)
    history_seconds = Int(
        900, min=0, help="Seconds of metrics that the server keeps, for browsers that connect later."
    ).tag(config=True)


# The class name is the configuration section, which `--help-all` shows: `c.GpuDask.presets`, `--GpuDask.presets=...`.
ServerSettings.__name__ = "GpuDask"


def overridable_limits(files: Collection[str], folders: Sequence[str], command_line: Collection[str]) -> Iterator[str]:
    """The sentences to log.

    - `files`: the configuration files that were loaded. Those that the user can write are not the administrator's.
    - `folders`: the folders of configuration files, the one first that has precedence.
    - `command_line`: the settings that are given on the command line, which has precedence over all files.
    """
    limits = sorted(ServerSettings.class_traits(limit=True))
    for file in files:
        before = folders[: folders.index(parent)] if (parent := str(Path(file).parent)) in folders else ()
        own = next((folder for folder in before if _can_be_written(Path(folder))), None)
        if own is None or _can_be_written(Path(file)):
            continue
        text = Path(file).read_text(errors="replace")
        names = [name for name in limits if name not in command_line and re.search(rf"\b{name}\b", text)]
        if names:
            yield (
                f"The user of this server can override {', '.join(names)} of {file}: files in {own} have precedence. "
                "In JupyterHub, set c.Spawner.disable_user_config = True, or give these limits in c.Spawner.args."
            )


def _can_be_written(path: Path) -> bool:
    existing = next(each for each in (path, *path.parents) if each.exists())
    return os.access(existing, os.W_OK)


class Policy:
    """Applies the settings to the options that users ask for."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings

    def validate_settings(self) -> None:
        """Raise `TraitError` if the default options, a cluster preset or the directory of leases are invalid."""
        try:
            self.spec({})
            self.listed_presets()
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

    def spec(self, options: Mapping[str, Any], preset: str = "") -> ClusterSpec:
        """The spec of a new cluster.

        `options`: the options that the user gave; they override those of the preset, or else the default ones.
        `preset`: the name of a cluster preset, which may also be one of the options. Raises `PresetNotFoundError` if
        there is no such preset. Raises `SpecError` if an option has a value that is not allowed. Raises `LimitError`
        if the spec exceeds a limit.
        """
        return self.check(self._unchecked_spec(options, preset))

    def _unchecked_spec(self, options: Mapping[str, Any], preset: str) -> ClusterSpec:
        if not preset and not options.get("preset"):
            options = self._default_options(options) | dict(options)
        preset = preset or ClusterSpec.parse({"preset": options.get("preset", "")}, strict=True).preset
        if preset and preset not in self.settings.presets:
            raise PresetNotFoundError(
                "no-preset" if self.settings.presets else "no-presets",
                name=repr(preset),
                known=", ".join(self.settings.presets),
            )
        options = {name: value for name, value in options.items() if name != "preset"}
        if (class_preset := self._class_preset(preset)) is not None:
            return _class_spec(preset, class_preset, options)
        base = _without_overridden({"share": self.settings.share_gpus} | self._preset_options(preset), options)
        return ClusterSpec.parse(base | options, strict=True)

    def cluster_class(self, preset: str) -> ClusterClass | None:
        """The Dask cluster class of a cluster preset; `None` if the preset names none."""
        class_preset = self._class_preset(preset)
        return None if class_preset is None else ClusterClass(path=class_preset.path, options=class_preset.options)

    def updated_spec(self, spec: ClusterSpec, options: Mapping[str, Any]) -> ClusterSpec:
        """`spec` with some options replaced; raises the same errors as `spec`."""
        if "preset" in options:
            return self.spec(options)
        if spec.preset:
            values = {option.field: getattr(spec, option.field) for option in _options_of_classes()}
            kept = {name: value for name, value in values.items() if value is not None}
            return self.spec(kept | dict(options), spec.preset)
        base = _without_overridden(spec.model_dump(), options)
        if "gpus" in options and has_gpus(spec.engine):  # which is where there are GPUs
            base["engine"] = spec.engine
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
        offered = (self._unchecked_spec({}, name) for name in ("", *self.settings.presets))
        if self.settings.presets_only and all(_comparable(spec) != _comparable(each) for each in offered):
            names = list(self.settings.presets)
            raise LimitError(
                "presets-only" if names else "defaults-only", names=", ".join(names), first=next(iter(names), "")
            )
        return spec

    def check_workers(self, workers: int) -> None:
        """Raise `LimitError` if a cluster may not have so many workers."""
        limit = self.settings.max_workers
        if limit is not None and workers > limit:
            raise LimitError("too-many-workers", limit=limit, workers=workers)

    def listed_presets(self) -> tuple[Preset, ...]:
        """All cluster presets, with their specs."""
        return tuple(
            Preset(name=name, title=str(options.get("title", name)), spec=self.spec({}, name))
            for name, options in self.settings.presets.items()
        )

    def _class_preset(self, preset: str) -> ClassPreset | None:
        entry = self.settings.presets.get(preset, {})
        if "class" not in entry:
            return None
        try:
            return ClassPreset.model_validate(entry)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            value = entry.get(name)
            shown = type(value).__name__ if isinstance(value, dict | list) else value  # which can hold secrets
            raise SpecError(
                "preset-option", preset=preset, option=name, value=repr(shown), error=first["msg"]
            ) from None

    def _preset_options(self, preset: str) -> dict[str, Any]:
        options = {name: value for name, value in self.settings.presets.get(preset, {}).items() if name != "title"}
        if "preset" in options:
            raise SpecError("preset-in-preset", preset=preset)
        return options

    def _default_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The default options that `options` do not override."""
        defaults = {name: value for name, value in self.settings.default_spec.items() if name != "title"}
        # A cluster class decides where its workers run: selecting GPUs or CPU workers overrides such a preset.
        if DEVICES & options.keys() and self._class_preset(defaults.get("preset", "")) is not None:
            del defaults["preset"]
        return _without_overridden(defaults, options)


def _comparable(spec: ClusterSpec) -> ClusterSpec:
    """A spec without what users may change whatever the preset."""
    gpus = "all" if spec.gpus == "free" else spec.gpus
    workers = None if spec.preset else spec.workers
    free = {option.field for option in start_options().values() if option.is_free}
    return ClusterSpec.model_validate(spec.model_dump(exclude=free) | {"gpus": gpus, "workers": workers})


def _without_overridden(base: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`base` without its resource options where `options` have any: these three are only valid together."""
    overridden = DEVICES if DEVICES & options.keys() else frozenset()
    return {name: value for name, value in base.items() if name not in overridden}


def _options_of_classes() -> list[StartOption]:
    return [option for option in start_options().values() if option.is_of_classes]


def _class_spec(preset: str, class_preset: ClassPreset, options: Mapping[str, Any]) -> ClusterSpec:
    """The spec of a cluster that a class creates; users can set `_options_of_classes`."""
    fixed = {"preset": preset, "engine": class_preset.engine}
    base = ClusterSpec.parse(fixed | {"start_timeout": class_preset.start_timeout})
    spec = ClusterSpec.parse(base.model_dump() | dict(options), strict=True)
    settable = {option.field for option in _options_of_classes()}
    for name in options:
        if name not in settable and getattr(spec, name) != getattr(base, name):
            raise OptionConflictError("with-preset", option=flag_of(name), preset=preset, field=name)
    return spec
