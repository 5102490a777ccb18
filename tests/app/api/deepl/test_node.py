"""app/api/deepl/: DeepL's own client for Node, unmodified: tests/support/deepl_node.mjs makes every call that it
has."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deepl_clients import plainly
from servers import WAIT_S
from shared_fixtures import listening, make_bundle

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("node")
    make_bundle(folder / "bundles" / "en-fr")
    make_bundle(folder / "bundles" / "fr-en", "fr", "en", seed=1)
    with listening(folder / "bundles", translation_memory=str(folder / "memory.sqlite")) as url:
        yield url


@pytest.fixture(scope="module")
def found(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each call returned, or its error, by name."""
    node = shutil.which("node")
    if node is None or not (TESTS / "node_modules" / "deepl-node").is_dir():
        pytest.skip("no Node, or not its packages: `npm ci` in tests/")
    command = [node, str(TESTS / "support" / "deepl_node.mjs"), url, str(tmp_path_factory.mktemp("files"))]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_every_call_is_made_and_only_these_are_refused(found: dict[str, Any]) -> None:
    assert found["uncalled"] == []
    refusals = {name: text for name, text in found.items() if isinstance(text, str) and "Error: " in text}
    for name, text in refusals.items():
        if "StyleRule" in name:
            assert "This service has no style rules." in text, name
    assert {
        name: text.partition("message: ")[2].partition(", detail")[0]
        for name, text in refusals.items()
        if "StyleRule" not in name
    } == {
        "translateText, with instructions": "#/custom_instructions: Custom instructions are not supported.",
        "translateText, with a style rule": "#/style_id: Style rules are not supported.",
        "uploadDocument, with a style rule": "#/style_id: Style rules are not supported.",
        "getGlossary, that is not there": "No such glossary.",
        "isTranslationMemoryJobComplete": "",
        "rephraseText": "This service has no DeepL Write.",
    }
    assert "not well-formed" in refusals["isTranslationMemoryJobComplete"]


def test_texts_and_documents_are_translated(found: dict[str, Any], url: str) -> None:
    hello, how, bye = plainly(url, "Hello.", "How are you?", "Bye.")
    assert found["translateText"] == {"text": hello, "detectedSourceLang": "en", "billedCharacters": 6}
    assert [each["text"] for each in found["translateText, several"]] == [hello, how]
    assert "<x>my friend</x>" in found["translateText, with all options"]["text"]
    assert found["translateText, with all options"]["modelTypeUsed"] == "quality_optimized"
    assert found["documents"] == [f"{hello}\n", f"{bye}\n"]
    assert found["getTargetLanguages"][-1] == {
        "name": "English (American)",
        "code": "en-US",
        "supportsFormality": False,
    }


def test_glossaries_are_made_changed_and_used(found: dict[str, Any]) -> None:
    assert found["getGlossaryEntries"]["implEntries"] == {"dog": 'clé "bard"'}
    for name in ("translateText, with a glossary", "translateText, with glossaries"):
        assert "félin" in found[name]["text"].lower()
    pairs = [
        [each["sourceLangCode"], each["targetLangCode"]] for each in found["getMultilingualGlossary"]["dictionaries"]
    ]
    assert pairs == [["en", "fr"], ["fr", "en"]]
    assert found["updateMultilingualGlossaryName"]["name"] == "More"
    assert found["updated"] == {"cat": "félin", "dog": "clébard", "tree": "arbuste"}
    assert found["replaced"] == {"house": "baraque"}
    assert found["getMultilingualGlossaryDictionaryEntries"]["entries"]["implEntries"] == {"house": "cabane"}
    assert [each["name"] for each in found["listMultilingualGlossaries"]] == ["One", "Two"]


def test_translation_memories_are_imported_read_and_exported(found: dict[str, Any]) -> None:
    [result] = found["importTranslationMemoryFromFilepath"]["results"]
    assert (result["status"], result["skippedSegmentCount"], found["isImported"]) == ("completed", 1, True)
    assert found["getTranslationMemory"]["segmentCount"] == 2
    pages = [found[name] for name in ("listTranslationMemorySegments", "listTranslationMemorySegments, after")]
    texts = {
        segment["sourceText"]: segment["targets"][0]["targetText"] for page in pages for segment in page["segments"]
    }
    assert texts == {"Open": "Ouvrir", "Close": "Fermer"}
    assert "nextPageCursor" not in pages[1]
    [close] = found["listTranslationMemorySegments, with a text"]["segments"]
    assert close["sourceText"] == "Close"
    assert found["translateText, with a memory"]["text"] == "Ouvrir"
    assert found["exports"][0] == found["exports"][1]
    assert "<seg>Open</seg><seg>Ouvrir</seg>" in found["exports"][0]
