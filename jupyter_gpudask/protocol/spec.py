"""What a cluster is asked to be. Every value is checked here, before any process is started."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from ..errors import SpecError
from ..quantities import parse_amount, parse_gpus, parse_pairs

_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# These are set by the engine, from the GPUs that were asked for.
_RESERVED_ENVIRONMENT = frozenset({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})

# Where the magic's option is not the attribute's name.
_OPTIONS = {"workers": "--cpu"}

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
    """The options of a cluster, each with its default.

    Attributes
    ----------
    engine
        What makes the cluster: ``cuda``, ``cpu``, or ``auto`` for ``cuda`` where there is a GPU.
    gpus
        ``"all"``, a count, or a list of indices (in the order of the PCI bus) and UUIDs.
    workers
        How many workers the CPU stand-in has; ``None`` for one per two cores, at most 4.
    threads
        Threads of each worker; ``None`` for 1 on a GPU, and for an even share of the cores on the stand-in.
    memory_limit
        Host memory of each worker, in bytes or as a fraction of the machine's; ``"auto"`` for an even share.
    spill_threshold
        Device memory above which a worker moves results of tasks to the host (bytes, or a fraction of the
        GPU's memory). It is no cap: what a running task allocates is not counted.
    pool
        Device memory that RMM reserves on each GPU at the start (bytes or a fraction); ``None`` reserves nothing,
        and grows as needed. CuPy and cuDF share it either way.
    spilling
        Who moves data off a full GPU: ``dask`` (results of tasks), ``cudf`` (buffers of cuDF), or ``off``.
    protocol
        How workers talk: ``tcp`` (with TLS), or ``ucx`` (NVLink and InfiniBand, without TLS).
    share
        Whether other clusters that share too may use the same GPUs.
    resources
        Dask's abstract resources of each worker, besides ``{"GPU": 1}``, which each has unless another amount is given.
    environment
        Variables set in each worker.
    dashboard
        Whether browsers can open Dask's dashboard by a token; with a Jupyter server they open it through that,
        whatever is said here.
    start_timeout
        Seconds in which all workers must be up.
    profile
        The name of the profile of the Jupyter server whose class makes the cluster; empty where no class does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: Literal["auto", "cuda", "cpu"] = Field("auto", description="auto, cuda or cpu")
    gpus: Annotated[Any, BeforeValidator(parse_gpus)] = Field(
        "all",
        description="all, a count from 1, or indices and GPU- or MIG- UUIDs with commas (3, for number 3 alone)",
        json_schema_extra={
            "anyOf": [
                {"const": "all"},
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": "^[1-9][0-9]{0,3}$"},
                {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"type": "integer", "minimum": 0},
                            {"type": "string", "pattern": "^(GPU|MIG)-"},
                        ]
                    },
                    "minItems": 1,
                    "uniqueItems": True,
                },
            ]
        },
    )
    workers: int | None = Field(None, ge=1, le=256, description="a whole number from 1 to 256")
    threads: int | None = Field(None, ge=1, le=256, description="a whole number from 1 to 256")
    memory_limit: Amount | Literal["auto"] = Field(
        "auto", description=f"auto, {_SIZE_OR_FRACTION}", union_mode="left_to_right"
    )
    spill_threshold: Amount = Field(0.8, description=_SIZE_OR_FRACTION)
    pool: Amount = Field(None, description=_SIZE_OR_FRACTION)
    spilling: Literal["dask", "cudf", "off"] = Field("dask", description="dask, cudf or off")
    protocol: Literal["tcp", "ucx"] = Field("tcp", description="tcp or ucx")
    share: bool = Field(default=False, description="yes or no")
    resources: Annotated[dict[str, float], BeforeValidator(lambda value: parse_pairs(value, float))] = Field(
        default_factory=dict,
        description="NAME=AMOUNT with an amount above 0, such as GPU=1",
        json_schema_extra={
            "propertyNames": {"minLength": 1},
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
        },
    )
    environment: Annotated[dict[str, str], BeforeValidator(lambda value: parse_pairs(value, str))] = Field(
        default_factory=dict,
        description="NAME=VALUE with a name that is none of CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER (use --gpus)",
        json_schema_extra={
            "propertyNames": {
                "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                "not": {"enum": ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"]},
            },
            "additionalProperties": {"type": "string", "pattern": "^[^\\u0000]*$"},
        },
    )
    start_timeout: float = Field(120.0, gt=0, le=3600, description="seconds above 0 and up to 3600")
    dashboard: bool = Field(default=False, description="yes or no")
    profile: str = Field("", max_length=100, description="the name of a profile of the Jupyter server")

    @field_validator("resources")
    @classmethod
    def _resources_above_zero(cls, resources: dict[str, float]) -> dict[str, float]:
        if not all(0 < amount < float("inf") for amount in resources.values()):
            raise ValueError("an amount is above 0")
        return resources

    @field_validator("environment")
    @classmethod
    def _environment_is_settable(cls, environment: dict[str, str]) -> dict[str, str]:
        for name, value in environment.items():
            if name in _RESERVED_ENVIRONMENT or not _ENVIRONMENT_NAME.fullmatch(name) or "\0" in value:
                raise ValueError("not a settable variable")
        return environment

    @classmethod
    def parse(cls, options: dict[str, Any], *, strict: bool = False) -> ClusterSpec:
        """Check `options` and make a spec of them.

        Parameters
        ----------
        options
            Values by name of attribute; what is left out keeps its default.
        strict
            Whether a number must be one: what comes from a command line is text, what comes as JSON is not.

        Raises
        ------
        SpecError
            A value is not allowed, or an option does not exist; the message names the option, the value and
            what is allowed.
        """
        try:
            spec = cls.model_validate(options, strict=strict)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise cls._spec_error(str(first["loc"][0]), options) from None
        if spec.engine == "cpu" and spec.gpus != "all":
            raise SpecError("--gpus", options["gpus"], "either it or --cpu, not both")
        if spec.engine != "cpu" and spec.workers is not None:
            raise SpecError("--cpu", options["workers"], "the number of workers to the CPU stand-in alone")
        return spec

    @classmethod
    def _spec_error(cls, name: str, options: dict[str, Any]) -> SpecError:
        option = _OPTIONS.get(name) or "--" + name.replace("_", "-")
        field = cls.model_fields.get(name)
        if field is None:
            known = ", ".join(sorted("--" + known.replace("_", "-") for known in cls.model_fields))
            return SpecError(option, options.get(name), f"one of the options {known}")
        return SpecError(option, options.get(name), field.description or "another value")
