"""Evaluations of translations by DeepL's API: their form, and what they find."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from shared_fixtures import SHIPPED, Service, serving

from app.http.api_keys import new_key

pytestmark = pytest.mark.slow

PATH = "/deepl/v1/quality-evaluation"
EN_FR = {"source_language": "EN", "target_language": "fr"}
GOOD = "Hello. How are you?", "Bonjour. Comment allez-vous ?"
WRONG = "The cat sleeps on the red chair.", "Le chien dort sur la chaise rouge."
SHORT = "I like this song, and my brother plays the piano.", "J'aime cette chanson."
Pair = tuple[str, str]


@pytest.fixture(scope="module")
def shipped() -> Iterator[Service]:
    with serving(SHIPPED / "en-fr") as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


def body(*pairs: Pair) -> dict[str, Any]:
    return {"metadata": EN_FR, "segments": [{"source": source, "target": target} for source, target in pairs]}


def evaluated(service: Service, *pairs: Pair, path: str = PATH) -> dict[str, Any]:
    answer = service.post(path, body(*pairs))
    assert (answer.status_code, answer.headers["retry-after"]) == (202, "0"), answer.text
    job = answer.json()
    assert job["poll_url"] == f"{path.removeprefix('/deepl')}/{job['job_id']}"
    found = service.get(f"/deepl{job['poll_url']}")
    assert found.status_code == 200
    report: dict[str, Any] = found.json()
    assert (report["job_id"], report["status"]) == (job["job_id"], "done")
    return report


def shown(segment: dict[str, Any], side: str) -> list[list[str]]:
    """The characters of each error's spans."""
    return [[segment[side][span["start"] : span["end"]] for span in e[f"{side}_spans"]] for e in segment["errors"]]


def test_wrong_words_are_found_and_a_good_translation_has_none(shipped: Service) -> None:
    report = evaluated(shipped, GOOD, WRONG)
    good, wrong = report["segments"]
    assert (good["segment_index"], good["segment_score"], good["errors"]) == (0, 100.0, [])
    assert (wrong["segment_index"], wrong["source"], wrong["target"]) == (1, *WRONG)
    [error] = wrong["errors"]
    assert (error["type"], error["sub_type"], error["severity"]) == ("Accuracy", "Mistranslation", "Major")
    assert any("cat" in each for each in shown(wrong, "source")[0])
    assert any("chien" in each for each in shown(wrong, "target")[0])
    assert wrong["segment_score"] < report["summary"]["overall_score"] < 100
    assert report["summary"]["granular_counts"] == {"Accuracy": {"Mistranslation": {"Major": 1}}}


def test_missing_words_are_found(shipped: Service) -> None:
    [segment] = evaluated(shipped, SHORT)["segments"]
    [error] = [each for each in segment["errors"] if each["sub_type"] == "Omission"]
    assert error["target_spans"] == []
    spans = error["source_spans"]
    missed = " ".join(SHORT[0][span["start"] : span["end"]] for span in spans)
    assert "brother" in missed and "song" not in missed
    assert all(one["end"] <= other["start"] for one, other in pairwise(spans))


def test_spans_count_code_points_of_the_whole_segment(shipped: Service) -> None:
    """Each sentence is scored alone, and white space around a segment is no part of what the model reads."""
    alone = evaluated(shipped, WRONG)["segments"][0]
    later = evaluated(shipped, (f" 😀 {GOOD[0]} {WRONG[0]}", f"😀 {GOOD[1]}  {WRONG[1]}\n"))["segments"][0]
    uneven = evaluated(shipped, (f"\n {WRONG[0]}", f"  {WRONG[1].replace('.', '. Oui.')}"))["segments"][0]
    for side in ("source", "target"):
        [words] = shown(alone, side)
        assert shown(later, side)[-1] == shown(uneven, side)[0] == words


def test_a_segments_score_is_the_same_alone_and_among_others(shipped: Service) -> None:
    alone = evaluated(shipped, WRONG, path=f"{PATH}s")
    [first, *_, last] = evaluated(shipped, WRONG, *[GOOD] * 498, SHORT)["segments"]
    assert first == alone["segments"][0]
    assert alone["summary"]["overall_score"] == round(first["segment_score"])
    assert last["segment_index"] == 499


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"segments": []}, "#/segments: "),
        ({"segments": [{"source": "a", "target": "b"}] * 501}, "#/segments: "),
        ({"segments": [{"source": "a", "target": "b"}, {"target": "b"}]}, "#/segments/1/source: Field required"),
        ({"segments": [{"source": " ", "target": "b"}]}, "#/segments/0/source: "),
        ({"segments": [{"source": "a", "target": "b" * 10_001}]}, "#/segments/0/target: "),
        ({"metadata": {"target_language": "fr"}}, "#/metadata/source_language: Field required"),
        ({"metadata": {**EN_FR, "target_language": "xx"}}, "#/target_lang: "),
        ({"metadata": {"source_language": "fr", "target_language": "en"}}, "not supported"),
        ({"metadata": None}, "#/metadata: Field required"),
    ],
)
def test_invalid_requests_are_refused(shipped: Service, changed: dict[str, Any], said: str) -> None:
    answer = shipped.post(PATH, {**body(GOOD), **changed})
    assert answer.status_code == 400
    assert said in answer.json()["message"]


def test_a_segment_that_is_too_long_for_the_model_is_named(shipped: Service) -> None:
    answer = shipped.post(PATH, body(GOOD, ("word " * 1_500, "mot")))
    assert (answer.status_code, answer.json()["message"].split(": ")[0]) == (400, "#/segments/1")


def test_an_evaluation_is_its_owners_alone(tmp_path: Path) -> None:
    (ann, first), (bob, second) = new_key("ann"), new_key("bob")
    (tmp_path / "keys").write_text(f"{first}\n{second}\n")
    with serving(SHIPPED / "en-fr", api_keys_file=tmp_path / "keys") as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        as_ann, as_bob = ({"authorization": f"DeepL-Auth-Key {key}"} for key in (ann, bob))
        assert service.post(PATH, body(GOOD)).status_code == 403
        made = service.request("POST", PATH, json=body(GOOD), headers=as_ann).json()
        path = f"{PATH}/{made['job_id']}"
        assert service.request("GET", path, headers=as_ann).json()["job_id"] == made["job_id"]
        undashed = f"{PATH}/{made['job_id'].replace('-', '').upper()}"
        assert service.request("GET", undashed, headers=as_ann).json()["job_id"] == made["job_id"]
        for wrong in (path, f"{PATH}/00000000-0000-0000-0000-000000000000"):
            answer = service.request("GET", wrong, headers=as_bob)
            assert (answer.status_code, answer.json()["message"]) == (404, "No such evaluation.")
        assert service.request("GET", f"{PATH}/a", headers=as_ann).status_code == 400
        usage = service.request("GET", "/deepl/v2/usage", headers=as_ann).json()
        assert usage["character_count"] == sum(map(len, GOOD))
