"""Classifies elements of HTML and XML: which end a passage, which are inline, which are not translated.

Reconstructs nesting, however broken the markup is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import accumulate

from app.markup.char_refs import split_references
from app.markup.html_tokenizer import RAW_TEXT, Token, attributes


def _names(*names: str) -> frozenset[str]:
    return frozenset(" ".join(names).split())


BLOCKS = _names(
    "address article aside audio base blockquote body br button canvas caption center col colgroup datalist dd details",
    "dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup",
    "hr html input legend li main menu nav noscript object ol optgroup option p pre search section select summary",
    "table tbody td textarea tfoot th thead title tr ul video",
)
"""Elements whose tags end a passage: HTML's blocks, separate parts of forms, and the line break."""
_INLINE_HTML = _names(
    "a abbr acronym area b bdi bdo big cite code data del dfn em embed font i iframe img ins kbd label link map mark",
    "math meta meter nobr noembed output param picture progress q rb rp rt rtc ruby s samp script slot small source",
    "span strike strong style sub sup svg template time track tt u var wbr",
)
HTML = BLOCKS | _INLINE_HTML | _names("html iframe script style")
INLINE = _INLINE_HTML | _names("bpt bx ec em ept ex g it mrk pc ph sc x")
"""HTML's inline elements, and XLIFF's."""
VOID = _names("area base br col embed frame hr img input link meta param source track wbr")
"""HTML's elements without an end tag."""
UNTRANSLATED = _names("bpt code ept it kbd math ph pre rp rt rtc samp svg template textarea var")
"""Elements that are not translated unless they ask for it."""
HIDDEN = _names("bpt ept rp rt rtc template") | RAW_TEXT
"""Untranslated elements that do not count as a word of their sentence."""
OBJECTS = _names("embed img input it svg")
"""Elements that count as an object in their sentence, whatever text they have."""
VALUES = _names("ph x")
"""Elements that count as a value of the sentence, even without text."""
_WORD_LIKE_INPUTS = _names("color date datetime-local email month number password range search tel text time url week")
"""Kinds of input that may be a word of a sentence."""
_END_MARKS = ".!?:;…。！？：；"
_NEVER_SPLIT = _names("math svg template")
"""Elements whose content never ends a passage, whatever its name."""

_CELLS = _names("td th tr tbody tfoot")
_ENDED_BY = {
    "p": _names(
        "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1",
        "h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section table ul",
    ),
    "li": _names("li"),
    "dt": _names("dt dd"),
    "dd": _names("dt dd"),
    "td": _CELLS,
    "th": _CELLS,
    "tr": _names("tr tbody tfoot"),
    "option": _names("option optgroup"),
}
"""Tags that close an element implicitly, for HTML with omitted end tags."""


@dataclass(eq=False, slots=True)
class Element:
    """An element of the input: tokens [first, last], where `last` is None if its end tag is missing."""

    name: str
    first: int
    parent: Element | None
    is_translated: bool
    """Whether it is translated."""
    last: int | None = None
    has_text: bool = False
    attributes: bool = True
    """Whether its text attributes are translated."""
    in_text: bool = False
    """Whether there is text beside it, or beside an inline element that contains it."""
    inline: bool = False


@dataclass(frozen=True)
class Rules:
    """A request's rules for elements by name, in lower case, which override HTML's."""

    untranslated: frozenset[str] = frozenset()
    """Not translated."""
    splitting: frozenset[str] = frozenset()
    """Not inline."""
    joining: frozenset[str] = frozenset()
    """Inline."""
    outline: bool = True
    """Whether other elements follow HTML's rules; else all of them are inline."""
    attributes: bool = True
    """Whether text attributes are translated."""

    def is_inline(self, name: str, default: bool) -> bool:
        """Whether elements with that name are inline."""
        return name not in self.splitting and (default or name in self.joining or not self.outline)


NO_RULES = Rules()


@dataclass
class MarkupTree:
    """The element of each token. `owners`: for tags, their own element; for other tokens, the one that contains
    them."""

    elements: list[Element] = field(default_factory=list)
    owners: list[Element] = field(default_factory=list)
    strays: set[int] = field(default_factory=set)
    """End tags without a start tag."""
    attributes: bool = True
    """Whether attributes are translated at all."""


def parse_elements(tokens: Sequence[Token], rules: Rules = NO_RULES) -> MarkupTree:
    """The elements of `tokens`, with `inline` set for each.

    An end tag closes the innermost open element with its name, and with it those inside; an inline element's end tag
    does not close a block. Elements with unknown names are inline if there is text beside them; in XML that is not
    HTML, `<a>` and `<b>` count as unknown, except within known inline elements.
    """
    xml = tokens[0].raw.startswith("<?xml") if tokens else False
    void = _names() if xml or _is_well_formed(tokens, _names()) else VOID
    found = _TreeBuilder(void, tokens, rules.untranslated).read(tokens)
    if not rules.outline:
        found.strays.clear()
    html = not xml or any(local_name(element.name) == "html" for element in found.elements[:1])
    found.attributes = html and rules.attributes
    for element in found.elements:
        parent = element.parent
        assert parent
        element.in_text = parent.has_text or (parent.inline and parent.in_text)
        name = local_name(element.name)
        named = name in INLINE and (html or parent.inline or local_name(parent.name) in BLOCKS)
        named = named or (name == "input" and _is_word(element, tokens))
        element.inline = rules.is_inline(element.name, named or (name not in BLOCKS and element.in_text))
    return found


def _is_word(element: Element, tokens: Sequence[Token]) -> bool:
    """Whether an input is in mid-sentence: the text around it neither ends nor begins a sentence or a label."""
    around = tokens[max(element.first - 1, 0) : element.first + 2]
    if element.last != element.first or [token.kind == "text" for token in around] != [True, False, True]:
        return False
    before, after = (unescape(around[place].raw).strip() for place in (0, -1))
    if not before or not after or before[-1] in _END_MARKS or after[0].isupper():
        return False
    return attributes(around[1].raw).get("type", "text").lower() in _WORD_LIKE_INPUTS


def passage_boundaries(tokens: Sequence[Token], found: MarkupTree) -> list[bool]:
    """For each token, whether it ends a passage. Sets `inline` to False for elements that contain such a token."""
    ends = [False] * len(tokens)
    for i in found.strays:
        ends[i] = local_name(tokens[i].name) in BLOCKS
    for element in found.elements:
        if not element.inline or (not element.is_translated and element.last is None):
            _mark_ends(ends, element)
    is_text = [token.kind == "text" and owner.is_translated for token, owner in zip(tokens, found.owners, strict=True)]
    texts_before = [0, *accumulate(is_text)]
    done = 0
    for element in found.elements:
        if (
            element.inline
            and local_name(element.name) in _NEVER_SPLIT
            and element.last is not None
            and not element.is_translated
        ):
            # If one is done, those around it are done as well.
            inside = range(max(element.first + 1, done), element.last)
            if texts_before[element.last] == texts_before[element.first]:
                for i in inside:
                    ends[i] = False
                done = max(done, element.last)
    ends_before = [0, *accumulate(ends)]
    for element in found.elements:
        if element.last is None or not element.inline:
            continue
        translated = texts_before[element.last] - texts_before[element.first]
        if ends_before[element.last] > ends_before[element.first + 1] or (not element.is_translated and translated):
            element.inline = False
            _mark_ends(ends, element)
    return ends


def _mark_ends(ends: list[bool], element: Element) -> None:
    ends[element.first] = True
    if element.last is not None:
        ends[element.last] = True


def local_name(name: str) -> str:
    """Without the prefix: `w:p` is a paragraph, too."""
    return name.rpartition(":")[2]


class _TreeBuilder:
    """Builds elements from tokens, in linear time."""

    def __init__(self, void: frozenset[str], tokens: Iterable[Token], untranslated: frozenset[str]) -> None:
        self.void, self.untranslated = void, untranslated
        self.ended_by = {} if _is_well_formed(tokens, void) else _ENDED_BY
        self.found = MarkupTree()
        self.open = [Element("", -1, None, is_translated=True, inline=False)]
        self.depths: dict[str, list[int]] = {}
        """For each name, its positions in `open`."""
        self.blocks = [0]
        """The positions of blocks in `open`."""

    def read(self, tokens: Iterable[Token]) -> MarkupTree:
        for i, token in enumerate(tokens):
            owner = self.open[-1]
            if token.kind == "text" and not owner.has_text:
                owner.has_text = any(not part.text or not part.text.isspace() for part in split_references(token.raw))
            elif token.kind in ("open", "empty"):
                owner = self._open_element(i, token)
            elif token.kind == "close":
                owner = self._close_element(i, token.name)
            self.found.owners.append(owner)
        return self.found

    def _open_element(self, i: int, token: Token) -> Element:
        name = token.name
        while name in self.ended_by.get(self.open[-1].name, ()):
            self._pop()
        parent = self.open[-1]
        explicit = False if name in self.untranslated else _translate_attribute(token)
        inherited = parent.is_translated if explicit is None else explicit
        is_allowed = explicit is not None or local_name(name) not in UNTRANSLATED
        is_translated = name not in RAW_TEXT and inherited and is_allowed
        element = Element(name, i, parent, is_translated, attributes=inherited)
        self.found.elements.append(element)
        if token.kind == "empty" or name in self.void:
            element.last = i
            return element
        self.depths.setdefault(name, []).append(len(self.open))
        if local_name(name) in BLOCKS:
            self.blocks.append(len(self.open))
        self.open.append(element)
        return element

    def _close_element(self, i: int, name: str) -> Element:
        depths = self.depths.get(name)
        if not depths or (local_name(name) in INLINE and self.blocks[-1] > depths[-1]):
            self.found.strays.add(i)
            return self.open[-1]
        depth = depths[-1]
        while len(self.open) > depth + 1:
            self._pop()
        element = self._pop()
        element.last = i
        return element

    def _pop(self) -> Element:
        element = self.open.pop()
        self.depths[element.name].pop()
        if self.blocks[-1] == len(self.open):
            self.blocks.pop()
        return element


def _is_well_formed(tokens: Iterable[Token], void: frozenset[str]) -> bool:
    opened: list[str] = []
    for token in tokens:
        if token.kind == "open" and token.name not in void:
            opened.append(token.name)
        elif token.kind == "close" and (not opened or opened.pop() != token.name):
            return False
    return not opened


def _translate_attribute(token: Token) -> bool | None:
    """Whether a tag says that its element is translated; None if it does not say. A reference to a note is not."""
    if "noteref" in token.raw:
        found = attributes(token.raw)
        if "noteref" in found.get("epub:type", "").split() or found.get("role") == "doc-noteref":
            return False
    if "translate" not in token.raw.lower():
        return None
    found = attributes(token.raw)
    said = found.get("translate", found.get("its:translate"))
    if said is not None and said.lower() in ("yes", "no", ""):
        return said.lower() != "no"
    return False if "notranslate" in found.get("class", "").split() else None
