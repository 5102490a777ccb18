"""Untrusted XML: parsed without entities, files or network; and passages of its inline content.

Passages refer to inline elements by number, so that no translation can break the tree or lose a prefix.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

from lxml import etree

from app.formats.document import UnreadableDocument

Element = etree._Element

_BEGIN, _END = "\ufdd0", "\ufdd1"
"""Noncharacters, which Unicode reserves for a process's internal use."""
_REFERENCE = re.compile(f"{_BEGIN}([0-9]{{1,9}}){_END}")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def parse_xml(content: bytes, what: str) -> Element:
    """The root element. Raises UnreadableDocument, which names `what` was expected."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False, remove_pis=False
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"{what} is not well-formed XML: {error}.") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableDocument(f"{what} has a DOCTYPE, which is not supported.")
    return root


def serialize(root: Element) -> bytes:
    """The document of `root`, in its original encoding."""
    tree, out = root.getroottree(), io.BytesIO()
    encoding = tree.docinfo.encoding or "UTF-8"
    if tree.docinfo.standalone:  # lxml would write False if nothing was declared
        tree.write(out, encoding=encoding, standalone=True)
    else:
        tree.write(out, encoding=encoding, xml_declaration=True)
    return out.getvalue()


def text_of(element: Element) -> str:
    """Its whole text, without tags."""
    return "".join(part for part in element.itertext() if isinstance(part, str))


def append_text(element: Element, text: str) -> None:
    """Appends text to its content."""
    last = next(element.iterchildren(reversed=True), None)  # len(element) would count them
    if last is not None:
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text


def local_name(element: Element) -> str:
    """The name without its namespace; "" for a comment or a processing instruction."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def alternatives(elements: Iterable[Element]) -> Iterator[Element | None]:
    """For each, the outermost element around it that has its content in versions for newer and older readers (ECMA-376,
    part 3)."""
    around: dict[Element | None, Element | None] = {None: None}
    for element in elements:
        unknown, above = list[Element](), element.getparent()
        while above not in around:
            assert above is not None
            unknown.append(above)
            above = above.getparent()
        found = around[above]
        for one in reversed(unknown):
            if found is None and local_name(one) == "AlternateContent":
                found = one
            around[one] = found
        yield found


def reference(number: int) -> str:
    """The text that refers to the element with this number."""
    return f"{_BEGIN}{number}{_END}"


def is_free_of_references(text: str) -> bool:
    """Whether `text` has nothing that looks like a reference."""
    return _BEGIN not in text and _END not in text


def clean(text: str) -> str:
    """`text` without references and characters that are invalid in XML."""
    return _NOT_XML.sub("", text)


def without_references(translation: str) -> str:
    """The text of a translation."""
    return clean(_REFERENCE.sub("", translation))


def split_references(translation: str) -> Iterator[str | int]:
    """The parts of the translation, in order: text, and numbers of elements."""
    for index, part in enumerate(_REFERENCE.split(translation)):
        if index % 2:
            yield int(part)
        elif text := clean(part):
            yield text
