"""/score gives each token of a given translation the log probability that decoding gives it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from imported_families import ctranslate2_of_two_vocabularies, import_model
from shared_fixtures import SHIPPED, Service, serving

from app.engine.job import Job
from app.engine.sequence import Sequence
from app.translation.scoring import GivenPair, ScoredPair, score_pairs
from app.translation.types import Options
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding import as_backend, decode_all
from model.hypothesis import Hypothesis

pytestmark = pytest.mark.slow

TEXTS = ["Hello.", "How are you?", "The cat sleeps on the red chair.", "My red car", "DO NOT OPEN THE DOOR"]
TEXTS += ["I live in a small house.", "Hello, {name}.", "She said that it was too late to call."]


def ask(service: Service, pairs: Any, status: int = 200, **fields: Any) -> dict[str, Any]:
    response = service.post("/score", {"pairs": pairs, "source": "en", "target": "fr", **fields})
    assert response.status_code == status, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture(scope="module", params=["int8", "float32"])
def shipped(request: pytest.FixtureRequest) -> Any:
    with serving(SHIPPED / "en-fr", precision=request.param) as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


@pytest.fixture(scope="module")
def uncached(shipped: Service) -> Any:
    """Decodes whatever it is asked for, again each time."""
    precision = str(shipped.get("/models").json()[0]["precision"])
    with serving(SHIPPED / "en-fr", precision=precision, cache_bytes=0) as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


def translated(service: Service, texts: list[str]) -> list[Any]:
    translator = service.state.deployments.current.translator
    return service.run(translator.translate(texts, Options("en", "fr"))).items  # type: ignore[no-any-return]


def test_the_models_own_translation_has_the_scores_of_its_decoding_bit_for_bit(shipped: Service) -> None:
    items = translated(shipped, TEXTS)
    pairs = [{"text": text, "translation": item.text} for text, item in zip(TEXTS, items, strict=True)]
    for item, score in zip(items, ask(shipped, pairs)["scores"], strict=True):
        [planned] = item.plan.sentences
        decoded = planned.best.decoded
        pieces = [planned.sentence.bundle.target_tokenizer.piece(id) for id in decoded.tokens]
        assert [token["piece"] for token in score["tokens"]] == pieces
        assert [token["log_prob"] for token in score["tokens"]] == list(decoded.log_probs)
        assert score["score"] == item.score
        assert score["log_prob"] == sum(decoded.log_probs)


def test_a_pairs_scores_are_the_same_alone_and_among_others(shipped: Service, uncached: Service) -> None:
    pairs = [
        {"text": text, "translation": other}
        for text in TEXTS[1::2]
        for other in ("Bonjour.", "Le chat dort sur {name}")
    ]
    together = ask(shipped, pairs)["scores"]
    assert [ask(uncached, pair)["scores"][0] for pair in pairs] == together


def test_scores_and_translations_are_the_same_alone_and_in_one_batch(uncached: Service) -> None:
    languages = {"source": "en", "target": "fr"}
    texts = TEXTS[::3]
    pairs = [{"text": text, "translation": other} for text in texts for other in ("Bonjour.", "Le chat est là.")]
    bodies: list[tuple[str, Any]] = [("/score", {"pairs": pair, **languages}) for pair in pairs]
    bodies += [("/translate", {"text": text, "prefix": prefix, **languages}) for text in texts for prefix in ("", "L")]
    bodies += [("/translate", {"text": text, "alternatives": 2, **languages}) for text in texts]
    random.Random(3).shuffle(bodies)
    together = [response.json() for response in uncached.post_mixed(bodies)]
    alone = [uncached.post(path, body).json() for path, body in bodies]
    assert together == alone
    assert sum("scores" in answer for answer in alone) == len(pairs)


def test_a_translation_is_scored_with_the_targets_own_vocabulary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    import_model(ctranslate2_of_two_vocabularies)
    bundle = load_bundle(Path("bundles/imported"), torch.device("cpu"))
    assert not bundle.tokenizers.is_joint
    pair = GivenPair("The cat sleeps.", "Le chat dort.")
    with serving(Path("bundles/imported"), precision="float32") as service:
        answer = ask(service, pair._asdict())
    source, target = (encode(text) for encode, text in zip(_encoders(bundle), pair, strict=True))
    assert source != target and bundle.source_tokenizer.encode(pair.translation) != target
    forced = Hypothesis(source, len(target), forced=tuple(target))
    decode_all(as_backend(bundle.model).new_batch(1, bundle.limits), [forced])
    [score] = answer["scores"]
    assert [token["piece"] for token in score["tokens"]] == [*map(bundle.target_tokenizer.piece, target), "</s>"]
    assert [token["log_prob"] for token in score["tokens"]] == pytest.approx(forced.log_probs, abs=1e-4)
    assert answer["usage"]["target_tokens"] == len(target) + 1


def _encoders(bundle: LoadedBundle) -> tuple[Callable[[str], list[int]], Callable[[str], list[int]]]:
    return bundle.source_tokenizer.encode_source, bundle.target_tokenizer.encode


def test_the_better_candidate_has_the_higher_score(shipped: Service) -> None:
    right, wrong = "Le chat dort.", "La voiture est rouge."
    pairs = [{"text": "The cat sleeps.", "translation": text} for text in (right, wrong)]
    first, second = ask(shipped, pairs)["scores"]
    assert first["score"] > second["score"]


@pytest.mark.parametrize("translation", ["Bonjour.", "  Où es-tu ?\n", "😀 e\u0301té", "Salut {name} !", "", "{name}"])
def test_spans_cover_the_translation_in_order(service: Service, translation: str) -> None:
    [score] = ask(service, {"text": "Hello, {name}.", "translation": translation})["scores"]
    at = len(translation) - len(translation.lstrip())
    for token in score["tokens"]:
        assert at <= token["end"] and token["start"] <= token["end"]
        at = max(at, token["end"])
    assert at == len(translation.rstrip())
    assert score["tokens"][-1]["piece"] == "</s>"


def test_a_pair_over_the_models_limits_has_an_error_and_the_others_a_score(service: Service) -> None:
    good = {"text": "Hello.", "translation": "Bonjour."}
    bad = [{"text": "Hello. " * 100, "translation": "Bonjour."}, {"text": "Hello.", "translation": "Bonjour. " * 100}]
    answer = ask(service, [*bad, good, {"text": " ", "translation": "Bonjour."}])
    long_text, long_translation, scored, empty = answer["scores"]
    assert re.fullmatch(r"text has \d+ tokens; a sentence may have 32[.]", long_text["error"]["detail"])
    assert re.fullmatch(r"translation has \d+ tokens; a sentence may have 32[.]", long_translation["error"]["detail"])
    assert [one["error"] and one["error"]["status"] for one in answer["scores"]] == [413, 413, None, 422]
    assert scored == ask(service, good)["scores"][0]
    assert answer["usage"]["target_tokens"] == len(scored["tokens"])
    assert empty["score"] is None
    assert ask(service, bad, status=413)["title"] == "Too much text"


def test_several_sentences_are_one_sequence(service: Service) -> None:
    [score] = ask(service, {"text": "Hello. How are you?", "translation": "Bonjour. Il va bien."})["scores"]
    assert [token["piece"] for token in score["tokens"]].count("</s>") == 1


def test_the_source_language_is_not_detected(service: Service) -> None:
    pair = {"text": "Hello.", "translation": "Bonjour."}
    answer = ask(service, pair, status=422, source="auto")
    assert answer["errors"][0]["pointer"] == "#/source"
    assert ask(service, pair, status=404, source="de")["title"] == "Language pair not served"


def test_too_many_pairs_and_a_pair_with_a_long_side_are_refused(bundle_folder: Path) -> None:
    with serving(bundle_folder, max_items=2, max_text_chars=20) as service:
        assert ask(service, [{"text": "Hello.", "translation": "Bonjour."}] * 3, status=413)
        for long in (
            {"text": "Hello. " * 3, "translation": "Bonjour."},
            {"text": "Hello.", "translation": "Oui. " * 5},
        ):
            said = ask(service, [long], status=413)
            assert "over the limit of 20" in said["detail"]


def test_a_given_target_costs_its_own_length_where_it_is_the_longer(service: Service) -> None:
    def cost(source: int, forced: int | None) -> int:
        return Job(Sequence("m", (5,) * source, 32, forced=None if forced is None else (5,) * forced), 0).cost

    assert cost(3, None) == cost(3, 3) == cost(15, 0) == 16
    assert cost(3, 40) == cost(40, 3) == 48


def test_texts_that_are_long_are_prepared_alike(service: Service) -> None:
    translator = service.state.deployments.current.translator
    pair = GivenPair("How are you?", "Il va bien.")
    one = service.run(score_pairs(translator, [pair], "en", "fr")).pairs[0]
    many = service.run(score_pairs(translator, [pair] * 100, "en", "fr")).pairs
    assert isinstance(one, ScoredPair)
    expected = one.tokens, one.decoded, one.quality
    assert [(each.tokens, each.decoded, each.quality) for each in many if isinstance(each, ScoredPair)] == [
        expected
    ] * 100
