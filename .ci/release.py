"""Write a version into the files that repeat it, and say what is left: ``release.py VERSION``.

The version is that of ``package.json``. ``CHANGELOG.md`` gets a heading with the date above what is unreleased.
"""

import datetime as dt
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT = """\
{version} is in package.json, CHANGELOG.md, CITATION.cff and recipe/meta.yaml. What is left:

    make fix
    git diff
    make check-release
    git commit --all --message "Release {version}"
    git tag v{version}
    git push origin HEAD v{version}

The workflow "release" publishes what has the tag."""


def edits(version: str, day: str) -> dict[str, dict[str, str]]:
    """By file, the patterns of lines that change, with what takes their place."""
    return {
        "package.json": {r'^  "version": ".*",$': f'  "version": "{version}",'},
        "CITATION.cff": {r"^version: .*$(\ndate-released: .*$)?": f"version: {version}\ndate-released: {day}"},
        "recipe/meta.yaml": {r'^{% set version = ".*" %}$': f'{{% set version = "{version}" %}}'},
        "CHANGELOG.md": {r"^## \[Unreleased\]$": f"## [Unreleased]\n\n## [{version}] - {day}"},
    }


def refusal(version: str, changes: str) -> str | None:
    """Why this version cannot be released with these changes; `None` if it can."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return f"VERSION={version} is not a version such as 0.2.0."
    if f"\n## [{version}]" in changes:
        return f"CHANGELOG.md has the version {version} already."
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if unreleased is None or not unreleased[1].strip():
        return "CHANGELOG.md names no change under [Unreleased]."
    return None


def main(version: str) -> int:
    """Change the files; 1 if the version is refused."""
    if reason := refusal(version, (ROOT / "CHANGELOG.md").read_text()):
        print(reason, file=sys.stderr)
        return 1
    day = dt.datetime.now(dt.UTC).date().isoformat()
    for name, patterns in edits(version, day).items():
        text = (ROOT / name).read_text()
        for pattern, line in patterns.items():
            text, count = re.subn(pattern, line, text, flags=re.MULTILINE)
            if count != 1:
                raise ValueError(f"{name} has {count} lines {pattern}, and not one.")
        (ROOT / name).write_text(text)
    print(LEFT.format(version=version))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
