"""The options of a cluster: the one place where they are declared and validated.

A field of `ClusterSpec` has the type, the validator, the default, the allowed values in words (``description``) and
the option of ``%gpudask start`` (`Option`). The parser, the completion and the help of the magic, the REST interface,
the messages of `SpecError` and the form of the panel, which has the fields with a ``title``, are derived from it.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from ..errors import ClusterExistsError, OptionConflictError, SpecError
from ..quantities import parse_amount, parse_gpus, parse_pairs, parse_range, typed_size
from .engines import ENGINES, Engine, engine_with, has_gpus


@dataclass(frozen=True)
class Option:
    """The command line declaration of a field of `ClusterSpec`, in addition to its type, default and allowed values.

    - `metavar`: stands for the value in the help.
    - `help`: what the option means.
    - `flag`: the option as it is typed, if that is not the name of the field with dashes.
    - `words`: words that completion suggests, beside those of the type.
    - `value_is_optional`: whether the option may be typed without a value.
    - `engine`: ``cuda`` or ``cpu``, if only clusters of this engine have it.
    - `is_free`: whether users may choose it where they may start only the clusters of presets.
    - `is_of_classes`: whether clusters that a class of the administrator creates have it, too.
    """

    metavar: str
    help: str
    flag: str = ""
    words: tuple[str, ...] = ()
    value_is_optional: bool = False
    engine: str = ""
    is_free: bool = False
    is_of_classes: bool = False


@dataclass(frozen=True)
class StartOption(Option):
    """An option of ``%gpudask start``.

    - `field`, `title`: the field of `ClusterSpec`, and its label in the form of the panel; empty if it is not there.
    - `allowed`: the valid values, in words.
    - `default`: the default as it would be typed; empty if it depends on the machine, or if there is none.
    - `is_repeatable`: whether the option may be typed several times.
    """

    field: str = ""
    title: str = ""
    allowed: str = ""
    default: str = ""
    is_repeatable: bool = False

    @property
    def parsing(self) -> dict[str, Any]:
        """What `argparse.ArgumentParser.add_argument` takes, in addition to the flag."""
        if self.is_repeatable:
            return {"dest": self.flag, "action": "append"}
        return {"dest": self.flag, **({"nargs": "?", "const": ""} if self.value_is_optional else {})}


def _start_option(name: str, field: FieldInfo) -> StartOption:
    option = next(part for part in field.metadata if isinstance(part, Option))
    default = field.get_default(call_default_factory=True)
    derived = {
        "flag": option.flag or "--" + name.replace("_", "-"),
        "words": (*_choices_of(field.annotation), *option.words),
        "title": field.title or "",
        "allowed": field.description or "",
        "default": as_typed(default, option) if default or default is False or "none" in option.words else "",
        "is_repeatable": isinstance(default, dict),
    }
    return StartOption(**vars(option) | derived, field=name)


def _choices_of(annotation: object) -> tuple[str, ...]:
    if annotation is bool:
        return ("yes", "no")
    if get_origin(annotation) is Literal:
        return tuple(get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(word for part in get_args(annotation) for word in _choices_of(part))
    return ()


def as_typed(value: object, option: Option) -> str:
    """The value of an option as it is typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none" if "none" in option.words else "default"
    if isinstance(value, dict):
        return " ".join(f"{key}={amount:g}" for key, amount in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) + "," * (len(value) == 1)  # a single number is a count
    if isinstance(value, int) and option.metavar == "AMOUNT":
        return typed_size(value)
    return f"{value:g}" if isinstance(value, float) else str(value) or "none"


_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The engine sets these from `gpus`.
_RESERVED_ENVIRONMENT = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})

_MAX_OPTIONS = 50
_MAX_SHOWN = 300

_SIZE_OR_FRACTION = "a fraction of the memory above 0 and up to 1, a size such as 20GB, or none"

Amount = Annotated[
    int | float | None,
    BeforeValidator(parse_amount),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "null"},
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
                {"type": "integer", "minimum": 10**6, "exclusiveMaximum": 2**63},
                {"type": "string", "pattern": "^([1-9][0-9]{0,4} ?[MGT]i?B|none)$"},
            ]
        }
    ),
]


class ClusterSpec(BaseModel):
    """The options of a cluster, each with its default; sizes of memory are bytes, or a fraction of the memory."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gpus: Annotated[
        Any,
        BeforeValidator(parse_gpus),
        Option(
            "WHICH",
            "the GPUs, with one worker each: all, free (those that no cluster has reserved), a count (those with the "
            "most free memory), or indices in the order of the PCI bus and UUIDs with commas, such as 0,3 or "
            "GPU-5a0c...",
            words=("all", "free"),
            engine="cuda",
        ),
    ] = Field(
        "all",
        title="GPUs",
        description="all, free, a count of at least 1, or indices and GPU- or MIG- UUIDs with commas (3, for index 3)",
        json_schema_extra={
            "anyOf": [
                {"const": "all"},
                {"const": "free"},
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": "^[1-9][0-9]{0,3}$"},
                {
                    "type": "array",
                    "items": {
                        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^(GPU|MIG)-"}]
                    },
                    "minItems": 1,
                    "uniqueItems": True,
                },
            ]
        },
    )
    workers: Annotated[
        int | None,
        Option(
            "N",
            "use a CPU cluster, with N workers; without N, one for each two cores and at most 4",
            flag="--cpu",
            value_is_optional=True,
            engine="cpu",
            is_of_classes=True,
        ),
    ] = Field(None, ge=1, le=256, title="Workers", description="a whole number from 1 to 256")
    engine: Annotated[
        Literal["auto", Engine],
        Option("NAME", "where cells run: cuda on GPUs, cpu on a CPU cluster, auto on GPUs if there are any"),
    ] = Field("auto", title="Runs on", description="auto, cuda or cpu")
    pool: Annotated[
        Amount,
        Option(
            "AMOUNT",
            "device memory that RMM reserves on each GPU at the start, for CuPy and cuDF together; with none the pool "
            "grows as needed",
            words=("none",),
            engine="cuda",
        ),
    ] = Field(None, title="Memory pool", description=_SIZE_OR_FRACTION)
    spilling: Annotated[
        Literal["dask", "cudf", "off"],
        Option(
            "NAME",
            "what moves data off a full GPU: dask (results of tasks), cudf (its own buffers) or off",
            engine="cuda",
        ),
    ] = Field("dask", title="Spilling", description="dask, cudf or off")
    spill_threshold: Annotated[
        Amount,
        Option(
            "AMOUNT",
            "device memory above which Dask moves results to the host; not a limit, because memory that a running task "
            "allocates does not count",
            words=("none",),
            engine="cuda",
        ),
    ] = Field(0.8, title="Spill above", description=_SIZE_OR_FRACTION)
    memory_limit: Annotated[
        Amount | Literal["auto"],
        Option("AMOUNT", "host memory of each worker; auto divides the machine's memory equally", words=("none",)),
    ] = Field("auto", title="Host memory", description=f"auto, {_SIZE_OR_FRACTION}", union_mode="left_to_right")
    threads: Annotated[
        int | None,
        Option("N", "threads of each worker; 1 on a GPU, and an equal share of the cores on a CPU cluster"),
    ] = Field(None, ge=1, le=256, title="Threads", description="a whole number from 1 to 256")
    share: Annotated[
        bool, Option("yes|no", "allow other clusters that are also started with it to use the same GPUs", engine="cuda")
    ] = Field(default=False, title="Share GPUs", description="yes or no")
    wait: Annotated[
        bool,
        Option(
            "yes|no",
            "wait in the queue while other clusters have reserved the GPUs, and start when they are free",
            value_is_optional=True,
            engine="cuda",
            is_free=True,
        ),
    ] = Field(default=False, title="Wait for GPUs", description="yes or no")
    adapt: Annotated[
        tuple[int, int] | None,
        BeforeValidator(parse_range),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "null"},
                    {
                        "type": "array",
                        "items": {"type": "integer", "minimum": 1, "maximum": 256},
                        "minItems": 2,
                        "maxItems": 2,
                    },
                ]
            }
        ),
        Option(
            "MIN,MAX",
            "let Dask close idle workers and start them when there is work, from MIN to MAX, as %gpudask adapt does",
            words=("none",),
            is_free=True,
            is_of_classes=True,
        ),
    ] = Field(
        None,
        title="Adaptive",
        description="none, or two whole numbers from 1 to 256, the smaller one first, such as 1,4",
    )
    protocol: Annotated[
        Literal["unix", "tcp", "ucx"],
        Option(
            "NAME",
            "how workers communicate: unix (sockets of this user), tcp (with TLS), or ucx (no TLS)",
            engine="cuda",
        ),
    ] = Field("unix", title="Protocol", description="unix, tcp or ucx")
    resources: Annotated[
        dict[str, float],
        BeforeValidator(lambda value: parse_pairs(value, float)),
        Option("NAME=AMOUNT", "Dask resources of each worker, in addition to GPU=1"),
    ] = Field(
        default_factory=dict,
        description="NAME=AMOUNT with an amount above 0, such as GPU=1",
        json_schema_extra={
            "propertyNames": {"minLength": 1},
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
        },
    )
    environment: Annotated[
        dict[str, str],
        BeforeValidator(lambda value: parse_pairs(value, str)),
        WithJsonSchema(
            {
                "anyOf": [
                    {
                        "type": "object",
                        "propertyNames": {
                            "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                            "not": {"enum": ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"]},
                        },
                        "additionalProperties": {"type": "string", "pattern": "^[^\\u0000]*$"},
                    },
                    {"type": "array", "items": {"type": "string", "pattern": "^(?!CUDA_)[A-Za-z_]+=[^\\u0000]*$"}},
                ]
            },
            mode="validation",
        ),
        Option("NAME=VALUE", "an environment variable of each worker"),
    ] = Field(
        default_factory=dict,
        title="Environment",
        description="NAME=VALUE, where the name is not CUDA_VISIBLE_DEVICES or CUDA_DEVICE_ORDER (use --gpus)",
    )
    start_timeout: Annotated[
        float, Option("SECONDS", "how long to wait until all workers are up", is_free=True, is_of_classes=True)
    ] = Field(120.0, gt=0, le=3600, description="seconds above 0 and up to 3600")
    dashboard: Annotated[
        bool,
        Option(
            "yes|no",
            "serve Dask's dashboard at an address with a token; with a Jupyter server the panel shows it anyway",
            value_is_optional=True,
            is_free=True,
        ),
    ] = Field(default=False, description="yes or no")
    preset: Annotated[str, Option("NAME", "a preset that the administrator of the Jupyter server has set up")] = Field(
        "", max_length=100, title="Preset", description="the name of a preset of the Jupyter server"
    )

    @property
    def requires_gpus(self) -> bool:
        """Whether a cluster without a GPU would be an error: otherwise the CPU cluster is used."""
        return has_gpus(self.engine) or self.gpus not in ("all", "free")

    def shared_environment(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """That of a cluster to which others connect: they ask its workers whether they have GPUs."""
        return environment if self.may_use_gpus else {**environment, "CUDA_VISIBLE_DEVICES": ""}

    @property
    def may_use_gpus(self) -> bool:
        """Whether the cluster uses GPUs if there are any."""
        return self.engine == "auto" or has_gpus(self.engine)

    @property
    def class_engine(self) -> Engine:
        """The engine of the cluster if a class of the administrator creates it."""
        return engine_with(gpus=has_gpus(self.engine))

    @field_validator("resources")
    @classmethod
    def _resources_above_zero(cls, resources: dict[str, float]) -> dict[str, float]:
        if not all(0 < amount < float("inf") for amount in resources.values()):
            raise ValueError("amounts must be above 0")
        return resources

    @field_validator("environment")
    @classmethod
    def _environment_is_settable(cls, environment: dict[str, str]) -> dict[str, str]:
        for name, value in environment.items():
            if name in _RESERVED_ENVIRONMENT or not _ENVIRONMENT_NAME.fullmatch(name) or "\0" in value:
                raise ValueError("not a valid environment variable")
        return environment

    @classmethod
    def parse(cls, options: dict[str, Any], *, strict: bool = False) -> ClusterSpec:
        """Validate `options`.

        `options`: values by name of field; the others have their defaults. `strict`: whether numbers must have that
        type, as in JSON; text from a command line is converted otherwise. Raises `SpecError` if a value is not allowed,
        options contradict each other, or an option does not exist.
        """
        by_known = sorted(options, key=lambda name: name not in cls.model_fields)
        options = {name: options[name] for name in by_known[:_MAX_OPTIONS]}  # of unknown options, some are enough
        try:
            spec = cls.model_validate(options, strict=strict)
        except ValidationError as error:
            names = dict.fromkeys(str(each["loc"][0]) for each in error.errors(include_url=False))
            first, *others = (cls._spec_error(name, options) for name in names)
            first.others = tuple(others)
            raise first from None
        if spec.gpus != "all" and not spec.may_use_gpus:
            raise OptionConflictError("gpus-and-cpu")
        if spec.workers is not None and spec.may_use_gpus and not spec.preset:
            raise OptionConflictError("workers-without-cpu")
        return spec

    @classmethod
    def _spec_error(cls, name: str, options: dict[str, Any]) -> SpecError:
        if name == "gpus" and options[name] == []:  # from the panel's dialog, with no checkbox selected
            return OptionConflictError("no-gpu-selected")
        field = cls.model_fields.get(name)
        allowed = f"one of the options {', '.join(sorted(start_options()))}" if field is None else field.description
        return SpecError(
            "not-allowed",
            option=_shorten(flag_of(name)),
            value=_shown(options.get(name)),
            allowed=allowed or "another value",
            field=name,
        )


def _shown(value: object) -> str:
    """A value as it is typed; options that are repeated are lists."""
    words = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    return _shorten(repr(" ".join(words) if words and words == value else value))


def _shorten(text: str) -> str:
    """A text that users have sent, of whatever length, so that a message can contain it."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


@cache
def start_options() -> dict[str, StartOption]:
    """The options of ``%gpudask start`` and ``restart``, by flag, in the order of the fields."""
    options = (_start_option(name, field) for name, field in ClusterSpec.model_fields.items())
    return {option.flag: option for option in options}


def fields_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command line by field, with the values that they have if they are typed without one.

    `given`: the values by flag; flags that are none of these options have their names.
    """
    options = start_options()
    fields = {options[flag].field if flag in options else flag[2:].replace("-", "_"): given[flag] for flag in given}
    if "--cpu" in given:  # with or without a number
        fields["engine"] = "cpu"
        if not given["--cpu"]:
            del fields["workers"]
    if "--workers" in given:
        fields["workers"] = given["--workers"]
    for name in {"dashboard", "wait"} & fields.keys():
        fields[name] = fields[name] or "yes"
    return fields


def flag_of(field: str) -> str:
    """The option for a field of `ClusterSpec`, as it is typed: ``--spill-threshold`` for ``spill_threshold``."""
    flags = {option.field: flag for flag, option in start_options().items()}
    return flags.get(field, "--" + field.replace("_", "-"))


class ClusterClass(BaseModel):
    """A Dask cluster class that creates the clusters of a preset; it only comes from the server's configuration.

    - `path`: the import path, ``package.module.Class``, in the environment of the kernel.
    - `options`: its keyword arguments, as JSON values.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    options: dict[str, Any] = Field(default_factory=dict, repr=False)  # they can hold secrets


class ClassPreset(BaseModel):
    """A cluster preset whose clusters are created by a class, as written in the configuration.

    - `engine`: ``cuda`` if its workers have GPUs, CuPy and cuDF, which cells then use; else ``cpu``. The default is
      that with the ``worker_class`` of the options, as `distributed.SSHCluster` has.
    - `start_timeout`: seconds for all workers to start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    path: str = Field(alias="class", pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$")
    options: dict[str, Any] = Field(default_factory=dict)
    engine: Engine = engine_with(gpus=False)
    start_timeout: float = Field(120.0, gt=0, le=3600)

    @model_validator(mode="before")
    @classmethod
    def _add_engine(cls, entry: Any) -> Any:
        match entry:
            case {"options": {"worker_class": worker_class}}:
                found = [{"engine": name} for name, traits in ENGINES.items() if traits.worker_class == worker_class]
                return found[0] | entry if found else entry
        return entry


DEVICES = frozenset({"engine", "gpus", "workers"})
"""The options that select GPUs, or CPU workers instead of them."""


def other_options(running: ClusterSpec, requested: ClusterSpec) -> ClusterExistsError:
    """The error of a start with other options than those of the cluster that the kernel has."""
    return ClusterExistsError("other-options", differences=", ".join(differences(running, requested)))


def differences(running: ClusterSpec, requested: ClusterSpec) -> list[str]:
    """The options that differ, each with both values as they are typed: ``--threads 1 instead of 2``.

    The values of environment variables, which may be secret, are left out.
    """
    if running.preset != requested.preset:  # which sets the other options
        return [_difference("preset", running, requested)]
    fields = [name for name in ClusterSpec.model_fields if getattr(running, name) != getattr(requested, name)]
    if not (running.may_use_gpus and requested.may_use_gpus) and DEVICES.intersection(fields):
        described = [_difference_of_devices(running, requested)]
        fields = [name for name in fields if name not in DEVICES]
    else:
        described = []
    return described + [_difference(name, running, requested) for name in fields]


def _difference_of_devices(running: ClusterSpec, requested: ClusterSpec) -> str:
    has = _gpus(running) if running.may_use_gpus else _cpu(running)
    # Requested GPUs that were merged into the options of a cluster on the CPU leave its engine.
    is_cpu = not requested.may_use_gpus and (running.may_use_gpus or requested.gpus == running.gpus)
    return f"{has} instead of {_cpu(requested) if is_cpu else _gpus(requested)}"


def _cpu(spec: ClusterSpec) -> str:
    return "--cpu" if spec.workers is None else f"--cpu {spec.workers}"


def _gpus(spec: ClusterSpec) -> str:
    return f"--gpus {_value_as_typed('gpus', spec)}"


def _difference(name: str, running: ClusterSpec, requested: ClusterSpec) -> str:
    if name == "environment":
        return f"{flag_of(name)} with other values"
    return f"{flag_of(name)} {_value_as_typed(name, running)} instead of {_value_as_typed(name, requested)}"


def _value_as_typed(name: str, spec: ClusterSpec) -> str:
    return as_typed(getattr(spec, name), start_options()[flag_of(name)])
