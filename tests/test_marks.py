"""End marks, as the trainer counts them and the service adds them."""

from __future__ import annotations

import pytest

from model.marks import full_stop, has_end_mark


@pytest.mark.parametrize("sentence", ["Yes.", "Who?", "“No!”", "(So it is.)", "好。", "「好。」", "Well…", "क्या।"])
def test_these_end_sentences(sentence: str) -> None:
    assert has_end_mark(sentence)


@pytest.mark.parametrize("sentence", ["", "My house", "Name:", "v1.2", "(c)", "one,", "Mr. Smith"])
def test_these_do_not(sentence: str) -> None:
    assert not has_end_mark(sentence)


def test_every_full_stop_is_an_end_mark() -> None:
    for language in ("en", "fr", "zh", "zh-Hant", "ja", "hi", "pt_BR"):
        assert has_end_mark("x" + full_stop(language))
    assert full_stop("th") == ""
