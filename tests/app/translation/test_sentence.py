"""Placeholders occur as often as in the source, and markup keeps its tree, whatever the model prefers."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from fakes import (
    WORDS,
    CannedDecoder,
    RandomDecoder,
    decoded,
    expecting_end_marks,
    sentence_of,
    translated,
    translating,
)
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from imported_models import opennmt_tokens, unigram_pieces
from msgspec import structs
from shared_fixtures import Service

from app.engine import sequence as engine
from app.engine.hypotheses import hypothesis_of
from app.engine.sequence import Decoded
from app.markup.passage import Passage, ProtectedSpan
from app.text.placeholders import find_placeholders
from app.translation.candidate import Candidate
from app.translation.input_normalisation import max_protected_spans, model_input
from app.translation.sentence import Sentence
from model.bundle import Bundle
from model.hypothesis import Decoding
from model.normalisation import normalise_source
from model.tokenizer import Tokenizer, Tokenizers
from training.importing.vocabulary import Specials, build_vocabulary

KINDS = [
    *("{§}", "{0}", "{1}", "%s", "%d", "%(§)d", "%(§)s", "${§}", "{{ § }}", ":§", '<x id="§"/>', "<b>", "</b>"),
    *("{§, number, percent}", "{when, date, ::yMMMd}", "https://§.example/a?b=§", "§@§.example", "/usr/lib/§.so"),
    *("`§ = 1`", "😀", "$§", "%1$s", "&nbsp;", "@§", "v1.2.§", "%§%", "src/§.py"),
]


def placeholder(draw: random.Random) -> str:
    """A placeholder of every kind; some names consist of letters, and some of digits where allowed."""
    kind = draw.choice(KINDS)
    name = "".join(draw.choices("abcdefghij", k=4))
    return kind.replace("§", "7" if kind == "v1.2.§" else name)


def sentence_with(draw: random.Random) -> tuple[str, list[str]]:
    """A random sentence with placeholders, each of which may occur several times."""
    own = [placeholder(draw) for _ in range(draw.randint(1, 4))]
    words = draw.choices(WORDS, k=draw.randint(1, 8)) + [draw.choice(own) for _ in range(draw.randint(1, 6))]
    draw.shuffle(words)
    protected = [word for word in words if word in own]
    return " ".join(words) + draw.choice([".", "!", " ?", ""]), protected


def generated(count: int) -> list[tuple[str, list[str]]]:
    draw = random.Random(7)
    return [sentence_with(draw) for _ in range(count)]


def is_preserved(protected: list[str], text: str, translation: str | None) -> bool:
    assert translation is not None
    return all(translation.count(one) == text.count(one) for one in protected)


@pytest.fixture(scope="module")
def wild(bundle: Bundle) -> RandomDecoder:
    return RandomDecoder(bundle)


# ---- Placeholders


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "words_only", "end_marks"), [(120, True, False), (80, False, False), (80, True, True)]
)
def test_placeholders_occur_as_often_as_in_the_source(
    bundle: Bundle, count: int, words_only: bool, end_marks: bool
) -> None:
    sent = generated(count)
    used = expecting_end_marks(bundle) if end_marks else bundle
    items = translated(used, RandomDecoder(bundle, words_only), [text for text, _ in sent])
    broken = [
        (text, item.text)
        for (text, protected), item in zip(sent, items, strict=True)
        if not is_preserved(protected, text, item.text)
    ]
    assert broken == []
    assert sum(item.text != text for (text, _), item in zip(sent, items, strict=True)) > 0.9 * len(sent)


@pytest.mark.slow
def test_without_the_constraint_placeholders_are_lost(bundle: Bundle) -> None:
    """The property above is due to the decoder: the same model does not keep placeholders by itself."""

    class Unbound(RandomDecoder):
        def answers(self, sequences: list[engine.Sequence]) -> list[Decoded]:
            return super().answers([structs.replace(one, required=(), forbidden=()) for one in sequences])

    sent = generated(80)
    items = translated(bundle, Unbound(bundle), [text for text, _ in sent])
    whole = sum(
        is_preserved(protected, text, item.text)
        for (text, protected), item in zip(sent, items, strict=True)
        if item.text != text  # one that is nothing but placeholders and marks is copied
    )
    assert whole < 8


def test_placeholders_are_kept_through_the_whole_service(service: Service) -> None:
    sent = generated(60)
    body = {"text": [text for text, _ in sent], "source": "en", "target": "fr"}
    answer = service.post("/translate", body).json()["translations"]
    assert all(
        is_preserved(protected, text, item["text"]) for (text, protected), item in zip(sent, answer, strict=True)
    )


@pytest.mark.slow
def test_alternatives_keep_the_placeholders_too(bundle: Bundle, wild: RandomDecoder) -> None:
    sent = generated(40)
    items = translated(bundle, wild, [text for text, _ in sent], alternatives=3)
    others = [
        (text, protected, other)
        for (text, protected), item in zip(sent, items, strict=True)
        for other, _ in (item.plan.alternatives(3) if item.plan else ())
    ]
    assert len(others) > 50
    assert all(is_preserved(protected, text, other) for text, protected, other in others)


@pytest.mark.parametrize(
    "text",
    [
        "{a}{b}%s{c}",
        "%s%d%s",
        "{a} the cat sleeps {b}",
        "{a}the cat sleeps{b}",
        "The cat{a}{b}{c}sleeps.",
        "<b>The cat</b>{a}, <i>%s</i>!",
        "{a}\n{b}\n\n{a} {b}\n",
        "The cat {a}.\nHow are you, {b}? {a}{a}",
    ],
)
def test_adjacent_and_outer_placeholders_are_kept(bundle: Bundle, wild: RandomDecoder, text: str) -> None:
    (item,) = translated(bundle, wild, [text])
    protected = [one.raw for one in find_placeholders(text, "en")]
    assert len("".join(protected)) >= 6
    assert is_preserved(protected, text, item.text)


@pytest.mark.parametrize("text", ["{a} {b}", "%s", "{a}\n\n{b}, {c}.", "https://a.example/b `c`", "😀 {a}: 12"])
def test_a_sentence_of_placeholders_only_is_unchanged(bundle: Bundle, wild: RandomDecoder, text: str) -> None:
    (item,) = translated(bundle, wild, [text])
    assert (item.text, item.warnings) == (text, [])


def test_more_placeholders_than_symbols_are_all_kept(bundle: Bundle, wild: RandomDecoder) -> None:
    protected = [f"{{n{number}}}" for number in range(80)]
    text = "The cat " + " and ".join(protected) + " sleeps."
    (item,) = translated(bundle, wild, [text])
    assert is_preserved(protected, text, item.text)
    assert item.warnings[0].startswith("A sentence with more than 32 things to keep was translated in ")
    assert text.count(" ") > 80 > max_protected_spans(bundle)


# ---- Markup


KEPT = ("<code", '<span translate="no"')
TRANSLATED = re.compile(r' (title|alt)="[^"]*"')
"""Attributes that are text: their names stay."""


class Tree(HTMLParser):
    """The elements and comments by their paths from the root; and, anywhere, those that are protected as a whole: they
    are words of the sentence, and go where the model puts them."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found = Counter[tuple[str, ...]]()
        self.protected = Counter[str]()
        self.way: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = TRANSLATED.sub(r" \1", self.get_starttag_text() or "")
        if tag == "img":  # a word of the sentence as well
            self.protected[raw] += 1
            return
        if not raw.startswith(KEPT):
            self.found[*self.way, raw] += 1
        if tag != "br":
            self.way.append(raw)

    def handle_endtag(self, tag: str) -> None:
        self.way.pop()

    def handle_comment(self, data: str) -> None:
        self.found[*self.way, f"<!--{data}-->"] += 1

    def handle_data(self, data: str) -> None:
        if self.way and self.way[-1].startswith(KEPT):
            self.protected[data] += 1


def markup(draw: random.Random, depth: int = 0) -> Iterator[str]:
    """A random HTML fragment."""
    for _ in range(draw.randint(1, 4)):
        match draw.randrange(9 if depth < 3 else 3):
            case 0 | 1 | 2:
                yield " ".join(draw.choices(WORDS, k=draw.randint(1, 5))) + draw.choice(["", ". ", " ", ", "])
            case 3:
                yield draw.choice(["<br>", "<!-- the cat -->", "&nbsp;", "&eacute;", '<img alt="a cat" src=x>'])
            case 4:
                yield f"<code>{draw.choice(WORDS)} &lt; {draw.choice(WORDS)}()</code>"
            case 5:
                yield f'<span translate="no">{draw.choice(WORDS)}</span>'
            case 6:
                yield "<p>" + "".join(markup(draw, depth + 1)) + "</p>\n" if depth == 0 else "{a}"
            case _:
                name = draw.choice(["b", "i", "em", "a"])
                attribute = f' title="{draw.choice(WORDS)}"' if draw.random() < 0.5 else ""
                yield f"<{name}{attribute}>" + "".join(markup(draw, depth + 1)) + f"</{name}>"


@pytest.mark.slow
def test_any_tree_is_kept(bundle: Bundle, wild: RandomDecoder) -> None:
    draw = random.Random(3)
    sent = ["".join(markup(draw)) for _ in range(120)]
    items = translated(bundle, wild, sent, html=True)
    for text, item in zip(sent, items, strict=True):
        assert item.text is not None
        before, after = Tree(text), Tree(item.text)
        assert Counter(way[-1] for way in after.found.elements()) == Counter(way[-1] for way in before.found.elements())
        # An element may go into the one beside it, if they have one word together.
        assert all(any(way[-1] == one[-1] and set(way) <= set(one) for one in after.found) for way in before.found), (
            text
        )
        assert after.protected == before.protected, text
        assert not after.way
    assert sum(item.text != text for text, item in zip(sent, items, strict=True)) > 70


def test_special_characters_of_the_format_are_escaped(bundle: Bundle) -> None:
    engine = CannedDecoder(bundle, lambda text: "a b")
    (item,) = translated(bundle, engine, ["<p>&lt;b&gt;cat&lt;/b&gt;</p>"], html=True)
    assert item.text == "<p>&lt;b&gt;a b&lt;/b&gt;</p>"


def test_entities_are_kept(bundle: Bundle) -> None:
    text = "<p>caf&eacute; r&#244;le &lt;the cat&gt;</p>"
    (item,) = translated(bundle, CannedDecoder(bundle, lambda source: source), [text], html=True)
    assert item.text == text


# ---- A sentence by itself


def sentence(bundle: Bundle, text: str) -> Sentence:
    passage = Passage(text, tuple(find_placeholders(text, "en")))
    return sentence_of(passage, bundle, bundle.source_tokenizer.encode_source_parts(model_input(passage, bundle)))


@draw_examples(300)
@example(["\u2581", "the", "the.", "the.", "the"])
@given(
    st.lists(
        st.sampled_from([*WORDS, "{a}", "%s", " ", ".", "é", "\u2581", "猫", "e\u0301", "\u00a0", "\u00ad"]),
        max_size=12,
    )
)
def test_each_token_has_a_source_span_and_they_cover_the_sentence_in_order(bundle: Bundle, words: list[str]) -> None:
    one = sentence(bundle, "".join(words))
    spans = one.source_spans
    assert len(spans) == len(one.sequence.source) + 1
    text, end = one.passage.text, 0
    for start, stop in spans:
        assert end <= start <= stop
        assert not normalise_source(text[end:start])  # beside a symbol, what nobody sees is no token's
        end = stop
    assert end == len(text)


@pytest.mark.slow
@draw_examples(200)
@given(st.data())
def test_aligned_spans_are_in_order_and_cover_the_translation(bundle: Bundle, data: st.DataObject) -> None:
    one = sentence(bundle, "The {a} cat %s sleeps.")
    symbols = bundle.target_tokenizer.reserved_ids[:2]
    any_token = st.integers(0, bundle.source_tokenizer.vocab_size - 1).filter(lambda id: id not in symbols)
    tokens = data.draw(st.permutations([*data.draw(st.lists(any_token, max_size=20)), *symbols]))
    aligned = tuple(data.draw(st.integers(0, len(one.sequence.source) - 1)) for _ in tokens)
    candidate = Candidate(one, structs.replace(decoded(tokens), aligned=aligned))
    shown = "".join(p if isinstance(p, str) else p.raw for p in candidate.pieces)
    end = 0
    for source, target in candidate.aligned_spans():
        assert target[0] == end < target[1]
        assert 0 <= source[0] <= source[1] <= len(one.passage.text)
        end = target[1]
    assert end == len(shown)
    assert candidate.rendered == shown
    assert (shown.count("{a}"), shown.count("%s")) == (1, 1)


def test_empty_translation_keeps_the_sentence_with_a_warning(bundle: Bundle) -> None:
    engine = CannedDecoder(bundle, lambda text: "" if "cat" in text else text)
    (item,) = translated(bundle, engine, ["Hello. The cat sleeps.\n"])
    assert item.text == "Hello. The cat sleeps.\n"
    assert "No translation was found for “The cat sleeps.”; it is left as it was." in item.warnings


def test_sentence_left_untranslated_is_escaped_for_its_format(bundle: Bundle) -> None:
    text = "<p>The cat &lt; le chat</p>"
    (item,) = translated(bundle, CannedDecoder(bundle, lambda _: ""), [text], html=True)
    assert item.text == text


def test_empty_translation_of_markup_keeps_the_tags_too(bundle: Bundle) -> None:
    (item,) = translated(bundle, CannedDecoder(bundle, lambda text: ""), ["<p>The <b>cat</b> &amp; I</p>"], html=True)
    assert item.text == "<p>The <b>cat</b> &amp; I</p>"


@pytest.mark.parametrize(
    ("text", "translation"),
    [
        ("The  cat \u00a0sleeps.", "The cat sleeps."),
        ("The c\u00adat\u200b sleeps.", "The cat sleeps."),
        ("\u200bThe cat.\u200b  \u00adHello.", "\u200bThe cat.\u200b  \u00adHello."),
        ("The cat\t sleeps.", "The cat\tsleeps."),
        ("The {a}  {b} cat  %s sleeps.", "The {a} {b} cat %s sleeps."),
        ("The\t{a}\tcat.", "The\t{a}\tcat."),
        ("The cat sleeps!!  Hello?!", "The cat sleeps!!  Hello?!"),
        ("Hello {a}!!", "Hello {a}!!"),
        ("Hello... {a}...", "Hello... {a}..."),
    ],
)
def test_run_of_blanks_becomes_one_space_and_tabs_and_repeated_marks_are_kept(
    bundle: Bundle, text: str, translation: str
) -> None:
    (item,) = translated(
        bundle, CannedDecoder(bundle), [text]
    )  # which gives back what it is given, and that is warned of
    assert item.text == translation
    assert all(warning.startswith("Copied rather than translated") for warning in item.warnings)


def test_model_reads_one_space_and_one_mark(bundle: Bundle) -> None:
    heard: list[str] = []

    def listen(text: str) -> str:
        heard.append(text)
        return text

    translated(bundle, CannedDecoder(bundle, listen), ["The  c\u00adat\u00a0sleeps!!", "The\tcat is HERE???"])
    assert heard == ["The cat sleeps!", "The cat is HERE?"]


def said(bundle: Bundle, text: str, *parts: str | int) -> str:
    """`text` translated by a model that outputs `parts`, in which numbers are symbols."""
    protected = tuple(find_placeholders(text, bundle.source))
    sentence = sentence_of(Passage(text, protected), bundle, [])
    candidate = Candidate(sentence, decoded(bundle.source_tokenizer.encode_parts(parts)))
    assert sum(end - start for _, (start, end) in candidate.aligned_spans()) == len(candidate.rendered)
    return candidate.rendered


def test_nesting_marks_keep_the_order_of_the_source(bundle: Bundle) -> None:
    assert said(bundle, "See <b>a {x}</b>.", "a ", 2, " b ", 1, " c ", 0) == "a <b> b {x} c </b>"
    assert said(bundle, "{x} and {y}", 1, " b ", 0) == "{y} b {x}"


def test_separate_placeholder_stays_separate_from_words(bundle: Bundle) -> None:
    assert said(bundle, "the {x} cat", "a b", 0, "c") == "a b {x} c"
    assert said(bundle, "the {x} cat", "a '", 0, ", c") == "a '{x}, c"
    assert said(bundle, "a{x}b", "a", 0, "b") == "a{x}b"


def test_space_that_a_model_writes_for_a_symbol_is_removed(bundle: Bundle) -> None:
    assert said(bundle, "the {x} cat.", "a ", 0, " ", " c.") == "a {x} c."
    assert said(bundle, "the {x} cat.", 0, " c ", ".") == "{x} c."
    assert said(bundle, "the {x} cat", " ", " c ", 0, " ") == "c {x}"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("The dog and <img>the cat.", "The dog and {0} the cat."),
        ("The dog and <img> the cat.", "The dog and {0} the cat."),
        ("The dog<img>and the cat.", "The dog{0}and the cat."),
        ("The dog and <img>, the cat.", "The dog and {0}, the cat."),
        ("The dog and <x id=1 />s the cat.", "The dog and {0}s the cat."),
        ("The dog and <x id=1 />sleeps well.", "The dog and {0} sleeps well."),
        ("The dog and `x`sleeps well.", "The dog and {0} sleeps well."),
        ("{name}sleeps well.", "{0} sleeps well."),
        ("The {name}s dog.", "The {0}s dog."),
        ("It is {n}min from the dog.", "It is {0}min from the dog."),
        ("The **sleeps** well.", "The sleeps well."),
    ],
)
def test_model_reads_a_space_between_protected_text_and_the_word_it_touches(
    bundle: Bundle, text: str, read: str
) -> None:
    engine = CannedDecoder(bundle)  # which gives back what it is given
    (item,) = translated(bundle, engine, [text], html="<" in text)
    assert item.text == text
    assert item.plan is not None
    each = item.plan.sentences[0].sentence
    expected = [int(part) if part.isdigit() else part for part in re.split(r"[{}]", read) if part]
    assert each.sequence.source == tuple(bundle.source_tokenizer.encode_source_parts(expected))
    spans = each.source_spans
    assert len(spans) == len(each.sequence.source) + 1
    assert spans == sorted(spans)


def test_placeholder_beside_an_ideograph_stays_separate_from_words(bundle: Bundle) -> None:
    chinese = translating(bundle, "zh", "fr")
    assert said(chinese, "用{x}登录", "log in with", 0, "now") == "log in with {x} now"
    assert said(chinese, "名：{x}（{y}）", "name:", 0, " (", 1, ")") == "name: {x} ({y})"
    assert said(chinese, "用{x}登录", "登录", 0, "。") == "登录{x}。"
    assert said(chinese, "用 A{x}B 登录", "A", 0, "B") == "A{x}B"


def test_the_bundle_says_how_its_beams_are_searched_and_ranked(bundle: Bundle) -> None:
    searched = dataclasses.replace(bundle, decoding=Decoding(length_penalty=0.5, narrowing=True))
    hypothesis = hypothesis_of(sentence(searched, "I like it.").sequence, 4)
    assert (hypothesis.length_penalty, hypothesis.narrowing) == (0.5, True)
    assert hypothesis.without_result().narrowing
    assert not hypothesis_of(sentence(bundle, "I like it.").sequence, 4).narrowing


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("I like Ŵqŵ.", "Ŵqŵ"), ("Ŵqŵ likes it.", "Ŵqŵ"), ("I like {x} Ŵqŵ.", "Ŵqŵ"), ("I like {x}.", "")],
)
def test_an_unknown_token_becomes_the_source_text_that_it_attends_to(bundle: Bundle, text: str, wanted: str) -> None:
    pieces = unigram_pieces()
    specials = Specials("<unk>", "<s>", "</s>", "<s>")
    vocabulary = build_vocabulary(pieces, opennmt_tokens(pieces), ["en", "fr"], specials)
    tokenizers = Tokenizers.joint(Tokenizer(vocabulary.proto))
    copying = dataclasses.replace(bundle, tokenizers=tokenizers, decoding=Decoding(replace_unknowns=True))
    one = sentence(copying, text)
    source, unknown = one.sequence.source, tokenizers.target.unknown_id
    place = source.index(unknown if wanted else tokenizers.source.reserved_ids[0])
    symbols = [symbol for symbol in tokenizers.target.reserved_ids if symbol in source]
    tokens = [*tokenizers.target.encode("a "), unknown, *symbols]
    candidate = Candidate(one, structs.replace(decoded(tokens), aligned=(0, *[place] * (len(tokens) - 1))))
    translation = candidate.rendered
    assert "⁇" not in translation
    assert translation.count("Ŵqŵ") == (wanted == "Ŵqŵ")
    assert translation.count("{x}") == text.count("{x}")
    spans = list(candidate.aligned_spans())
    assert sum(end - start for _, (start, end) in spans) == len(translation)
    if wanted:
        assert [text[slice(*span.source)].strip() for span in spans if wanted in translation[slice(*span.target)]] == [
            wanted
        ]


def test_pieces_that_symbols_copy_are_forbidden_where_a_sentence_has_the_symbols(bundle: Bundle) -> None:
    copying = dataclasses.replace(bundle, config={**bundle.config, "reserved_copies": [10, 11]})
    symbols = tuple(bundle.target_tokenizer.reserved_ids)
    plain, placeholder = Passage("abc"), Passage("{a}", (ProtectedSpan(0, 3, "{a}"),))

    def constraints(passage: Passage, served: Bundle, ids: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        sequence = sentence_of(passage, served, ids).sequence
        return sequence.required, sequence.forbidden

    assert constraints(plain, bundle, [40]) == ((), ())
    assert constraints(plain, copying, [40]) == ((), symbols)
    assert constraints(placeholder, copying, [40, symbols[0]]) == (symbols[:1], (*symbols[1:], 10))
    assert constraints(placeholder, copying, [10, symbols[0]]) == (symbols[:1], symbols[1:])
