"""Qt Linguist's .ts: fills in empty unfinished translations, which stay unfinished, for review.

A message with a number gets all the forms that its translation has room for, or else those of the target language.
Everything else is kept, also finished and obsolete translations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content, UnreadableDocument
from app.formats.xml_positions import XmlNode, attribute_span, escape, parse, plain_text
from app.text.plural_categories import plural_categories

_SPELLINGS = {'"': "&quot;", "'": "&apos;"}
"""As Qt writes these characters."""
_MAX_FORMS = 6
"""Of a number, in any language."""


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language that the file will declare."""
    text, encode, root = parse(content, "Qt's .ts", "TS")
    return catalogue_content(text, [*_language(text, root, target), *_values(text, root, target)], target, encode)


def _language(text: str, root: XmlNode, target: str) -> Iterator[Value]:
    code = target.replace("-", "_")
    if not target or root.attributes.get("language", "").replace("-", "_") == code:
        return
    if span := attribute_span(text, root, "language"):
        yield Value(*span, code, str, adds=True, pieces=[code])
    else:
        place = root.start + len("<TS")
        yield Value(place, place, code, str, adds=True, pieces=[f' language="{code}"'])


def _values(text: str, root: XmlNode, target: str) -> Iterator[Value]:
    spell, count = partial(escape, spellings=_SPELLINGS), _form_count(target)
    names: dict[XmlNode | None, str] = {}
    for message in root.descendants("message"):
        source, translation = message.find("source"), message.find("translation")
        if source is None or source.children or translation is None:
            continue
        if translation.attributes.get("type") != "unfinished":
            continue
        if message.parent not in names:
            context = message.parent.find("name") if message.parent else None
            names[message.parent] = plain_text(text[context.content : context.content_end]) if context else ""
        name = names[message.parent]
        shown = plain_text(text[source.content : source.content_end])
        forms = [child for child in translation.children if child.name == "numerusform"]
        if len(forms) > _MAX_FORMS:
            line = text.count("\n", 0, message.start) + 1
            raise UnreadableDocument(f"The message in line {line} has over {_MAX_FORMS} forms of a number.")
        if message.attributes.get("numerus") != "yes":
            if not translation.children and not _content(text, translation).strip():
                yield _filled(text, translation, shown, name, spell)
        elif forms and not any(_content(text, form).strip() for form in forms):
            yield from (_filled(text, form, shown, name, spell) for form in forms)
        elif not forms and not _content(text, translation).strip():
            # All forms of one translation: Qt's sources have one, such as "%n file(s)".
            yield _filled(text, translation, shown, name, lambda t: f"<numerusform>{spell(t)}</numerusform>" * count)


def _content(text: str, node: XmlNode) -> str:
    return text[node.content : node.content_end]


def _filled(text: str, node: XmlNode, shown: str, name: str, spell: Callable[[str], str]) -> Value:
    """The value that writes the translation of `shown` into an element without content."""
    if not node.is_empty_tag:
        return Value(node.content, node.content_end, shown, spell, name, adds=True)
    place = text.rindex("/", node.start, node.end)
    return Value(place, node.end, shown, lambda t: f">{spell(t)}</{node.name}>", name, adds=True)


def _form_count(language: str) -> int:
    """The number of forms that Qt has for whole numbers in `language`."""
    categories = plural_categories(language) or ("one", "other")
    is_unused = "many" in categories and len(categories) in (3, 4)  # millions in French; fractions in Russian
    return len(categories) - is_unused
