"""The sentences of a text: alternatives of the whole, loops that are cut once, and warnings."""

from __future__ import annotations

import heapq
import itertools
import random
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest
from fakes import WORDS, CannedDecoder, RandomDecoder, decoded, sentence_of, translated
from msgspec import structs

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.markup.passage import Passage, ProtectedSpan, Tag
from app.translation.alternatives import best_combinations
from app.translation.candidate import Candidate
from app.translation.input_normalisation import model_input
from app.translation.planned_sentence import PlannedSentence, Translation
from app.translation.quality_checks import check_translation
from app.translation.text_plan import BudgetExceeded, TextPlan, mean_score, plan_copy, plan_text, slice_passage
from model.bundle import Bundle


def generated(count: int, sentences: int) -> list[str]:
    draw = random.Random(11)
    return [
        " ".join(
            " ".join(draw.choices(WORDS, k=draw.randint(1, 7))).capitalize() + "." for _ in range(sentences)
        )
        for _ in range(count)
    ]  # fmt: skip


def said(bundle: Bundle, text: str, score: float) -> Decoded:
    return decoded([*bundle.source_tokenizer.encode(text), bundle.source_tokenizer.eos_id], score)


def found(bundle: Bundle, **texts: float) -> Translation:
    """A sentence decoded by a beam that found `texts`, ordered by score."""
    one = sentence_of(Passage("hello"), bundle, bundle.source_tokenizer.encode("hello"), len(texts))
    best, *others = (said(bundle, text, score) for text, score in texts.items())
    return Translation.of(one, structs.replace(best, coverage=(), alternatives=tuple(others)))


def planned(translation: Translation) -> PlannedSentence:
    return PlannedSentence(translation.sentence, translation)


# ---- Alternatives


@pytest.mark.slow
@pytest.mark.parametrize(("count", "sentences"), [(1, 1), (3, 1), (8, 1), (2, 2), (8, 3)])
def test_alternatives_differ_from_the_text_and_each_other_with_the_best_first(
    bundle: Bundle, count: int, sentences: int
) -> None:
    items = translated(bundle, RandomDecoder(bundle), generated(20, sentences), alternatives=count)
    given = 0
    for item in items:
        assert item.plan
        others = item.plan.alternatives(count)
        assert len(others) <= count
        assert len({item.text, *(text for text, _ in others)}) == len(others) + 1
        scores = [score for _, score in others]
        assert scores == sorted(scores, reverse=True)
        given += len(others)
    assert given >= 20 * min(count, 2) * 0.7


def test_no_alternatives_are_searched_unless_requested(bundle: Bundle) -> None:
    (item,) = translated(bundle, RandomDecoder(bundle), ["The cat sleeps."])
    assert item.plan
    assert item.plan.alternatives(3) == []


def test_alternatives_of_several_sentences_are_their_best_combinations(bundle: Bundle) -> None:
    words = [("a", "b", "c"), ("d", "e", "f")]
    scores = [(-1.0, -1.5, -3.0), (-1.0, -1.2, -2.0)]
    sentences = [found(bundle, **dict(zip(*one, strict=True))) for one in zip(words, scores, strict=True)]
    plan = TextPlan(bundle, ["(", planned(sentences[0]), " ", planned(sentences[1]), ")"])
    ranked = sorted(
        ((-sum(pair), f"({a} {b})") for (a, b), pair in zip(
            itertools.product(*words), itertools.product(*scores), strict=True)),
    )  # fmt: skip
    assert plan.render() == "(a d)"
    assert [text for text, _ in plan.alternatives(8)] == [text for _, text in ranked[1:]]
    assert [text for text, _ in plan.alternatives(2)] == [text for _, text in ranked[1:3]]
    best = [sentences[0].candidates[0], sentences[1].candidates[1]]
    assert plan.alternatives(1) == [("(a e)", mean_score(best))]


@pytest.mark.parametrize("places", [0, 1, 2, 3, 6])
def test_sparse_combinations_equal_complete_ones(places: int) -> None:
    draw = random.Random(places)
    for _ in range(100):
        # Of few values: where sums are the same, the order is, too.
        scores = [sorted(draw.choices([-0.1, -0.3, -0.7, -0.7 / 3], k=draw.randint(1, 4)))[::-1] for _ in range(places)]
        found = itertools.islice(best_combinations(scores), 40)
        expected = list(itertools.islice(choices_told_in_full(scores), 40))
        assert [tuple(choice.get(place, 0) for place in range(places)) for choice in found] == expected


def choices_told_in_full(scores: Sequence[Sequence[float]]) -> Iterator[tuple[int, ...]]:
    """The same with the indices of all lists, which is readable but takes quadratic space."""
    heap = [(-sum(options[0] for options in scores), (0,) * len(scores))]
    seen = {heap[0][1]}
    while heap:
        total, choice = heapq.heappop(heap)
        yield choice
        for place, options in enumerate(scores):
            number = choice[place] + 1
            other = (*choice[:place], number, *choice[place + 1 :])
            if number < len(options) and other not in seen:
                seen.add(other)
                heapq.heappush(heap, (total + options[number - 1] - options[number], other))


def test_combinations_of_many_sentences_take_linear_space() -> None:
    tracemalloc.start()
    assert len(list(itertools.islice(best_combinations([[-1.0, -2.0]] * 2_000), 5))) == 5
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 2_000 * 2_000


def test_same_words_in_other_tokens_are_no_alternative(bundle: Bundle) -> None:
    one = found(bundle, hello=-1.0, goodbye=-2.0)
    letters = [bundle.source_tokenizer.encode(letter)[-1] for letter in "hello"]
    spelt = decoded([bundle.source_tokenizer.encode("hello")[0], *letters], -1.5)
    one.candidates = [one.best, Candidate(one.sentence, spelt), *one.candidates[1:]]
    texts = [candidate.plain_text for candidate in one.candidates]
    assert len([text for text, _ in TextPlan(bundle, [planned(one)]).alternatives(4)]) == len(set(texts)) - 1


def test_loops_are_cut_from_every_hypothesis_of_a_beam(bundle: Bundle) -> None:
    beam = found(bundle, **{"le chat dort il va" + 4 * " le chat dort il va": -1.0, "bien" + 8 * " bien": -2.0})
    one = check_translation(beam)
    plan = TextPlan(bundle, [planned(one)])
    assert plan.render() == "le chat dort il va"
    assert [text for text, _ in plan.alternatives(2)] == ["bien"]
    assert one.warnings[:1] == ["The model repeated itself; the repetitions were cut."]


# ---- What is said, and what it costs


def test_each_token_has_a_log_probability_and_a_source_after_a_cut(bundle: Bundle) -> None:
    cut = check_translation(found(bundle, **{"il va " * 9: -1.0})).best.decoded
    assert len(cut.tokens) == len(cut.log_probs) == len(cut.aligned) < 9
    assert cut.score == -1.0


def test_translation_without_an_end_causes_a_warning(bundle: Bundle) -> None:
    class Endless(CannedDecoder):
        def answer(self, sequence: engine.Sequence) -> Decoded:
            return structs.replace(super().answer(sequence), finish_reason="length")

    (item,) = translated(bundle, Endless(bundle, lambda text: "le chat"), ["The cat sleeps."])
    assert item.warnings == ["The translation of “The cat sleeps.” was stopped where it seemed to have no end."]


def test_score_is_the_mean_over_all_tokens_and_zero_without_any(bundle: Bundle) -> None:
    one, two = said(bundle, "le chat", -1.0), said(bundle, "le", -4.0)
    total = -1.0 * len(one.tokens) - 4.0 * len(two.tokens)
    candidates = [Candidate(sentence_of(Passage("hello"), bundle, []), each) for each in (one, two)]
    assert mean_score(candidates) == pytest.approx(total / (len(one.tokens) + len(two.tokens)))
    assert mean_score([]) == 0.0


def test_copied_text_is_written_unchanged() -> None:
    passage = Passage("a b", (ProtectedSpan(0, 1, "{a}"),), (Tag(2, "<i>", "open"), Tag(3, "</i>", "close")))
    assert plan_copy(["<p>", passage, "</p>"]).render() == "<p>{a} <i>b</i></p>"


def test_planning_stops_as_soon_as_the_budget_is_exceeded(bundle: Bundle) -> None:
    passage = Passage("Hello. How are you?")
    cost = plan_text(bundle, [passage], None, 1, 10_000).cost
    assert plan_text(bundle, [passage], None, 1, cost).cost == cost
    with pytest.raises(BudgetExceeded):
        plan_text(bundle, [passage], None, 1, cost - 1)


@pytest.mark.parametrize(
    "text", ["Sleeps", "Sleeps.", "The Cat", "THE CAT SLEEPS", "The cat(s)", "Hello!!", "The cat."]
)
def test_offsets_refer_to_the_text_that_the_model_reads(bundle: Bundle, text: str) -> None:
    [part] = plan_text(bundle, [Passage(text)], None, 1, 10**6).sentences
    sentence = part.sentence
    given = bundle.source_tokenizer.encode_source_parts(model_input(sentence.passage, bundle))
    assert list(sentence.sequence.source) == given
    assert len(sentence.source_spans) == len(sentence.sequence.source) + 1


def test_part_of_a_passage_has_its_protected_spans_moved() -> None:
    passage = Passage("ab{c}de{f}", (ProtectedSpan(2, 5, "{c}"), ProtectedSpan(7, 10, "{f}")))
    part = slice_passage(passage, (Tag(1, "<br>"),), 5, 10)
    assert part == Passage("de{f}", (ProtectedSpan(2, 5, "{f}"),), (Tag(1, "<br>"),))
