"""The description of the REST interface, from which the front end's types are made."""

import json
from pathlib import Path

import pytest

from jupyter_gpudask.models import ClusterSpec
from jupyter_gpudask.server.openapi import describe_api

COMMITTED = Path(__file__).parents[2] / "labextension" / "openapi.json"


def test_the_committed_description_is_that_of_the_models():
    """If it is not: python -m jupyter_gpudask.server.openapi > labextension/openapi.json."""
    committed, made = json.loads(COMMITTED.read_text()), describe_api("/")
    committed["info"]["version"] = made["info"]["version"] = ""
    assert committed == json.loads(json.dumps(made))


def references(part):
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "$ref")
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_every_reference_leads_somewhere():
    api = describe_api("/")
    for reference in references(api):
        assert reference.removeprefix("#/components/schemas/") in api["components"]["schemas"]


@pytest.mark.parametrize("name", list(ClusterSpec.model_fields))
def test_every_option_of_a_cluster_can_be_ordered(name):
    options = describe_api("/")["components"]["schemas"]["ClusterOptions"]
    assert name in options["properties"]
