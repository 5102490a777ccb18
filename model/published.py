"""Names of published models, such as firefox:en-es, by which the service and the importer ask for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from model.languages import is_language_code

REGISTRIES = ("firefox", "opus", "argos", "huggingface")
_COMMIT = re.compile(r"[0-9a-f]{40}")
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

    @property
    def is_complete(self) -> bool:
        """Whether it can name a model: a pair of two languages, or OWNER/NAME on the Hub."""
        if self.registry == "huggingface":
            return re.fullmatch(r"[\w.-]+/[\w.-]+", self.model, re.ASCII) is not None
        source, _, target = self.model.partition("-")
        return bool(source and target) and source != target

    @property
    def direction(self) -> str:
        """The same for names of models that would take each other's place, as far as names say it."""
        return plain_pair(self.model)

    def is_of(self, found: ModelName, pair: str) -> bool:
        """Whether this name means the model `found`, which has a variant and translates `pair`, in language tags.

        A revision of the Hub that is no commit, such as main, may be any.
        """
        if self.registry != found.registry or plain_pair(self.model) not in (plain_pair(found.model), plain_pair(pair)):
            return False
        if self.variant is None or (self.registry == "huggingface" and not _COMMIT.fullmatch(self.variant)):
            return True
        return self.variant.casefold() == (found.variant or "").casefold()

    def expanded(self) -> Iterator[ModelName]:
        """Yields both directions with English where a name is of one language, as firefox:es is, or else itself."""
        if self.registry == "huggingface" or "-" in self.model or not is_language_code(self.model):
            yield self
            return
        for pair in (f"en-{self.model}", f"{self.model}-en"):
            yield replace(self, model=pair)


def parse_name(text: str) -> ModelName | None:
    """The model in a registry that `text` names, if it has that form."""
    match = _NAME.fullmatch(text)
    return ModelName({"hf": "huggingface"}.get(match[1], match[1]), match[2], match[3]) if match else None


def plain_pair(pair: str) -> str:
    """The same for spellings of one pair, such as en-zh_hant and en-zh-Hant."""
    return pair.replace("_", "-").casefold()


def forbids_commercial_use(licence: str) -> bool:
    """Whether a licence's name says so, as CC-BY-NC-4.0 does."""
    return re.search(r"\bnc\b|non-?commercial", licence, re.IGNORECASE) is not None
