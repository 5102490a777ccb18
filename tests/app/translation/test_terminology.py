"""A glossary's translation is in the result wherever its term is in the text, whatever the model prefers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pytest
from fakes import WORDS, CannedDecoder, RandomDecoder, decoded, expecting_end_marks, roomy, sentence_of, translated
from msgspec import structs

from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.markup.passage import AlignedSpan, Passage, ProtectedSpan, Tag, usable_spans
from app.text.word_units import AlignedWords
from app.translation import policies
from app.translation.candidate import Candidate
from app.translation.sentence import Sentence
from app.translation.terminology import missing_terms, sequence_with_terms
from app.translation.types import TranslatedText
from model.bundle import Bundle

pytestmark = pytest.mark.slow

GLOSSARY = {"cat": "minet", "thank": "mille mercis", "hello": "ohé", "how are": "comment vont", "dort": "sommeille"}


def spelt(draw: random.Random, word: str) -> str:
    return draw.choice([word, word, word.title(), word.upper()])


def sentence_with(draw: random.Random, terms: int) -> str:
    """A sentence of random words with terms in any case, some of them twice."""
    others = [word for word in WORDS if not any(word in term for term in GLOSSARY)]
    words = draw.choices(others, k=draw.randint(0, 6)) + [
        spelt(draw, term) for term in draw.choices(list(GLOSSARY), k=terms)
    ]
    draw.shuffle(words)
    text = " ".join(words)
    return text[:1].upper() + text[1:] + draw.choice([".", "!", ""])


def generated(count: int) -> list[str]:
    draw = random.Random(5)
    return [sentence_with(draw, draw.choice([1, 1, 2, 3])) for _ in range(count)]


def holds(text: str, translation: str | None) -> bool:
    """Whether every term's translation occurs as often as the term."""
    assert translation is not None
    said, made = text.casefold(), translation.casefold()
    return all(made.count(given) >= said.count(term) for term, given in GLOSSARY.items())


def lacking(sent: Sequence[str], items: Sequence[TranslatedText]) -> list[tuple[str, str | None]]:
    return [(text, item.text) for text, item in zip(sent, items, strict=True) if not holds(text, item.text)]


@pytest.fixture(scope="module")
def wild(bundle: Bundle) -> RandomDecoder:
    return RandomDecoder(bundle)


@pytest.mark.slow
@pytest.mark.parametrize("end_marks", [False, True])
def test_translation_of_every_sentence_contains_its_terms(bundle: Bundle, wild: RandomDecoder, end_marks: bool) -> None:
    sent = generated(80)
    used = expecting_end_marks(bundle) if end_marks else bundle
    assert lacking(sent, translated(used, wild, sent, glossary=GLOSSARY)) == []


def test_term_that_ends_in_a_full_stop_keeps_it(bundle: Bundle, wild: RandomDecoder) -> None:
    sent = [text.rstrip(".!") for text in generated(50)]
    glossary = {term: given + "." for term, given in GLOSSARY.items()}
    for item, text in zip(translated(expecting_end_marks(bundle), wild, sent, glossary=glossary), sent, strict=True):
        made = str(item.text).casefold()
        assert all(made.count(glossary[term]) >= text.casefold().count(term) for term in glossary)


@pytest.mark.slow
def test_without_redecoding_most_terms_are_lost(
    bundle: Bundle, wild: RandomDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = generated(80)
    monkeypatch.setattr(policies, "WHEN_DECODED", (policies.check,))
    assert len(lacking(sent, translated(bundle, wild, sent, glossary=GLOSSARY))) > 75


def test_up_to_the_last_term_only_the_terms_change(bundle: Bundle) -> None:
    """Uses a decoder that returns its source, and after a required prefix only the prefix."""
    draw, texts = random.Random(9), []
    for _ in range(100):
        words = draw.choices([word for word in WORDS if word not in GLOSSARY], k=6)
        words[draw.randrange(1, 5)] = "cat"
        words[5] = draw.choice(["cat", "dort"])
        texts.append(" ".join(words))
    items = translated(
        bundle,
        CannedDecoder(bundle),
        [text + " bien." for text in texts],
        glossary={"cat": "minet", "dort": "sommeille"},
    )
    for text, item in zip(texts, items, strict=True):
        assert item.text == text.replace("cat", "minet").replace("dort", "sommeille")


@pytest.mark.slow
def test_terms_and_placeholders_in_one_sentence_all_occur(bundle: Bundle, wild: RandomDecoder) -> None:
    sent = [f"{{a}} {text} %s and {{b}}{{c}}" for text in generated(50)]
    items = translated(bundle, wild, sent, glossary=GLOSSARY)
    assert lacking(sent, items) == []
    for item in items:
        assert item.text
        assert [item.text.count(one) for one in ("{a}", "%s", "{b}", "{c}")] == [1, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("length", [20, 60, 120, 200])
def test_long_term_displaces_no_placeholder(bundle: Bundle, wild: RandomDecoder, length: int) -> None:
    given = ("le chat dort " * 20)[:length].strip()
    sent = [f"{{a}} the cat {words} %s {{b}}!" for words in ("", "sleeps", "and how are you", "i am well thank you")]
    for item in translated(bundle, wild, sent, glossary={"cat": given}):
        assert item.text
        assert [item.text.count(one) for one in (given, "{a}", "%s", "{b}")] == [1, 1, 1, 1]


@pytest.mark.slow
def test_alternatives_contain_the_terms_too(bundle: Bundle, wild: RandomDecoder) -> None:
    sent = generated(40)
    items = translated(bundle, wild, sent, glossary=GLOSSARY, alternatives=2)
    assert lacking(sent, items) == []
    others = [
        (text, other)
        for text, item in zip(sent, items, strict=True)
        if item.plan
        for other, _ in item.plan.alternatives(2)
    ]
    assert len(others) > 20
    assert [(text, other) for text, other in others if not holds(text, other)] == []


def test_alternative_without_a_term_of_the_best_translation_is_dropped(bundle: Bundle) -> None:
    class Lucky(CannedDecoder):
        def answer(self, sequence: engine.Sequence) -> Decoded:
            hello = sentence_of(Passage("hello"), bundle, [])
            best, *others = (said(hello, text).decoded for text in ("le minet", "le chat", "un minet"))
            return structs.replace(best, coverage=(), alternatives=tuple(others))

    (item,) = translated(bundle, Lucky(bundle), ["the cat"], glossary=GLOSSARY, alternatives=3)
    assert item.plan
    assert (item.text, [text for text, _ in item.plan.alternatives(3)]) == ("le minet", ["un minet"])


def said(sentence: Sentence, text: str) -> Candidate:
    tokenizer = sentence.bundle.source_tokenizer
    return Candidate(sentence, decoded([*tokenizer.encode(text), tokenizer.eos_id]))


class Blind(RandomDecoder):
    """Attends to the end of the sentence alone."""

    def answers(self, sequences: list[engine.Sequence]) -> list[Decoded]:
        return [
            structs.replace(made, aligned=(len(sequence.source) - 1,) * len(made.tokens))
            for sequence, made in zip(sequences, super().answers(sequences), strict=True)
        ]


@pytest.mark.slow
def test_term_that_no_word_attends_to_is_inserted_by_a_symbol(bundle: Bundle) -> None:
    sent = [f"{text.rstrip('.!')} ?" for text in generated(60)]
    items = translated(bundle, Blind(bundle), sent, glossary=GLOSSARY)
    assert lacking(sent, items) == []
    planned = [one for item in items if item.plan for one in item.plan.sentences]
    protected = [one.translation.sentence.passage.protected for one in planned]
    assert sum(map(bool, protected)) > 54


def test_term_at_the_start_of_a_capitalised_sentence_is_capitalised(bundle: Bundle) -> None:
    given = CannedDecoder(bundle)
    texts = ["Cat sleeps.", "cat sleeps.", "The cat.", "CAT"]
    items = translated(bundle, given, texts, glossary=GLOSSARY)
    assert [item.text for item in items] == ["Minet", "minet", "The minet", "Minet"]


def test_a_sentence_that_is_a_term_alone_is_its_translation(bundle: Bundle, wild: RandomDecoder) -> None:
    sent = ["cat", "Cat", " how are\nHELLO", "cat\n\nthe dog"]
    found = [item.text for item in translated(bundle, wild, sent, glossary=GLOSSARY)]
    assert found[:3] == ["minet", "Minet", " comment vont\nOhé"]
    assert found[3] and found[3].startswith("minet\n\n") and found[3] != "minet\n\nthe dog"


def test_term_inserted_by_a_symbol_is_capitalised_at_the_start_too(bundle: Bundle) -> None:
    def first_symbol(text: str) -> str | None:
        one = structs.replace(sentence_of(Passage(text), bundle, []), terms=(ProtectedSpan(0, 3, "minet"),))
        tokens = [bundle.target_tokenizer.reserved_ids[0], *bundle.target_tokenizer.encode("dort")]
        return Candidate(one.with_protected_terms(), decoded(tokens)).rendered

    assert [first_symbol(text) for text in ("Cat sleeps", "cat sleeps")] == ["Minet dort", "minet dort"]


def test_more_numbers_signs_and_terms_than_symbols_fail_no_sentence(bundle: Bundle) -> None:
    large = dataclasses.replace(bundle, limits=roomy(bundle.limits))
    texts = ["The " + "cat $7 (and) 12% " * times + "you." for times in (8, 12)]
    for decoder in (Blind, RandomDecoder):
        items = translated(large, decoder(large), texts, glossary=GLOSSARY)
        assert all(item.error is None and item.text for item in items)


def test_term_repeated_in_the_source_is_not_a_loop(bundle: Bundle) -> None:
    text = "Red cat, red Cat, RED cat, red cat, rED cat"
    engine = CannedDecoder(bundle, lambda _: ", ".join(["chat rouge"] * 5))
    (item,) = translated(bundle, engine, [text], glossary={"red cat": "chat rouge"})
    assert item.text == "chat rouge, chat rouge, chat rouge, chat rouge, chat rouge"


@pytest.mark.slow
def test_more_terms_than_symbols_all_occur(bundle: Bundle) -> None:
    large = dataclasses.replace(bundle, limits=roomy(bundle.limits))
    text = "The " + "cat and " * 50 + "you."
    (item,) = translated(large, RandomDecoder(large), [text], glossary=GLOSSARY)
    assert holds(text, item.text)


def test_long_sentence_is_not_split_inside_a_term(bundle: Bundle, wild: RandomDecoder) -> None:
    text = "how are " * 60 + "you"
    (item,) = translated(bundle, wild, [text], glossary=GLOSSARY)
    assert holds(text, item.text)
    assert item.warnings[0].startswith("A sentence with more than 32 things to keep was translated in ")


def test_term_keeps_the_tags_around_it(bundle: Bundle, wild: RandomDecoder) -> None:
    text = "<p>Hello, the <b>cat</b> <i>dort bien</i>.</p>"
    (item,) = translated(bundle, wild, [text], glossary=GLOSSARY, html=True)
    assert holds(text, item.text)
    assert item.text
    assert [item.text.count(tag) for tag in ("<p>", "</p>", "<b>", "</b>", "<i>", "</i>")] == [1] * 6


@pytest.mark.parametrize(("words", "fits"), [(5, True), (30, True), (31, False), (40, False)])
def test_a_forced_prefix_leaves_room_for_placeholders(bundle: Bundle, words: int, fits: bool) -> None:
    """The longest target has 32 tokens: one for the word before, one for the placeholder, one for each word given."""
    tokenizer = bundle.source_tokenizer
    given = " ".join((["chat", "dort", "il", "va", "bien"] * 8)[:words])
    ids = tokenizer.encode_parts(["you cat ", 0])
    one = sentence_of(Passage("you cat {a}", (ProtectedSpan(8, 11, "{a}"),)), bundle, ids)
    echoed = structs.replace(decoded([*ids, tokenizer.eos_id]), aligned=tuple(range(len(ids) + 1)))
    again = sequence_with_terms(Candidate(one, echoed), [ProtectedSpan(4, 7, given)])
    assert (again is not None) is fits
    if again:
        assert len(again.prefix) + 1 <= again.limit <= bundle.limits.max_target


@pytest.mark.parametrize(
    ("source", "target", "tokens", "expected"),
    [
        ("My hard disk.", "我的硬盘。", ["我的", "硬", "盘", "。"], "我的硬碟"),
        ("My hard disk.", "Mon le disque.", ["Mon", " le", " disque", "."], "Mon le 硬碟"),
        ("My hard disk.", "À l'écran.", ["À", " l'", "écran", "."], "À l'硬碟"),
    ],
)
def test_article_stays_before_a_term_and_the_first_part_of_a_word_does_not(
    bundle: Bundle, source: str, target: str, tokens: list[str], expected: str
) -> None:
    """The first token belongs to "My", the last to the full stop, and those between to "hard disk"."""
    assert "".join(tokens) == target
    ends = list(accumulate(map(len, tokens)))
    spans = [(0, 2), *[(3, 12)] * (len(tokens) - 2), (12, 13)]
    aligned_spans = [AlignedSpan(span, place) for span, place in zip(spans, pairwise([0, *ends]), strict=True)]
    one = Candidate(sentence_of(Passage(source), bundle, []), decoded([]))
    vars(one).update(pieces=[target], aligned_words=AlignedWords([target], aligned_spans))
    again = sequence_with_terms(one, [ProtectedSpan(3, 12, "硬碟")])
    assert again is not None
    assert bundle.target_tokenizer.decode(again.prefix) == expected


# ---- Which are there, and which lack


@pytest.mark.parametrize(
    ("translation", "missing"),
    [
        ("Le minet dort.", 0),
        ("MINET", 0),
        ("les minets", 1),
        ("Le chat dort.", 1),
        ("(minet)", 0),
        ("minet et minet", 0),
    ],
)
def test_term_matches_whole_words_in_any_case(bundle: Bundle, translation: str, missing: int) -> None:
    one = structs.replace(sentence_of(Passage("the cat"), bundle, []), terms=(ProtectedSpan(4, 7, "minet"),))
    assert len(missing_terms(said(one, translation))) == missing


def test_term_that_occurs_twice_must_be_translated_twice(bundle: Bundle) -> None:
    terms = ProtectedSpan(0, 3, "minet"), ProtectedSpan(4, 7, "minet")
    one = structs.replace(sentence_of(Passage("cat cat"), bundle, []), terms=terms)
    missing = [missing_terms(said(one, text)) for text in ("", "minet", "minet minet")]
    assert missing == [list(one.terms), [one.terms[1]], []]


def test_protected_text_does_not_count_as_a_term(bundle: Bundle) -> None:
    """The number 21 is missing, although the placeholder, whose symbol is the first reserved one, contains it."""
    one = sentence_of(Passage("{21} cat 21", (ProtectedSpan(0, 4, "{21}"),)), bundle, [])
    one = structs.replace(one, terms=(ProtectedSpan(9, 11, "21"),))
    ids = bundle.source_tokenizer.encode_parts([0, " chat"])
    without, with_number = (
        Candidate(one, decoded(tuple(tokens))) for tokens in (ids, [*ids, *bundle.source_tokenizer.encode(" 21")])
    )
    assert missing_terms(without) == list(one.terms)
    assert missing_terms(with_number) == []


def test_terms_that_overlap_protected_text_or_contain_a_tag_are_dropped() -> None:
    found = [ProtectedSpan(0, 3, "a"), ProtectedSpan(4, 9, "b"), ProtectedSpan(10, 15, "c")]
    passage = Passage("the {cat} sleeps", (ProtectedSpan(4, 9, "{cat}"),), (Tag(3, "<b>"), Tag(12, "<br>")))
    assert usable_spans(passage, found) == (found[0],)


@pytest.mark.parametrize(
    ("text", "said", "expected"),
    [
        ("It weighs 12.5 kg.", "Il pèse 12.5 kg.", "Il pèse 12,5 kg."),
        ("It weighs 12.5 kg.", "Il pèse 12,5 kg.", "Il pèse 12,5 kg."),
        ("It cost $2,200,112.50.", "Cela coûte $2,200,112.50.", "Cela coûte $2\u202f200\u202f112,50."),
        ("It weighs 10,000 kg.", "Il pèse 10 000 kg.", "Il pèse 10\u202f000 kg."),
        ("It rose by 12.5%.", "Cela monte de 12,5%.", "Cela monte de 12,5\u00a0%."),
    ],
)
def test_numbers_are_written_as_the_target_writes_them(bundle: Bundle, text: str, said: str, expected: str) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda source: said), [text], alignment=True)
    assert item.text == expected
    assert item.alignment is not None
    assert all(item.text[slice(*pair.target)].strip() for pair in item.alignment)


def test_numbers_in_protected_text_stay(bundle: Bundle) -> None:
    text = "The `12.5 kg` and {12.5} of 12.5 kg."
    (item,) = translated(bundle, RandomDecoder(bundle), [text])
    assert item.text is not None
    assert [item.text.count(each) for each in ("`12.5 kg`", "{12.5}", "12,5")] == [1, 1, 1]


def test_number_of_a_glossary_stays_as_the_glossary_has_it(bundle: Bundle) -> None:
    decoder = CannedDecoder(bundle, lambda source: "Il pèse 12.5 kg.")
    (item,) = translated(bundle, decoder, ["It weighs 12.5 kg."], glossary={"12.5": "12.5"})
    assert item.text == "Il pèse 12.5 kg."


def test_range_is_protected_and_written_as_the_target_writes_it(bundle: Bundle) -> None:
    for text, expected in (("The 10.5–12.5 kg cat.", "10,5–12,5"), ("The 10–12 kg cat.", "10–12")):
        (item,) = translated(bundle, RandomDecoder(bundle), [text])
        assert item.text is not None and item.text.count(expected) == 1


@pytest.mark.parametrize("said", ["À 10 h 30.", "À 10:30.", "À 10.30 !"])
def test_number_may_be_formatted_for_the_target_language(bundle: Bundle, said: str) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda source: said), ["We met at 10:30."])
    assert item.text == said


def test_number_is_in_the_translation_whatever_the_model_makes_of_it(bundle: Bundle) -> None:
    texts = [f"The cat sleeps {number} well." for number in (12, 1984, "10:30", "2,000", "31/12/2023")]
    for text, item in zip(texts, translated(bundle, RandomDecoder(bundle), texts), strict=True):
        number = text.split()[3].replace(",", "\u202f")
        assert item.text is not None
        assert number in item.text


def test_term_is_escaped_for_its_format_however_it_is_inserted(bundle: Bundle) -> None:
    texts = [f"<p>{' '.join(random.Random(seed).sample(WORDS, 4))} cat.</p>" for seed in range(30)]
    for item in translated(bundle, RandomDecoder(bundle), texts, html=True, glossary={"cat": "R&D"}):
        assert item.text is not None
        assert "R&amp;D" in item.text
        assert "R&D" not in item.text
