""".NET's .resx and .resw: translates values that are strings. Comments, typed values, schema and layout are kept."""

from __future__ import annotations

from collections.abc import Iterator

from app.formats.catalogue_strings import Value, catalogue_content
from app.formats.document import Content
from app.formats.xml_positions import XmlNode, parse, plain_encoder, plain_text


def read(content: bytes, target: str = "") -> Content:
    """Raises UnreadableDocument. `target`: the language to translate labels into."""
    text, encode, root = parse(content, ".resx", "root")
    return catalogue_content(text, _values(text, root), target, encode)


def _values(text: str, root: XmlNode) -> Iterator[Value]:
    for node in root.children:
        name, value = node.attributes.get("name", ""), node.find("value")
        # A type is that of an image or a number; what is named ">>..." belongs to the designer of forms.
        if node.name != "data" or value is None or "type" in node.attributes or "mimetype" in node.attributes:
            continue
        if not name.startswith(">>") and not value.children and not value.is_empty_tag:
            raw = text[value.content : value.content_end]
            yield Value(value.content, value.content_end, plain_text(raw), plain_encoder(raw), name)
