"""The native API over HTTP: formats, refusals, and inputs that must not break it."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from servers import WAIT_S
from shared_fixtures import Gate, Service, decode_with, make_bundle, serving

from app.api.schemas.translation import TranslateResponse
from app.engine.worker import ROWS
from app.translation.quality_checks import without_loops
from model.bundle_weights import LoadedBundle, load_bundle
from model.decoding import greedy_decode
from model.decoding.batch import DecodeBatch
from model.hypothesis import Hypothesis

pytestmark = pytest.mark.slow

HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
JSON = {"content-type": "application/json"}


def test_translate_response_matches_the_design(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr", seed=32)  # a random model that writes letters
    bundle = load_bundle(tmp_path / "en-fr", torch.device("cpu"))
    with serving(tmp_path) as service:
        response = service.post("/translate", {**HELLO, "text": ["Hello.", "How are you?  The cat sleeps.\n"]})
    assert response.status_code == 200
    decoded = [
        greedy_decode(bundle.model, [bundle.source_tokenizer.encode(text)], bundle.limits)[0]
        for text in ("Hello.", "How are you?", "The cat sleeps.")
    ]
    said = [without_loops(h.tokens, h.source) for h in decoded]  # what is repeated is cut, and not scored
    tokens = [[h.tokens[index] for index in left] for h, left in zip(decoded, said, strict=True)]
    scores = [[h.log_probs[index] for index in left] for h, left in zip(decoded, said, strict=True)]
    texts = [bundle.target_tokenizer.decode(ids) for ids in tokens]
    finish = ["stop" if h.finish_reason == "stop" else "length" for h in decoded]
    rest: dict[str, Any] = {
        "source": "en",
        "via": None,
        "confidence": None,
        "quality": None,
        "words": [],
        "engine": "local",
        "memory": None,
        "memory_version": None,
        "suggestions": [],
        "alternatives": [],
        "alignment": None,
        "error": None,
    }
    answer = response.json()
    warnings = [item.pop("warnings") for item in answer["translations"]]
    assert answer == {
        "translations": [
            {
                "text": texts[0],
                "score": pytest.approx(sum(scores[0]) / len(scores[0]), abs=1e-4),
                "finish_reason": finish[0],
                **rest,
            },
            {
                "text": f"{texts[1]}  {texts[2]}\n",
                "score": pytest.approx(sum(scores[1] + scores[2]) / len(scores[1] + scores[2]), abs=1e-4),
                "finish_reason": "length" if "length" in finish[1:] else "stop",
                **rest,
            },
        ],
        "model": bundle.name,
        "usage": {
            "source_tokens": sum(len(h.source) + 1 for h in decoded),
            "target_tokens": sum(map(len, tokens)),
        },
    }
    cut = [len(left) < len(h.tokens) for h, left in zip(decoded, said, strict=True)]
    repeated = ["repeated itself" in " ".join(item) for item in warnings]
    assert repeated == [cut[0], cut[1] or cut[2]]


def test_a_translate_response_round_trips_through_its_schema(service: Service) -> None:
    answer = service.post("/translate", {**HELLO, "text": ["Hello. " * 40, "a" * 50_001, ""]})
    assert TranslateResponse.model_validate_json(answer.content).model_dump_json().encode() == answer.content
    assert [item["error"] is None for item in answer.json()["translations"]] == [True, False, True]


def test_concurrent_requests_get_the_same_responses_as_sequential_ones(service: Service) -> None:
    bodies = [{**HELLO, "text": f"{text} {number}"} for text in ("Hello.", "The cat") for number in range(12)]
    together = [response.json()["translations"][0]["text"] for response in service.post_together("/translate", bodies)]
    assert together == [service.post("/translate", body).json()["translations"][0]["text"] for body in bodies]


def test_empty_text_has_an_empty_translation(service: Service) -> None:
    assert service.post("/translate", {**HELLO, "text": []}).json()["translations"] == []


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({**HELLO, "text": 5}, ["#/text"]),
        ({**HELLO, "text": ["a", None, {}]}, ["#/text/1"]),
        ({**HELLO, "text": "\ud800"}, ["#/text"]),
        ({**HELLO, "text": ["a", "\udfff"]}, ["#/text/1"]),
        ({**HELLO, "source": "\udfff"}, ["#/source"]),
        ({**HELLO, "\udfff": 1}, ["#"]),
        ({**HELLO, "a/b~c": 1}, ["#/a~1b~0c"]),
        ({**HELLO, "source": ""}, ["#/source"]),
        ({**HELLO, "alternatives": 9}, ["#/alternatives"]),
        ({**HELLO, "alternatives": "0"}, ["#/alternatives"]),
        ({**HELLO, "alternatives": -1}, ["#/alternatives"]),
        ({**HELLO, "format": "xml"}, ["#/format"]),
        ({**HELLO, "format": "html", "alignment": True}, ["#/alignment"]),
        ({**HELLO, "glossary": 5}, ["#/glossary"]),
        ({**HELLO, "glossary": {"a": 1}}, ["#/glossary"]),
        ({**HELLO, "glossary": {"": "b"}}, ["#/glossary"]),
        ({**HELLO, "glossary": "mine"}, ["#/glossary"]),
        ({**HELLO, "deadline_ms": 0}, ["#/deadline_ms"]),
        ({**HELLO, "deadline_ms": 10**4000}, ["#/deadline_ms"]),
        ({**HELLO, "deadline_ms": 1e308}, ["#/deadline_ms"]),
        ({"text": "a"}, ["#/source", "#/target"]),
        ([], ["#"]),
        (None, ["#"]),
        ("text", ["#"]),
    ],
)
def test_wrong_fields_are_named(service: Service, body: object, pointers: list[str]) -> None:
    response = service.request("POST", "/translate", content=json.dumps(body), headers=JSON)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert [fault["pointer"] for fault in response.json()["errors"]] == pointers


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"text": NaN}',
        b"[" * 100_000,
        b'{"a": ' * 50_000,
        b"1" * 5_000,
        b"{}{}",
        b"\xef\xbb\xbf",
    ],
)
def test_a_body_that_is_not_json_is_400(service: Service, content: bytes) -> None:
    response = service.request("POST", "/translate", content=content, headers=JSON)
    assert response.status_code == 400
    assert response.json()["type"] == "urn:interlinear:error:not-json"


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", "/translate", {"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ("POST", "/translate", {"content": b"{}"}, 415),
        ("POST", "/translate", {"data": {"text": "a"}}, 415),
        ("POST", "/translate", {"content": b"\x1f\x8b", "headers": {**JSON, "content-encoding": "gzip"}}, 415),
        ("POST", "/translate", {"json": {**HELLO, "target": "xx"}}, 404),
        ("POST", "/translate", {"json": {**HELLO, "text": "a" * 50_001}}, 413),
        ("POST", "/translate", {"json": {**HELLO, "text": ["a"] * 1_001}}, 413),
        ("POST", "/translate", {"content": b" " * (1 << 20) + b"{}", "headers": JSON}, 413),
        ("GET", "/translate", {}, 405),
        ("BREW", "/translate", {}, 405),
        ("GET", "/nothing", {}, 404),
    ],
)
def test_every_refusal_is_a_problem_document(
    service: Service, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    response = service.request(method, path, **options)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["type"].startswith("urn:interlinear:error:")
    assert problem["title"]
    assert problem["detail"]
    assert status != 405 or response.headers["allow"] == "POST"


@pytest.mark.parametrize(("source", "target"), [("EN", "fr-FR"), ("en_GB", "FR"), ("en-US-x-own", "fr_CA")])
def test_language_codes_are_accepted_in_any_spelling_and_returned_as_served(
    service: Service, source: str, target: str
) -> None:
    codes = {"source": source, "target": target}
    assert service.post("/translate", {**HELLO, **codes}).json() == service.post("/translate", HELLO).json()
    streamed, usual = (service.post("/translate/stream", body).text for body in ({**HELLO, **codes}, HELLO))
    assert streamed == usual
    assert "event: done" in usual
    shown = service.post("/attention", {**HELLO, **codes})
    assert shown.json() == service.post("/attention", HELLO).json()
    answer = service.request("POST", "/translate/file", files={"file": ("a.txt", "Hello.")}, data=codes)
    assert answer.status_code == 200
    assert 'filename="a.fr.txt"' in answer.headers["content-disposition"]


def test_auto_is_accepted_in_any_case(service: Service) -> None:
    [item] = service.post("/translate", {**HELLO, "source": "AUTO"}).json()["translations"]
    assert (item["source"], item["error"]) == ("en", None)
    assert service.post("/attention", {**HELLO, "source": "Auto"}).status_code == 422


def test_unserved_traditional_characters_are_reported(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-zh", target="zh")
    with serving(tmp_path) as service:
        warned, usual = (service.post("/translate", {**HELLO, "target": code}).json() for code in ("zh-TW", "zh-CN"))
    expected = "There is no bundle for zh-TW: the translation may be in simplified characters."
    assert warned["translations"][0]["warnings"] == [expected, *usual["translations"][0]["warnings"]]


def test_request_in_libretranslates_format_is_pointed_to_that_api(service: Service) -> None:
    asked = {"q": "Hello.", "source": "en", "target": "fr"}
    for answer, status in (
        (service.post("/translate", asked), 422),
        (service.post("/translate/stream", asked), 422),
        (service.request("POST", "/translate", data=asked), 415),
    ):
        assert answer.status_code == status
        assert "at /libretranslate/translate" in answer.json()["detail"]
    assert service.post("/libretranslate/translate", asked).status_code == 200


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/translate", "GET is not allowed at /translate, which accepts POST."),
        ("/libretranslate/translate", "GET is not allowed at /libretranslate/translate, which accepts POST."),
        ("/deepl/v2/document", "GET is not allowed at /deepl/v2/document, which accepts POST."),
    ],
)
def test_unsupported_method_is_refused_with_the_allowed_ones(service: Service, path: str, detail: str) -> None:
    answer = service.get(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert detail in answer.json().values()


def test_size_limit_applies_while_the_body_arrives(service: Service) -> None:
    arrived = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal arrived
        while True:
            arrived += 1 << 16
            yield b" " * (1 << 16)

    response = service.request("POST", "/translate", content=endless(), headers=JSON)
    assert response.status_code == 413
    assert arrived <= 2 << 20


def test_body_that_stops_arriving_times_out(bundle_folder: Path) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    with serving(bundle_folder, deadline_ms=30) as service:
        response = service.request("POST", "/translate", content=stalled(), headers=JSON)
    assert response.status_code == 408
    assert response.json()["detail"] == "The body did not arrive within 30 ms."
    assert response.headers["connection"] == "close"


def test_a_body_without_a_content_type_is_refused(service: Service) -> None:
    detail = service.request("POST", "/translate", content=b"{}").json()["detail"]
    assert detail == "The body must be application/json; it is of no type: the Content-Type header is missing."


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_is_recognised_by_its_content_type(service: Service, content_type: str) -> None:
    options = {"content": json.dumps(HELLO), "headers": {"content-type": content_type}}
    assert service.request("POST", "/translate", **options).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {"text": [1] * 300_000},
        {"glossary": {str(number): 1 for number in range(80_000)}},
        {str(number): 1 for number in range(80_000)},
    ],
    ids=["items", "terms", "unknown fields"],
)
def test_response_to_many_invalid_fields_is_short(service: Service, fields: dict[str, Any]) -> None:
    body = json.dumps({**HELLO, **fields}, separators=(",", ":"))
    response = service.request("POST", "/translate", content=body, headers=JSON)
    assert response.status_code == 422
    assert len(response.json()["errors"]) == 1


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters() | st.sampled_from(" .\n"), max_size=30)
    | st.sampled_from(["en", "fr", "auto", "text", "html", "cross", "json"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=6,
)
FIELDS = [*HELLO, "format", "alternatives", "alignment", "glossary", "deadline_ms", "kinds", "layers", "heads", "as"]
BODIES = st.builds(
    lambda base, given: {**base, **given},
    st.sampled_from([{}, HELLO]),
    st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), JSON_VALUES, max_size=3),
)


@pytest.mark.slow
@draw_examples(150)
@given(body=BODIES | JSON_VALUES, path=st.sampled_from(["/translate", "/translate/stream", "/attention"]))
def test_no_json_body_causes_an_internal_error(service: Service, body: object, path: str) -> None:
    response = service.request("POST", path, content=json.dumps(body), headers=JSON)
    assert response.status_code < 500
    assert response.status_code == 200 or response.json()["status"] == response.status_code


@draw_examples(50)
@given(content=st.binary(max_size=40))
def test_no_bytes_cause_an_internal_error(service: Service, content: bytes) -> None:
    assert service.request("POST", "/translate", content=content, headers=JSON).status_code in {400, 422}


def test_full_queue_refuses_at_once_with_retry_after(
    bundle_folder: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROWS, "cpu", 1)
    with serving(bundle_folder, queue_tokens=16, cache_bytes=0) as service:
        decoding = asyncio.run_coroutine_threadsafe(_posted(service, HELLO), service._loop)
        assert gate.entered.wait(WAIT_S)
        waiting = asyncio.run_coroutine_threadsafe(_posted(service, HELLO), service._loop)
        while service.state.deployments.current.engine.scheduler.waiting < 1:
            assert not waiting.done()
        refused = service.post("/translate", HELLO)
        unread = service.request("POST", "/translate", content=b"{", headers=JSON)
        assert (service.get("/health").status_code, service.get("/ready").status_code) == (200, 200)
        assert b"interlinear_queue_sentences 1.0" in service.get("/metrics").content
        gate.opened.set()
        assert (decoding.result(WAIT_S), waiting.result(WAIT_S)) == (200, 200)
    assert refused.status_code == 503
    assert unread.content == refused.content  # refusing costs little: what was sent is not looked at
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["type"] == "urn:interlinear:error:overloaded"


def test_request_larger_than_the_queue_is_413(bundle_folder: Path) -> None:
    with serving(bundle_folder, queue_tokens=16) as service:
        response = service.post("/translate", {**HELLO, "text": ["Hello.", "Hello."]})
    assert response.status_code == 413
    assert "over 16 tokens" in response.json()["detail"]


def test_a_missed_deadline_is_504(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        response = service.post("/translate", {**HELLO, "deadline_ms": 30})
        gate.opened.set()
    assert response.status_code == 504
    assert response.json()["detail"] == "Not finished within 30 ms."


def test_disconnected_clients_request_is_cancelled(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        assert service.leave(gate, "/translate", json=HELLO) == 499
        gate.opened.set()
        assert service.post("/translate", {**HELLO, "text": ""}).status_code == 200
    assert len(gate.sizes) == 1  # the step that was under way, and none after it


def test_without_workers_ready_and_translate_give_the_reason_while_health_responds(
    tmp_path: Path,
) -> None:
    sample = {"source": "Hello.", "target": "?", "source_ids": [40], "target_ids": [2]}
    make_bundle(tmp_path / "en-fr", samples=[sample])
    with serving(tmp_path) as service:
        for path in ("/translate", "/translate/stream", "/attention"):
            assert service.post(path, HELLO).status_code == 503
        ready = service.get("/ready")
        assert service.get("/health").status_code == 200
        assert service.post("/translate", {**HELLO, "text": ""}).status_code == 200
    assert ready.status_code == 503
    assert "'Hello.' is not translated" in ready.json()["detail"]


def test_sentence_that_breaks_every_step_causes_500_for_its_request_only(
    bundle_folder: Path, bundle: LoadedBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(DecodeBatch):
        def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
            if any(h.source == poison for h in self.running):
                raise RuntimeError("secret of the house")
            return super().step(most, enough)

    poison = bundle.source_tokenizer.encode("Hello.")
    decode_with(Faulty, monkeypatch)
    with serving(bundle_folder) as service:
        texts = ["How are you?", "Hello.", "The cat sleeps."]
        failed, *others = service.post_together("/translate", [{**HELLO, "text": text} for text in sorted(texts)])
    assert failed.status_code == 500
    assert [response.status_code for response in others] == [200, 200]
    assert "secret" not in failed.text


def test_ready_lists_the_models(service: Service, bundle: LoadedBundle) -> None:
    response = service.get("/ready")
    assert (response.status_code, response.json()) == (
        200,
        {"status": "ready", "models": [bundle.name], "installing": []},
    )


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_checks_may_use_head_requests(service: Service, path: str) -> None:
    assert service.request("HEAD", path).status_code == 200


def test_health_is_ok(service: Service) -> None:
    assert service.get("/health").json() == {"status": "ok"}


def test_languages_are_those_of_the_bundles(service: Service) -> None:
    assert service.get("/languages").json() == [{"code": "en", "name": "English", "targets": ["fr"]}]


def test_models_are_described_by_their_training_record(service: Service, bundle: LoadedBundle) -> None:
    found = service.get("/models").json()
    speed = found[0]["tokens_per_second"]
    assert found == [
        {
            "model": bundle.name,
            "source": "en",
            "target": "fr",
            "sources": ["en"],
            "targets": ["fr"],
            "architecture": bundle.config["architecture"],
            "parameters": bundle.model.parameter_count(),
            "metrics": [],
            "corpora": [],
            "quality": {},
            "licence": "CC0-1.0",
            "installed": None,
            "installing": None,
            "decoding": {"beam_size": None, "length_penalty": 1.0, "narrowing": False, "replace_unknowns": False},
            "device": "cpu",
            "checksum": bundle.checksum,
            "precision": "float32",
            "loaded": True,
            "tokens_per_second": speed,
        }
    ]
    assert speed >= 0


def test_under_a_memory_limit_models_says_which_are_loaded_and_metrics_how_many(bundle_folder: Path) -> None:
    with serving(bundle_folder, memory_bytes=10**9) as service:
        assert [model["loaded"] for model in service.get("/models").json()] == [False]
        service.post("/translate", HELLO)
        assert [model["loaded"] for model in service.get("/models").json()] == [True]
        metrics = service.get("/metrics").text
    assert "\ninterlinear_models_loaded 1.0\n" in metrics
    assert "\ninterlinear_model_unloads_total 0.0\n" in metrics


def test_docs_page_loads_nothing_from_other_hosts(service: Service) -> None:
    page = service.get("/docs")
    assert page.status_code == 200
    assets = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(assets) == 3
    for asset in assets:
        assert asset.startswith("/")
        assert service.get(asset).status_code == 200
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_openapi_documents_every_error_with_an_example(service: Service) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    for path in ("/translate", "/translate/stream", "/attention"):
        responses = paths[path]["post"]["responses"]
        assert {"400", "404", "413", "415", "422", "503", "504"} <= responses.keys()
        for status in responses.keys() - {"200"}:
            for example in responses[status]["content"]["application/problem+json"]["examples"].values():
                assert example["value"]["status"] == int(status)


def test_cross_origin_requests_need_the_setting(bundle_folder: Path) -> None:
    asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
    with serving(bundle_folder, cors_origins=["https://a.example"]) as service:
        allowed = service.request("OPTIONS", "/translate", headers=asked)
        other = service.request("OPTIONS", "/translate", headers={**asked, "origin": "https://b.example"})
    assert allowed.headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in other.headers


def test_metrics_count_routes_and_refusals_without_any_text(bundle_folder: Path) -> None:
    with serving(bundle_folder) as service:
        service.post("/translate", {**HELLO, "text": "A secret."})
        service.post("/translate", {**HELLO, "target": "secret"})
        service.get("/secret")
        service.request("SECRET", "/translate")
        found = service.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=")
    samples = dict(line.rsplit(" ", 1) for line in found.text.splitlines() if not line.startswith("#"))
    assert samples['interlinear_requests_total{method="POST",route="/translate",status="200"}'] == "1.0"
    assert samples['interlinear_requests_total{method="GET",route="other",status="404"}'] == "1.0"
    assert samples['interlinear_requests_total{method="other",route="/translate",status="405"}'] == "1.0"
    assert samples['interlinear_refusals_total{cause="pair-not-served"}'] == "1.0"
    steps = [value for name, value in samples.items() if name.startswith("interlinear_step_seconds_sum")]
    assert len(steps) == 1
    assert math.isfinite(float(steps[0]))
    assert "secret" not in found.text.lower()


def test_access_log_has_one_line_per_request_without_any_text(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        service.post("/translate", {**HELLO, "text": "A secret."})
        service.get("/secret?secret")
    lines = [record.getMessage() for record in caplog.records if record.name == "app.http.access_log"]
    told = [(line["method"], line["route"], line["status"]) for line in map(json.loads, lines)]
    assert told == [("POST", "/translate", 200), ("GET", "other", 404)]
    assert "secret" not in "".join(lines).lower()


async def _posted(service: Service, body: object) -> int:
    return (await service._client.post("/translate", json=body, timeout=60)).status_code
