"""What repairing similar translations is said to gain."""

from __future__ import annotations

from typing import Any

from benchmarks.memory_repair import Case, gain


def answer(text: str, memory: str | None = None) -> dict[str, Any]:
    return {"text": text, "memory": memory}


def test_only_repaired_texts_count() -> None:
    cases = [Case("a", "le chat noir", "le chat roux"), Case("b", "un chien", "un chat"), Case("c", "oui", "non")]
    plain = [answer("un chat noir"), answer("un chien"), answer("si")]
    items = [answer("le chat noir", "repaired"), answer("le chien", "repaired"), answer("oui")]
    found = gain(cases, plain, items)
    assert (found.cases, found.repaired, found.better, found.worse) == (3, 2, 1, 1)
    assert [edits for _, edits in (found.plain, found.similar, found.made)] == [
        2 / 20 * 100,
        6 / 20 * 100,
        2 / 20 * 100,
    ]


def test_nothing_repaired_gains_nothing() -> None:
    found = gain([Case("a", "oui", "non")], [answer("si")], [answer("si")])
    assert (found.repaired, found.plain, found.made) == (0, (0.0, 0.0), (0.0, 0.0))
