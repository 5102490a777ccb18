"""How well placeholders are placed: which names become placeholders, and what is counted."""

from __future__ import annotations

import pytest

from training.corpora.corpus import Pair
from training.evaluation.placeholders import named_pairs, placeholder_result

BOSTON = Pair("I saw Boston again.", "J'ai revu Boston hier.")


def test_a_shared_name_that_is_not_the_first_word_becomes_a_placeholder() -> None:
    others = [
        Pair("Boston is far.", "Boston est loin."),
        Pair("We like trains.", "Nous aimons trains."),
        Pair("I saw Boston.", "Je l'ai vue."),
        Pair("In Boston Bostonians live.", "À Boston vivent les gens."),
    ]
    [named] = named_pairs([*others, BOSTON], "fr")
    assert named.with_placeholder == Pair("I saw {name} again.", "J'ai revu {name} hier.")


def test_a_name_in_a_language_without_spaces_is_a_part_of_the_text() -> None:
    [named] = named_pairs([Pair("I know Linda.", "我认识Linda这个人。")], "zh")
    assert named.name == "Linda"


def test_no_more_pairs_are_taken_than_wanted() -> None:
    assert len(named_pairs([BOSTON] * 3, "fr", most=2)) == 2


def test_placeholders_are_counted_as_kept_and_as_moved_to_the_end() -> None:
    named = named_pairs([BOSTON] * 4, "fr")
    held = ["J'ai revu {name} hier.", "J'ai revu hier {name}.", "J'ai revu hier.", "{name} {name} hier."]
    result = placeholder_result("test", "fr", named, held, [pair.pair.target for pair in named])
    assert (result.sentences, result.kept, result.moved_to_end) == (4, 2, 1)
    assert result.bleu_of_names == pytest.approx(100)
    assert result.bleu < 100


def test_a_placeholder_at_the_end_of_the_reference_too_is_not_moved() -> None:
    named = named_pairs([Pair("I love Boston.", "J'aime Boston.")], "fr")
    assert placeholder_result("test", "fr", named, ["J'aime {name}."], ["J'aime Boston."]).moved_to_end == 0
