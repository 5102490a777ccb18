"""Directions of a bundle: what it translates from and into, and the tokens by which its model tells languages apart.

A model of several languages reads tokens before the text (OPUS-MT: `>>fra<<`, the target; M2M-100: `__en__`, the
source), begins its target with tokens (M2M-100, NLLB-200: the target language), or both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from model.hypothesis import Limits
from model.languages import SEVERAL, is_language_code

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Direction:
    """One source and one target language.

    The encoder reads `source_prefix` and then the text. The target begins with `target_prefix`, which is no part of the
    translation.
    """

    source: str
    target: str
    source_prefix: Ids = ()
    target_prefix: Ids = ()

    @property
    def pair(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def prefixes(self) -> tuple[Ids, Ids]:
        """Of the source and of the target."""
        return self.source_prefix, self.target_prefix

    def to_dict(self) -> dict[str, Any]:
        """What config.json says of a bundle for this direction alone."""
        if not any(self.prefixes):
            return {"source": self.source, "target": self.target}
        alone = Directions({self.source: self.source_prefix}, {self.target: TargetPrefixes((), self.target_prefix)})
        return {"directions": alone.to_dict()}

    def limits(self, limits: Limits) -> Limits:
        """The limits of a model that are left for a text and its translation."""
        return replace(
            limits,
            max_source=limits.max_source - len(self.source_prefix),
            max_target=limits.max_target - len(self.target_prefix),
        )


@dataclass(frozen=True)
class TargetPrefixes:
    """What the encoder reads between the prefix of the source language and the text, and what the target begins with,
    to translate into one language."""

    source_prefix: Ids = ()
    target_prefix: Ids = ()


@dataclass(frozen=True)
class Directions:
    """Every source language with every other target language.

    `sources`: by language, the first tokens of each source in it.
    """

    sources: Mapping[str, Ids]
    targets: Mapping[str, TargetPrefixes]

    def __post_init__(self) -> None:
        """Raises ValueError unless the languages are codes and make a pair."""
        for code in (*self.sources, *self.targets):
            if not is_language_code(code):
                raise ValueError(f"{code!r} is not a language code like en or pt-BR")
        if not any(True for _ in self):
            raise ValueError("directions has no source with a target in another language")

    @classmethod
    def single(cls, source: str, target: str) -> Directions:
        return cls({source: ()}, {target: TargetPrefixes()})

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((source, target) for source in self.sources for target in self.targets if source != target)

    def __contains__(self, pair: tuple[str, str]) -> bool:
        source, target = pair
        return source in self.sources and target in self.targets and source != target

    @cached_property
    def count(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def pair(self) -> str:
        """The pair of the direction; several languages on a side are "mul" (ISO 639-2)."""
        return "-".join(self.sides)

    @property
    def sides(self) -> tuple[str, str]:
        """The source and the target language; SEVERAL where there are several."""
        source, target = (next(iter(side)) if len(side) == 1 else SEVERAL for side in (self.sources, self.targets))
        return source, target

    def direction(self, source: str, target: str) -> Direction:
        """The direction of a pair that `self` contains."""
        prefixes = self.targets[target]
        return Direction(source, target, self.sources[source] + prefixes.source_prefix, prefixes.target_prefix)

    @property
    def longest_prefixes(self) -> tuple[int, int]:
        """The most tokens that a source, and a target, begins with."""
        of_sources = max(map(len, self.sources.values()))
        of_targets = max(len(target.source_prefix) for target in self.targets.values())
        return of_sources + of_targets, max(len(target.target_prefix) for target in self.targets.values())

    def to_dict(self) -> dict[str, Any]:
        """For config.json."""
        return {
            "sources": {code: list(prefix) for code, prefix in self.sources.items()},
            "targets": {
                code: {name: list(ids) for name, ids in vars(prefixes).items() if ids}
                for code, prefixes in self.targets.items()
            },
        }

    @property
    def is_plain(self) -> bool:
        """Whether there is one direction, without prefixes."""
        return self.count == 1 and not any(self.longest_prefixes)

    @classmethod
    def from_dict(cls, section: Any) -> Directions:
        """The inverse of `to_dict`. Raises ValueError for anything else."""
        if not isinstance(section, dict) or set(section) != {"sources", "targets"}:
            raise ValueError("directions is not an object of sources and targets")
        for name, side in section.items():
            if not isinstance(side, dict) or not side:
                raise ValueError(f"{name} of directions is not an object with a language")
        sources = {code: _ids(prefix, code) for code, prefix in section["sources"].items()}
        return cls(sources, {code: _target_prefixes(code, fields) for code, fields in section["targets"].items()})


def _target_prefixes(code: str, fields: Any) -> TargetPrefixes:
    if not isinstance(fields, dict) or not fields.keys() <= {"source_prefix", "target_prefix"}:
        raise ValueError(f"the target {code} of directions is not an object of source_prefix and target_prefix")
    return TargetPrefixes(**{name: _ids(prefix, code) for name, prefix in fields.items()})


def _ids(prefix: Any, code: str) -> Ids:
    if not isinstance(prefix, list) or not all(type(id) is int for id in prefix):
        raise ValueError(f"directions has {prefix!r} for {code}, which is not a list of tokens")
    return tuple(prefix)
