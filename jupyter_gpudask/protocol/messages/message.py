"""The protocol version, the base class of commands and events, and the parser of a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, TypeAdapter, ValidationError

from ...errors import ProtocolError
from ..cluster.spec import ClusterSpec

PROTOCOL_VERSION = 12
"""Increased with every change that an older parent or supervisor would misread. A new field with a default is none."""

OLDEST_PROTOCOL = 12
"""The oldest version whose messages are understood."""


class Message(BaseModel):
    """A message, sent as one JSON object on one line. Unknown fields, which newer versions may have, are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, ser_json_inf_nan="constants")  # as the json module does


def check_protocol(version: int, *, receiver: str, sender: str) -> None:
    """Check that the first message is of a version that this process understands.

    Parameters
    ----------
    version
        The version of the message.
    receiver, sender
        In whose environments the packages are that have received it, and sent it.

    Raises
    ------
    ProtocolError
        It is not; with the side to upgrade.
    """
    if OLDEST_PROTOCOL <= version <= PROTOCOL_VERSION:
        return
    old, new = (receiver, sender) if version > PROTOCOL_VERSION else (sender, receiver)
    lower, higher = sorted((version, PROTOCOL_VERSION))
    raise ProtocolError("other-protocol", old=old, new=new, lower=lower, higher=higher)


def _text_variables(environment: object) -> object:
    if not isinstance(environment, Mapping):
        return environment
    return {name: value for name, value in environment.items() if _is_utf8(name) and _is_utf8(value)}


def _text_folders(path: object) -> object:
    return tuple(folder for folder in path if _is_utf8(folder)) if isinstance(path, list | tuple) else path


def _is_utf8(value: object) -> bool:
    """Whether JSON can represent it; Python decodes other bytes from the system as surrogates."""
    try:
        return not isinstance(value, str) or value.encode() is not None
    except UnicodeEncodeError:
        return False


Variables = Annotated[dict[str, str], BeforeValidator(_text_variables)]
"""Environment variables; those that are not UTF-8 are left out."""

Folders = Annotated[tuple[str, ...], BeforeValidator(_text_folders)]
"""Folders of an import path; those that are not UTF-8 are left out."""


SentSpec = Annotated[ClusterSpec, PlainSerializer(lambda spec: spec.model_dump(mode="json", exclude_defaults=True))]
"""The options of a cluster, without those that have their defaults: older versions may not know them."""


def parse_message(adapter: TypeAdapter[Any], line: bytes | str) -> Any:
    """Parse one line.

    Raises
    ------
    ProtocolError
        The line is not a message that `adapter` accepts.
    """
    try:
        return adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ProtocolError("not-a-message", version=PROTOCOL_VERSION, error=f"{where} {first['msg']}") from None
