"""The documentation site: Markdown pages and notebooks of this folder, built with Sphinx and MyST by `make docs`."""

import json
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "jupyter_gpudask"
author = "the jupyter_gpudask developers"
PACKAGE = json.loads((ROOT / "package.json").read_text())
release = version = PACKAGE["version"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "reference_directives"]
exclude_patterns = ["upstream"]  # texts for other projects

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # the outputs are those that .ci/notebooks.py has saved
nb_merge_streams = True
autodoc_typehints = "description"
autodoc_typehints_format = "short"

linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1|docs\.example\.org)"]
linkcheck_timeout = 30
linkcheck_retries = 2

html_theme = "pydata_sphinx_theme"
html_title = "jupyter_gpudask"
html_logo = html_favicon = "_static/logo.svg"
html_baseurl = re.sub(  # on GitHub Pages; empty as long as package.json names no repository
    r"git\+https://github\.com/([\w-]+)/([\w.-]+?)\.git",
    r"https://\1.github.io/\2/",
    PACKAGE.get("repository", {}).get("url", ""),
)
html_extra_path = ["llms.txt"]
html_theme_options = {
    "logo": {"text": "jupyter_gpudask"},
    "show_prev_next": False,
    "navigation_with_keys": False,
    "show_toc_level": 2,
}
html_sidebars: dict[str, list[str]] = {"**": []}  # the header lists all pages
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
highlight_language = "none"  # most blocks without a language are lines for a terminal, or output


def _link_files_outside(_app: Sphinx, page: str, source: list[str]) -> None:
    """Let links to Markdown files of other folders, which are not pages of the site, lead to a copy of the file."""
    if "/" in page:  # in a folder of this one, ``..`` is this one
        return
    source[0] = re.sub(r"\]\(((?:\.\.|upstream)/[^)#]+\.md)[^)]*\)", r"](path:\1)", source[0])


def _describe(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _document: object) -> None:
    """Add what search engines and social networks show of a page."""
    tags = {"og:title": context.get("title") or project, "og:description": PACKAGE["description"], "og:type": "website"}
    if html_baseurl:
        tags["og:image"] = f"{html_baseurl}_static/social.png"
    described = [f'<meta property="{name}" content="{escape(text)}">' for name, text in tags.items()]
    described.append(f'<meta name="description" content="{escape(PACKAGE["description"])}">')
    context["metatags"] = "\n".join([context.get("metatags", ""), *described])


def setup(app: Sphinx) -> None:
    """Register what this configuration adds to Sphinx."""
    app.connect("source-read", _link_files_outside)
    app.connect("html-page-context", _describe)
