"""The administrator's settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpudask.server.extension import GpuDask

DOCS = Path(__file__).parents[2] / "docs" / "server.md"
NAMES = list(GpuDask.class_own_traits(config=True))


def test_every_setting_is_explained_by_help_all():
    command = [sys.executable, "-c", "from jupyter_gpudask.server.extension import main; main()", "--help-all"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    options = printed.split("--")
    for name in NAMES:
        (text,) = (text for text in options if text.startswith(f"GpuDask.{name}="))
        assert "Default:" in text
        assert len(text.splitlines()) > 2, text


@pytest.mark.skipif(not DOCS.exists(), reason="needs the folder docs")
@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_in_the_docs(name):
    assert f"`{name}`" in DOCS.read_text().replace("c.GpuDask.", "")
