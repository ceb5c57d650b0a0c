"""What to type to install this package in an environment that lacks it, or the packages for GPUs."""

from __future__ import annotations

_NAME = "jupyter_gpudask"


def pip_install(extra: str = "") -> str:
    """The command that installs the package from where it came from here.

    Parameters
    ----------
    extra
        Of the package: ``cu12`` or ``cu13`` for GPUs.

    Returns
    -------
    str
        A line for a notebook.
    """
    name = f"{_NAME}[{extra}]" if extra else _NAME
    url = _source()
    return f'%pip install "{name} @ {url}"' if url else f'%pip install "{name}"'


def _source() -> str:
    """The URL that pip was given, as `PEP 610 <https://peps.python.org/pep-0610/>`_ keeps it; nothing for an index."""
    import importlib.metadata  # here, for an error alone needs them
    import json

    try:
        text = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
        source = json.loads(text or "{}")
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""
    url: str = source.get("url", "")
    if "vcs_info" in source:
        url = f"{source['vcs_info']['vcs']}+{url}@{source['vcs_info']['commit_id']}"
    if "subdirectory" in source:
        url += f"#subdirectory={source['subdirectory']}"
    return url
