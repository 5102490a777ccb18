"""Mozilla's Fluent, .ftl: translates the patterns of messages, attributes and terms. Everything else is kept.

fluent.syntax says where they are. Placeables are protected, except selections, whose variants are translated each; a
plural gets the target's categories. Terms with "brand" in their names are names, and attributes such as accesskey no
text. Lines of a paragraph are joined, since they are wrapped for its translators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from fluent.syntax import FluentParser, ast

from app.formats.catalogue_strings import PluralItem, Value, catalogue_content, plural_values
from app.formats.document import Content, UnreadableDocument, check_joins, part_of_name
from app.formats.encodings import decode
from app.formats.passage_builder import PassageBuilder
from app.markup.passage import Piece, ProtectedSpan
from app.text.plural_categories import CATEGORIES
from app.text.plural_numbers import fits_number, sample_number, with_placeholder

_Element = ast.TextElement | ast.Placeable
_MAX_CHARS = 1 << 20
"""The parser takes seconds for a megabyte of short messages; Mozilla's own files have up to 100 KB."""
_KEPT_ATTRIBUTES = {"accesskey", "key", "commandkey", "shortcut", "style", "width", "height"}
_WRAPPED = re.compile(r"(?<=\S)[ ]*\r?\n[ ]*(?=\S)")
_INDENTED = re.compile(r"\n( +)\S")
_LINE_START = re.compile(r"(?m)(?<=\n)(?=[\[*.])")
_BLOCK_START = re.compile(r"\n *\Z")
_MAX_INDENT = 200


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language whose plural categories selections get."""
    text, encode = decode(content)
    if len(text) > _MAX_CHARS:
        raise UnreadableDocument(f"The file has over {_MAX_CHARS >> 20} MiB, which Fluent files rarely have. Split it.")
    check_joins(size for line in text.split("\n") for size in _joined(line))
    try:
        entries = FluentParser(with_spans=True).parse(text).body
        known = [entry for entry in entries if isinstance(entry, ast.Message | ast.Term)]
        if not known and any(isinstance(entry, ast.Junk) for entry in entries):
            raise UnreadableDocument("The file is not Fluent: it has no message.")
        values = [value for entry in known for value in _entry_values(text, entry, target)]
    except RecursionError:
        raise UnreadableDocument("The file is nested too deeply.") from None
    return catalogue_content(text, values, target, encode)


def _joined(line: str) -> list[int]:
    """The characters of a line in the pieces that the parser joins: the lines of a pattern, which are indented."""
    return [len(line) + 1] if line[:1] in ("", " ", "\r") else [0, len(line)]


def _entry_values(text: str, entry: ast.Message | ast.Term, target: str) -> Iterator[Value]:
    name = part_of_name(entry.id.name)
    if entry.value and not (isinstance(entry, ast.Term) and "brand" in entry.id.name):
        yield from _values(text, entry.value, name, target)
    if isinstance(entry, ast.Message):  # a term's attributes are for selections
        for attribute in entry.attributes:
            if attribute.id.name.lower() not in _KEPT_ATTRIBUTES:
                yield from _values(text, attribute.value, f"{name}.{part_of_name(attribute.id.name)}", target)


def _values(text: str, pattern: ast.Pattern, name: str, target: str) -> Iterator[Value]:
    """The parts of a pattern to translate."""
    for is_selection, group in groupby(pattern.elements, _is_selection):
        elements = list(group)
        if not is_selection:
            yield _value(text, elements, name)
            continue
        for element in elements:
            yield from _selection(text, element, name, target)


def _is_selection(element: _Element) -> bool:
    return isinstance(element, ast.Placeable) and isinstance(element.expression, ast.SelectExpression)


def _variants(element: _Element) -> list[ast.Variant]:
    """The variants of a selection."""
    assert isinstance(element, ast.Placeable) and isinstance(element.expression, ast.SelectExpression)
    return element.expression.variants


def _variable(element: _Element) -> str:
    """The variable that a selection depends on, or that a placeable is; "" if it is anything else."""
    expression = element.expression if isinstance(element, ast.Placeable) else None
    if isinstance(expression, ast.SelectExpression):
        expression = expression.selector
    return expression.id.name if isinstance(expression, ast.VariableReference) else ""


def _span(node: ast.SyntaxNode) -> tuple[int, int]:
    assert node.span
    return node.span.start, node.span.end


def _selection(text: str, element: _Element, name: str, target: str) -> Iterator[Value]:
    variants = _variants(element)
    names = {variant.key.name for variant in variants if isinstance(variant.key, ast.Identifier)}
    variable = _variable(element) if names <= set(CATEGORIES) else ""
    items = [_variant(text, variant, name, variable) for variant in variants]
    default = next(item for item, variant in zip(items, variants, strict=True) if variant.default)
    if names <= set(CATEGORIES) and default.category == "other":
        yield from plural_values(text, items, target)
    else:
        yield from (item.value for item in items)


def _variant(text: str, variant: ast.Variant, name: str, variable: str) -> PluralItem:
    """`variable`: the number that a plural depends on, or ""."""
    key = variant.key.value if isinstance(variant.key, ast.NumberLiteral) else variant.key.name
    category = key if key in CATEGORIES else ""
    value = _value(text, variant.value.elements, f"{name}[{key}]", variable if category else "", category)
    start, end = _span(variant)
    return PluralItem(key, _span(variant.key), start, end, value, " [" if variant.default else "[")


def _value(text: str, elements: Sequence[_Element], name: str, variable: str = "", category: str = "") -> Value:
    start, end = _span(elements[0])[0], _span(elements[-1])[1]
    indented = _INDENTED.search(text, start, end)
    is_on_own_line = _BLOCK_START.search(text, max(0, start - _MAX_INDENT), start) is not None
    line_end = "\r\n" if text.find("\r\n", start, end) >= 0 else "\n"
    encode = partial(_encode, is_on_own_line, indented[1] if indented else "    ", line_end)
    return Value(start, end, text[start:end], encode, name, pieces=list(_pieces(text, elements, variable, category)))


def _pieces(text: str, elements: Sequence[_Element], variable: str = "", category: str = "") -> Iterator[Piece]:
    """Text with placeables as passages, and selections within as text around the passages of their variants."""
    for is_selection, group in groupby(elements, _is_selection):
        if not is_selection:
            yield _passage(text, list(group), variable, category)
            continue
        for element in group:
            done, end = _span(element)
            for variant in _variants(element):
                parts = variant.value.elements
                yield text[done : _span(parts[0])[0]]
                yield from _pieces(text, parts)
                done = _span(parts[-1])[1]
            yield text[done:end]


def _passage(text: str, elements: Sequence[_Element], variable: str, category: str) -> Piece:
    """A passage of elements, with a number in place of the only placeable that is `variable`, unless that is ""."""
    shown = [element for element in elements if variable and _variable(element) == variable]
    number = sample_number(category) if len(shown) == 1 and _fits_number(elements, shown[0]) else ""
    builder, terms = PassageBuilder(), list[ProtectedSpan]()
    write: Callable[[str], str] = _escape
    for element in elements:
        raw = text[slice(*_span(element))]
        if isinstance(element, ast.TextElement):
            builder.add_text(_WRAPPED.sub(" ", element.value))
        elif number and element is shown[0]:
            terms.append(ProtectedSpan(builder.length, builder.length + len(number), number))
            builder.add_text(number)
            write = with_placeholder(_escape, number, raw)
        else:
            builder.add_protected(raw, raw)
    passage = builder.build_translatable(write)
    return replace(passage, terms=tuple(terms)) if passage else text[_span(elements[0])[0] : _span(elements[-1])[1]]


def _fits_number(elements: Sequence[_Element], shown: _Element) -> bool:
    texts = [element.value if isinstance(element, ast.TextElement) else "{}" for element in elements]
    place = elements.index(shown)
    return fits_number("".join(texts[:place]), "".join(texts[place + 1 :]))


def _escape(text: str) -> str:
    return re.sub(r"[{}]", lambda found: f'{{"{found[0]}"}}', text)


def _encode(is_on_own_line: bool, indent: str, line_end: str, text: str) -> str:
    """A translated pattern; what its lines begin with means nothing else."""
    marked = _LINE_START.sub('{""}', text.replace("\r", ""))
    if is_on_own_line and marked.startswith(("[", "*", ".")):
        marked = f'{{""}}{marked}'
    return re.sub(r"\n(\n*)", lambda found: f"{line_end}{len(found[1]) * line_end}{indent}", marked)
