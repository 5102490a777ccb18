"""Names of published models, such as firefox:en-es, by which the service and the importer ask for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

REGISTRIES = ("firefox", "opus", "argos", "huggingface")
_NAME = re.compile(rf"({'|'.join(REGISTRIES)}|hf):([^@\s]+)(?:@(\S+))?")


@dataclass(frozen=True)
class ModelName:
    """A model in a registry, such as firefox:en-fr@tiny."""

    registry: str
    model: str
    """A pair, or a repository of the Hugging Face Hub."""
    variant: str | None = None

    def __str__(self) -> str:
        return f"{self.registry}:{self.model}{f'@{self.variant}' if self.variant else ''}"


def parse_name(text: str) -> ModelName | None:
    """The model in a registry that `text` names, if it has that form."""
    match = _NAME.fullmatch(text)
    return ModelName({"hf": "huggingface"}.get(match[1], match[1]), match[2], match[3]) if match else None
