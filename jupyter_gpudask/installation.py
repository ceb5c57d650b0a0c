"""The pip command that installs this package, with or without the packages for GPUs, and where its documentation is."""

from __future__ import annotations

import os

_NAME = "jupyter_gpudask"


def pip_install(extra: str = "") -> str:
    """The command that installs the package from the source that it was installed from.

    `extra`: the extra of the package: ``cu12`` or ``cu13`` for GPUs. Returns a ``%pip`` line for a notebook.
    """
    name = f"{_NAME}[{extra}]" if extra else _NAME
    url = _source()
    return f'%pip install "{name} @ {url}"' if url else f'%pip install "{name}"'


def documentation(page: str) -> str:
    """The address of a page of the documentation.

    It is on the website that the environment variable ``JUPYTER_GPUDASK_DOCUMENTATION`` names, such as
    ``https://docs.example.org/gpudask``; without the variable, in the repository that the metadata of the package name.

    `page`: a file of the folder ``docs``, with an anchor if needed, such as ``errors.md#specerror``. Returns an
    empty text without the variable if the metadata name no repository, as long as the package is not published.
    """
    import importlib.metadata

    if website := os.environ.get("JUPYTER_GPUDASK_DOCUMENTATION"):
        return f"{website.rstrip('/')}/{page.replace('.md', '.html', 1)}"
    try:
        urls = importlib.metadata.metadata(_NAME).get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:
        return ""
    addresses = dict(url.split(", ", 1) for url in urls)
    repository = addresses.get("repository", "").removeprefix("git+").removesuffix(".git")
    return f"{repository}/blob/main/docs/{page}" if repository else ""


def _source() -> str:
    """The URL that was given to pip, from `PEP 610 <https://peps.python.org/pep-0610/>`_; empty for an index."""
    import importlib.metadata  # here, because only error messages need them
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
