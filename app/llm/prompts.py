"""Prompt templates: text files that say how a model is asked for the translation of a sentence.

A template has a part for each message, after a line `[system]` or `[user]`. In a part, `{source}` and `{target}` are
the languages' English names, `{source_code}` and `{target_code}` their codes, `{text}` the sentence, `{mark}` the first
of the marks in it, `{terms}` the glossary's terms in it, `{before}` and `{after}` the sentences around it, and
`{fault}` what was wrong with the last answer. A line with a variable that has no value is left out. A part that is a
JSON list is sent as one, for models whose chat template takes structured content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLES = ("source", "target", "source_code", "target_code", "text", "mark", "terms", "before", "after", "fault")
SHIPPED = Path(__file__).parent / "templates"
_PART = re.compile(r"^\[(system|user)\]\n", re.MULTILINE)
_VARIABLE = re.compile(r"\{(" + "|".join(VARIABLES) + r")\}")

Message = Mapping[str, Any]
"""A message of the chat completions API: `role` and `content`."""


@dataclass(frozen=True)
class PromptTemplate:
    """The messages of a prompt, with variables for what differs from sentence to sentence."""

    parts: tuple[tuple[str, str | list[Any]], ...]
    """The role and the content of each message."""

    @classmethod
    def parse(cls, text: str) -> PromptTemplate:
        """Raises ValueError."""
        start, *found = _PART.split(text)
        parts = [(role, _structured(content.strip())) for role, content in zip(found[::2], found[1::2], strict=True)]
        if start.strip() or not any("{text}" in json.dumps(content) for _, content in parts):
            raise ValueError("a template has a line [user] and below it the variable {text}")
        return cls(tuple(parts))

    def messages(self, values: Mapping[str, str]) -> list[Message]:
        """The messages, with the value of each variable."""
        filled = [(role, _filled(content, values)) for role, content in self.parts]
        return [{"role": role, "content": content} for role, content in filled if content]


def load_template(name: str) -> PromptTemplate:
    """The template that ships as `name`, or else the file of this name. Raises ValueError."""
    shipped = {path.stem: path for path in SHIPPED.glob("*.txt")}
    try:
        return PromptTemplate.parse(shipped.get(name, Path(name)).read_text(encoding="utf-8"))
    except OSError as error:
        known = ", ".join(sorted(shipped))
        raise ValueError(f"{name} is no template ({known}), and no file: {error.strerror}") from None


def _structured(content: str) -> str | list[Any]:
    if not content.startswith("["):
        return content
    found = json.loads(content)
    assert isinstance(found, list)
    return found


def _filled(content: Any, values: Mapping[str, str]) -> Any:
    if isinstance(content, list):
        return [_filled(each, values) for each in content]
    if isinstance(content, dict):
        return {name: _filled(each, values) for name, each in content.items()}
    if not isinstance(content, str):
        return content
    lines = (line for line in content.split("\n") if all(values.get(name) for name in _VARIABLE.findall(line)))
    # In one pass: a value may contain what looks like a variable.
    return _VARIABLE.sub(lambda found: values[found[1]], "\n".join(lines)).strip()
