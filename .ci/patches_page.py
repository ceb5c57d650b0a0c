"""Prints docs/patches.md, made from the table of patches.

.venv/bin/python .ci/patches_page.py > docs/patches.md
"""

from __future__ import annotations

import re
from pathlib import Path

from jupyter_gpudask.patches.table import PATCHES

MOST = 6
"""A patch with more targets gets their number and a few examples."""

HEAD = """\
# Patches of other libraries

jupyter_gpudask changes functions of Dask, dask_cudf, cuDF and the standard library at run time (monkeypatches) where
they offer no other way. Each change is a row of one table, `jupyter_gpudask/patches/table.py`, and nothing else in the
package assigns to an attribute of a module or a class of another library. This page is generated from that table. What
else differs from plain Dask is [below](#changes-that-are-not-patches).

- The patches of the kernel are applied by the first `%%gpudask` cell, or by `jupyter_gpudask.gpu()`, and undone by
  `%unload_ext jupyter_gpudask`. Cells for the CPU apply only those marked "CPU too". The patches of the supervisor and
  of the workers last as long as the process.
- Before anything is changed, the versions of the libraries and the parameters of each function are checked. If a
  patch does not fit, none is applied, and the cell fails with a [`PatchError`](errors.md#patcherror) that names it.
- A patch that corrects a fault of certain versions ("needed with") is skipped with other versions.
- `%gpudask doctor` lists the patches.

"""

TAIL = Path(__file__).with_name("not_patches.md").read_text()


def targets(patch: object) -> str:
    """What a patch changes."""
    names = [f"`{change.name}`" for change in patch.changes]
    if len(names) <= MOST:
        return ", ".join(names)
    return f"{len(names)} functions, such as {', '.join(names[: MOST // 2])}"


def versions(patch: object) -> str:
    """The supported versions of a patch, and those that need it."""
    text = ", ".join(f"{library} {wanted}" for library, wanted in patch.requires.items())
    needed = ", ".join(f"{library} {wanted}" for library, wanted in patch.needed.items())
    return f"{text}; needed with {needed}" if needed else text


def upstream(patch: object) -> str:
    """The issue as a link, or the text of one to file."""
    text = re.sub(r"https://github\.com/([\w-]+/[\w-]+)/(?:issues|pull)/(\d+)", r"[\1#\2](\g<0>)", patch.upstream)
    return re.sub(r"(?<!\()https://[^\s;,)]+", r"<\g<0>>", text)


def page() -> str:
    """The text of the page."""
    parts = []
    for patch in PATCHES:
        process = f"{patch.process}, CPU too" if patch.on_cpu else patch.process
        lines = [
            f"### {patch.name[:1].upper()}{patch.name[1:]}",
            "",
            patch.reason,
            "",
            f"- Changes: {targets(patch)}",
            f"- Process: {process}",
            f"- Upstream: {upstream(patch)}",
            f"- Versions: {versions(patch)}",
            "",
        ]
        parts.append("\n".join(lines))
    return HEAD + "## The patches\n\n" + "\n".join(parts) + "\n" + TAIL


if __name__ == "__main__":
    print(page(), end="")
