"""The OpenAPI document is complete, and its examples run unchanged."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import jsonschema_rs
import pytest
from servers import WAIT_S
from shared_fixtures import Service, serving

from app.http.api_keys import new_key
from model import __version__

pytestmark = pytest.mark.slow

Json = dict[str, Any]
JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
FREE = (
    *("/health", "/ready", "/languages", "/models", "/catalogue"),
    *("/frontend/settings", "/spec", "/download_file/{name}"),
)
"""What wants no key, and may be asked as often as one likes, but for APIs whose clients always send one."""
WITH_KEYS = "DeepL", "Google", "MTranServer", "OpenAI"
KEY, KEY_LINE = new_key("reader")
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class Operation(NamedTuple):
    path: str
    method: str
    told: Json
    """What the document says of it."""

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


class Manual:
    """The OpenAPI document of a service."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self._validators: dict[str, jsonschema_rs.Draft202012Validator] = {}
        self.operations = [
            Operation(path, method, item[method])
            for path, item in document["paths"].items()
            for method in METHODS
            if method in item
        ]

    def resolved(self, schema: Json) -> Json:
        """The target of a reference; anything else unchanged."""
        if "$ref" not in schema:
            return schema
        found: Any = self.document
        for place in schema["$ref"].removeprefix("#/").split("/"):
            found = found[place]
        return self.resolved(found)

    def contents(self) -> Iterator[tuple[str, str, Json]]:
        """Location, media type and content of every body of a request or a response."""
        for operation in self.operations:
            for media_type, content in operation.told.get("requestBody", {}).get("content", {}).items():
                yield f"{operation} body", media_type, content
            for status, answer in operation.told["responses"].items():
                for media_type, content in answer.get("content", {}).items():
                    yield f"{operation} {status}", media_type, content

    def schemas(self) -> Iterator[tuple[str, Json]]:
        """All schemas, including nested ones."""
        for where, media_type, content in self.contents():
            for key in {"schema", "itemSchema"} & content.keys():
                yield from _within(f"{where} {media_type}", content[key])
        for operation in self.operations:
            for parameter in operation.told.get("parameters", []):
                yield from _within(f"{operation} {parameter['name']}", parameter["schema"])
        for name, schema in self.document["components"]["schemas"].items():
            yield from _within(name, schema)

    def faults(self, value: object, schema: Json) -> list[str]:
        """The errors in a value of this schema."""
        key = json.dumps(schema)
        if key not in self._validators:  # to make one takes milliseconds
            whole = {**schema, "components": self.document["components"]}
            self._validators[key] = jsonschema_rs.Draft202012Validator(whole)
        return [error.message for error in self._validators[key].iter_errors(value)]

    def examples(self, content: Json) -> list[Any]:
        """The examples of a body or a parameter, or else of its schema."""
        if "example" in content:
            return [content["example"]]
        if "examples" in content:
            return [example["value"] for example in content["examples"].values()]
        schema = self.resolved(content.get("schema", {}))
        return list(schema.get("examples", []))


def _within(where: str, schema: Json) -> Iterator[tuple[str, Json]]:
    yield where, schema
    for name, field in schema.get("properties", {}).items():
        yield from _within(f"{where}.{name}", field)
    for key in ("items", "additionalProperties", "contentSchema"):
        if isinstance(schema.get(key), dict):
            yield from _within(f"{where}[]", schema[key])
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for branch in schema.get(key, []):
            yield from _within(where, branch)


@pytest.fixture(scope="module", params=["interlinear", "libretranslate", "keys"])
def variant(request: pytest.FixtureRequest) -> str:
    """The API at the root, or our own with keys."""
    return str(request.param)


@pytest.fixture(scope="module")
def keys(variant: str) -> list[str]:
    return [KEY] if variant == "keys" else []


@pytest.fixture(scope="module")
def served(variant: str, bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    memory: Json = {"translation_memory": str(tmp_path_factory.mktemp("memory") / "memory.sqlite")}
    settings: Json = {"root_api": variant}
    if variant == "keys":
        file = tmp_path_factory.mktemp("keys") / "keys"
        file.write_text(f"{KEY_LINE} admin")
        settings = {"api_keys_file": file}
    models = tmp_path_factory.mktemp("models")
    with serving(
        bundle_folder, trainer=["true"], importer=["true"], models_dir=models, precision="auto", **memory, **settings
    ) as service:
        yield service


@pytest.fixture(scope="module")
def manual(served: Service) -> Manual:
    return Manual(served.get("/openapi.json").json())


@pytest.mark.slow
def test_openapi_has_the_projects_version(manual: Manual) -> None:
    assert manual.document["info"]["version"] == __version__


def test_every_operation_has_a_summary_a_description_and_a_tag(manual: Manual) -> None:
    assert len(manual.operations) > 15
    for operation in manual.operations:
        assert operation.told["summary"] and operation.told["description"] and operation.told["tags"], operation
    names = [operation.told["operationId"] for operation in manual.operations]
    assert len(set(names)) == len(names)


def test_every_tag_is_described(manual: Manual) -> None:
    described = [tag["name"] for tag in manual.document["tags"] if tag["description"]]
    assert {tag for operation in manual.operations for tag in operation.told["tags"]} == set(described)


def test_every_reference_resolves(manual: Manual) -> None:
    for where, schema in manual.schemas():
        assert manual.resolved(schema) is not None, where


def test_every_field_is_described(manual: Manual) -> None:
    silent = {
        f"{where}.{name}"
        for where, schema in manual.schemas()
        for name, field in schema.get("properties", {}).items()
        if not (field.get("description") or manual.resolved(field).get("description"))
    }
    assert sorted(silent) == []


def test_every_parameter_and_header_is_described(manual: Manual) -> None:
    silent = [
        f"{operation} {parameter['name']}"
        for operation in manual.operations
        for parameter in operation.told.get("parameters", [])
        if not parameter.get("description")
    ]
    silent += [
        f"{operation} {status} {name}"
        for operation in manual.operations
        for status, answer in operation.told["responses"].items()
        for name, header in answer.get("headers", {}).items()
        if not manual.resolved(header).get("description")
    ]
    assert silent == []


def test_every_error_is_described_and_has_an_example(manual: Manual) -> None:
    for operation in manual.operations:
        for status, answer in operation.told["responses"].items():
            if int(status) >= 400:
                assert answer["description"] and answer["content"], (str(operation), status)
                assert all(map(manual.examples, answer["content"].values())), (str(operation), status)


def test_only_known_public_routes_need_no_key_and_have_no_rate_limit(manual: Manual) -> None:
    for operation in manual.operations:
        told = {name for answer in operation.told["responses"].values() for name in _example_names(answer)}
        wanted = set() if _is_free(operation) else {"not-authorised", "too-many-requests"}
        if operation.path == "/metrics":  # whoever looks after the service is not to be kept out
            wanted.remove("too-many-requests")
        assert told & {"not-authorised", "too-many-requests"} == wanted, str(operation)


def _is_free(operation: Operation) -> bool:
    if operation.path.endswith("/models") and operation.method == "post":
        return False
    if operation.path.endswith("/version"):
        return True
    return operation.path.endswith(FREE) and operation.told["tags"][0] not in WITH_KEYS


def _example_names(answer: Json) -> Iterator[str]:
    for content in answer.get("content", {}).values():
        yield from content.get("examples", {})


def test_routes_that_need_a_key_declare_it_if_keys_exist(manual: Manual, keys: list[str]) -> None:
    locked = {str(operation) for operation in manual.operations if "security" in operation.told}
    wanting = {str(operation) for operation in manual.operations if not _is_free(operation)}
    assert locked == (wanting if keys else set())
    assert bool(keys) == ("securitySchemes" in manual.document["components"])


def test_request_without_a_key_gets_the_documented_refusal(manual: Manual, served: Service, keys: list[str]) -> None:
    for operation in manual.operations:
        if "security" in operation.told:
            assert keys
            for request in _requests(manual, operation):
                path = _example_path(manual, operation)
                response = served.request(operation.method.upper(), path, **request)
                answer = operation.told["responses"][str(response.status_code)]
                assert "not-authorised" in _example_names(answer), (str(operation), response.text)


@pytest.mark.slow
def test_every_example_matches_its_schema(manual: Manual) -> None:
    wrong: list[object] = []
    for where, media_type, content in manual.contents():
        if media_type.endswith("json"):
            for example in manual.examples(content):
                wrong += [(where, fault) for fault in manual.faults(example, content["schema"])]
    for where, schema in manual.schemas():
        for example in schema.get("examples", []):
            wrong += [(where, example, fault) for fault in manual.faults(example, schema)]
    assert wrong == []


@pytest.mark.slow
def test_every_documented_example_works(manual: Manual, served: Service, keys: list[str]) -> None:
    for operation in manual.operations:
        for request in _requests(manual, operation):
            made = _made(manual, operation, served)
            response = _sent(manual, operation, served, request, made)
            answers = operation.told["responses"]
            expected = [status for status in answers if status.startswith("2")] or list(answers)
            if operation.path.endswith("/models/reload") and not keys:
                expected = ["403"]  # without keys there is nobody who may
            if "published models" in operation.told["tags"] and not operation.path.endswith("/catalogue"):
                expected = [*expected, "404"] if keys else ["403"]  # likewise, and nothing of that name is installed
                deadline = time.monotonic() + WAIT_S
                while response.status_code == 409 and time.monotonic() < deadline:  # a job asked for before is at work
                    time.sleep(0.1)
                    response = _sent(manual, operation, served, request, made)
            if operation.path.partition("/adaptation")[1]:  # likewise; each needs another state than the one before
                expected = [*expected, "409"] if keys else ["403"]
            assert str(response.status_code) in expected, (str(operation), request, response.text)
            _check_answer(manual, operation, answers[str(response.status_code)], response)


@pytest.mark.slow
def test_path_refuses_other_methods_in_its_apis_format_and_lists_the_allowed_ones(
    manual: Manual, served: Service, variant: str
) -> None:
    """Every method where our own API is at the root; else one for each path, in turn."""
    operations = {operation.path: operation for operation in manual.operations}
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO"]
    for number, (path, operation) in enumerate(operations.items()):
        documented = {other.method.upper() for other in manual.operations if other.path == path}
        refused = [method for method in methods if method not in documented]
        if variant != "interlinear":
            refused = [refused[number % len(refused)]]
        path = _example_path(manual, operation)
        schema = _refusal(manual, operation)
        for method in refused:
            response = served.request(method, path)
            assert response.status_code == 405, (method, path)
            assert set(response.headers["allow"].split(", ")) - {"HEAD"} == documented, (method, path)
            is_json = "json" in response.headers["content-type"]
            assert manual.faults(response.json() if is_json else response.text, schema) == [], (method, path)


@pytest.mark.parametrize("path", ["/nowhere", "/deepl/nowhere", "/libretranslate/nowhere", "/interlinear/nowhere"])
def test_not_found_responses_match_the_document(path: str, manual: Manual, served: Service) -> None:
    beside = path.replace("nowhere", "translate")
    told = {operation.path.replace("/v2", ""): _refusal(manual, operation) for operation in manual.operations}
    at_root = told.get("/translate", told["/libretranslate/translate"])
    response = served.get(path)
    assert response.status_code == 404
    assert manual.faults(response.json(), told.get(beside, at_root)) == []


def _example_path(manual: Manual, operation: Operation) -> str:
    """The path with its parameters' examples, or their names where there are none."""
    parameters = [each for each in operation.told.get("parameters", []) if each["in"] == "path"]
    return operation.path.format(**{each["name"]: (*manual.examples(each), each["name"])[0] for each in parameters})


def _refusal(manual: Manual, operation: Operation) -> Json:
    """The schema of an operation's errors, which all have the same one."""
    found = [
        content["schema"]
        for status, answer in operation.told["responses"].items()
        for content in answer.get("content", {}).values()
        if int(status) >= 400
    ]
    assert all(schema == found[0] for schema in found)
    return found[0] if found else {}


def _check_answer(manual: Manual, operation: Operation, answer: Json, response: httpx.Response) -> None:
    """Checks that the response is as documented."""
    if "content" not in answer:
        assert not response.content, operation
        return
    media_type = response.headers["content-type"].partition(";")[0]
    assert media_type in answer["content"], operation
    if media_type == JSON:
        assert manual.faults(response.json(), answer["content"][JSON]["schema"]) == [], operation
    assert not [name for name in answer.get("headers", {}) if name not in response.headers], operation


def _requests(manual: Manual, operation: Operation) -> Iterator[Json]:
    """The arguments of httpx for each example of each media type of the body."""
    query = {
        parameter["name"]: manual.examples(parameter)[0]
        for parameter in operation.told.get("parameters", [])
        if parameter["in"] == "query" and parameter.get("required")
    }
    bodies = operation.told.get("requestBody", {}).get("content", {})
    if not bodies:
        yield {"params": query}
    for media_type, content in bodies.items():
        examples = manual.examples(content)
        assert examples, f"{operation} has no example of {media_type}"
        for example in examples:
            yield {"params": query, **_encoded(manual, media_type, content, example)}


def _encoded(manual: Manual, media_type: str, content: Json, example: Any) -> Json:
    if media_type == JSON:
        return {"json": example}
    flat = dict(_flattened(example))
    if media_type == FORM:
        return {"data": flat}
    assert media_type == PARTS
    fields = manual.resolved(content["schema"])["properties"]
    return {"files": [part for name, value in flat.items() for part in _parts(name, value, fields.get(name, {}))]}


def _flattened(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a form: one within another is called `a[0].b`."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _flattened(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, each in enumerate(value):
            yield from _flattened(each, f"{name}[{number}]")
    else:
        yield name, value


def _parts(name: str, value: Any, field: Json) -> list[tuple[str, tuple[str | None, str]]]:
    """The parts of a multipart form: list items one by one, and bytes with a file name."""
    file = "example.txt" if field.get("format") == "binary" else None
    return [(name, (file, str(one))) for one in (value if isinstance(value, list) else [value])]


def _sent(manual: Manual, operation: Operation, served: Service, request: Json, made: Json) -> httpx.Response:
    """The request with a key if one is required, and with the names of objects that were `made` in place of the
    examples'."""
    request = {**request, "headers": {**request.get("headers", {}), **_key(manual, operation)}}
    for place in request.keys() & {"params", "data", "json"}:
        if isinstance(request[place], dict):
            request[place] = {name: made.get(name, value) for name, value in request[place].items()}
    if "files" in request:
        request["files"] = [(name, (file, made.get(name, value))) for name, (file, value) in request["files"]]
    return served.request(operation.method.upper(), operation.path.format(**made), **request)


def _key(manual: Manual, operation: Operation) -> Json:
    """The header that the first security scheme takes; a key in the query also works as a bearer token."""
    if "security" not in operation.told:
        return {}
    names = [name for lock in operation.told["security"] for name in lock]
    return {"Authorization": f"DeepL-Auth-Key {KEY}" if "DeepL-Auth-Key" in names else f"Bearer {KEY}"}


def _made(manual: Manual, operation: Operation, served: Service) -> Json:
    """Creates the objects that the path's parameters name, as the documentation says, since those of the examples do
    not exist."""
    before, parameter, _ = operation.path.partition("{")
    if not parameter:
        return {}
    if before.endswith(("/models/", "/models/jobs/")):  # that would ask a registry
        return {"id": "0123456789abcdef", "direction": "en-es"}
    if "translation_memories" in before:
        return _made_memory(manual, served, operation)
    maker = _MAKERS[next(end for end in _MAKERS if before.endswith(end))]
    [making] = [other for other in manual.operations if other.method == "post" and other.path.endswith(maker)]
    *_, request = _requests(manual, making)
    made = _sent(manual, making, served, request, {})
    if report := made.headers.get("X-Interlinear-Report"):
        return {"name": report.rpartition("/")[2]}
    answer: Json = made.json()
    if "document_id" in answer:
        _await(manual, making, served, answer)
    if "translatedFileUrl" in answer:
        return {"name": answer["translatedFileUrl"].rpartition("/")[2]}
    names = "document_id", "document_key", "glossary_id", "job_id"
    return {name: value for name, value in answer.items() if name in names}


def _made_memory(manual: Manual, served: Service, operation: Operation) -> Json:
    """A translation memory for DeepL's routes, and an export of it."""
    key = _key(manual, operation)
    bearer = {name: value.replace("DeepL-Auth-Key", "Bearer") for name, value in key.items()}
    [put] = [each.path for each in manual.operations if each.path.endswith("/memory") and each.method == "put"]
    pairs = [{"text": "Open", "translation": "Ouvrir"}]
    served.request("PUT", put, json={"source": "en", "target": "fr", "pairs": pairs}, headers=bearer)
    memories = "/deepl/v3/translation_memories"
    [found] = served.request("GET", memories, headers=key).json()["translation_memories"]
    id = found["translation_memory_id"]
    job = served.request("POST", f"{memories}/{id}/export", headers=key).json()
    return {"memory_id": id, "job_id": job["job_id"]}


_MAKERS = {
    "/download_file/": "/translate_file",
    "/translate/file/report/": "/translate/file",
    "/v2/document/": "/v2/document",
    "/v2/glossaries/": "/v2/glossaries",
    "/v3/glossaries/": "/v3/glossaries",
    "/v1/quality-evaluation/": "/v1/quality-evaluation",
}
"""By how a path begins: where what it names is made."""


def _await(manual: Manual, making: Operation, served: Service, document: Json) -> None:
    """Waits until the document is translated."""
    asking = Operation(f"{making.path}/{{document_id}}", "post", making.told)
    while True:
        request = {"json": {"document_key": ""}}
        told = _sent(manual, asking, served, request, document).json()
        if told["status"] not in ("queued", "translating"):
            assert told["status"] == "done", told
            return
