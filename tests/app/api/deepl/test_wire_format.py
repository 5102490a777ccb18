"""DeepL's API below its client: encodings of fields, language codes, error messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from deepl_clients import EN_FR
from fakes import named_bundle
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from shared_fixtures import Gate, Service, make_bundle, serving

from app.api.deepl.memory_jobs import ImportRequest
from app.api.deepl.schemas import MultilingualRequest
from app.api.deepl.text import TextRequest
from app.api.deepl.wire_format import pair_of, target_languages, validated
from app.engine.registry import Catalogue
from app.errors import InvalidFields
from app.http.forms import Fields
from app.storage.background_jobs import BackgroundJobs, JobResult
from app.storage.store_local import LocalStore
from app.text.glossary import MAX_TERMS
from app.text.glossary_files import write_tsv

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("pairs", "asked", "found"),
    [
        (["en-fr"], ("EN", "FR"), ("en", "fr")),
        (["en-fr"], ("en-US", "fr-CA"), ("en", "fr")),
        (["en-fr"], (None, "fr"), (None, "fr")),
        (["fr-pt-BR", "fr-pt"], ("FR", "PT-BR"), ("fr", "pt-BR")),
        (["fr-pt-BR", "fr-pt"], ("FR", "PT-PT"), ("fr", "pt")),
        (["fr-en-GB"], ("FR", "EN-US"), None),
        (["zh-Hans-en"], ("ZH", "EN-GB"), ("zh-Hans", "en")),
        (["en-zh"], ("EN", "ZH-HANS"), ("en", "zh")),
        (["en-zh"], ("EN", "ZH-HANT"), ("en", "zh")),
        (["zh-en"], ("zh_TW", "en"), ("zh", "en")),
        (["en-fr", "de-fr-CA"], ("DE", "FR"), ("de", "fr-CA")),
        (["en-fr"], ("XX", "FR"), None),
        (["en-fr"], ("EN", "E"), None),
    ],
)
def test_language_codes_are_accepted_in_any_case_and_with_variants(
    pairs: list[str], asked: tuple[str | None, str], found: tuple[str | None, str] | None
) -> None:
    bundles: Any = [_bundle(pair) for pair in pairs]
    served = Catalogue(bundles)
    if found is None:
        with pytest.raises(InvalidFields, match="not supported"):
            pair_of(served, *asked)
    else:
        assert pair_of(served, *asked) == found


def _bundle(pair: str) -> Any:
    """A bundle for "fr-pt-BR": variants are in capitals, or a script's name."""
    parts = pair.split("-")
    at = 2 if len(parts) > 2 and (parts[1].isupper() or len(parts[1]) == 4) else 1
    return named_bundle("-".join(parts[:at]), "-".join(parts[at:]))


def test_every_listed_target_can_be_requested() -> None:
    bundles: Any = [_bundle(f"fr-{target}") for target in ("en", "pt", "zh", "de", "es-419")]
    served = Catalogue(bundles)
    offered = list(target_languages(served))
    assert offered == ["en-GB", "en-US", "pt-BR", "pt-PT", "zh", "zh-Hans", "de", "es-419"]
    for code in offered:
        assert pair_of(served, "FR", code)


def test_form_and_json_requests_are_equivalent(service: Service) -> None:
    fields = {"text": ["Hello.", "Bye."], "target_lang": "fr", "source_lang": "en", "formality": ""}
    expected = service.post("/deepl/v2/translate", {**EN_FR, "text": fields["text"]})
    assert expected.status_code == 200
    form = service.request("POST", "/deepl/v2/translate", data=fields)
    assert form.json() == expected.json()
    parts = [(name, (None, each)) for name, value in fields.items() for each in _all(value)]
    assert service.request("POST", "/deepl/v2/translate", files=parts).json() == expected.json()
    query = {"target_lang": "FR", "source_lang": "EN", "text": fields["text"]}
    assert service.request("POST", "/deepl/v2/translate", params=query).json() == expected.json()
    tags: dict[str, Any] = {**EN_FR, "text": "<x>Hello.</x> Bye.", "tag_handling": "xml", "outline_detection": "0"}
    kept = service.request("POST", "/deepl/v2/translate", data={**tags, "ignore_tags": "y, x"}).json()
    assert "<x>Hello.</x>" in kept["translations"][0]["text"]


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ({"source_lang": "", "formality": "", "tag_handling": "", "glossary_id": "", "context": ""}, {}),
        ({"source_lang": None, "glossary_ids": [], "ignore_tags": ""}, {"glossary_ids": []}),
        ({"split_sentences": 0, "outline_detection": 0}, {"split_sentences": "0", "outline_detection": False}),
        ({"split_sentences": True, "preserve_formatting": "1"}, {"split_sentences": "1", "preserve_formatting": True}),
        ({"translation_memory_threshold": "75"}, {"translation_memory_threshold": 75}),
        ({"glossary_ids": "a, b", "ignore_tags": 1}, {"glossary_ids": ["a", "b"], "ignore_tags": ["1"]}),
        ({"text": ["", 5, 1.5]}, {"text": ["", "5", "1.5"]}),
        ({"text": ""}, {"text": [""]}),
    ],
)
def test_json_is_read_as_leniently_as_a_form(sent: dict[str, Any], read: dict[str, Any]) -> None:
    body = validated(TextRequest, Fields({"text": "Hello.", "target_lang": "FR", **sent}))
    expected = {"text": ["Hello."], "target_lang": "FR", **read}
    assert body.model_dump(exclude_defaults=True) == expected


def test_an_empty_object_stays_one() -> None:
    body = validated(
        ImportRequest, Fields({"source_file": {"file_name": "a", "content_length": "5"}, "parameters": {}})
    )
    assert body.source_file.content_length == 5


@pytest.mark.parametrize(
    "style", ["dictionaries[{}].{}", "dictionaries[{}][{}]", "dictionaries.{}.{}", "dictionaries[{}].{}, in parts"]
)
def test_fields_within_fields_of_a_form_are_like_json(service: Service, style: str) -> None:
    entries = [f"cat\tchat {number}" for number in range(12)]
    sent = [{"source_lang": "en", "target_lang": "fr", "entries": each, "entries_format": "tsv"} for each in entries]
    name, _, in_parts = style.partition(", ")
    flat = {name.format(number, key): each[key] for number, each in enumerate(sent) for key in each}
    keyword, values = ("files", {key: (None, value) for key, value in flat.items()}) if in_parts else ("data", flat)
    made = service.post("/deepl/v3/glossaries", {"name": "a", "dictionaries": sent[:1]}).json()
    path = f"/deepl/v3/glossaries/{made['glossary_id']}"
    answer = service.request("PATCH", path, **{keyword: values})
    assert answer.json()["dictionaries"] == [{"source_lang": "en", "target_lang": "fr", "entry_count": 1}]
    found = service.get(f"{path}/entries?source_lang=en&target_lang=fr").json()
    assert found["dictionaries"][0]["entries"] == "cat\tchat 11"  # in the order of their numbers
    del flat[name.format(11, "entries_format")]
    refused = service.request("PATCH", path, data=flat)
    assert (refused.status_code, refused.json()["message"]) == (400, "#/dictionaries/11/entries_format: Field required")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"dictionaries[0].entries": "a", "dictionaries[0]": "b"}, "#/dictionaries[0]: Another field"),
        ({"dictionaries": "a", "dictionaries[0].entries": "b"}, "#/dictionaries[0].entries: Another field"),
        ({"dictionaries.a.b.c": "a"}, "#/dictionaries: Input should be a valid list"),
        ({"dictionaries[0].a.b.c": "a"}, "#/dictionaries[0].a.b.c: The name is nested over 3 levels deep"),
        ({"dictionaries[0]" * 10_000: "a"}, "The name is nested over 3 levels deep"),
        ({"dictionary[0].entries": "a"}, "#: nothing to change: give a name or dictionaries"),
        ({"": "a", "[]": "b", ".": "c"}, "#: nothing to change"),
        ({}, "#: nothing to change"),
    ],
)
def test_contradictory_and_ineffective_forms_are_refused(service: Service, form: dict[str, str], said: str) -> None:
    fields = {"name": "a", "source_lang": "EN", "target_lang": "FR", "entries": "cat\tchat", "entries_format": "tsv"}
    made = service.post("/deepl/v2/glossaries", fields).json()
    answer = service.request("PATCH", f"/deepl/v3/glossaries/{made['glossary_id']}", data=form or {"other": "a"})
    assert answer.status_code == 400
    assert said in answer.json()["message"]


def test_repeated_and_numbered_texts_of_a_form_are_a_list(service: Service) -> None:
    texts = ["Hello.", "", "Bye.", *["How are you?"] * 9]
    expected = service.post("/deepl/v2/translate", {**EN_FR, "text": texts}).json()
    for name in ("text", "text[]"):
        assert service.request("POST", "/deepl/v2/translate", data={**EN_FR, name: texts}).json() == expected
    numbered = {f"text[{number}]": text for number, text in enumerate(texts)}
    for order in (1, -1):
        form = {**EN_FR, **dict(list(numbered.items())[::order])}
        assert service.request("POST", "/deepl/v2/translate", data=form).json() == expected


@pytest.mark.parametrize("path", ["translate", "document"])
@pytest.mark.parametrize("name", ["style_id", "style_profile_id", "custom_instructions"])
def test_options_that_are_known_and_not_supported_are_refused(service: Service, path: str, name: str) -> None:
    fields = {**EN_FR, name: "more", **({"text": "Hello."} if path == "translate" else {})}
    files = {"file": ("a.txt", b"Hello.")} if path == "document" else None
    answer = service.request("POST", f"/deepl/v2/{path}", data=fields, files=files)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(f"#/{name}: ")
    assert "not supported" in answer.json()["message"]
    unknown = {**EN_FR, "colour": "red", "enable_beta_languages": "1", **({"text": "Hello."} if not files else {})}
    assert service.request("POST", f"/deepl/v2/{path}", data=unknown, files=files).status_code == 200


@pytest.mark.parametrize(
    ("target", "formality", "is_refused"),
    [
        ("EN-US", "more", True),
        ("tr", "less", True),
        ("EN-US", "prefer_more", False),
        ("EN-US", "default", False),
        ("de", "less", False),
        ("fr-CA", "more", False),
        ("ES-419", "prefer_less", False),
    ],
)
def test_a_form_of_address_is_refused_where_there_is_none(target: str, formality: str, is_refused: bool) -> None:
    body = validated(TextRequest, Fields({"text": "Hello.", "target_lang": target, "formality": formality}))
    if is_refused:
        with pytest.raises(InvalidFields, match=f"#/formality: Target language {target} does not support formality"):
            body.check()
    else:
        body.check()
        assert body.address == (None if formality == "default" else formality.removeprefix("prefer_"))


def test_a_text_in_the_target_language_is_left_as_it_was(tmp_path: Path) -> None:
    """DeepL's client asks for EN-US where a text is EN."""
    make_bundle(tmp_path / "en-fr")
    make_bundle(tmp_path / "fr-en", "fr", "en", seed=1)
    with serving(tmp_path) as service:
        for options in ({"source_lang": "EN"}, {"source_lang": "en-GB", "tag_handling": "xml"}, {}):
            texts = ["The <b>cat</b> sleeps on the red chair.", "123"]
            answer = service.post("/deepl/v2/translate", {"text": texts, "target_lang": "EN-US", **options})
            assert [each["text"] for each in answer.json()["translations"]] == texts
        own = service.post("/translate", {"text": "The cat sleeps.", "source": "en", "target": "en"}).json()
        assert own["translations"][0]["text"] == "The cat sleeps."
        assert own["translations"][0]["warnings"] == ["In English already, and left as it was."]


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/v3/style_rules", "style rules"),
        ("POST", "/v3/style_rules/a/custom_instructions", "style rules"),
        ("PATCH", "/v3/style_profiles/a", "style profiles"),
        ("POST", "/v2/write/correct", "DeepL Write"),
        ("GET", "/v2/admin/developer-keys", "Admin API"),
        ("PUT", "/v3/spoken-terms/a/term-lists", "spoken terms"),
        ("POST", "/v3/voice/realtime", "DeepL Voice"),
    ],
)
def test_what_the_service_has_not_is_refused_in_one_line(service: Service, method: str, path: str, what: str) -> None:
    answer = service.request(method, f"/deepl{path}")
    assert (answer.status_code, answer.json()) == (
        404,
        {"message": f"This service has no {what}.", "detail": "Not Found"},
    )


def _all(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


@pytest.mark.slow
def test_several_glossaries_may_have_more_terms_together_than_one_may(service: Service) -> None:
    ids = []
    entries: dict[str, str]
    for name, entries in (("one", {"Cat": "chat"}), ("two", {"cat": "chien"})):
        entries |= {f"{name} {number}": "dort" for number in range(MAX_TERMS * 3 // 5)}
        made = {"name": name, "source_lang": "EN", "target_lang": "FR", "entries": write_tsv(entries)}
        answer = service.post("/deepl/v2/glossaries", {**made, "entries_format": "tsv"})
        ids.append(answer.json()["glossary_id"])
    answer = service.post("/deepl/v2/translate", {**EN_FR, "text": ["The CAT sleeps."], "glossary_ids": ids})
    assert answer.status_code == 200
    assert "chat" in answer.json()["translations"][0]["text"].lower()


def test_type_parameter_of_languages_may_be_in_the_query_or_in_a_form(service: Service) -> None:
    path = "/deepl/v2/languages"
    targets = service.get(f"{path}?type=target").json()
    assert targets == [{"language": "FR", "name": "French", "supports_formality": True}]
    for method in ("GET", "POST"):
        assert service.request(method, path, content=b"type=target", headers=FORM).json() == targets
    assert service.get(path).json() == [{"language": "EN", "name": "English"}]
    assert service.get(f"{path}?type=other").status_code == 400
    assert service.request("POST", "/deepl/v2/usage").json() == service.get("/deepl/v2/usage").json()


@pytest.mark.slow
def test_languages_of_a_resource_have_its_features(tmp_path: Path) -> None:
    make_bundle(tmp_path / "bundles" / "en-fr")
    make_bundle(tmp_path / "bundles" / "fr-en", "fr", "en", seed=1)
    for place, memory in ((str(tmp_path / "memory"), ["translation_memory"]), (None, [])):
        with serving(tmp_path / "bundles", translation_memory=place) as service:

            def listed(resource: str, service: Service = service) -> list[tuple[object, ...]]:
                found = service.get(f"/deepl/v3/languages?resource={resource}&include=beta").json()
                names = ("lang", "usable_as_source", "usable_as_target")
                assert {each["status"] for each in found} <= {"stable"}
                return [(*(each[name] for name in names), list(each["features"])) for each in found]

            features = ["auto_detection", "glossary", "tag_handling", *memory]
            assert listed("translate_text") == [
                ("en", True, False, features),
                ("en-GB", False, True, features[1:]),
                ("en-US", False, True, features[1:]),
                ("fr", True, True, [features[0], "formality", *features[1:]]),
            ]
            assert next(each[3] for each in listed("translate_document")) == ["auto_detection", "glossary", *memory]
            assert listed("glossary") == [("en", True, True, []), ("fr", True, True, [])]
            assert listed("translation_memory") == (listed("glossary") if memory else [])
            assert listed("voice") == listed("write") == listed("style_rules") == []
            told = {each["name"]: each["features"] for each in service.get("/deepl/v3/languages/resources").json()}
            assert list(told) == ["translate_text", "translate_document", "glossary", "translation_memory"]
            needs = {
                each["name"]: (each["needs_source_support"], each["needs_target_support"])
                for each in told["translate_text"]
            }
            assert (needs.pop("auto_detection"), needs.pop("formality")) == ((True, False), (False, True))
            assert set(needs.values()) == {(True, True)}
            for query in ("", "?resource=other", "?product=translate_text"):
                assert service.get(f"/deepl/v3/languages{query}").status_code == 400


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("POST", "translate", {"json": {"text": ["a"]}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": []}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": [{}]}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "split_sentences": 2}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "outline_detection": "no way"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "ignore_tags": [{}]}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "glossary_id": "a"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "style_id": "a"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "translation_memory_id": "a"}}, 400),
        ("POST", "translate", {"json": {"target_lang": "FR", "text": ["a"], "custom_instructions": ["a"]}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"], "glossary_id": "a", "glossary_ids": ["b"]}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"], "glossary_ids": list("abcdef")}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"], "glossary_id": "a"}}, 404),
        ("POST", "translate", {"json": {**EN_FR, "source_lang": "FR", "text": ["a"]}}, 400),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a", "a" * 50_001]}}, 413),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a" * 50_001], "tag_handling": "xml"}}, 413),
        ("POST", "translate", {"json": {**EN_FR, "text": ["a"] * 1_001}}, 413),
        ("POST", "translate", {"json": []}, 400),
        ("POST", "translate", {"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ("POST", "translate", {"content": b"a", "headers": {"content-type": "text/plain"}}, 400),
        ("POST", "document", {"json": EN_FR}, 400),
        ("POST", "document", {"data": EN_FR, "files": {"other": ("a.txt", b"a")}}, 400),
        ("POST", "document/x", {"json": {}}, 400),
        ("POST", "document/x", {"json": {"document_key": "a"}}, 404),
        ("GET", "glossaries/x", {}, 404),
        ("GET", "translate", {}, 405),
        ("GET", "nothing", {}, 404),
    ],
)
def test_every_error_has_deepls_format(
    service: Service, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    response = service.request(method, f"/deepl/v2/{path}", **options)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-trace-id"]
    answer = response.json()
    assert sorted(answer) == ["detail", "message"]
    assert all(isinstance(text, str) and text for text in answer.values())


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_missing_query_parameter_is_named(service: Service, method: str) -> None:
    path = "entries" if method == "GET" else "dictionaries"
    response = service.request(method, f"/deepl/v3/glossaries/a/{path}?source_lang=en")
    assert response.status_code == 400
    assert response.json()["message"] == "#/target_lang: Field required"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("v2/translate", {"target_lang": "FR", "text": [[]] * 100_000}),
        ("v2/translate", {"target_lang": "FR", "text": ["a"], "ignore_tags": [[]] * 100_000}),
        ("v2/translate", {"target_lang": "FR", "text": ["a"], "custom_instructions": [[]] * 100_000}),
        ("v3/glossaries", {"name": "a", "dictionaries": [1] * 100_000}),
        ("v3/glossaries", {"name": "a", "dictionaries": [{}] * 100}),
    ],
)
def test_only_the_first_of_many_errors_are_listed(path: str, fields: dict[str, Any]) -> None:
    model = TextRequest if path == "v2/translate" else MultilingualRequest
    with pytest.raises(InvalidFields) as refused:
        validated(model, Fields(fields))
    assert len(refused.value.errors) <= 4


def test_body_that_stops_arriving_is_400(bundle_folder: Path) -> None:
    async def stalled() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    with serving(bundle_folder, deadline_ms=30) as service:
        options = {"content": stalled(), "headers": {"content-type": "application/json"}}
        assert service.request("POST", "/deepl/v2/translate", **options).status_code == 400


def test_timeouts_and_limits_keep_their_status(bundle_folder: Path, gate: Gate) -> None:
    async def never(task: bytes, attempt: int) -> JobResult:
        raise AssertionError

    with serving(bundle_folder, deadline_ms=300) as service:
        late = service.post("/deepl/v2/translate", {**EN_FR, "text": ["Hello."]})
        gate.opened.set()
        service.state.background_jobs = BackgroundJobs(LocalStore(), never, max_bytes=0)
        full = service.request("POST", "/deepl/v2/document", files={"file": ("a.txt", b"Hello.")}, data=EN_FR)
    assert late.status_code == 504
    assert (full.status_code, full.headers["retry-after"]) == (503, "1")
    assert sorted(late.json()) == sorted(full.json()) == ["detail", "message"]


def test_disconnected_clients_request_is_cancelled(bundle_folder: Path, gate: Gate) -> None:
    with serving(bundle_folder) as service:
        assert service.leave(gate, "/deepl/v2/translate", json={**EN_FR, "text": ["Hello."]}) == 499
        assert service.state.deployments.current.engine.scheduler.waiting == 0
        gate.opened.set()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        *("text", "target_lang", "source_lang", "split_sentences", "tag_handling", "ignore_tags", "splitting_tags"),
        *("glossary_id", "glossary_ids", "formality", "outline_detection", "model_type", "context", "style_id"),
        *("name", "entries", "entries_format", "dictionaries", "document_key", "type"),
    ]
)
LIKELY = st.sampled_from(["FR", "EN", "xml", "0", "1", "tsv", "csv", "a\tb", "<p>Hello.", ["Hello."], True])


@draw_examples(80)
@given(
    fields=st.dictionaries(FIELDS, LIKELY | ANYTHING, max_size=6),
    path=st.sampled_from(
        [
            *(("POST", "v2/translate"), ("POST", "v2/glossaries"), ("POST", "v3/glossaries"), ("GET", "v2/languages")),
            *(("POST", "v2/document/a"), ("PUT", "v3/glossaries/a/dictionaries"), ("PATCH", "v3/glossaries/a")),
        ]
    ),
)
def test_no_fields_cause_an_internal_error(service: Service, fields: dict[str, Any], path: tuple[str, str]) -> None:
    content = json.dumps(fields).encode()
    headers = {"content-type": "application/json"}
    response = service.request(path[0], f"/deepl/{path[1]}", content=content, headers=headers)
    assert response.status_code < 500
    if response.status_code >= 400:
        assert sorted(response.json()) == ["detail", "message"]
