"""The OpenAPI document, and the TypeScript types that are generated from it."""

import json
import subprocess
from pathlib import Path

import pytest

from jupyter_gpudask.errors import GpuHeldError, SpecError
from jupyter_gpudask.protocol import ClusterSpec
from jupyter_gpudask.protocol.api.rest import ErrorDetails
from jupyter_gpudask.server.api.openapi import openapi_document

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "labextension" / "openapi.json"
TYPES = ROOT / "labextension" / "src" / "model" / "openapi.ts"
NODE_MODULES = ROOT / "node_modules" / ".bin"


def test_the_committed_openapi_document_is_up_to_date():
    """If this fails: python -m jupyter_gpudask.server.api.openapi > labextension/openapi.json."""
    committed, made = json.loads(COMMITTED.read_text()), openapi_document("/")
    committed["info"]["version"] = made["info"]["version"] = ""
    assert committed == json.loads(json.dumps(made))


@pytest.mark.skipif(not NODE_MODULES.exists(), reason="needs the packages that `jlpm install` installs")
def test_the_typescript_types_are_generated_from_the_committed_openapi_document():
    """If this fails: jlpm types."""
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


def test_each_reference_has_a_target():
    api = openapi_document("/")
    for reference in references(api):
        assert reference.removeprefix("#/components/schemas/") in api["components"]["schemas"]


@pytest.mark.parametrize("name", list(ClusterSpec.model_fields))
def test_each_option_of_a_spec_is_an_option_of_the_rest_interface(name):
    options = openapi_document("/")["components"]["schemas"]["ClusterOptions"]
    assert name in options["properties"]


def test_every_option_is_published_as_it_is_typed_and_those_with_a_title_are_in_the_form():
    options = openapi_document("/")["components"]["schemas"]["ClusterOptions"]["properties"]
    assert options.keys() == ClusterSpec.model_fields.keys()
    assert options["pool"]["title"] == "Memory pool"
    assert options["workers"]["x-option"] == {
        "flag": "--cpu",
        "allowed": "a whole number from 1 to 256",
        "words": (),
        "engine": "cpu",
    }
    assert {name for name, option in options.items() if not option["title"]} == {
        "resources",
        "start_timeout",
        "dashboard",
    }


def test_an_error_has_the_labels_of_the_options_that_it_names():
    details = ErrorDetails.of(GpuHeldError("gpus-held", gpus="GPU 0 is held by a.ipynb"))
    assert details.labels == {"--gpus": "GPUs", "--share": "Share GPUs"}
    with pytest.raises(SpecError) as raised:
        ClusterSpec.parse({"pool": "lots"})
    assert ErrorDetails.of(raised.value).labels == {"--pool": "Memory pool"}
