"""The translation policy, with a decoder that returns every sentence unchanged."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import threading
import unicodedata
import weakref
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from fakes import FakeDecoder, translating
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs
from servers import WAIT_S

from app.engine import sequence as engine
from app.engine.job import Job
from app.engine.registry import Catalogue
from app.engine.sequence import Decoded
from app.engine.waiting_queue import TILE
from app.errors import DeadlinePassed, PairNotServed, ServiceError, StepFailed, TooMuchText
from app.settings import Settings
from app.translation import policies
from app.translation.input_normalisation import mark_substitutes
from app.translation.planned_sentence import Translation
from app.translation.quality_checks import check_translation
from app.translation.translator import Translator
from app.translation.types import Options, Translations
from model.bundle import Bundle
from model.normalisation import normalise_source
from model.tokenizer import Tokenizer, Tokenizers


class Echo(FakeDecoder):
    """Replaces the engine: each sentence's translation is itself, at -1 per token."""

    def __init__(self, eos_id: int) -> None:
        self.eos_id = eos_id
        self.asked: list[engine.Sequence] = []

    def answers(self, sequences: list[engine.Sequence]) -> list[Decoded | ServiceError]:
        self.asked += sequences
        return [self.answer(sequence) for sequence in sequences]

    def answer(self, sequence: engine.Sequence) -> Decoded:
        tokens = (*sequence.source, self.eos_id)
        count = len(tokens)
        return Decoded(tokens, (-1.0,) * count, "stop", tuple(range(count)), (1.0,) * count)


def translator(bundle: Bundle, **limits: Any) -> tuple[Translator, Echo]:
    echo = Echo(bundle.source_tokenizer.eos_id)
    return Translator(Catalogue([bundle]), echo, Settings(**limits)), echo


def translate(bundle: Bundle, *texts: str, **limits: Any) -> Translations:
    work = translator(bundle, **limits)[0].translate(texts, Options(bundle.source, bundle.target))
    return asyncio.run(work)


def expecting_marks(bundle: Bundle) -> Bundle:
    """A bundle recorded as trained only on sentences with end marks."""
    training = {**bundle.config["training"], "sources_with_end_marks": 1.0}
    return dataclasses.replace(bundle, config={**bundle.config, "training": training})


def composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@pytest.mark.slow
@example(["0¢\u00ad¢A"])
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(" \n.,😀"), max_size=80), max_size=3)
)
def test_untranslated_text_is_kept_in_place(bundle: Bundle, texts: list[str]) -> None:
    known = mark_substitutes(bundle.source_tokenizer)  # the echo is of what the model is given

    def given_to(texts: Iterable[str | None]) -> list[str]:
        return [composed(normalise_source(text or "")).translate(known) for text in texts]

    found = [item.text or "" for item in translate(bundle, *texts).items]
    assert given_to(found) == given_to(texts)
    assert [text.count("\n") for text in found] == [text.count("\n") for text in texts]
    assert given_to(item.text for item in translate(expecting_marks(bundle), *texts).items) == given_to(texts)


def test_each_sentence_is_translated_separately(bundle: Bundle) -> None:
    one, echo = translator(bundle)
    asyncio.run(one.translate(["Hello.  How are you?\n\n***\n", "x"], Options("en", "fr")))
    assert [bundle.target_tokenizer.decode(sequence.source) for sequence in echo.asked] == [
        "Hello.",
        "How are you?",
        "x",
    ]


@pytest.mark.parametrize("text", ["", " \n\t ", "***", "😀", "…\x00", "12345", "{name}", "1. 3.14 %"])
def test_text_without_a_sentence_needs_no_engine(bundle: Bundle, text: str) -> None:
    one, echo = translator(bundle)
    done = asyncio.run(one.translate([text], Options("en", "fr")))
    (item,) = done.items
    assert (item.text, item.score, item.finish_reason, item.warnings) == (text, 0.0, "stop", [])
    assert (done.source_tokens, done.target_tokens, echo.asked) == (0, 0, [])


def test_sentence_over_the_models_limit_is_split_with_a_warning(bundle: Bundle) -> None:
    text = "the cat sleeps, " * 30
    one, echo = translator(bundle)
    (item,) = asyncio.run(one.translate([text], Options("en", "fr"))).items
    assert item.text == text
    assert item.warnings[:1] == [f"A sentence of more than 32 tokens was translated in {len(echo.asked)} parts."]
    assert max(len(sequence.source) for sequence in echo.asked) <= bundle.limits.max_source


def test_the_score_is_the_mean_over_all_tokens_of_all_sentences(bundle: Bundle) -> None:
    class Uneven(Echo):
        def answers(self, sequences: list[engine.Sequence]) -> list[Decoded | ServiceError]:
            made = map(self.answer, sequences)
            return [structs.replace(one, log_probs=(float(-n),) * len(one.tokens)) for n, one in enumerate(made)]

    one = Translator(Catalogue([bundle]), Uneven(2), Settings())
    (item,) = asyncio.run(one.translate(["Hello. How are you?"], Options("en", "fr"))).items
    first, second = (len(bundle.source_tokenizer.encode(text)) + 1 for text in ("Hello.", "How are you?"))
    assert item.score == pytest.approx(-second / (first + second))


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("My house", "My house."),
        ("My house.", "My house."),
        ("Where?", "Where?"),
        ("a (b)", "a (b)."),
        ("So it is!", "So it is!"),
        ("Name:", "Name:"),
        ("one,", "one,"),
    ],
)
def test_added_end_mark_is_removed_from_the_translation(bundle: Bundle, text: str, given: str) -> None:
    echo = Echo(bundle.source_tokenizer.eos_id)
    one = Translator(Catalogue([expecting_marks(bundle)]), echo, Settings())
    (item,) = asyncio.run(one.translate([text], Options("en", "fr"))).items
    assert [bundle.target_tokenizer.decode(sequence.source) for sequence in echo.asked] == [given]
    assert item.text == text
    other, plain = translator(bundle)
    asyncio.run(other.translate([text], Options("en", "fr")))
    assert [bundle.target_tokenizer.decode(sequence.source) for sequence in plain.asked] == [text]


def test_text_with_one_endless_translation_finishes_by_length(bundle: Bundle) -> None:
    class Endless(Echo):
        def answers(self, sequences: list[engine.Sequence]) -> list[Decoded | ServiceError]:
            first, *others = map(self.answer, sequences)
            return [structs.replace(first, finish_reason="length"), *others]

    one = Translator(Catalogue([bundle]), Endless(2), Settings())
    done = asyncio.run(one.translate(["Hello. How are you?", "Hello."], Options("en", "fr")))
    assert [item.finish_reason for item in done.items] == ["length", "stop"]


def test_usage_counts_tokens_with_their_end_symbols(bundle: Bundle) -> None:
    done = translate(bundle, "Hello.", "Hello. Hello.")
    tokens = len(bundle.source_tokenizer.encode("Hello.")) + 1
    assert (done.source_tokens, done.target_tokens) == (3 * tokens, 3 * tokens)


def test_too_long_text_fails_alone(bundle: Bundle) -> None:
    done = translate(bundle, "Hello.", "a" * 11, "Bye.", max_text_chars=10)
    assert [item.text for item in done.items] == ["Hello.", None, "Bye."]
    assert isinstance(done.items[1].error, TooMuchText)
    assert done.items[1].score is None


def test_if_all_texts_fail_the_request_has_the_first_error(bundle: Bundle) -> None:
    with pytest.raises(TooMuchText, match="11 characters"):
        translate(bundle, "a" * 11, "b" * 12, max_text_chars=10)


def test_sentence_that_fails_in_the_engine_fails_its_text_alone(bundle: Bundle) -> None:
    class Faulty(Echo):
        def answers(self, sequences: list[engine.Sequence]) -> list[Decoded | ServiceError]:
            first, _, *others = map(self.answer, sequences)
            return [first, StepFailed("failed"), *others]

    one = Translator(Catalogue([bundle]), Faulty(2), Settings())
    done = asyncio.run(one.translate(["Hello. How are you?", "Hello."], Options("en", "fr")))
    assert [item.text for item in done.items] == [None, "Hello."]
    assert isinstance(done.items[0].error, StepFailed)
    assert done.source_tokens == 2 * (len(bundle.source_tokenizer.encode("Hello.")) + 1)


def test_sentence_that_fails_when_it_is_decoded_again_fails_its_text_alone(bundle: Bundle) -> None:
    class FaultyAgain(Echo):
        def answers(self, sequences: list[engine.Sequence]) -> list[Decoded | ServiceError]:
            return [StepFailed("failed")] * len(sequences) if self.asked else super().answers(sequences)

    one = Translator(Catalogue([bundle]), FaultyAgain(bundle.source_tokenizer.eos_id), Settings())
    options = Options("en", "fr", glossary={"cat": "minet"})
    done = asyncio.run(one.translate(["Hello cat.", "Hello."], options))
    assert [item.text for item in done.items] == [None, "Hello."]
    assert isinstance(done.items[0].error, StepFailed)


def test_sentences_of_a_client_who_left_are_decoded_for_nobody(bundle: Bundle) -> None:
    class Silent(Echo):
        def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
            self.jobs = jobs
            submitted.set()

    async def leave() -> None:
        silent = Silent(bundle.source_tokenizer.eos_id)
        work = Translator(Catalogue([bundle]), silent, Settings()).translate(["Hello. How are you?", "Hello."], options)
        task = asyncio.create_task(work)
        await submitted.wait()
        futures = [future for job in silent.jobs for future in job.futures]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [future.cancelled() for future in futures] == [True] * 3

    options, submitted = Options("en", "fr"), asyncio.Event()
    asyncio.run(leave())


def test_unserved_pair_is_refused(bundle: Bundle) -> None:
    with pytest.raises(PairNotServed, match=r"Served: en-fr\."):
        asyncio.run(translator(bundle)[0].translate(["Hello."], Options("fr", "en")))


def test_too_many_texts_are_refused(bundle: Bundle) -> None:
    with pytest.raises(TooMuchText):
        translator(bundle, max_items=2)[0].check_count(3)


@pytest.mark.parametrize("texts", [["a\n" * 1_000], ["a\n"] * 1_000])
def test_a_text_larger_than_the_queue_is_refused_before_it_is_fully_encoded(bundle: Bundle, texts: list[str]) -> None:
    encoded: list[str] = []

    class Noting(Tokenizer):
        def encode_source(self, text: str) -> list[int]:
            encoded.append(text)
            return super().encode_source(text)

    tokenizer = Noting(bundle.source_tokenizer.proto)
    noting = dataclasses.replace(bundle, tokenizers=Tokenizers.joint(tokenizer))
    with pytest.raises(TooMuchText, match="over 160 tokens"):
        translate(noting, *texts, queue_tokens=10 * TILE)
    assert len(encoded) <= 2 * 11


def test_a_text_that_just_fits_the_queue_is_translated(bundle: Bundle) -> None:
    assert len(translate(bundle, "a\n" * 6, "a\n" * 4, queue_tokens=10 * TILE).items) == 2


@pytest.mark.parametrize(("asked_ms", "limit_ms"), [(1, 60_000), (None, 1), (60_000, 1)])
def test_shorter_of_both_deadlines_applies(bundle: Bundle, asked_ms: int | None, limit_ms: int) -> None:
    class Stuck(Echo):
        def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None: ...

    one = Translator(Catalogue([bundle]), Stuck(2), Settings(deadline_ms=limit_ms))
    with pytest.raises(DeadlinePassed, match="within 1 ms"):
        asyncio.run(one.translate(["Hello."], Options("en", "fr", deadline_ms=asked_ms)))


@pytest.mark.parametrize(
    ("slow", "asked"),
    [
        ("text_plan.TextPlan.alternatives", Options("en", "fr", alternatives=1)),
        ("planned_item.word_pairs", Options("en", "fr", alignment=True)),
    ],
)
def test_alternatives_and_alignment_block_no_request_and_respect_the_deadline(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, slow: str, asked: Options
) -> None:
    late, threads = threading.Event(), list[threading.Thread]()

    def slowly(*_: object) -> list[Any]:
        threads.append(threading.current_thread())
        loops[0].call_soon_threadsafe(expire)
        late.wait(WAIT_S)
        return []

    def expire() -> None:
        for limit in list(one._timeout._limits):
            limit.expire()

    async def scenario() -> None:
        loops.append(asyncio.get_running_loop())
        with pytest.raises(DeadlinePassed):
            await one.translate(["Hello."], asked)
        late.set()

    one, loops = translator(bundle)[0], list[asyncio.AbstractEventLoop]()

    monkeypatch.setattr(f"app.translation.{slow}", slowly)
    asyncio.run(scenario())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_joined_sentences_get_a_space_if_the_target_language_uses_one(bundle: Bundle) -> None:
    chinese = translating(bundle, "zh", "fr")
    assert [item.text for item in translate(chinese, "你好。我很好。 是吗。\n").items] == ["你好。 我很好。 是吗。\n"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好。**我很好。** 谁。", "你好。 **我很好。** 谁。"),
        ("你好。😀我很好。", "你好。😀 我很好。"),
        ("①你好。②我很好。", "①你好。 ②我很好。"),
        ("1.你好。2.我很好。", "1.你好。 2.我很好。"),
        ("你好。(我很好。)", "你好。 (我很好。)"),
        ("\u3000\u3000你好。\u3000我很好。", "\u3000\u3000你好。 我很好。"),
    ],
)
def test_text_between_sentences_gets_the_space_on_its_open_side(bundle: Bundle, text: str, expected: str) -> None:
    chinese = translating(bundle, "zh", "fr")
    assert [item.text for item in translate(chinese, text).items] == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello. How are you?  Bye!", "Hello.How are you?Bye!"),
        ("Hello.\nHow are you?\tBye!\n\n Hello.", "Hello.\nHow are you?\tBye!\n\n Hello."),
        ("  Hello. 😀 Bye. ", "  Hello. 😀 Bye. "),
        ("Hello.   Bye.", "Hello.   Bye."),
    ],
)
def test_space_between_sentences_is_removed_if_the_target_language_uses_none(
    bundle: Bundle, text: str, expected: str
) -> None:
    chinese = translating(bundle, "en", "zh")
    assert [item.text for item in translate(chinese, text).items] == [expected]


def test_no_space_is_added_in_chinese_where_a_long_sentence_was_split(bundle: Bundle) -> None:
    chinese = translating(bundle, "en", "zh")
    text = "the cat sleeps, " * 30
    (item,) = translate(chinese, text).items
    assert item.text and item.text.replace(" ", "") == text.replace(" ", "")
    assert "sleeps,the" in item.text


def passed_on(bundle: Bundle, text: str) -> tuple[list[str], str | None]:
    """The model's input for `text`, and the translation if the model returns it."""
    one, echo = translator(bundle)
    (item,) = asyncio.run(one.translate([text], Options("en", "fr"))).items
    return [bundle.target_tokenizer.decode(sequence.source) for sequence in echo.asked], item.text


def test_marks_that_the_vocabulary_lacks_are_replaced_by_known_ones(bundle: Bundle) -> None:
    assert passed_on(bundle, "The cat’s “well” – Bo.")[0] == ['The cat\'s "well" - Bo.']


def test_text_in_capitals_is_translated_lowercased_and_capitalised_again(bundle: Bundle) -> None:
    assert passed_on(bundle, "THE CAT SLEEPS.") == (["The cat sleeps."], "THE CAT SLEEPS.")
    assert passed_on(bundle, "THE {name} SLEEPS.")[0] == ["The  sleeps."]
    assert passed_on(bundle, "HELLO!") == (["Hello!"], "HELLO!")
    assert passed_on(bundle, "{name}, SLEEPS!")[0] == [", sleeps!"]
    assert passed_on(bundle, "{name}, HELLO!")[0] == [", Hello!"], "which takes fewer pieces here"


@pytest.mark.parametrize("text", ["USA", "USA UK", "The CAT SLEEPS.", "The cat, NASA"])
def test_names_in_capitals_are_kept(bundle: Bundle, text: str) -> None:
    assert passed_on(bundle, text)[0] == [text]


@pytest.mark.parametrize("at_once", [True, False])
def test_other_requests_run_between_two_sentences_of_a_long_text(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    class OneAfterAnother(Echo):
        """Each sentence is done two passes of the event loop after the one before."""

        def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
            self.task = asyncio.create_task(self.end(jobs))

        async def end(self, jobs: list[Job]) -> None:
            for job in jobs:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                job.finish(self.answer(job.sequence))

    passes, looked_after = 0, list[int]()

    def noted(translation: Translation) -> Translation:
        looked_after.append(passes)
        return check_translation(translation)

    async def counted(works: Translator, text: str) -> None:
        async def count() -> None:
            nonlocal passes
            while True:
                passes += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await works.translate([text], Options(bundle.source, bundle.target))
        counting.cancel()

    monkeypatch.setattr(policies, "check_translation", noted)
    works = Translator(
        Catalogue([bundle]), (Echo if at_once else OneAfterAnother)(bundle.source_tokenizer.eos_id), Settings()
    )
    asyncio.run(counted(works, "The cat sleeps.\n" * 200))
    assert len(looked_after) == 200
    assert max(Counter(looked_after).values()) <= 2


def test_request_leaves_nothing_to_the_garbage_collector(bundle: Bundle) -> None:
    gc.disable()
    try:
        done = translate(bundle, "Hello.")
        plan = done.items[0].plan
        assert plan
        found = weakref.ref(plan)
        del done, plan
        assert found() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("text", ["&Open", "Save &As...", "_Open", "Open (&O)", "Open &Other", "a_b", "R&D"])
def test_unchanged_label_keeps_its_mnemonic_in_place(bundle: Bundle, text: str) -> None:
    [item] = translate(bundle, text).items
    assert item.text == text


def test_label_is_translated_without_its_mnemonic_which_is_put_back(bundle: Bundle) -> None:
    one, echo = translator(bundle)
    tokens = (*bundle.source_tokenizer.encode("Le chat"), bundle.source_tokenizer.eos_id)
    count = len(tokens)
    echo.answer = lambda sequence: Decoded(tokens, (-0.1,) * count, "stop", (0,) * count, (1.0,) * 20)  # type: ignore[method-assign]
    [item] = asyncio.run(one.translate(["The &cat"], Options("en", "fr"))).items
    assert item.text == "Le &chat"
    assert bundle.target_tokenizer.decode(echo.asked[0].source) == "The cat"
    [aligned] = asyncio.run(one.translate(["The &cat"], Options("en", "fr", alignment=True))).items
    assert len(echo.asked[-1].required) == 1 and aligned.alignment is not None  # the "&" stays where it is


def test_text_in_json_with_a_mnemonic_is_no_label(bundle: Bundle) -> None:
    one, echo = translator(bundle)
    text = '{"menu": "&Open file", "b": "Save"}'
    [item] = asyncio.run(one.translate([text], Options("en", "fr"))).items
    assert item.text is not None and item.text.startswith('{"menu": "') and '", "b": "' in item.text
    assert len(echo.asked) == 2


@pytest.mark.parametrize("prefix", ["", "Le"])
def test_numbers_of_a_translation_that_the_user_began_stay(bundle: Bundle, prefix: str) -> None:
    one, echo = translator(bundle)
    tokens = (*bundle.target_tokenizer.encode("Le chat 12.5 kg."), bundle.target_tokenizer.eos_id)
    count = len(tokens)
    echo.answer = lambda sequence: Decoded(tokens, (-0.1,) * count, "stop", (0,) * count, (1.0,) * 20)  # type: ignore[method-assign]
    [item] = asyncio.run(one.translate(["The cat 12.5 kg."], Options("en", "fr", prefix=prefix))).items
    assert item.text == ("Le chat 12.5 kg." if prefix else "Le chat 12,5 kg.")


def test_streamed_parts_span_the_copied_text_before_them(bundle: Bundle) -> None:
    one, _ = translator(bundle)
    text = "😀 The cat sleeps. \n\n The cat sleeps."

    async def streamed() -> list[Any]:
        return [part async for part in one.stream([text], Options("en", "fr"))]

    *parts, _ = asyncio.run(streamed())
    assert [text[slice(*part.source)] for part in parts] == ["😀 The cat sleeps.", " \n\n The cat sleeps."]


def test_stream_of_a_text_ends_at_the_sentence_that_failed(bundle: Bundle) -> None:
    class Faulty(Echo):
        def answers(self, sequences: list[engine.Sequence]) -> list[Decoded | ServiceError]:
            first, _, *others = map(self.answer, sequences)
            return [first, StepFailed("failed"), *others]

    one = Translator(Catalogue([bundle]), Faulty(bundle.source_tokenizer.eos_id), Settings())

    async def streamed() -> list[Any]:
        return [part async for part in one.stream(["Hello. How are you? The cat.", "Hello."], Options("en", "fr"))]

    *parts, done = asyncio.run(streamed())
    assert [(part.item, part.text) for part in parts] == [(0, "Hello."), (1, "Hello.")]
    assert isinstance(done.items[0].error, StepFailed)


def test_streamed_label_is_one_part(bundle: Bundle) -> None:
    one, _ = translator(bundle)

    async def streamed() -> list[Any]:
        return [part async for part in one.stream(["The &cat. The _Dog."], Options("en", "fr"))]

    part, done = asyncio.run(streamed())
    assert part.text == "The &cat. The _Dog." == done.items[0].text and part.source is None
