"""docs/patches.md, made from the table of patches. `make fix` writes it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpudask.patches.patch import DASK
from jupyter_gpudask.patches.table import PATCHES

if TYPE_CHECKING:
    from jupyter_gpudask.patches.patch import Patch

MOST = 6
"""A patch with more targets gets their number and a few examples."""

TESTED = ", ".join(f"{library} {wanted}" for library, wanted in DASK.items())

CHANGES = [change for patch in PATCHES for change in patch.changes]

LIBRARIES = Counter(re.split("[.:]", change.target)[0] for change in CHANGES)

HEAD = f"""\
# Patches of other libraries

While GPU cells are used, jupyter_gpudask changes {len(CHANGES)} functions, in {len(PATCHES)} rows:
{", ".join(f"{count} of {library}" for library, count in LIBRARIES.most_common())}.
Of {sum(change.how == "code" for change in CHANGES)} it replaces the code, because other modules import them by
name, and of most others the attribute. It does so where these libraries offer no other way;
[why there is no fork](architecture.md#patches-and-no-fork). Nothing outside the table
`jupyter_gpudask/patches/table.py`, from which this page is made, assigns to an attribute of another library.

- **When.** The first `%%gpudask` cell, or `jupyter_gpudask.gpu()`, applies the rows of the kernel; cells on the CPU
  only those marked "CPU too". `%unload_ext jupyter_gpudask` restores all. In the supervisor and the workers they last
  as long as the process. `%gpudask doctor` lists them.
- **Versions.** The rows are for {TESTED}, unless one says otherwise.
  A row that fixes a bug of certain versions ("needed with") is skipped with others.
- **If one does not fit.** With a tested version no row is applied, and the cell fails with a
  [`PatchError`](errors.md#patcherror). With a newer Dask or RAPIDS, one warning names the rows that do not fit, and
  the others are applied.
- **Optional libraries**, such as dask-ml: their rows are applied when a notebook has imported them, with a warning if
  they do not fit.
- **Upstream.** Each row links issues, or texts to file in `docs/upstream`. A test runs their reproductions, and fails
  when a library no longer has the fault.

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
