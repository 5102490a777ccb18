"""/attention returns the weights of the pass that translated, for its own tokens."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
import torch
from shared_fixtures import Service, make_bundle, serving

from app.translation import attention_svg
from model.bundle_weights import LoadedBundle
from model.decoding import greedy_decode
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis

pytestmark = pytest.mark.slow

SENTENCE = {"text": "How are you?", "source": "en", "target": "fr"}


def show(service: Service, **fields: Any) -> dict[str, Any]:
    response = service.post("/attention", {**SENTENCE, **fields})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def show_views(service: Service, **fields: Any) -> list[dict[str, Any]]:
    response = service.post("/attention", {**SENTENCE, "as": "bertviz", **fields})
    assert response.status_code == 200, response.text
    views: list[dict[str, Any]] = response.json()
    return views


def decoded(bundle: LoadedBundle, text: str) -> Hypothesis:
    ids = bundle.source_tokenizer.encode(text)
    hypothesis = Hypothesis(ids, bundle.limits.target(len(ids)), record=True)
    batch = TorchBackend(bundle.model).new_batch(1, bundle.limits)
    batch.admit([hypothesis])
    while not batch.step():
        pass
    return hypothesis


def test_weights_and_tokens_are_those_of_decoding(service: Service, bundle: LoadedBundle) -> None:
    shown, hypothesis = show(service), decoded(bundle, SENTENCE["text"])
    assert hypothesis.encoder_attention is not None
    expected = {
        "encoder": hypothesis.encoder_attention,
        "decoder": hypothesis.decoder_attention,
        "cross": hypothesis.cross_attention,
    }
    assert shown["attention"].keys() == expected.keys()
    for kind, weights in expected.items():
        np.testing.assert_allclose(shown["attention"][kind], weights, rtol=1.3e-6, atol=1e-5)
    assert [t["piece"] for t in shown["target_tokens"]] == [
        "</s>" if id == bundle.source_tokenizer.eos_id else bundle.source_tokenizer.piece(id)
        for id in hypothesis.tokens
    ]


def test_every_row_sums_to_one_and_the_decoder_sees_no_later_token(service: Service) -> None:
    shown = show(service)
    source, target = len(shown["source_tokens"]), len(shown["target_tokens"])
    shapes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    for kind, shape in shapes.items():
        weights = torch.tensor(shown["attention"][kind], dtype=torch.float64)  # [layer, head, query, key]
        assert weights.shape == (2, 2, *shape)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, shape[0], dtype=torch.float64), atol=1e-5, rtol=0)
    decoder = torch.tensor(shown["attention"]["decoder"])
    assert torch.equal(decoder, decoder.tril())


@pytest.mark.slow
def test_attention_response_has_the_translation_that_translate_returns(service: Service, bundle: LoadedBundle) -> None:
    """Includes repetitions, which POST /translate cuts."""
    source = bundle.source_tokenizer.encode(SENTENCE["text"])
    [served] = greedy_decode(bundle.model, [source], bundle.limits)
    assert show(service)["translation"] == bundle.target_tokenizer.decode(served.tokens)
    assert show(service)["model"] == service.post("/translate", SENTENCE).json()["model"]


def test_source_spans_refer_to_the_request_text(service: Service) -> None:
    text = " \u00a0Hello, caf\u00e9 \U0001f600.\n"
    tokens = show(service, text=text)["source_tokens"]
    assert "".join(text[token["start"] : token["end"]] for token in tokens) == text.strip()
    assert tokens[-1] == {"piece": "</s>", "start": len(text.rstrip()), "end": len(text.rstrip())}


def test_source_spans_refer_to_the_text_before_normalisation(
    service: Service,
) -> None:
    text = "How  a\u00adre\t \u00a0you?\u200b"
    shown, plain = show(service, text=text), show(service)
    assert [token["piece"] for token in shown["source_tokens"]] == [t["piece"] for t in plain["source_tokens"]]
    spans = [(token["start"], token["end"]) for token in shown["source_tokens"]]
    assert "".join(text[start:end] for start, end in spans) == text
    assert shown["attention"] == plain["attention"]


def test_target_spans_refer_to_the_translation(service: Service) -> None:
    forced = "Le café 😀 dort."
    shown = show(service, target_text=forced)
    assert shown["translation"] == forced
    spans = [(token["start"], token["end"]) for token in shown["target_tokens"]]
    assert "".join(forced[start:end] for start, end in spans) == forced
    assert spans[-1] == (len(forced), len(forced))
    assert shown["target_tokens"][-1]["piece"] == "</s>"


def test_forced_translation_may_be_empty(service: Service) -> None:
    shown = show(service, target_text="")
    assert shown["translation"] == ""
    assert [token["piece"] for token in shown["target_tokens"]] == ["</s>"]


def test_selected_layers_heads_and_kinds_keep_their_order(service: Service) -> None:
    everything = show(service)["attention"]
    chosen = show(service, kinds=["cross", "encoder"], layers=[1], heads=[1, 0])["attention"]
    assert chosen == {kind: [everything[kind][1][::-1]] for kind in ("cross", "encoder")}


def test_each_target_token_aligns_with_the_most_attended_source_token_except_the_end(service: Service) -> None:
    shown = show(service)
    cross = torch.tensor(shown["attention"]["cross"])  # [layer, head, target, source]
    best = cross.mean((0, 1))[:, :-1].argmax(-1).tolist()
    assert shown["alignment"] == [[source, target] for target, source in enumerate(best)]


def test_alignment_does_not_depend_on_the_selection(service: Service) -> None:
    assert show(service, kinds=["encoder"], layers=[0], heads=[1])["alignment"] == show(service)["alignment"]


def test_attention_does_not_split_the_text_into_sentences(service: Service) -> None:
    tokens = show(service, text="Hello. Hello.")["source_tokens"]
    assert [token["piece"] for token in tokens].count("</s>") == 1


def test_bertviz_output_has_the_same_weights_with_query_and_key_tokens(service: Service) -> None:
    shown, views = show(service), show_views(service)
    source, target = ([token["piece"] for token in shown[f"{side}_tokens"]] for side in ("source", "target"))
    weights = shown["attention"]
    assert views == [
        {"name": "Encoder", "attn": weights["encoder"], "left_text": source, "right_text": source},
        {"name": "Decoder", "attn": weights["decoder"], "left_text": target, "right_text": ["<s>", *target[:-1]]},
        {"name": "Cross", "attn": weights["cross"], "left_text": target, "right_text": source},
    ]


def test_bertviz_output_has_only_the_selected_weights(service: Service) -> None:
    [view] = show_views(service, kinds=["cross"], layers=[1], heads=[1, 0])
    assert view["attn"] == show(service, kinds=["cross"], layers=[1], heads=[1, 0])["attention"]["cross"]


def test_svg_can_be_shown_by_a_browser_and_loads_nothing(service: Service) -> None:
    response = service.post("/attention", {**SENTENCE, "as": "svg"})
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = {part.split()[0]: part.split()[1:] for part in response.headers["content-security-policy"].split(";")}
    assert policy["default-src"] == ["'none'"] and policy.keys().isdisjoint({"script-src", "connect-src"})
    picture = fromstring(response.content)
    assert len(picture.findall(".//{*}image")) == 12
    assert "How are you?" in "".join(picture.itertext())


def test_too_large_svg_is_refused_with_the_limit(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.attention.draw", partial(attention_svg.draw, max_weights=50))
    response = service.post("/attention", {**SENTENCE, "as": "svg"})
    assert response.status_code == 413
    assert "over the limit of 50" in response.json()["detail"]


def test_a_recurrent_decoder_has_no_self_attention_to_show(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr", decoder="ssru", norm="post", alignment_layer=1, alignment_head=0)
    with serving(tmp_path, precision="int8") as service:
        shown = show(service)
        assert shown["attention"]["decoder"] == []
        cross = torch.tensor(shown["attention"]["cross"])  # [layer, head, target, source]
        assert cross.shape[:2] == torch.tensor(shown["attention"]["encoder"]).shape[:2] == (2, 2)
        best = cross[1, 0][:, :-1].argmax(-1).tolist()
        assert shown["alignment"] == [[source, target] for target, source in enumerate(best)]
        assert [view["name"] for view in show_views(service)] == ["Encoder", "Cross"]
        assert show_views(service, kinds=["decoder"]) == []
        selected = show(service, kinds=["decoder", "cross"], layers=[1], heads=[1])["attention"]
        assert selected == {"decoder": [], "cross": [[shown["attention"]["cross"][1][1]]]}
        picture = fromstring(service.post("/attention", {**SENTENCE, "as": "svg"}).content)
        assert len(picture.findall(".//{*}image")) == 8
        assert service.get("/models").json()[0]["architecture"]["decoder"] == "ssru"


@pytest.mark.parametrize(
    ("fields", "status", "named"),
    [
        ({"text": ""}, 422, "#/text"),
        ({"text": " \n"}, 422, "#/text"),
        ({"layers": [0, 2]}, 422, "#/layers/1"),
        ({"heads": [2]}, 422, "#/heads/0"),
        ({"heads": [0, 0]}, 422, "#/heads"),
        ({"heads": []}, 422, "#/heads"),
        ({"layers": [-1]}, 422, "#/layers/0"),
        ({"kinds": []}, 422, "#/kinds"),
        ({"kinds": ["self"]}, 422, "#/kinds/0"),
        ({"as": "png"}, 422, "#/as"),
        ({"form": "json"}, 422, "#/form"),
        ({"source": "auto"}, 422, "#/source"),
        ({"text": "hello " * 40}, 413, "32"),
        ({"target_text": "bonjour " * 40}, 413, "32"),
        ({"text": "a" * 50_001}, 413, "50000"),
        ({"target": "xx"}, 404, "xx"),
    ],
)
def test_unavailable_selections_are_refused_by_name(
    service: Service, fields: dict[str, Any], status: int, named: str
) -> None:
    response = service.post("/attention", {**SENTENCE, **fields})
    assert response.status_code == status
    problem = response.json()
    assert problem["status"] == status
    pointers = [fault["pointer"] for fault in problem.get("errors", [])]
    assert pointers == [named] if status == 422 else named in problem["detail"]
