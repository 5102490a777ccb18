"""Tag projection: properties for any tags and alignment, and realistic examples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pytest
from fakes import render_tags
from hypothesis import given
from hypothesis import strategies as st

from app.markup.passage import AlignedSpan, Passage, ProtectedSpan, Tag
from app.markup.render import empty_elements, render_source, tag_tree
from app.text.tag_projection import split_tags

TAG = re.compile(r"<[^>]*>|~")
"""In these tests `<br/>` is a mark, and `~` one that is a space."""


def parsed(markup: str) -> Passage:
    text, tags = "", list[Tag]()
    for part in re.split(r"(<[^>]*>|~)", markup):
        if part == "~":
            tags.append(Tag(len(text), part, space=True))
            text += " "
        elif part.startswith("<"):
            close, mark = part.startswith("</"), part.endswith("/>")
            tags.append(Tag(len(text), part, "close" if close else "mark" if mark else "open"))
        else:
            text += part
    return Passage(text, tags=tuple(tags))


def words(text: str) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+|[^\w\s]", text)]


def linked(source: str, target: str, pairs: str) -> list[AlignedSpan]:
    """`pairs`: for each target word, the number of its source word."""
    spans, places = words(source), words(target)
    ends = [0, *(end for _, end in places)]
    numbers = [int(number) for number in pairs.split()]
    assert len(numbers) == len(places)
    return [AlignedSpan(spans[n], bounds) for n, bounds in zip(numbers, pairwise(ends), strict=True)]


def translated(markup: str, target: str, pairs: str) -> str:
    source = parsed(markup)
    return render_tags([target], source.tags, source.text, linked(source.text, target, pairs), str)


@pytest.mark.parametrize(
    ("markup", "target", "pairs", "expected"),
    [
        ("the <b>red</b> car", "la voiture rouge", "0 2 1", "la voiture <b>rouge</b>"),
        ("the <b>red car</b>", "la voiture rouge", "0 2 1", "la <b>voiture rouge</b>"),
        ("the <b>red <i>car</i></b>", "la voiture rouge", "0 2 1", "la <b><i>voiture</i> rouge</b>"),
        ("the <b>red</b> <i>car</i>", "la voiture rouge", "0 2 1", "la <i>voiture</i> <b>rouge</b>"),
        ("the <b>man</b> came.", "l'homme est venu.", "0 0 1 2 2 3", "l'<b>homme</b> est venu."),
        ("Click <b>here</b>.", "Cliquez ici.", "0 1 2", "Cliquez <b>ici</b>."),
        ("Click <b>here.</b>", "Cliquez ici.", "0 1 2", "Cliquez <b>ici.</b>"),
        ("Click <b>here</b>!", "Cliquez ici !", "0 1 2", "Cliquez <b>ici</b> !"),
        ("<b>Click</b>, please", "S'il vous plaît, cliquez", "2 2 2 2 2 1 0", "S'il vous plaît, <b>cliquez</b>"),
        ("a <b>dog</b>, a cat", "un chien, un chat", "0 1 1 3 4", "un <b>chien</b>, un chat"),
        (
            'he said <q>"no"</q> twice',
            "il a dit « non » deux fois",
            "0 1 1 2 3 4 5 5",
            "il a dit <q>« non »</q> deux fois",
        ),
        ("<b>Hello <i>dear</i> world</b>", "Salut cher monde", "0 1 2", "<b>Salut <i>cher</i> monde</b>"),
        ("<b>red</b> wine", "Rotwein", "0", "<b>Rotwein</b>"),
        ("the 21<sup>st</sup> day", "le XXIe jour", "0 1 2", "le XXI<sup>e</sup> jour"),
        ("le XIX<sup>e</sup> jour", "the 19th day", "0 1 2", "the 19<sup>th</sup> day"),
        ("the 1<sup>st</sup> day", "le 1 jour", "0 1 2", "le <sup>1</sup> jour"),
        ("a <b>big</b> red car", "une auto rouge", "0 3 2", "une <b>auto</b> rouge"),
        ("我<b>喜欢</b>猫", "I like cats", "0 1 3", "I <b>like</b> cats"),
        ("I <b>like</b> cats", "我喜欢猫", "0 1 1 2", "我<b>喜欢</b>猫"),
        ("one<br/> two three", "un deux trois", "0 1 2", "un<br/> deux trois"),
        ("one <br/>two three", "un deux trois", "0 1 2", "un <br/>deux trois"),
        ("<br/>one two.<hr/>", "deux un.", "1 0 2", "<br/>deux un.<hr/>"),
        ("the red<br/> car", "la voiture rouge", "0 2 1", "la voiture rouge<br/>"),
        ("10~000 cars", "10 000 voitures", "0 1 2", "10~000 voitures"),
        ("red~cars here", "voitures rouges ici", "1 0 2", "voitures rouges~ici"),
        ("Allez~! Venez.", "Go! Come.", "0 1 2 3", "Go!~Come."),
        ("go <b>home~</b>now", "allez maintenant chez vous", "0 2 1 1", "allez maintenant <b>chez vous~</b>"),
        ("go<b>~home</b> now", "rentrez chez vous", "0 1 1", "rentrez<b>~chez vous</b>"),
        # words with tags inside
        ("<b>O</b>nce there", "Il y avait", "1 0 0", "<b>I</b>l y avait"),
        ("<b>D</b>o not <i>open</i> it", "Öffne es nicht", "2 3 1", "<b>Ö</b><i>ffne</i> es nicht"),
        ("no sale<m/>, here", "hier kein Verkauf", "2 0 1", "hier kein Verkauf<m/>"),
        ("Water<m/> is cold", "Wasser ist kalt", "1 1 2", "Wasser<m/> ist kalt"),
        ("the <u>F</u>ile", "la Datei", "0 1", "la <u>D</u>atei"),
        ("the 19<b>th</b> day", "le 19e jour", "0 1 2", "le 19<b>e</b> jour"),
        ("I like Java<b>Script</b>", "j'aime JavaScript", "0 0 1 2", "j'aime Java<b>Script</b>"),
        ("<b>cat</b>s here", "chats ici", "0 1", "<b>chat</b>s ici"),
        ("un<b>believ</b>able", "unglaublich", "0", "un<b>glaublich</b>"),
        ("un<b>believ</b>able", "inouï", "0", "<b>inouï</b>"),
        # elements without an aligned word
        ("<b>very</b> <i>very</i> big", "très grand", "0 2", "<b>très</b> <i>grand</i>"),
        ("<b>a big</b> <i>cat</i>", "un chat", "0 1", "<b>un</b> <i>chat</i>"),
        ("<b>very</b> <i>very</i>", "énorme", "0", "<b><i>énorme</i></b>"),
    ],
)
def test_tags_follow_their_words(markup: str, target: str, pairs: str, expected: str) -> None:
    assert translated(markup, target, pairs) == expected


@pytest.mark.parametrize(
    ("markup", "target", "pairs", "expected"),
    [
        # "Le" attends to the full stop.
        ("<a>The big cat sat</a>.", "Le gros chat était assis.", "4 1 2 3 3 4", "<a>Le gros chat était assis</a>."),
        # "très" attends to "all", and a comma to "list".
        (
            "see the <a>very long list</a>, of all",
            "voir une liste très long, de tous",
            "0 1 4 7 3 4 6 7",
            "voir une <a>liste très long</a>, de tous",
        ),
        # The full stop attends to a word that no word attends to.
        (
            "he sat by the <i>big tree</i>.",
            "il était assis sous l'arbre.",
            "0 1 1 2 4 4 4 5",
            "il était assis sous <i>l'arbre</i>.",
        ),
        # "rouge" attends to "large", too.
        (
            "the <b>very large</b> red car",
            "la très grande voiture rouge",
            "0 1 2 4 2",
            "la <b>très grande</b> voiture rouge",
        ),
    ],
)
def test_noise_in_the_alignment_is_outvoted(markup: str, target: str, pairs: str, expected: str) -> None:
    assert translated(markup, target, pairs) == expected


def test_unpaired_tags_extend_to_the_start_or_end_of_the_text() -> None:
    source = "red cars and blue bikes"
    target = "voitures rouges et vélos bleus"
    aligned_spans = linked(source, target, "1 0 2 4 3")
    assert (
        render_tags([target], [Tag(8, "</b>", "close")], source, aligned_spans, str)
        == "voitures rouges</b> et vélos bleus"
    )
    assert (
        render_tags([target], [Tag(13, "<i>", "open")], source, aligned_spans, str)
        == "voitures rouges et <i>vélos bleus"
    )
    both = [Tag(0, "<br/>"), Tag(8, "</b>", "close"), Tag(8, "<hr/>"), Tag(13, "<i>", "open"), Tag(17, "<br/>")]
    expected = "<br/>voitures rouges</b><hr/> et <i>vélos bleus<br/>"
    assert render_tags([target], both, source, aligned_spans, str) == expected


def test_protected_spans_are_neither_split_nor_escaped() -> None:
    protected = ProtectedSpan(6, 12, "<x> & y")
    source = parsed("press <b>{name}</b> & go")
    pieces: list[str | ProtectedSpan] = ["appuyez sur ", protected, " & allez"]
    aligned_spans = [
        AlignedSpan((0, 5), (0, 11)),
        AlignedSpan((6, 12), (11, 19)),
        AlignedSpan((13, 14), (19, 21)),
        AlignedSpan((15, 17), (21, 27)),
    ]
    found = render_tags(pieces, source.tags, source.text, aligned_spans, lambda text: text.replace("&", "&amp;"))
    assert found == "appuyez sur <b><x> & y</b> &amp; allez"


def test_source_line_breaks_become_a_space_or_nothing() -> None:
    source = "one two"
    aligned_spans = [AlignedSpan((0, 3), (0, 1)), AlignedSpan((4, 7), (1, 2))]
    tags = [Tag(3, "\n  ", space=True)]
    assert render_tags(["一二"], tags, source, aligned_spans, str) == "一二"
    assert (
        render_tags(["a b"], tags, source, [AlignedSpan((0, 3), (0, 1)), AlignedSpan((4, 7), (1, 3))], str) == "a\n  b"
    )
    assert render_tags(["一二"], [Tag(3, "&nbsp;", space=True)], source, aligned_spans, str) == "一&nbsp;二"


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<b>One.</b> <i>Two.</i>", ["<b>One.</b>", " ", "<i>Two.</i>"]),
        ("<b>One. Two.</b>", ["<b>One.", " ", "Two.</b>"]),
        ("<b>One. </b>Two.", ["<b>One.", " </b>", "Two."]),
        ("<b>One.<br/></b> <i>Two.</i>", ["<b>One.<br/></b>", " ", "<i>Two.</i>"]),
        ("One.<br/><i></i> <i><br/>Two.</i>", ["One.<br/><i></i>", " ", "<i><br/>Two.</i>"]),
        ("One.~Two.", ["One.", "~", "Two."]),
        ("<b>One.</b><i>~Two.</i>", ["<b>One.</b>", "<i>~", "Two.</i>"]),
    ],
)
def test_tags_are_split_among_the_segments_they_belong_to(markup: str, expected: list[str]) -> None:
    passage = parsed(markup)
    cuts = [(0, 4), (4, 5), (5, 9)]
    found = split_tags(passage.tags, cuts)
    assert [
        render_source(Passage(passage.text[a:b], tags=tuple(t))) for (a, b), t in zip(cuts, found, strict=True)
    ] == expected


@st.composite
def passages(draw: st.DrawFn, alphabet: str = "ab 好.,") -> Passage:
    """Well-nested tags, each with a unique `raw`, at any places in any text."""
    text = draw(st.text(alphabet, max_size=24))
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=14)))
    tags: list[Tag] = []
    opened: list[int] = []
    for number, at in enumerate(places):
        action = draw(st.sampled_from(["open", "close", "mark", "space"]))
        if action == "open":
            opened.append(number)
            tags.append(Tag(at, f"<e{number}>", "open"))
        elif action == "close" and opened:
            tags.append(Tag(at, f"</e{opened.pop()}>", "close"))
        else:
            space = (
                action == "space" and text[at : at + 1] == " " and Tag(at, f"<m{number - 1}/>", space=True) not in tags
            )
            tags.append(Tag(at, f"<m{number}/>", space=space))
    tags += [Tag(len(text), f"</e{number}>", "close") for number in reversed(opened)]
    return Passage(text, tags=tuple(tags))


@st.composite
def aligned(draw: st.DrawFn, length: int) -> tuple[list[str | ProtectedSpan], list[AlignedSpan]]:
    """Any translation, with any alignment to a source of `length` characters."""
    pieces: list[str | ProtectedSpan] = []
    for piece in draw(st.lists(st.text("xy 语.’", max_size=8), max_size=4)):
        pieces += (
            [piece, ProtectedSpan(0, 0, draw(st.sampled_from(["{k}", "{ }", "语"])))]
            if draw(st.booleans())
            else [piece]
        )
    size = sum(len(piece.raw if isinstance(piece, ProtectedSpan) else piece) for piece in pieces)
    cuts = sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=10))})
    spans = st.tuples(st.integers(0, length), st.integers(0, length)).map(lambda span: (min(span), max(span)))
    return pieces, [AlignedSpan(draw(spans), bounds) for bounds in pairwise(cuts)]


def ancestors(markup: str) -> dict[str, set[str]]:
    """The elements around each element and mark; fails if tags do not nest."""
    found: dict[str, set[str]] = {}
    names = re.findall(r"<(/?)(\w+)(/?)>", markup)
    # An element whose opening is not here began before.
    begun = [name for close, name, _ in names if close and ("", name, "") not in names]
    opened = begun[::-1]
    for close, name, mark in names:
        if close:
            assert opened.pop() == name
            continue
        assert name not in found
        found[name] = set(opened)
        if not mark:
            opened.append(name)
    return found


@given(st.data())
def test_every_tag_occurs_once_in_its_ancestors_and_the_text_is_kept(data: st.DataObject) -> None:
    source = data.draw(passages())
    pieces, aligned_spans = data.draw(aligned(len(source.text)))
    found = render_tags(pieces, source.tags, source.text, aligned_spans, str)
    inside = ancestors("".join(tag.raw for tag in source.tags))
    assert all(inside[name] <= around for name, around in ancestors(found).items())
    plain = "".join(piece.raw if isinstance(piece, ProtectedSpan) else piece for piece in pieces)
    spaces = {tag.raw for tag in source.tags if tag.space}
    pattern = re.escape(TAG.sub(lambda tag: "\x01" if tag[0] in spaces else "", found)).replace("\x01", "[ ]?")
    assert re.fullmatch(pattern, plain)
    assert all(piece.raw in found for piece in pieces if isinstance(piece, ProtectedSpan))


@given(st.data())
def test_no_element_with_words_is_around_none(data: st.DataObject) -> None:
    source = data.draw(passages())
    pieces, aligned_spans = data.draw(aligned(len(source.text)))
    found = render_tags(pieces, source.tags, source.text, aligned_spans, str)
    if any(isinstance(piece, ProtectedSpan) or any(map(str.isalnum, piece)) for piece in pieces):
        assert _with_words(render_source(source)) <= _with_words(found)


def _with_words(markup: str) -> set[str]:
    """The elements that are around a word."""
    found = re.findall(r"<(\w+)>(?=(.*?)</\1>)", markup, re.DOTALL)
    return {name for name, inside in found if re.search(r"[^\W_]|{", TAG.sub("", inside))}


@given(st.data())
def test_sentence_with_half_an_element_nests_correctly(data: st.DataObject) -> None:
    source = data.draw(passages())
    cuts = sorted({0, len(source.text), *data.draw(st.lists(st.integers(0, len(source.text)), max_size=4))})
    segments = list(pairwise(cuts)) or [(0, 0)]
    parts: list[str] = []
    for (start, end), tags in zip(segments, split_tags(source.tags, segments), strict=True):
        pieces, aligned_spans = data.draw(aligned(end - start))
        parts.append(render_tags(pieces, tags, source.text[start:end], aligned_spans, str))
    inside = ancestors("".join(tag.raw for tag in source.tags))
    assert all(inside[name] <= around for name, around in ancestors("".join(parts)).items())


@given(st.data())
def test_joined_shares_are_the_passage(data: st.DataObject) -> None:
    source = data.draw(passages())
    cuts = sorted({0, len(source.text), *data.draw(st.lists(st.integers(0, len(source.text)), max_size=4))})
    segments = list(pairwise(cuts)) or [(0, 0)]
    found = split_tags(source.tags, segments)
    parts = [Passage(source.text[a:b], tags=tuple(tags)) for (a, b), tags in zip(segments, found, strict=True)]
    assert "".join(map(render_source, parts)) == render_source(source)


@given(passages())
def test_words_in_unchanged_order_keep_their_tags(source: Passage) -> None:
    """Each word is linked to itself: its tags in the source are its tags in the translation."""
    aligned_spans = [AlignedSpan(bounds, bounds) for bounds in pairwise(range(len(source.text) + 1)) if bounds]
    letters = Passage(re.sub(r"[^好]", "好", source.text), tags=tuple(t._replace(space=False) for t in source.tags))
    found = render_tags([letters.text], letters.tags, letters.text, aligned_spans, str)
    assert around(found) == around(render_source(letters))


def around(markup: str) -> list[tuple[str, ...]]:
    """The elements around each character of the text."""
    found: list[tuple[str, ...]] = []
    opened: list[str] = []
    for close, name, mark, character in re.findall(r"<(/?)(\w+)(/?)>|([^<])", markup):
        if character:
            found.append(tuple(opened))
        elif close:
            opened.pop()
        elif not mark:
            opened.append(name)
    return found


def many(count: int) -> tuple[list[Sequence[Tag]], list[AlignedSpan], str]:
    text = "ab " * 200
    aligned_spans = [AlignedSpan((i, i + 3), (i, i + 3)) for i in range(0, len(text), 3)]
    deep = [*(Tag(0, "<b>", "open") for _ in range(count)), *(Tag(len(text), "</b>", "close") for _ in range(count))]
    flat = [tag for _ in range(count) for tag in (Tag(3, "<b>", "open"), Tag(3, "</b>", "close"))]
    inner = [Tag(i % 300, "<b>", "open") for i in range(300)]
    inner += [Tag(len(text) - 299 + i, "</b>", "close") for i in range(300)]
    marks = [Tag(i * len(text) // count, "<m/>") for i in range(count)]
    return [deep, flat, inner, marks], aligned_spans, text


def test_thousands_of_tags_are_placed_in_time() -> None:
    kinds, aligned_spans, text = many(3_000)
    for tags in kinds:
        found = render_tags([text], tags, text, aligned_spans, str)
        assert found.count("<") == len(tags)


def test_empty_elements_are_found_at_any_depth() -> None:
    """A recursion ended in an internal error at a thousand levels."""
    tags = [*[Tag(0, "<b>", "open")] * 5_000, *[Tag(5, "</b>", "close")] * 5_000]
    root = tag_tree(tags, 9)
    assert list(empty_elements(root, "Hello and", "")) == ["Hello"]
    for node in (deep := [root]):
        node.place = (0, 1)
        deep += node.children
    assert list(empty_elements(root, "Hello and", "x")) == []
