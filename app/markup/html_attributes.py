"""Finds attributes of HTML that are text for readers, and the position of their values in a tag.

From the HTML standard's "translatable attributes" (under the translate attribute), ARIA, and other displayed
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.markup.html_elements import HTML, local_name
from app.markup.html_tokenizer import Token, ValueSpan, value_spans

_GLOBAL_ATTRIBUTES = frozenset(
    {"aria-description", "aria-label", "aria-placeholder", "aria-roledescription", "aria-valuetext", "title"}
)
_ELEMENT_ATTRIBUTES: Mapping[str, frozenset[str]] = {
    "abbr": frozenset({"th"}),
    "alt": frozenset({"area", "img", "input"}),
    "content": frozenset({"meta"}),
    "label": frozenset({"optgroup", "option", "track"}),
    "placeholder": frozenset({"input", "textarea"}),
    "value": frozenset({"input"}),
}
_STYLE_SHEET_ELEMENTS = frozenset({"link", "style"})
"""Elements whose title is the name of a style sheet."""
_BUTTON_TYPES = frozenset({"button", "reset", "submit"})
_META_NAMES = frozenset(
    {
        *("description", "og:description", "og:image:alt", "og:title"),
        *("twitter:description", "twitter:image:alt", "twitter:title"),
    }
)
_ANY_TEXT_ATTRIBUTE = re.compile(r"abbr|alt|aria-|content|label|placeholder|title|value", re.IGNORECASE)


def text_attributes(token: Token) -> Iterator[ValueSpan]:
    """The values of a tag's text attributes, in order."""
    name = local_name(token.name)
    if (name not in HTML and "-" not in name) or not _ANY_TEXT_ATTRIBUTE.search(token.raw):
        return
    spans = value_spans(token.raw)

    def value(attribute: str) -> str:
        span = spans.get(attribute, ValueSpan(0, 0, ""))
        return token.raw[span.start : span.end].strip().lower()

    for attribute, span in spans.items():
        if attribute in _GLOBAL_ATTRIBUTES:
            wanted = attribute != "title" or name not in _STYLE_SHEET_ELEMENTS
        elif attribute == "content":
            wanted = name == "meta" and bool({value("name"), value("property")} & _META_NAMES)
        elif attribute == "value":
            wanted = name == "input" and value("type") in _BUTTON_TYPES
        else:
            wanted = name in _ELEMENT_ATTRIBUTES.get(attribute, ())
        if wanted and span.start < span.end and not (span.end == len(token.raw) - 1 and token.raw[-2] == "/"):
            yield span
