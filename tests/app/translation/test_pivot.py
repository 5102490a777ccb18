"""Two bundles translate one after the other, and nothing that each of them keeps is lost in between."""

from __future__ import annotations

import asyncio
import re
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from fakes import CannedDecoder, FakeDecoder, RandomDecoder, named_bundle
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from shared_fixtures import make_bundle

from app.documents.processes import DocumentProcesses
from app.engine import sequence as engine
from app.engine.job import Job
from app.engine.registry import Catalogue
from app.engine.sequence import Decoded
from app.errors import DeadlinePassed, PairNotServed, ServiceError, StepFailed, TooMuchText
from app.markup.extract import markup_pieces
from app.markup.passage import Passage, ProtectedSpan, Tag
from app.settings import Settings
from app.text.placeholders import find_placeholders
from app.translation.documents import document_file, open_document, translate_document
from app.translation.pivot import MAX_READ_PARTS, PivotPlan
from app.translation.translator import Translator
from app.translation.types import Item, Options, TranslatedPart, TranslatedText, Translations
from model.bundle import Bundle
from model.bundle_weights import load_bundle

EXAMPLES = settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
"""Each takes two translations; shrinking would take minutes."""
PLAIN_WORDS = ["le", "chat", "dort", "il", "va", "bien", "21,", "Hello.", "😀"]
WORDS = st.lists(st.sampled_from([*PLAIN_WORDS, "{name}", "%s", "<0>", "**bien**", "a.io/b"]))
PLAIN_TEXTS = st.lists(
    st.lists(st.sampled_from([word for word in PLAIN_WORDS if word != "Hello."])).map(" ".join), max_size=4
).map("\n".join)
"""Lines of one sentence, without placeholders, which a second translation by itself would have to find again."""
TEXTS = st.lists(WORDS.map(" ".join), max_size=4).map("\n".join)


class Each(FakeDecoder):
    """Decodes with the engine of each sequence's bundle."""

    def __init__(self, engines: dict[str, FakeDecoder]) -> None:
        self.engines = engines

    def answers(self, sequences: list[engine.Sequence]) -> Sequence[Decoded | ServiceError]:
        found = dict[engine.Sequence, Decoded | ServiceError]()
        for name in {sequence.model for sequence in sequences}:
            own = [sequence for sequence in dict.fromkeys(sequences) if sequence.model == name]
            found.update(zip(own, self.engines[name].answers(own), strict=True))
        return [found[sequence] for sequence in sequences]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Bundle]:
    """fr-en, en-de and de-en."""
    folder = tmp_path_factory.mktemp("legs")
    pairs = (("fr", "en"), ("en", "de"), ("de", "en"))
    return [load_bundle(make_bundle(folder / "-".join(pair), *pair), torch.device("cpu")) for pair in pairs]


def translator(bundles: Sequence[Bundle], make: Callable[[Bundle], FakeDecoder], **limits: Any) -> Translator:
    return Translator(Catalogue(bundles), Each({bundle.name: make(bundle) for bundle in bundles}), Settings(**limits))


def translate(
    of: Translator, items: Sequence[Item], source: str = "fr", target: str = "de", **options: Any
) -> Translations:
    return asyncio.run(of.translate(items, Options(source, target, **options)))


def one(of: Translator, item: Item, source: str = "fr", target: str = "de", **options: Any) -> TranslatedText:
    return translate(of, [item], source, target, **options).items[0]


def wild(bundle: Bundle) -> RandomDecoder:
    return RandomDecoder(bundle)


class Dictionary(FakeDecoder):
    """Translates the words in it, and copies everything else, symbols included."""

    def __init__(self, bundle: Bundle, words: dict[str, str]) -> None:
        encode = self.encode = bundle.source_tokenizer.encode
        self.eos_id = bundle.source_tokenizer.eos_id
        self.words = [(tuple(encode(word)), tuple(encode(translation))) for word, translation in words.items()]

    def answer(self, sequence: engine.Sequence) -> Decoded:
        source, tokens, aligned = sequence.source, list[int](), list[int]()
        at = 0
        while at < len(source):
            size, made = next(
                ((len(word), new) for word, new in self.words if source[at : at + len(word)] == word),
                (1, source[at : at + 1]),
            )
            tokens += made
            aligned += [min(at + place, at + size - 1) for place in range(len(made))]
            at += size
        if sequence.prefix:
            tokens = list(sequence.prefix)
            aligned = [min(place, len(source) - 1) for place in range(len(tokens))]
        tokens.append(self.eos_id)
        aligned.append(len(source) - 1)
        count = len(tokens)
        return Decoded(tuple(tokens), (-0.1,) * count, "stop", tuple(aligned), (1.0,) * (len(source) + 1))


def with_words(**words: str) -> Callable[[Bundle], FakeDecoder]:
    """Both bundles have the same dictionary."""
    return lambda bundle: Dictionary(bundle, words)


@pytest.mark.slow
@EXAMPLES
@example("le va il 😀 il le le dort le dort va il va va 21, le 21, chat va 😀 chat le\nbien 21,")  # cut in two
@given(text=PLAIN_TEXTS)
def test_pivot_translation_equals_two_translations(bundles: list[Bundle], text: str) -> None:
    """The second one is of each sentence of the first: the parts of one that was too long may be short enough together,
    but each is translated on as soon as it is known."""
    both = translator(bundles, wild)
    first = one(both, text, "fr", "en")
    assert first.text is not None and first.plan is not None
    assume("😀 😀" not in first.text)  # two symbols stay separate through the pivot; read afresh, they are one
    ends = [at + len(sentence.best.rendered) for sentence, at in first.plan.rendered_sentences()]
    between = [first.text[start:end] for start, end in pairwise([0, *ends[:-1], len(first.text)])]
    assert one(both, text).text == "".join(str(item.text) for item in translate(both, between, "en", "de").items)


@pytest.mark.slow
@EXAMPLES
@given(text=TEXTS)
def test_every_placeholder_occurs_once(bundles: list[Bundle], text: str) -> None:
    found = one(translator(bundles, wild), text).text
    assert found is not None
    for name, count in Counter(span.raw for span in find_placeholders(text, "fr")).items():
        assert found.count(name) >= count


@pytest.mark.slow
@EXAMPLES
@given(texts=st.lists(WORDS.map(" ".join), max_size=5))
def test_html_keeps_every_tag_once_and_in_its_parent(bundles: list[Bundle], texts: list[str]) -> None:
    tags = ["<p>", "<b>", "<i id='a'>", "</i>", "<br>", "</b>", "&nbsp;", '<img alt="le chat">', "</p>"]
    html = "".join(tag + text.replace("<0>", "") for tag, text in zip(tags, [*texts, *[""] * len(tags)], strict=False))
    found = one(translator(bundles, wild), html, html=True).text
    assert found is not None
    marks = re.compile(r"</?[a-z]+")
    assert Counter(marks.findall(found)) == Counter(marks.findall(html))
    assert not re.search("[\ufdd0-\ufdef]", found)
    assert found.startswith("<p>") and found.endswith("</p>")


def test_html_translation_equals_two_translations(bundles: list[Bundle]) -> None:
    both = translator(bundles, with_words(chat="cat", cat="Katze", dort="sleeps", sleeps="ruht"))
    found = one(both, '<p>le <b title="chat">chat</b> dort&nbsp;il<br>\n va</p><pre>a\n</pre>', html=True).text
    assert found == '<p>le <b title="Katze">Katze</b> ruht&nbsp;il<br>\n va</p><pre>a\n</pre>'


def test_mark_characters_in_the_text_are_text(bundles: list[Bundle]) -> None:
    text = "le \ufdd4\ufdd6\ufdd5 chat \ufdd4 {name}"
    assert one(translator(bundles, CannedDecoder), text).text == text


@pytest.mark.parametrize(
    "text",
    ["&Chat dort", "chat(&C)", "{n, plural, one {# chat} other {# bien}} dort", "A\tB chat\r\n\r\n  bien \n", "", " "],
)
def test_pivot_keeps_what_one_translation_keeps(bundles: list[Bundle], text: str) -> None:
    both = translator(bundles, CannedDecoder)
    assert one(both, text).text == one(both, text, "fr", "en").text


def test_mnemonic_marks_its_letter_in_the_last_language(bundles: list[Bundle]) -> None:
    both = translator(bundles, with_words(dort="cat", cat="bien"))
    assert one(both, "&Dort").text == "&Bien"


def test_format_encodes_the_translation_once(bundles: list[Bundle]) -> None:
    """Only the last translation is encoded, and its content is not encoded twice."""
    passage = Passage(
        "le chat {x} dort",
        (ProtectedSpan(8, 11, "<x/>"),),
        (Tag(3, "<b>", "open"), Tag(7, "</b>", "close")),
        lambda text: text.replace("chat", "CHAT&"),
    )
    both = translator(bundles, CannedDecoder)
    text = "le <b>CHAT&</b> <x/> dort"
    assert one(both, ["{", passage, "}", passage]).text == f"{{{text}}}{text}"


def test_result_reports_both_translations(bundles: list[Bundle]) -> None:
    first, second, _ = bundles
    both = translator(bundles, lambda bundle: CannedDecoder(bundle, log_prob=-0.1 if bundle is first else -0.4))
    done = translate(both, ["le chat"])
    [item] = done.items
    assert (item.via, item.source) == (["en"], "fr")
    assert done.model == f"{first.name} + {second.name}"
    tokens = [len(bundle.source_tokenizer.encode("le chat")) + 1 for bundle in (first, second)]
    assert (done.source_tokens, done.target_tokens) == (sum(tokens), sum(tokens))
    assert item.score == pytest.approx((-0.1 * tokens[0] - 0.4 * tokens[1]) / sum(tokens))
    direct = translate(both, ["le chat"], "fr", "en")
    assert (direct.items[0].via, direct.model) == (None, first.name)


def test_text_without_words_names_both_bundles(bundles: list[Bundle]) -> None:
    done = translate(translator(bundles, CannedDecoder), ["..."])
    assert (done.items[0].text, done.model) == ("...", f"{bundles[0].name} + {bundles[1].name}")


@pytest.mark.slow
@EXAMPLES
@given(text=TEXTS)
def test_alignment_is_within_both_texts(bundles: list[Bundle], text: str) -> None:
    item = one(translator(bundles, wild), text, alignment=True)
    assert item.text is not None and item.alignment is not None
    for (a, b), (c, d) in item.alignment:
        assert 0 <= a < b <= len(text) and text[a:b].strip()
        assert 0 <= c < d <= len(item.text) and item.text[c:d].strip()
    assert len(set(item.alignment)) == len(item.alignment)
    assert [pair.target for pair in item.alignment] == sorted(pair.target for pair in item.alignment)


def test_alignment_composes_both_translations_alignments(bundles: list[Bundle]) -> None:
    text = "Le <b>chat</b> {name} dort.\nIl **va bien**."
    item = one(translator(bundles, CannedDecoder), text, alignment=True)
    assert item.alignment and item.text == text
    assert all(pair.source == pair.target for pair in item.alignment)
    words = [text[slice(*pair.source)] for pair in item.alignment]
    assert words == ["Le", "chat", "{name}", "dort", "Il", "va", "bien"]


def test_alignment_composes_both_translations_alignments_of_terms(bundles: list[Bundle]) -> None:
    text = "Le chat {name} dort.\nIl va bien."
    item = one(translator(bundles, CannedDecoder), text, alignment=True, glossary={"chat": "chat"})
    assert item.alignment and item.text == text
    words = [(text[slice(*pair.source)], text[slice(*pair.target)]) for pair in item.alignment]
    assert words == [(word, word) for word in ("Le", "chat", "{name}", "dort", "Il", "va", "bien")]
    assert all(pair.source == pair.target for pair in item.alignment)


def test_term_has_its_translation_in_the_last_language(bundles: list[Bundle]) -> None:
    """Although the pivot language has another word for it."""
    both = translator(bundles, with_words(chat="cat", cat="bien"))
    item = one(both, "le chat dort", glossary={"chat": "thank you"})
    assert item.text is not None and item.text.startswith("le thank you")
    assert "bien" not in item.text
    named = one(both, "le <b>chat</b> dort", glossary={"chat": "thank & you"}, html=True)
    assert named.text is not None and "thank" in named.text and "&amp; you" in named.text


@pytest.mark.slow
@EXAMPLES
@given(text=TEXTS)
def test_term_is_never_lost(bundles: list[Bundle], text: str) -> None:
    found = one(translator(bundles, wild), text, glossary={"chat": "Kater", "va bien": "mit & ohne"}).text
    assert found is not None
    assert found.lower().count("kater") >= text.split().count("chat")


def test_glossary_is_chosen_by_source_and_target_languages(bundles: list[Bundle]) -> None:
    with pytest.raises(Exception, match="for fr-de"):
        one(translator(bundles, CannedDecoder), "le chat", glossary="animals")


def test_alternatives_are_those_of_the_last_translation(bundles: list[Bundle]) -> None:
    both = translator(bundles, wild)
    between = one(both, "le chat", "fr", "en").text
    assert between
    item = one(both, "le chat", alternatives=3)
    direct = one(both, between, "en", "de", alternatives=3)
    assert [text for text, _ in item.alternatives] == [text for text, _ in direct.alternatives]
    assert len(item.alternatives) == 3
    assert item.alternatives == sorted(item.alternatives, key=lambda pair: -pair[1])


class Partly(CannedDecoder):
    """Fails on one word."""

    def answer(self, sequence: engine.Sequence) -> Decoded:
        if "chat" in self.bundle.target_tokenizer.decode(sequence.source):
            raise StepFailed("No.")
        return super().answer(sequence)

    def answers(self, sequences: list[engine.Sequence]) -> Sequence[Decoded | ServiceError]:
        return [self._answer_or_error(sequence) for sequence in sequences]

    def _answer_or_error(self, sequence: engine.Sequence) -> Decoded | ServiceError:
        try:
            return self.answer(sequence)
        except StepFailed as error:
            return error


@pytest.mark.parametrize("failing", [0, 1])
def test_item_fails_alone_in_either_translation(bundles: list[Bundle], failing: int) -> None:
    both = translator(bundles, lambda bundle: (Partly if bundle is bundles[failing] else CannedDecoder)(bundle))
    failed, done = translate(both, ["le chat", "il va"]).items
    assert isinstance(failed.error, StepFailed) and failed.text is None
    assert done.text == "il va" and done.error is None


@pytest.mark.parametrize("stuck", [0, 1])
def test_deadline_covers_both_translations(bundles: list[Bundle], stuck: int) -> None:
    class Stuck(CannedDecoder):
        def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
            """Never delivers a result."""

    class EachStuck(Each):
        async def decode(
            self, sequences: list[engine.Sequence], deadline: float, client: str = "", continues: bool = False
        ) -> list[Future[Decoded]]:
            return await self.engines[sequences[0].model].decode(sequences, deadline)

    engines: dict[str, FakeDecoder] = {
        bundle.name: (Stuck if number == stuck else CannedDecoder)(bundle) for number, bundle in enumerate(bundles)
    }
    both = Translator(Catalogue(bundles), EachStuck(engines), Settings())
    with pytest.raises(DeadlinePassed):
        one(both, "le chat", deadline_ms=100)


def test_warnings_of_both_translations_are_merged(bundles: list[Bundle]) -> None:
    both = translator(bundles, lambda bundle: CannedDecoder(bundle, log_prob=-0.1))
    text = "le chat dort, il va bien, merci."
    copied = f"Copied rather than translated: “{text}”."
    item = one(both, f"{text}\n{text}")
    assert item.warnings.count(copied) == 1
    assert item.located_warnings.count((0, copied)) == 1
    assert (len(text) + 1, copied) in item.located_warnings


@pytest.mark.parametrize(
    ("text", "html"), [("le <b>chat</b> dort", False), ("le **chat** dort", False), ("le <b>chat</b> dort", True)]
)
@pytest.mark.parametrize("losing", [0, 1])
def test_marked_words_that_are_lost_cause_a_warning(bundles: list[Bundle], losing: int, text: str, html: bool) -> None:
    """In either translation, though every word got attention. Marks of a plain text keep their words instead."""
    both = translator(bundles, lambda of: Dictionary(of, {"chat": ""} if of is bundles[losing] else {}))
    warning = "No word of the translation has the markup of “chat”."
    item = one(both, text, html=html)
    assert (warning in item.warnings) == html
    assert html or (item.text or "").count(text.split()[1]) == 1
    assert warning not in one(translator(bundles, lambda of: Dictionary(of, {})), text, html=html).warnings


@pytest.mark.parametrize("text", ["le <b>chat</b> dort", "le **chat** dort", "le [chat](x.io) dort"])
def test_models_read_plain_text_without_its_pairs_of_marks(bundles: list[Bundle], text: str) -> None:
    both = translator(bundles, with_words(chat="cat", cat="bien"))
    item = one(both, text)
    assert item.text == text.replace("chat", "bien")
    assert item.pivot and item.plan
    for plan, read in ((item.pivot.into_pivot, "le chat dort"), (item.plan, "le cat dort")):
        [planned] = plan.sentences
        sentence = planned.sentence
        assert sentence.sequence.source == tuple(sentence.bundle.source_tokenizer.encode(read))


def test_auto_detection_finds_the_pivot(bundles: list[Bundle]) -> None:
    both = translator(bundles, CannedDecoder)
    texts = [
        "Le chat dort dans la maison de mes parents.",
        "The cat sleeps in the house.",
        "Die Katze schläft im Haus.",
    ]
    done = translate(both, texts, "auto")
    assert [(item.source, item.via) for item in done.items] == [("fr", ["en"]), ("en", None), ("de", None)]
    assert done.items[2].text == texts[2]
    assert done.model == f"{bundles[0].name} + {bundles[1].name}, {bundles[1].name}"


async def parts_of(of: Translator, text: str) -> tuple[list[TranslatedPart], Translations]:
    found = [part async for part in of.stream([text], Options("fr", "de"))]
    *parts, done = found
    assert isinstance(done, Translations)
    return [part for part in parts if isinstance(part, TranslatedPart)], done


@pytest.mark.slow
@EXAMPLES
@given(text=TEXTS)
def test_stream_equals_the_whole_translation(bundles: list[Bundle], text: str) -> None:
    both = translator(bundles, wild)
    parts, done = asyncio.run(parts_of(both, text))
    whole = one(both, text)
    assert "".join(part.text for part in parts) == whole.text == done.items[0].text
    assert done.items[0].score == whole.score
    for part in parts:
        assert part.source is None or 0 <= part.source[0] < part.source[1] <= len(text)


class Held(CannedDecoder):
    """Keeps the sentences with a word until `end` is called."""

    def __init__(self, bundle: Bundle, word: str) -> None:
        super().__init__(bundle)
        self.word, self.held = word, list[Job]()

    def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
        texts = [self.bundle.source_tokenizer.decode(job.sequence.source) for job in jobs]
        self.held += [job for job, text in zip(jobs, texts, strict=True) if self.word in text]
        super().submit([job for job in jobs if job not in self.held])

    def end(self) -> None:
        jobs, self.held = self.held, []
        super().submit(jobs)


class EachSubmitted(Each):
    """Submits each sequence to the engine of its bundle."""

    def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
        for name, engine_of_bundle in self.engines.items():
            if own := [job for job in jobs if job.sequence.model == name]:
                engine_of_bundle.submit(own)


def held_translator(bundles: Sequence[Bundle], word: str, **limits: Any) -> tuple[Translator, Held]:
    """A translator whose first bundle keeps sentences with `word`."""
    first, *others = bundles
    held = Held(first, word)
    engines: dict[str, FakeDecoder] = {first.name: held} | {one.name: CannedDecoder(one) for one in others}
    return Translator(Catalogue(bundles), EachSubmitted(engines), Settings(**limits)), held


def test_a_nested_passage_waits_for_each_of_its_sentences(bundles: list[Bundle]) -> None:
    """The second one is decoded long after the first."""
    text = '<p>le <img alt="le chat dort. il va bien."> chat</p>'

    async def run() -> TranslatedText:
        works, held = held_translator(bundles, "bien")
        task = asyncio.create_task(works.translate([text], Options("fr", "de", html=True, deadline_ms=20_000)))
        for _ in range(100):
            await asyncio.sleep(0)
        assert held.held
        held.end()
        return (await task).items[0]

    item = asyncio.run(run())
    assert item.text == text and item.plan and [len(parts) for parts in item.plan.nested.values()] == [3]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Le chat dort. Il va bien.", False),
        ("Le chat dort.\nIl va bien.\n", False),
        ("<p>Le <b>chat</b>.<p>il va", True),
    ],
)
def test_streamed_part_does_not_wait_for_later_sentences(bundles: list[Bundle], text: str, html: bool) -> None:
    """The first sentence passes both translations while the second is still in the first."""

    async def run() -> tuple[str, str]:
        streaming, held = held_translator(bundles, "il" if html else "bien")
        parts = streaming.stream([text], Options("fr", "de", html=html))
        first = await anext(parts)
        assert isinstance(first, TranslatedPart) and held.held
        held.end()
        *others, done = [part async for part in parts]
        assert isinstance(done, Translations)
        return "".join([first.text, *(part.text for part in others if isinstance(part, TranslatedPart))]), first.text

    whole, first = asyncio.run(run())
    assert whole == text == one(translator(bundles, CannedDecoder), text, html=html).text
    assert "chat" in first and "va" not in first


def test_second_translation_starts_while_the_first_runs(bundles: list[Bundle]) -> None:
    """The part that is waited for is not the only one to go on."""

    class Silent(FakeDecoder):
        """Never delivers a result; tells when it has two sentences."""

        def __init__(self) -> None:
            self.jobs, self.has_two = list[Job](), asyncio.Event()

        def submit(self, jobs: list[Job], client: str = "", continues: bool = False) -> None:
            self.jobs += jobs
            if len(self.jobs) == 2:
                self.has_two.set()

    async def run() -> None:
        held, silent = Held(bundles[0], "bien"), Silent()
        engines: dict[str, FakeDecoder] = {bundles[0].name: held, bundles[1].name: silent}
        streaming = Translator(Catalogue(bundles[:2]), EachSubmitted(engines), Settings())
        parts = streaming.stream(["Le chat dort. Il dort. Il va bien."], Options("fr", "de"))
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(anext(parts))
            await silent.has_two.wait()
            assert held.held and not task.done()
            task.cancel()

    asyncio.run(run())


def test_failure_in_a_stream_leaves_what_was_sent(bundles: list[Bundle]) -> None:
    """A later sentence fails in the first translation."""

    async def run() -> list[TranslatedPart | Translations]:
        streaming, held = held_translator(bundles, "chat")
        parts = streaming.stream(["Il va. Le chat dort. Il va.", "Il va."], Options("fr", "de"))
        first = await anext(parts)
        for job in held.held:
            job.fail(StepFailed("No."))
        return [first, *[part async for part in parts]]

    *parts, done = asyncio.run(run())
    assert isinstance(done, Translations) and isinstance(done.items[0].error, StepFailed)
    found = [(part.item, part.text) for part in parts if isinstance(part, TranslatedPart)]
    assert found == [(0, "Il va."), (1, "Il va.")]


def test_second_translation_over_the_budget_is_refused(bundles: list[Bundle]) -> None:
    """Also after the first parts of a stream were sent."""
    text = "Il va bien. " * 5

    def doubling(of: Bundle) -> FakeDecoder:
        return CannedDecoder(of, lambda text: f"{text} {text}") if of is bundles[0] else CannedDecoder(of)

    def is_refused(budget: int, target: str) -> bool:
        try:
            one(translator(bundles, doubling, queue_tokens=budget), text, "fr", target)
        except TooMuchText:
            return True
        return False

    async def stream(of: Translator) -> list[TranslatedPart | Translations]:
        return [part async for part in of.stream([text], Options("fr", "de"))]

    budget = next(budget for budget in range(1, 2000) if not is_refused(budget, "en"))
    assert is_refused(budget, "de")
    with pytest.raises(TooMuchText):
        asyncio.run(stream(translator(bundles, doubling, queue_tokens=budget)))


def test_second_translations_of_all_texts_share_the_budget(bundles: list[Bundle]) -> None:
    text = "Il va bien. " * 5

    def doubling(of: Bundle) -> FakeDecoder:
        return CannedDecoder(of, lambda text: f"{text} {text}") if of is bundles[0] else CannedDecoder(of)

    def is_refused(budget: int, count: int, target: str) -> bool:
        work = translator(bundles, doubling, queue_tokens=budget).translate([text] * count, Options("fr", target))
        try:
            asyncio.run(work)
        except TooMuchText:
            return True
        return False

    budget = next(budget for budget in range(1, 2000) if not is_refused(budget, 1, "de"))
    assert [is_refused(budget, 2, target) for target in ("en", "de")] == [False, True]


def test_score_of_a_streamed_part_is_of_its_own_sentence(bundles: list[Bundle]) -> None:
    """In the second passage, too, whose offsets begin at 0 again."""

    class Sure(CannedDecoder):
        def answer(self, sequence: engine.Sequence) -> Decoded:
            self.log_prob = -0.1 if "chat" in self.bundle.source_tokenizer.decode(sequence.source) else -0.6
            return super().answer(sequence)

    async def run() -> list[float | None]:
        parts = translator(bundles, Sure).stream(["<p>Le chat</p><p>Il va</p>"], Options("fr", "de", html=True))
        return [part.score async for part in parts if isinstance(part, TranslatedPart)]

    assert [score and round(score, 6) for score in asyncio.run(run())] == [-0.1, -0.6, None]


def test_streamed_part_has_its_source_span(bundles: list[Bundle]) -> None:
    text = "Le chat dort.\n\nIl va <b>bien</b>. Il **dort**."
    parts, _ = asyncio.run(parts_of(translator(bundles, CannedDecoder), text))
    sentences = ["Le chat dort.", "Il va <b>bien</b>.", "Il **dort**."]
    assert [part.source and text[slice(*part.source)] for part in parts] == sentences


DOCUMENTS = {
    "a.md": "# Le chat\n\nIl **va** bien, [dort](https://a.example) `x`.\n\n- chat\n",
    "a.html": "<h1>Le chat</h1>\n<p>Il <b>va</b> bien &amp; dort.</p>\n",
    "a.txt": "Le chat dort.\n\nIl va bien.\n",
    "a.json": '{"a": "Le chat {name}", "b": ["Il va bien"]}\n',
    "a.srt": "1\n00:00:01,000 --> 00:00:02,000\n<i>Le chat</i>\ndort\n",
}


@pytest.mark.slow
def test_documents_keep_their_structure(bundles: list[Bundle]) -> None:
    async def run() -> None:
        processes = DocumentProcesses()  # for all of them: each starts a process

        async def translate_file(name: str, make: Callable[[Bundle], FakeDecoder], target: str) -> str:
            both = translator(bundles, make)
            file = document_file(processes, "", name, DOCUMENTS[name].encode(), target, both.settings, "fr")
            document = await open_document(file, both.settings)
            return (await translate_document(both, document, Options("fr", target)))[0].decode()

        try:
            for name, text in DOCUMENTS.items():
                pivoted = await translate_file(name, CannedDecoder, "de")
                assert pivoted == await translate_file(name, CannedDecoder, "en")
                words = with_words(chat="cat", cat="Hello", va="are", are="you")
                twice = await translate_file(name, words, "de")
                assert twice == text.replace("chat", "Hello").replace("va", "you")
        finally:
            await processes.stop()

    asyncio.run(run())


def test_shortest_route_goes_through_english() -> None:
    def served(*pairs: str, **options: Any) -> Catalogue:
        return Catalogue([bundle_of(*pair.split("-")) for pair in pairs], **options)

    def route(catalogue: Catalogue, source: str, target: str) -> list[str]:
        return [bundle.pair for bundle in catalogue.route(source, target)]

    catalogue = served("fr-es", "es-de", "fr-en", "en-de", "de-en", "en-zh", "zh-ja")
    assert route(catalogue, "fr", "de") == ["fr-en", "en-de"]
    assert route(catalogue, "fr", "en") == ["fr-en"]
    assert route(catalogue, "fr-CA", "DE") == ["fr-en", "en-de"]
    assert route(served("fr-es", "es-de"), "fr", "de") == ["fr-es", "es-de"]
    assert catalogue.targets("fr") == ["es", "en", "de", "zh"]
    assert set(catalogue.sources("de")) == {"es", "en", "fr"}
    assert "fr" not in catalogue.targets("fr") and "de" not in catalogue.targets("de")
    with pytest.raises(PairNotServed, match="Served: "):
        catalogue.route("fr", "ja")
    with pytest.raises(PairNotServed, match="only fr-en and then en-de"):
        catalogue.find("fr", "de")
    with pytest.raises(PairNotServed):
        served("fr-en", "en-de", pivot=False).route("fr", "de")
    with pytest.raises(PairNotServed):  # one variant is not a translation of the other
        served("pt-en", "en-pt-BR").route("pt", "pt-BR")


def bundle_of(source: str, *target: str) -> Any:
    return named_bundle(source, "-".join(target))


def test_second_translations_are_planned_in_small_steps(bundles: list[Bundle]) -> None:
    """All parts that nothing has to be waited for were planned in one call on the event loop."""
    de_en, en_fr = bundles[:2]
    pivot = PivotPlan([de_en, en_fr], markup_pieces("<p>1</p>" * 1_000), None, 1, 10**6, None)
    steps = 0
    while pivot.can_advance:
        before = len(pivot.from_pivot.parts)
        pivot.advance(10**6)
        assert len(pivot.from_pivot.parts) - before <= 2 * MAX_READ_PARTS
        steps += 1
    assert pivot.is_read
    assert steps > 10
