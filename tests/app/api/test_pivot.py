"""app/translation/pivot.py and app/api/: pairs that need two bundles are offered and translated like any other, in
all three APIs, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx import Response
from shared_fixtures import Service, make_bundle, serving

TEXT = "Le chat dort, il va bien."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fr-en and en-de."""
    folder = tmp_path_factory.mktemp("pivot")
    make_bundle(folder / "fr-en", "fr", "en")
    make_bundle(folder / "en-de", "en", "de")
    return folder


@pytest.fixture(scope="module")
def pivoting(folder: Path) -> Iterator[Service]:
    with serving(folder, precision="auto") as service:
        yield service


def translate(service: Service, source: str, target: str, text: str = TEXT, **fields: object) -> Response:
    return service.post("/translate", {"text": text, "source": source, "target": target, **fields})


def names(service: Service) -> list[str]:
    by_pair = {(model["source"], model["target"]): model["model"] for model in service.get("/models").json()}
    return [by_pair["fr", "en"], by_pair["en", "de"]]


def test_pivot_translation_names_the_language_between(pivoting: Service) -> None:
    between = translate(pivoting, "fr", "en").json()
    last = translate(pivoting, "en", "de", between["translations"][0]["text"]).json()
    both = translate(pivoting, "fr", "de").json()
    [item] = both["translations"]
    assert (item["via"], item["source"], item["error"]) == (["en"], "fr", None)
    assert item["text"] == last["translations"][0]["text"]
    assert between["translations"][0]["via"] is None
    assert both["model"] == " + ".join(names(pivoting))
    assert both["usage"] == {key: between["usage"][key] + last["usage"][key] for key in both["usage"]}


def test_a_pair_that_needs_a_pivot_language_is_not_scored(pivoting: Service) -> None:
    body = {"pairs": {"text": TEXT, "translation": "Die Katze."}, "source": "fr", "target": "de"}
    refused = pivoting.post("/score", body)
    assert (refused.status_code, refused.json()["title"]) == (404, "Language pair not served")
    for source, target in (("fr", "en"), ("en", "de")):
        assert pivoting.post("/score", {**body, "source": source, "target": target}).status_code == 200


def test_both_translations_are_cached(pivoting: Service) -> None:
    text = "Le chat va bien, il dort."
    translate(pivoting, "fr", "en", text)

    def counts() -> dict[str, float]:
        lines = (line.rpartition(" ") for line in pivoting.get("/metrics").text.splitlines())
        return {name: float(value) for name, _, value in lines if name.startswith("interlinear_cache_sentences_total")}

    before = counts()
    first = translate(pivoting, "fr", "de", text)
    between = counts()
    assert translate(pivoting, "fr", "de", text).json() == first.json()
    after = counts()
    hit, miss = (f'interlinear_cache_sentences_total{{result="{result}"}}' for result in ("hit", "miss"))
    assert between[hit] + between[miss] - before[hit] - before[miss] == 2  # one sentence in each translation
    assert between[hit] > before[hit]
    assert (after[hit] - between[hit], after[miss] - between[miss]) == (2, 0)


def test_languages_lists_pivot_pairs(pivoting: Service) -> None:
    targets = {each["code"]: each["targets"] for each in pivoting.get("/languages").json()}
    assert targets == {"fr": ["en", "de"], "en": ["de"]}
    assert {each["code"]: each["targets"] for each in pivoting.get("/libretranslate/languages").json()} == {
        "de": ["de"],
        "en": ["de", "en"],
        "fr": ["de", "en", "fr"],
    }
    pairs = pivoting.get("/deepl/v2/glossary-language-pairs").json()["supported_languages"]
    assert {"source_lang": "fr", "target_lang": "de"} in pairs


def test_without_pivot_only_pairs_with_a_bundle_are_served(folder: Path) -> None:
    with serving(folder, pivot=False, precision="auto") as service:
        assert translate(service, "fr", "de").status_code == 404
        assert {each["code"]: each["targets"] for each in service.get("/languages").json()} == {
            "fr": ["en"],
            "en": ["de"],
        }
        assert translate(service, "fr", "en").status_code == 200


def test_streamed_pivot_translation_equals_the_whole(pivoting: Service) -> None:
    text = f"{TEXT}\n\nIl va bien.\n"
    whole = translate(pivoting, "fr", "de", text).json()
    events = pivoting.post("/translate/stream", {"text": text, "source": "fr", "target": "de"}).text
    *parts, done = [json.loads(line.removeprefix("data: ")) for line in events.splitlines() if line[:5] == "data:"]
    assert "".join(part["text"] for part in parts) == whole["translations"][0]["text"]
    assert done == whole


@pytest.mark.slow
def test_documents_are_translated_through_the_pivot(pivoting: Service) -> None:
    answer = pivoting.request(
        "POST",
        "/translate/file",
        data={"source": "fr", "target": "de"},
        files={"file": ("a.html", f"<p>{TEXT}</p>\n<pre>x</pre>\n".encode())},
    )
    assert answer.status_code == 200
    assert answer.headers["X-Interlinear-Model"] == " + ".join(names(pivoting))
    assert answer.text.startswith("<p>") and answer.text.endswith("</p>\n<pre>x</pre>\n")


def test_attention_shows_one_bundle_and_names_it(pivoting: Service) -> None:
    refused = pivoting.post("/attention", {"text": "Le chat.", "source": "fr", "target": "de"})
    assert refused.status_code == 404
    assert "only fr-en and then en-de" in refused.json()["detail"]


def test_libretranslate_and_deepl_translate_through_the_pivot(pivoting: Service) -> None:
    [ours] = translate(pivoting, "fr", "de").json()["translations"]
    libre = pivoting.post("/libretranslate/translate", {"q": TEXT, "source": "fr", "target": "de"})
    assert libre.json()["translatedText"] == ours["text"]
    deepl = pivoting.post("/deepl/v2/translate", {"text": [TEXT], "source_lang": "FR", "target_lang": "DE"})
    assert deepl.json()["translations"][0]["text"] == ours["text"]


def test_deepl_glossaries_apply_through_the_pivot(pivoting: Service) -> None:
    made = pivoting.post(
        "/deepl/v2/glossaries",
        {"name": "a", "source_lang": "fr", "target_lang": "de", "entries": "chat\tKater", "entries_format": "tsv"},
    )
    assert made.status_code == 201
    body = {"text": [TEXT], "source_lang": "FR", "target_lang": "DE", "glossary_id": made.json()["glossary_id"]}
    assert "kater" in pivoting.post("/deepl/v2/translate", body).json()["translations"][0]["text"].lower()
