"""The hostile inputs are what they are to be, and a harmless one breaks no bound of a small service."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
import zlib
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest
from servers import WAIT_S

from benchmarks import hostile
from benchmarks.hostile import (
    CASES,
    Case,
    Outcome,
    deep_yaml,
    many_formulas,
    measure,
    nested_plurals,
    of_folder,
    pdf,
    remember,
    repeated_words,
    review,
    serving,
    stop,
    translate,
    upload,
)

pytestmark = pytest.mark.slow


def test_inputs_are_small_and_what_they_are_to_be() -> None:
    assert len(nested_plurals()) == 720 and json.loads(nested_plurals())
    assert len(pdf(repeated_words(), compressions=2)) < 2_000
    made = pdf(b"BT ET", compressions=2)
    compressed = made.split(b"stream\n")[1].split(b"\nendstream")[0]
    assert zlib.decompress(zlib.decompress(compressed)) == b"BT ET"
    assert int(made.split(b"startxref\n")[1].split()[0]) == made.index(b"xref\n0 6")
    assert len(review("9" * 5_000)) < 6_000
    assert deep_yaml(2).startswith(b"[[word") and deep_yaml(2).endswith(b",]]")
    with zipfile.ZipFile(io.BytesIO(many_formulas(1))) as archive:
        assert archive.testzip() is None and archive.getinfo("xl/worksheets/sheet1.xml").file_size > 1_000_000
    assert len({case.name for case in CASES}) == len(CASES)


def test_reviews_of_a_folder_are_sent_with_their_document(tmp_path: Path) -> None:
    for name in ("review_doc.html", "review_99.xliff", "a.txt"):
        (tmp_path / name).write_bytes(name.encode())
    plain, reviewed = of_folder(tmp_path)
    assert plain.make()[0].options["files"] == {"file": ("a.txt", b"a.txt")}
    files = reviewed.make()[0].options["files"]
    assert (files["file"][0], files["review"][1]) == ("review_doc.html", b"review_99.xliff")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"answered": False}, "no answer in 1 s"),
        ({"statuses": Counter({500: 1})}, "answered 500"),
        ({"health_s": 2.0}, "/health took 2.0 s"),
        ({"rate_share": 0.4}, "plain translations fell to 40%"),
        ({"peak_mb": 900.0}, "grew by 800 MB"),
        ({"busy_s": 9.0}, "busy for 9 s after the client left"),
    ],
)
def test_each_broken_bound_is_named(fields: dict[str, object], fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostile, "unit_seconds", lambda: 0.001)
    good = {"answered": True, "statuses": Counter({200: 1, 503: 1}), "seconds": 1.0, "start_mb": 100.0}
    good |= {"peak_mb": 120.0, "rate_share": 0.9, "busy_s": 0.0}
    assert Outcome("a", **good).faults(CASES[0], 500) == []  # type: ignore[arg-type]
    assert Outcome("a", **{**good, **fields}).faults(CASES[0], 500) == [fault]  # type: ignore[arg-type]


def test_harmless_requests_are_measured_and_the_service_stops(bundle_folder: Path) -> None:
    case = Case(
        "a",
        lambda: [remember("Hello."), translate("Hello."), upload("a.txt", b"A house.")],
        needs_memory=True,
        copies=2,
    )
    with serving(bundle_folder, case.needs_memory) as service:
        outcome = asyncio.run(measure(service, case, cycle(["A word.", "A house."]), WAIT_S, before_s=0.2))
        assert outcome.answered and outcome.statuses == {200: 6}
        assert 0 < outcome.start_mb <= outcome.peak_mb and outcome.health_s > 0 and outcome.rate_share > 0
        assert "answer after" in str(outcome)
        asyncio.run(stop(service, [case], WAIT_S, after_s=0.2))
        assert service.process.poll() == 0
