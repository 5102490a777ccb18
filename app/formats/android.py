r"""Android's strings.xml: translates strings, string arrays and plurals; a plural gets the target's categories.

Android's own escapes (\', \n, \@) and quoted white space are those of the source. An <xliff:g> is protected, other
elements go around their words, and CDATA, also within other content, is HTML. Whatever is not translatable, and all
other resources, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from app.formats.catalogue_strings import PluralItem, Value, catalogue_content, plural_values
from app.formats.document import Content, part_of_name
from app.formats.encodings import join_surrogates
from app.formats.passage_builder import PassageBuilder
from app.formats.xml_positions import CDATA, XmlNode, clean, escape, parse, plain_encoder, plain_text
from app.markup.extract import inline_pieces
from app.markup.html_tokenizer import tokens
from app.markup.passage import VALUE, Passage, Piece
from app.text.plural_categories import CATEGORIES

_QUANTITY = re.compile(r"""\squantity\s*=\s*["'](\w+)["']""")
_REFERENCE = re.compile(r"[@?](?:[\w.]+:)?[\w+]+/[\w.]+|\?[\w.:]+")
"""A value that stands for another resource."""
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<one>[\s\S]))|(?P<space>[ \t\r\n]+)|(?P<quote>\")")
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*+"')
_MAX_HTML_CHARS = 200_000
_SPACE = " \t\r\n"
_ESCAPED = {"n": "\n", "t": "\t"}
_SPELLINGS = {"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language whose plural categories the file gets."""
    text, encode, root = parse(content, "Android's strings.xml", "resources")
    return catalogue_content(text, _values(text, root, target), target, encode)


def _values(text: str, root: XmlNode, target: str) -> Iterator[Value]:
    for node in root.children:
        name = part_of_name(node.attributes.get("name", ""))
        if node.attributes.get("translatable") == "false":
            continue
        if node.name == "string":
            yield from _value(text, node, name)
        elif node.name == "string-array":
            for number, item in enumerate(node.children):
                yield from _value(text, item, f"{name}[{number}]")
        elif node.name == "plurals":
            yield from plural_values(text, list(_plural_items(text, node, name)), target)


def _plural_items(text: str, node: XmlNode, name: str) -> Iterator[PluralItem]:
    for item in node.children:
        quantity = _QUANTITY.search(text, item.start, item.content)
        if item.name == "item" and quantity and quantity[1] in CATEGORIES:
            for value in _value(text, item, f"{name}.{quantity[1]}"):
                yield PluralItem(quantity[1], quantity.span(1), item.start, item.end, value)


def _value(text: str, node: XmlNode, name: str) -> Iterator[Value]:
    """The content of an element, if it is text."""
    raw = text[node.content : node.content_end]
    shown = raw.strip(_SPACE)
    if not shown or _REFERENCE.fullmatch(shown):
        return
    start = node.content + len(raw) - len(raw.lstrip(_SPACE))
    value = Value(start, start + len(shown), plain_text(shown), str, name)
    if node.children or (CDATA.search(shown) and not CDATA.fullmatch(shown)):
        yield value._replace(pieces=_pieces(shown))
        return
    is_quoted = len(value.text) > 1 and value.text[0] == value.text[-1] == '"' and value.text[-2] != "\\"
    inner = value.text[1:-1] if is_quoted else value.text
    encode = partial(_encode, plain_encoder(shown), _escaper(inner), is_quoted)
    decoded = _unescape(inner, is_quoted)
    if CDATA.fullmatch(shown) and len(shown) <= _MAX_HTML_CHARS:
        html = inline_pieces(decoded)
        # The pieces are spelled for HTML, and then for Android, as a whole.
        yield value._replace(text=decoded, pieces=html, encode=encode)
    else:
        yield value._replace(text=decoded, encode=encode)


def _pieces(raw: str) -> list[Piece]:
    """The content of an element with elements: one passage, or those between and in its CDATA sections."""
    spell = _escaper(plain_text(re.sub(r"<[^<>]*>", "", raw)))
    pieces = list[Piece]()
    builder, start, end, protected = PassageBuilder(), 0, 0, list[str]()

    def end_passage() -> None:
        passage = builder.build_translatable(lambda part: escape(spell(part)))
        pieces.append(raw[start:end] if passage is None else passage)

    for token in tokens(raw):
        is_value = token.name.endswith(":g") and token.kind in ("open", "close")
        if protected or (is_value and token.kind == "open"):
            protected.append(token.raw)
            if is_value and token.kind == "close":
                shown = _unescape(plain_text(re.sub(r"<[^<>]*>", "", "".join(protected))), False).strip()
                builder.add_protected(shown or VALUE, "".join(protected))
                protected = []
        elif section := CDATA.fullmatch(token.raw):
            end_passage()
            pieces += _section(section[1])
            builder, start = PassageBuilder(), end + len(token.raw)
        elif token.kind == "text":
            builder.add_text(_unescape(plain_text(token.raw), False))
        elif token.kind == "open":
            builder.open_tag(token.raw, token.name)
        elif token.kind == "close":
            builder.close_tag(token.raw, token.name)
        else:
            builder.add_mark(token.raw)
        end += len(token.raw)
    end_passage()
    return pieces


def _section(content: str) -> list[Piece]:
    """A CDATA section in other content, which is HTML."""
    spell = _escaper(content)

    def written(text: str) -> str:
        return spell(clean(text)).replace("]]>", "]]]]><![CDATA[>")

    def spelled(passage: Passage) -> Passage:
        write = passage.write
        return replace(
            passage,
            protected=tuple(one._replace(raw=written(one.raw)) for one in passage.protected),
            tags=tuple(tag._replace(raw=written(tag.raw)) for tag in passage.tags),
            write=lambda text: written(write(text)),
            nested=tuple(one._replace(passage=spelled(one.passage)) for one in passage.nested),
        )

    html = inline_pieces(_unescape(content, False))
    pieces = (spelled(piece) if isinstance(piece, Passage) else written(piece) for piece in html)
    return ["<![CDATA[", *pieces, "]]>"]


def _unescape(text: str, is_quoted: bool) -> str:
    """What Android displays; outside quotation marks white space is one space."""

    def character(found: re.Match[str]) -> str:
        if found["code"]:
            return chr(int(found["code"], 16))
        if found["space"]:
            return found["space"] if is_quoted else " "
        return found["quote"] or _ESCAPED.get(found["one"], found["one"])

    return join_surrogates(_ESCAPE.sub(character, text))


def _escaper(source: str) -> Callable[[str], str]:
    """Escapes text for Android as in `source`, where quotation marks may have no backslash, and other marks one."""
    spellings = dict(_SPELLINGS)
    escaped = {found["one"] for found in _ESCAPE.finditer(source) if found["one"]}
    spellings |= {one: f"\\{one}" for one in escaped if not (one.isalnum() or one.isspace())}
    if _UNESCAPED_QUOTE.search(source):
        del spellings['"']
    return lambda text: "".join(spellings.get(one, one) for one in text)


def _encode(spell: Callable[[str], str], escaped: Callable[[str], str], is_quoted: bool, text: str) -> str:
    inner = escaped(text)
    if is_quoted:
        return spell(f'"{inner}"')
    return spell(f"\\{inner}" if inner[:1] in ("@", "?") else inner)
