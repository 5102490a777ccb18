"""app/engine/registry.py and app/api/: one bundle of several directions is served as a bundle of each would be, in
all APIs, with one model in memory."""

from __future__ import annotations

import dataclasses
import html
import io
import json
import math
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import random_model
from shared_fixtures import BUNDLE_LIMITS, SENTENCES, Service, make_bundle, serving, sure_sample

from app.engine.registry import Catalogue
from app.errors import PairNotServed
from app.text.checked_marks import without_invented
from model.bundle import open_bundle
from model.bundle_files import BundleError
from model.bundle_weights import LoadedBundle, load_bundle, save_bundle
from model.decoding import as_backend, decode_all
from model.directions import Directions
from model.hypothesis import Hypothesis
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.weight_shapes import weight_shapes
from tests.app.formats.test_docx import run, word
from training.data.vocabulary import train_vocabulary
from training.evaluation.evaluate import EvaluateOptions, evaluate_bundle

pytestmark = pytest.mark.slow

TEXT = "The cat sleeps."
LICENCE = "CC-BY-NC-4.0"


def save_directions(folder: Path, sources: dict[str, Any], targets: dict[str, Any], **fields: Any) -> Path:
    """A random bundle. Prefixes are given as symbols of its vocabulary."""
    tokenizer = Tokenizer(train_vocabulary(SENTENCES, 400, ["en", "fr", "de"], threads=1))
    model = Transformer(dataclasses.replace(random_model(tokenizer.vocab_size, ()).config, **fields)).eval()
    model.load_state_dict(random_model(tokenizer.vocab_size, ()).state_dict())
    ids = tokenizer.language_ids
    directions = {
        "sources": {code: [ids[symbol] for symbol in symbols] for code, symbols in sources.items()},
        "targets": {
            code: {name: [ids[symbol] for symbol in symbols] for name, symbols in prefixes.items()}
            for code, prefixes in targets.items()
        },
    }
    record = {"directions": directions, "training": {"corpora": []}, "metrics": [], "licence": LICENCE}
    record["samples"] = [sure_sample(model, BUNDLE_LIMITS)]
    save_bundle(folder, model, tokenizer, BUNDLE_LIMITS, record, "", dtype="float32")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bundle of three languages, told apart on both sides."""
    folder = tmp_path_factory.mktemp("several")
    prefixes = {"source_prefix": ["de"], "target_prefix": ["fr"]}
    targets = {"fr": prefixes, "de": {"target_prefix": ["de"]}, "en": {"source_prefix": ["en"]}}
    save_directions(folder / "several", {"en": ["en"], "fr": ["fr", "fr"], "de": []}, targets)
    return folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> LoadedBundle:
    return load_bundle(folder / "several", torch.device("cpu"))


@pytest.fixture(scope="module")
def several(folder: Path) -> Iterator[Service]:
    with serving(folder) as service:
        yield service


def translate(service: Service, source: str, target: str, text: str = TEXT, **fields: object) -> dict[str, Any]:
    response = service.post("/translate", {"text": text, "source": source, "target": target, **fields})
    assert response.status_code == 200, response.text
    return dict(response.json())


def decoded(bundle: LoadedBundle, source: str, target: str) -> list[int]:
    """The tokens that the model gives `TEXT`, without the prefix."""
    direction = (own := bundle.in_direction(source, target)).direction
    text, prefix = bundle.source_tokenizer.encode_source(TEXT), direction.target_prefix
    limit = own.limits.target(len(text)) + len(prefix)
    hypothesis = Hypothesis([*direction.source_prefix, *text], limit, prefix=prefix)
    decode_all(as_backend(bundle.model).new_batch(1, BUNDLE_LIMITS), [hypothesis])
    assert tuple(hypothesis.tokens[: len(prefix)]) == prefix
    return hypothesis.tokens[len(prefix) :]


PAIRS = [("en", "fr"), ("en", "de"), ("fr", "en"), ("fr", "de"), ("de", "en"), ("de", "fr")]


def test_each_direction_is_translated_with_its_own_prefixes(several: Service, bundle: LoadedBundle) -> None:
    sent, texts = len(bundle.source_tokenizer.encode_source(TEXT)), set[str]()
    for source, target in PAIRS:
        tokens = decoded(bundle, source, target)
        shown = several.post("/attention", {"text": TEXT, "source": source, "target": target}).json()
        made = bundle.target_tokenizer.decode(tokens)
        assert (shown["translation"], shown["model"]) == (made, f"{source}-{target}@{bundle.checksum[:12]}")
        answer = translate(several, source, target)
        [item] = answer["translations"]
        # A random model makes up symbols and signs, which are removed, and repeats itself, which is cut.
        assert item["text"][0] in {(without_invented(made, signs).strip() or TEXT)[0] for signs in (False, True)}
        assert item["finish_reason"] == "length"
        assert (answer["model"], answer["usage"]["source_tokens"]) == (shown["model"], sent + 1)
        assert answer["usage"]["target_tokens"] <= len(tokens)
        texts.add(made)
    assert len(texts) == 5  # prefixes matter


def test_given_translations_are_scored_in_their_direction(several: Service, bundle: LoadedBundle) -> None:
    given = "Le chat."
    bodies = [{"pairs": {"text": TEXT, "translation": given}, "source": one, "target": other} for one, other in PAIRS]
    alone = [several.post("/score", body).json() for body in bodies]
    assert [one.json() for one in several.post_together("/score", bodies)] == alone
    ids = bundle.target_tokenizer.encode(given)
    for (source, target), answer in zip(PAIRS, alone, strict=True):
        own = bundle.in_direction(source, target).direction
        forced = Hypothesis(
            [*own.source_prefix, *bundle.source_tokenizer.encode_source(TEXT)],
            len(own.target_prefix) + len(ids),
            forced=(*own.target_prefix, *ids),
        )
        decode_all(as_backend(bundle.model).new_batch(1, BUNDLE_LIMITS), [forced])
        [score] = answer["scores"]
        expected = forced.log_probs[len(own.target_prefix) :]
        assert [token["piece"] for token in score["tokens"]] == [*map(bundle.target_tokenizer.piece, ids), "</s>"]
        assert [token["log_prob"] for token in score["tokens"]] == pytest.approx(expected, abs=1e-4)
        assert answer["model"] == f"{source}-{target}@{bundle.checksum[:12]}"
    assert len({answer["scores"][0]["score"] for answer in alone}) == len(PAIRS)  # prefixes matter


def test_prefixes_are_in_no_span_alternative_or_part_of_a_stream(several: Service, bundle: LoadedBundle) -> None:
    [item] = translate(several, "en", "fr", alternatives=3, alignment=True)["translations"]
    assert all("<to_" not in other["text"] for other in (item, *item["alternatives"]))
    spans = [(0, len(TEXT)), (0, len(item["text"]))]
    for pair in item["alignment"]:
        for (start, end), (first, last) in zip((pair["source"], pair["target"]), spans, strict=True):
            assert first <= start < end <= last
    streamed = several.post("/translate/stream", {"text": TEXT, "source": "en", "target": "fr"}).text
    *parts, _ = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: ")]
    [greedy] = translate(several, "en", "fr")["translations"]
    assert "".join(part["text"] for part in parts) == greedy["text"]


def test_attention_shows_the_prefixes_that_the_model_reads_and_generates(
    several: Service, bundle: LoadedBundle
) -> None:
    body = {"text": TEXT, "source": "en", "target": "fr"}
    shown = several.post("/attention", body).json()
    source, target = ([token["piece"] for token in shown[f"{side}_tokens"]] for side in ("source", "target"))
    assert (source[:2], target[0]) == (["<to_en>", "<to_de>"], "<to_fr>")
    prefixes = *shown["source_tokens"][:2], shown["target_tokens"][0]
    assert all(token["start"] == token["end"] == 0 for token in prefixes)
    assert np.shape(shown["attention"]["cross"])[2:] == (len(target), len(source))
    assert np.shape(shown["attention"]["encoder"])[2:] == (len(source), len(source))
    assert np.allclose(np.sum(shown["attention"]["cross"], -1), 1, atol=1e-3)
    assert shown["translation"].strip() == bundle.target_tokenizer.decode(decoded(bundle, "en", "fr")).strip()
    assert [at for _, at in shown["alignment"]] == list(range(1, len(target)))
    assert all(2 <= at < len(source) - 1 for at, _ in shown["alignment"])
    forced = several.post("/attention", {**body, "target_text": "Le chat dort."}).json()
    assert (forced["translation"], forced["target_tokens"][0]["piece"]) == ("Le chat dort.", "<to_fr>")


def test_documents_are_translated_in_the_direction_that_is_asked_for(several: Service) -> None:
    """Among them one whose bytes are a package, and two that have texts of two languages."""
    documents = {
        "a.html": f"<p>{TEXT}</p>",
        "a.po": f'msgid "{TEXT}"\nmsgstr ""\n',
        "a.xliff": '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" '
        f'source-language="en" datatype="plaintext"><body><trans-unit id="1"><source>{TEXT}</source></trans-unit>'
        "</body></file></xliff>",
        "a.docx": word(f"<w:p>{run(TEXT)}</w:p>"),
    }
    expected = {target: translate(several, "en", target)["translations"][0]["text"] for target in ("fr", "de")}
    assert expected["fr"] != expected["de"]
    for name, content in documents.items():
        for target, text in expected.items():
            response = several.request(
                "POST", "/translate/file", files={"file": (name, content)}, data={"source": "en", "target": target}
            )
            assert response.status_code == 200, response.text
            assert response.headers["x-interlinear-model"].startswith(f"en-{target}@")
            made = response.content
            if name == "a.docx":
                with zipfile.ZipFile(io.BytesIO(made)) as archive:
                    made = archive.read("word/document.xml")
            assert text in html.unescape(made.decode()).replace('\\"', '"'), name


def test_one_model_serves_all_directions(several: Service, bundle: LoadedBundle) -> None:
    [model] = several.get("/models").json()
    assert (model["model"], model["source"], model["target"]) == (bundle.spec.name, "mul", "mul")
    assert bundle.spec.name == f"mul-mul@{bundle.checksum[:12]}"
    assert (model["sources"], model["targets"]) == (["en", "fr", "de"], ["fr", "de", "en"])
    assert (model["licence"], model["precision"]) == (LICENCE, "float32")
    assert several.get("/ready").json()["models"] == [bundle.spec.name]
    metrics = several.get("/metrics").text
    assert f'model="{bundle.spec.name}"' in metrics and f'model="en-fr@{bundle.checksum[:12]}"' not in metrics


def test_every_api_lists_every_direction(several: Service) -> None:
    targets = {entry["code"]: set(entry["targets"]) for entry in several.get("/languages").json()}
    assert targets == {"en": {"fr", "de"}, "fr": {"en", "de"}, "de": {"en", "fr"}}
    libre = {entry["code"]: entry["targets"] for entry in several.get("/libretranslate/languages").json()}
    assert libre == {code: ["de", "en", "fr"] for code in ("de", "en", "fr")}
    deepl = {entry["language"] for entry in several.get("/deepl/v2/languages?type=target").json()}
    assert {"DE", "FR", "EN-GB"} <= deepl
    sent = {"text": [TEXT], "source_lang": "EN", "target_lang": "DE"}
    [there] = several.post("/deepl/v2/translate", sent).json()["translations"]
    assert there["text"] == translate(several, "en", "de")["translations"][0]["text"]
    sent = {"q": TEXT, "source": "en", "target": "de"}
    assert several.post("/libretranslate/translate", sent).json()["translatedText"] == there["text"]


def test_the_source_language_is_detected_among_all(several: Service) -> None:
    answer = translate(several, "auto", "de", "Le chat dort, il va bien, et la maison est grande.")
    assert (answer["translations"][0]["source"], answer["model"][:6]) == ("fr", "fr-de@")


def test_a_text_is_split_where_text_and_prefix_exceed_the_limit_of_the_model(
    several: Service, bundle: LoadedBundle
) -> None:
    limit = bundle.in_direction("en", "fr").limits.max_source
    assert limit == BUNDLE_LIMITS.max_source - 2
    texts = [" ".join(["cat"] * count) for count in range(1, 41)]
    lengths = [len(bundle.source_tokenizer.encode_source(text)) for text in texts]
    assert limit in lengths
    for text, length in zip(texts, lengths, strict=True):
        if length in (limit, limit + 1):
            warnings = translate(several, "en", "fr", text)["translations"][0]["warnings"]
            split = any(f"more than {limit} tokens" in warning for warning in warnings)
            assert split == (length > limit)


def test_a_bundle_of_one_direction_goes_before_one_of_several_and_both_before_a_pivot(
    folder: Path, tmp_path: Path
) -> None:
    own, several = open_bundle(make_bundle(tmp_path / "en-fr")), open_bundle(folder / "several")
    served = Catalogue([several, own])
    assert [served.find(*pair).name for pair in (("en", "fr"), ("de", "fr"))] == [
        own.name,
        f"de-fr@{several.checksum[:12]}",
    ]
    assert [bundle.name for bundle in served] == [own.name, several.name]
    assert list(served.descriptions())[2:] == [
        f"not serving en-fr@{several.checksum[:12]} from {several.folder}: {own.folder} takes its place"
    ]
    longer = open_bundle(make_bundle(tmp_path / "fr-es", "fr", "es"))
    assert [one.pair for one in Catalogue([several, longer]).route("de", "es")] == ["de-fr", "fr-es"]
    with pytest.raises(BundleError, match="both translate en-fr; keep one of them"):
        Catalogue([several, dataclasses.replace(several, folder=Path("copy"))])
    for places in (([own], [several]), ([several], [own])):
        assert Catalogue(*places).find("en", "fr") is own
    again = dataclasses.replace(several, folder=Path("later"))
    later = Catalogue([several], [own], [again])
    assert list(later) == [own, again] and later.find("en", "de").folder == again.folder
    assert list(later.descriptions())[2:] == [
        f"not serving en-fr@{several.checksum[:12]} from {several.folder}: {own.folder} takes its place",
        f"not serving en-fr@{several.checksum[:12]} from later: {own.folder} takes its place",
        f"not serving en-de@{several.checksum[:12]} and 4 other pairs from {several.folder}: later takes its place",
    ]


def test_two_hundred_languages_are_listed_by_language_not_by_pair(folder: Path) -> None:
    several = open_bundle(folder / "several")
    codes = [f"{first}{second}x" for first in "abcdefghij" for second in "abcdefghijklmnopqrst"]
    many = dataclasses.replace(
        several,
        directions=Directions.from_dict({"sources": {c: [5] for c in codes}, "targets": {c: {} for c in codes}}),
    )
    served = Catalogue([many])
    assert many.directions.count == 39_800 and sum(1 for _ in served.pairs()) == 39_800
    assert len(served.targets("aax")) == 199 and served.find("aax", "jtx").direction.source_prefix == (5,)
    with pytest.raises(PairNotServed) as refused:
        served.route("aax", "zz")
    assert len(refused.value.detail) < 3_000 and "and 39,600 others" in refused.value.detail


def test_a_model_that_reads_no_end_symbol_counts_none(tmp_path: Path) -> None:
    save_directions(tmp_path / "endless", {"en": []}, {"fr": {}, "de": {}}, source_eos=False)
    with serving(tmp_path) as service:
        answer = translate(service, "en", "fr")
        metrics = service.get("/metrics").text
    count = len(open_bundle(tmp_path / "endless").source_tokenizer.encode_source(TEXT))
    assert answer["usage"]["source_tokens"] == count
    assert 'direction="source",model="en-mul' in metrics or f'side="source"}} {count:.1f}' in metrics


def test_under_a_memory_limit_a_bundle_of_several_directions_takes_turns_with_another(
    folder: Path, tmp_path: Path, several: Service
) -> None:
    shutil.copytree(folder / "several", tmp_path / "several")
    own = open_bundle(make_bundle(tmp_path / "en-fr"))
    weights = [open_bundle(tmp_path / name).spec for name in ("several", "en-fr")]
    expected = {pair: translate(several, *pair)["translations"] for pair in PAIRS[1:]}
    limit = max(sum(map(math.prod, weight_shapes(spec.architecture).values())) for spec in weights) * 4
    with serving(tmp_path, memory_bytes=limit, cache_bytes=0) as service:
        for _ in range(2):
            for pair, translations in expected.items():
                assert translate(service, *pair)["translations"] == translations
                assert translate(service, "en", "fr")["model"] == own.name
            assert [model["loaded"] for model in service.get("/models").json()] == [True, False]
        metrics = service.get("/metrics").text
    assert "\ninterlinear_models_loaded 1.0\n" in metrics
    assert "\ninterlinear_model_unloads_total 19.0\n" in metrics


def test_a_direction_is_evaluated_and_translated_offline_as_it_is_served(
    folder: Path, tmp_path: Path, several: Service
) -> None:
    (pairs := tmp_path / "test.tsv").write_text(f"{TEXT}\tDie Katze.\nWhere is it?\tWo ist sie?\n")
    texts = [TEXT, "Where is it?"]
    expected = [translate(several, "en", "de", text)["translations"][0]["text"] for text in texts]
    out = tmp_path / "out"
    options = EvaluateOptions(folder / "several", (str(pairs),), "en", "de", out=out, precision="float32", threads=1)
    evaluate_bundle(options, lambda line: None)
    assert out.read_text().splitlines() == [" ".join(text.split()) for text in expected]


def test_a_direction_is_evaluated_by_name(folder: Path, bundle: LoadedBundle, tmp_path: Path) -> None:
    (pairs := tmp_path / "test.tsv").write_text(f"{TEXT}\tDie Katze.\n")
    said: list[str] = []
    options = EvaluateOptions(folder / "several", (str(pairs),), "en", "de", raw=True, out=tmp_path / "out")
    evaluate_bundle(options, said.append)
    assert said[0] == f"{folder / 'several'} is en-de@{bundle.checksum[:12]}"
    made = bundle.target_tokenizer.decode(decoded(bundle, "en", "de"))
    # The bare decoder counts the prefix among the source tokens that limit the length of the target.
    assert (tmp_path / "out").read_text().startswith(" ".join(made.splitlines()))
    with pytest.raises(BundleError, match="translates 6 pairs of languages: choose one"):
        evaluate_bundle(dataclasses.replace(options, source=None, target=None))
