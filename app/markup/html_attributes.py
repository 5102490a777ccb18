"""Finds attributes of HTML that are text for readers, and the position of their values in a tag.

From the HTML standard's "translatable attributes" (under the translate attribute), ARIA, and other displayed
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from app.markup.html_elements import HTML, local
from app.markup.html_tokenizer import Token, ValueSpan, value_spans

_OF_ALL = frozenset(
    {"aria-description", "aria-label", "aria-placeholder", "aria-roledescription", "aria-valuetext", "title"}
)
_OF_SOME: Mapping[str, frozenset[str]] = {
    "abbr": frozenset({"th"}),
    "alt": frozenset({"area", "img", "input"}),
    "content": frozenset({"meta"}),
    "label": frozenset({"optgroup", "option", "track"}),
    "placeholder": frozenset({"input", "textarea"}),
    "value": frozenset({"input"}),
}
_NO_TITLE = frozenset({"link", "style"})
"""Elements whose title is the name of a style sheet."""
_BUTTONS = frozenset({"button", "reset", "submit"})
_DESCRIPTIONS = frozenset(
    {
        *("description", "og:description", "og:image:alt", "og:title"),
        *("twitter:description", "twitter:image:alt", "twitter:title"),
    }
)
_WORTHWHILE = re.compile(r"abbr|alt|aria-|content|label|placeholder|title|value", re.IGNORECASE)


def text_attributes(token: Token) -> Iterator[ValueSpan]:
    """The values of a tag's text attributes, in order."""
    name = local(token.name)
    if (name not in HTML and "-" not in name) or not _WORTHWHILE.search(token.raw):
        return
    spans = value_spans(token.raw)

    def value(attribute: str) -> str:
        span = spans.get(attribute, ValueSpan(0, 0, ""))
        return token.raw[span.start : span.end].strip().lower()

    for attribute, span in spans.items():
        if attribute in _OF_ALL:
            wanted = attribute != "title" or name not in _NO_TITLE
        elif attribute == "content":
            wanted = name == "meta" and bool({value("name"), value("property")} & _DESCRIPTIONS)
        elif attribute == "value":
            wanted = name == "input" and value("type") in _BUTTONS
        else:
            wanted = name in _OF_SOME.get(attribute, ())
        if wanted and span.start < span.end and not (span.end == len(token.raw) - 1 and token.raw[-2] == "/"):
            yield span
