"""The description of the REST interface, from which the front end's types are made."""

import json
import subprocess
from pathlib import Path

import pytest

from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.server.api.openapi import openapi_document

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "labextension" / "openapi.json"
TYPES = ROOT / "labextension" / "src" / "model" / "openapi.ts"
NODE_MODULES = ROOT / "node_modules" / ".bin"


def test_the_committed_description_is_that_of_the_models():
    """If it is not: python -m jupyter_gpudask.server.api.openapi > labextension/openapi.json."""
    committed, made = json.loads(COMMITTED.read_text()), openapi_document("/")
    committed["info"]["version"] = made["info"]["version"] = ""
    assert committed == json.loads(json.dumps(made))


@pytest.mark.skipif(not NODE_MODULES.exists(), reason="needs the packages that `jlpm install` brings")
def test_the_types_of_the_front_end_are_made_from_the_committed_description():
    """If they are not: jlpm types."""
    made = subprocess.run(
        [NODE_MODULES / "openapi-typescript", COMMITTED, "--export-type"], capture_output=True, check=True
    )
    options = ["--stdin-filepath", TYPES]
    formatted = subprocess.run(
        [NODE_MODULES / "prettier", *options], input=made.stdout, capture_output=True, check=True
    )
    assert formatted.stdout == TYPES.read_bytes()


def references(part):
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "$ref")
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_every_reference_leads_somewhere():
    api = openapi_document("/")
    for reference in references(api):
        assert reference.removeprefix("#/components/schemas/") in api["components"]["schemas"]


@pytest.mark.parametrize("name", list(ClusterSpec.model_fields))
def test_every_option_of_a_cluster_can_be_ordered(name):
    options = openapi_document("/")["components"]["schemas"]["ClusterOptions"]
    assert name in options["properties"]
