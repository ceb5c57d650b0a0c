"""docs/errors.md, made from the catalog of errors. `make fix` writes it."""

from __future__ import annotations

import inspect
import re

from jupyter_gpudask import errors

HEAD = """\
# Errors

A command or a `%%gpudask` line that fails shows one `UsageError`. Its message says what is wrong and, usually, what to
type. `jupyter_gpudask.errors` has a class for each kind of error. `error.code` is the name of the error in the catalog
`jupyter_gpudask/errors.toml`, from which this page is generated, `error.fields` are its values, which stand in `<...>`
below, and `error.reason` and `error.fix` are the two parts of its text.

The last line of an error in a notebook can be the address of its message on this page, `error.address`. There is no
public website yet. If an administrator publishes the website that `make docs` builds, the kernels' environment variable
`JUPYTER_GPUDASK_DOCUMENTATION` must have its address, such as `https://docs.example.org/gpudask`. Once the package
names its repository, the page there is the default.

After a cluster was lost, the next `%%gpudask` cell shows why and starts a new one with the same options, as does
`%gpudask restart`.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for name, entries in errors.catalog().items():
        text = re.sub("`{1,2}", "`", inspect.getdoc(getattr(errors, name)) or "").partition("\n\nParameters\n")[0]
        parts.append(f"## `{name}`\n\n{text.partition(chr(10) * 2 + 'Attributes' + chr(10))[0]}\n")
        parts.append("| Message | More |\n| --- | --- |")
        parts += [f'| <a id="{code}"></a>`{message(entry)}` | {entry.more} |' for code, entry in entries.items()]
        parts.append("")
    return "\n".join(parts)


def message(entry: errors.Entry) -> str:
    """The sentences of an error, with the names of the values."""
    text = re.sub(r"(?<!{){(?!--|{)([^}]*)}", r"<\1>", f"{entry.reason} {entry.fix}".strip())
    return re.sub(r"(?<!{){(--[^}]*)}", r"\1", text).replace("{{", "{").replace("}}", "}").replace("class_", "class")
