"""Print a pin for each lower bound in pyproject.toml: constraints for pip, for an environment of the oldest releases.

The extras of RAPIDS are left out: they pin one release.
"""

import re
import tomllib
from pathlib import Path

EXTRA = "test-with-gpu"


def pins(requirements: list[str]) -> list[str]:
    """Return ``name==oldest`` for each requirement that names the oldest release."""
    found = (re.match(r"([\w-]+)(?:\[[^]]*\])?.*?>=([\w.]+)", requirement) for requirement in requirements)
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    print("\n".join(pins(project["dependencies"] + project["optional-dependencies"][EXTRA])))
