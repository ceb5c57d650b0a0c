"""The translations of the front end: complete, up to date with its texts, and where JupyterLab looks for them."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from jupyterlab_server.translation_utils import get_installed_packages_locale

import jupyter_gpudask

ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("translations", ROOT / ".ci" / "translations.py")
translations = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(translations)

CATALOGUES = sorted(translations.CATALOGUES.glob("*.po"))
PLACE = re.compile(r"%\d|\{[^}]*\}")
UPDATE = "type: make fix"

each_language = pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: path.stem)


def is_of_error(message):
    """Whether only the catalog of errors has a text, which is English until somebody translates it."""
    return {file for file, _ in message.locations} == {translations.CATALOGUE_OF_ERRORS}


def forms(texts):
    return [texts] if isinstance(texts, str) else list(texts)


def test_all_texts_of_the_front_end_are_found():
    found = {forms(message.id)[0] for message in translations.extract() if message.id}
    calls = [
        re.findall(r"\btrans\._[_n]\(\s*(['\"`])(.*?)(?<!\\)\1\s*[,)]", file.read_text(), flags=re.DOTALL)
        for file in sorted(translations.SOURCES.rglob("*.ts*"))
        if "__tests__" not in file.parts
    ]
    texts = {text for call in calls for _, text in call}
    assert len(texts) > 200
    assert texts <= found


@each_language
def test_a_language_has_exactly_the_texts_of_the_front_end_and_may_lack_those_of_errors(path):
    with path.open("rb") as file:
        written = {str(message.id) for message in translations.read_po(file, locale=path.stem) if message.id}
    texts = {str(message.id): is_of_error(message) for message in translations.extract() if message.id}
    assert {text for text in texts if not texts[text]} <= written <= texts.keys(), UPDATE


@each_language
def test_each_text_is_translated_with_its_placeholders(path):
    for message in translations.updated(path):
        if message.id:
            for text, translated in zip(forms(message.id), forms(message.string), strict=True):
                assert translated or is_of_error(message), message.id
                assert not translated or set(PLACE.findall(translated)) == set(PLACE.findall(text)), message.id


@each_language
def test_jupyterlab_reads_the_translations_from_the_package(path):
    expected = translations.as_json(translations.updated(path))
    assert translations.target(path).read_text() == expected, UPDATE
    installed = Path(jupyter_gpudask.__file__).parent / translations.target(path).relative_to(ROOT / "jupyter_gpudask")
    assert installed.read_text() == expected
    languages, message = get_installed_packages_locale(path.stem)
    assert languages["jupyter_gpudask"] == json.loads(expected), message
