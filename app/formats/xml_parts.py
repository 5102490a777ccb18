"""XML that came from anywhere: parsed without entities, files or network; and passages of its inline content.

What stands in a text is referred to by number, so that no translation can break the tree, and no prefix gets lost.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable

from lxml import etree

from app.formats.document import UnreadableDocument

Element = etree._Element

_BEGIN, _END = "\ufdd0", "\ufdd1"
"""Noncharacters, which Unicode leaves to a process's own use."""
_REFERENCE = re.compile(f"{_BEGIN}([0-9]+){_END}")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")


def parsed(content: bytes, what: str) -> Element:
    """The root. Raises UnreadableDocument, which says `what` it was to be."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, strip_cdata=False, remove_pis=False
    )
    try:
        root = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise UnreadableDocument(f"{what} is not well-formed XML: {error}.") from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableDocument(f"{what} has a DOCTYPE, which is not read.")
    return root


def written(root: Element) -> bytes:
    """The document of `root`, in the encoding that it had."""
    tree, out = root.getroottree(), io.BytesIO()
    encoding = tree.docinfo.encoding or "UTF-8"
    if tree.docinfo.standalone:  # False would be written where nothing was said
        tree.write(out, encoding=encoding, standalone=True)
    else:
        tree.write(out, encoding=encoding, xml_declaration=True)
    return out.getvalue()


def text_of(element: Element) -> str:
    """All its text, without tags."""
    return "".join(part for part in element.itertext() if isinstance(part, str))


def local(element: Element) -> str:
    """The name without its namespace; "" if it is a comment or a processing instruction."""
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def reference(number: int) -> str:
    """What stands in a passage for the thing of that number."""
    return f"{_BEGIN}{number}{_END}"


def clean(text: str) -> str:
    """`text` without the characters that XML has not, and without references."""
    return _NOT_XML.sub("", text)


def resolved(translation: str, text: Callable[[str], None], thing: Callable[[int], None]) -> None:
    """Tells `text` and `thing` what the translation consists of, in order."""
    for place, part in enumerate(_REFERENCE.split(translation)):
        if place % 2:
            thing(int(part))
        elif clean(part):
            text(clean(part))
