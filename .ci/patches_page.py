"""docs/patches.md, made from the table of patches. `make fix` writes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpudask.patches.patch import DASK
from jupyter_gpudask.patches.table import PATCHES

if TYPE_CHECKING:
    from jupyter_gpudask.patches.patch import Patch

MOST = 6
"""A patch with more targets gets their number and a few examples."""

TESTED = ", ".join(f"{library} {wanted}" for library, wanted in DASK.items())

HEAD = f"""\
# Patches of other libraries

If Dask, dask_cudf, cuDF or the standard library offer no other way, jupyter_gpudask patches their functions at run
time (monkeypatches). Each patch is a row of one table, `jupyter_gpudask/patches/table.py`. Nothing else in the
package assigns to an attribute of a module or a class of another library. This page is generated from that table.
Other differences from plain Dask are [below](#changes-that-are-not-patches).

- The first `%%gpudask` cell, or `jupyter_gpudask.gpu()`, applies the patches of the kernel.
  `%unload_ext jupyter_gpudask` removes them. Cells for the CPU apply only the patches marked "CPU too". The patches of
  the supervisor and of the workers last as long as the process.
- Before anything is patched, the versions of the libraries, the parameters of each function and the private names of
  Dask are checked. If a patch does not fit a tested version, none is applied, and the cell fails with a
  [`PatchError`](errors.md#patcherror) that names the patch. With a newer Dask or RAPIDS than tested there is one
  warning instead: it names the patches that do not fit, and the others are applied.
- The patches are for {TESTED}, unless a row has other versions.
- A patch that fixes a bug of certain versions ("needed with") is skipped with other versions.
- The patches of an optional library, such as dask-ml, are applied when a notebook has imported it. If they do not fit,
  there is a warning.
- `%gpudask doctor` lists the patches.
- A row links its issues, or texts of issues to file in `docs/upstream`: a test runs their reproductions, and fails when
  a library no longer has the fault.

"""

TEXTS = Path(__file__).parents[1] / "docs" / "upstream"

TAIL = Path(__file__).with_name("not_patches.md").read_text()


def targets(patch: Patch) -> str:
    """What a patch changes."""
    names = [f"`{change.name}`" for change in patch.changes]
    if len(names) <= MOST:
        return ", ".join(names)
    return f"{len(names)} functions, such as {', '.join(names[: MOST // 2])}"


def versions(patch: Patch) -> str:
    """The supported versions of a patch if they are its own, and those that need it; empty for most."""
    own = ", ".join(f"{library} {wanted}" for library, wanted in patch.requires.items() if patch.requires != DASK)
    needed = ", ".join(f"{library} {wanted}" for library, wanted in patch.needed.items())
    return "; ".join(filter(None, [own, needed and f"needed with {needed}"]))


def upstream(reference: str) -> str:
    """A link to an issue, or to the text of one to file."""
    if not reference.startswith("https://"):
        title = (TEXTS / f"{reference}.md").read_text().partition("\n")[0].removeprefix("# ")
        return f"[{title}](upstream/{reference}.md)"
    name = re.fullmatch(r"https://github\.com/([\w-]+/[\w-]+)/(?:issues|pull)/(\d+)", reference)
    return f"[{name[1]}#{name[2]}]({reference})" if name else f"<{reference}>"


def page() -> str:
    """The text of the page."""
    parts = []
    for patch in PATCHES:
        process = f"{patch.process}, CPU too" if patch.on_cpu else patch.process
        if patch.module:
            process += f", when `{patch.module}` has been imported"
        lines = [
            f"### {patch.name[:1].upper()}{patch.name[1:]}",
            "",
            patch.reason,
            "",
            f"- Changes: {targets(patch)}",
            f"- Process: {process}",
            f"- Upstream: {'; '.join(map(upstream, patch.upstream))}",
            *[f"- Versions: {own}" for own in [versions(patch)] if own],
            "",
        ]
        parts.append("\n".join(lines))
    return HEAD + "## The patches\n\n" + "\n".join(parts) + "\n" + TAIL
