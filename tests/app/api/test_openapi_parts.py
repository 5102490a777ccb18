"""Shared parts of the OpenAPI document: an example for each error, in its API's format; files as bytes."""

from __future__ import annotations

from app.api.deepl import DEEPL
from app.api.openapi_parts import error_responses, file_response, form_with_file
from app.errors import NotAuthorised, Overloaded, StepFailed
from app.formats import MEDIA_TYPES
from app.http.problems import Problem


def test_errors_are_documented_by_status_each_with_an_example() -> None:
    responses = error_responses(StepFailed, Overloaded)
    assert list(responses) == [500, 503]
    examples = responses[503]["content"]["application/problem+json"]["examples"]
    assert examples["overloaded"]["value"]["detail"] == Overloaded.example
    assert "Retry-After" in responses[503]["headers"]


def test_api_documents_its_own_statuses_and_errors_that_are_not_the_services() -> None:
    gone = Problem(type="", title="Not Found", status=404, detail="There is no such thing.")
    responses = error_responses(
        NotAuthorised, renderer=DEEPL.render_problem, others={"no-thing": gone, "no-other": gone}
    )
    assert list(responses) == [403, 404]
    assert responses[404]["description"] == "Not Found"
    examples = responses[404]["content"]["application/json"]["examples"]
    assert examples["no-thing"]["value"] == {"message": "There is no such thing.", "detail": "Not Found"}
    assert set(examples) == {"no-thing", "no-other"}
    assert "headers" not in responses[403]  # only our own 401 says how to send a key
    assert "WWW-Authenticate" in error_responses(NotAuthorised)[401]["headers"]


def test_form_requires_its_file_and_response_may_have_any_format() -> None:
    schema = {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}
    assert form_with_file(schema)["required"] == ["file", "target"]
    assert schema["required"] == ["target"]
    assert set(file_response("A file")["content"]) == set(MEDIA_TYPES.values())
