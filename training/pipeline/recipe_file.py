"""A recipe file: all that a run is asked for, written down in TOML, so that it is one command.

Knows names and types, which it reads off the options themselves. What they do, and what is chosen where they are not
given, is theirs.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import typing
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from model.config import ARCHITECTURES, ModelConfig, named_architecture
from training.corpora.corpus import WEIGHTED
from training.corpora.sources import is_remote
from training.data.options import PrepareOptions
from training.export.bundle import ExportOptions
from training.optim.trainer import Recipe

Values = dict[str, Any]
SHAPE = {name for shape in ARCHITECTURES.values() for name in shape}
"""What an architecture's name stands for."""


def _options_of(kind: Callable[..., Any], *others: str, **more: Any) -> dict[str, Any]:
    """The names and types of a dataclass's fields, without `others`, and `more`."""
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name not in others} | more


SECTIONS: dict[str, dict[str, Any]] = {
    "prepare": _options_of(
        PrepareOptions,
        *("pairs", "source", "target", "out", "dev", "seed", "replace", "mix", "vocabulary", "processes", "rehearsal"),
    ),
    "model": _options_of(
        ModelConfig, *("source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"), architecture=str
    ),
    "training": _options_of(Recipe, "seed", epochs=float),
    "export": _options_of(
        ExportOptions,
        *("run", "data", "out", "replace", "device", "initial", "parent", "evaluate_on"),
        *("columns", "encoding", "below", "accept_loss", "blend", "accept_general_loss"),
    ),
}
"""What may stand in a section, and its type: the options of the run that belong to no machine and no other place."""
TOP = {
    "source": str,
    "target": str,
    "pairs": tuple[str, ...],
    "dev": str,
    "test": tuple[str, ...],
    "seed": int,
    "parent": str,
}


class RecipeFileError(ValueError):
    """What a recipe file says cannot be; names the file and the key."""

    def __init__(self, path: Path, message: object) -> None:
        super().__init__(f"{path}: {message}")


@dataclass(frozen=True)
class RecipeFile:
    """What a recipe says; what it does not say is None or missing. The empty one says nothing.

    Names of files are as `prepare --pairs` takes them, from the current folder. `test`: pairs to measure on at the end.
    `parent`: the folder of the bundle that the model begins from, in a file as seen from the folder of that file.
    `prepare`, `model`, `training`, `export`: options by name, as their dataclasses take them.
    """

    source: str | None = None
    target: str | None = None
    pairs: tuple[str, ...] = ()
    dev: str | None = None
    test: tuple[str, ...] = ()
    seed: int | None = None
    parent: str | None = None
    prepare: Values = field(default_factory=dict)
    model: Values = field(default_factory=dict)
    training: Values = field(default_factory=dict)
    export: Values = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path, corpora: Path) -> RecipeFile:
        """What is in the file. Raises RecipeFileError, in one line.

        Relative paths of corpora are below `corpora`; those that begin with ./ or ../ are from the file's own folder.
        """
        return cls.of(read_toml(path), path, corpora)

    @classmethod
    def of(cls, table: Values, path: Path, corpora: Path) -> RecipeFile:
        """What `table`, the content of the file `path`, says; see `load`."""
        recipe = cls(**dict(_typed(table, path)))
        recipe._check(path)
        samples = recipe.export.get("samples", "own")
        found = {} if samples in ("own", "dev") else {"samples": _found(path, corpora, samples)}
        return dataclasses.replace(
            recipe,
            pairs=tuple(_found(path, corpora, text) for text in recipe.pairs),
            dev=recipe.dev and _found(path, corpora, recipe.dev),
            test=tuple(_found(path, corpora, text) for text in recipe.test),
            parent=recipe.parent and str(path.parent / recipe.parent),
            export=recipe.export | found,
        )

    def overridden(self, **given: Any) -> RecipeFile:
        """This, with what is `given` instead; None and () are not given. Of a section, only what is given in it."""
        fields: Values = {}
        for name, value in given.items():
            if isinstance(value, Mapping):
                fields[name] = getattr(self, name) | {key: each for key, each in value.items() if each is not None}
            elif value is not None and value != ():
                fields[name] = value
        if given.get("dev"):  # instead of pairs set apart
            fields["prepare"] = _without({"dev_size"}, fields.get("prepare", self.prepare))
        if given.get("model", {}).get("architecture"):  # instead of another shape
            fields["model"] = _without(SHAPE, fields["model"])
        return dataclasses.replace(self, **fields)

    def _check(self, path: Path) -> None:
        """Has each section's options say what they cannot be, before any work."""
        if "steps" in self.training and "epochs" in self.training:
            raise RecipeFileError(path, "[training] has steps and epochs: one of the two says how long")
        if not 0 < self.training.get("epochs", 1) < math.inf:
            raise RecipeFileError(path, f"[training] epochs must be above 0, not {self.training['epochs']:g}")
        # One that is not said may yet be given beside the recipe: it stands for any other.
        languages = (self.source or _other_than(self.target), self.target or _other_than(self.source or "en"))
        prepare = self.prepare | ({} if self.seed is None else {"seed": self.seed})
        training = _without({"epochs"}, self.training)
        here = Path()
        checks: dict[str, Callable[[], object]] = {
            "prepare": lambda: PrepareOptions(("-",), *languages, here, self.dev, **prepare),
            "model": lambda: _architecture(self.model),
            "training": lambda: Recipe(**{"steps": 1, **training}),
            "export": lambda: ExportOptions(here, here, here, **self.export),
        }
        for section, check in checks.items():
            try:
                check()
            except ValueError as error:
                raise RecipeFileError(path, f"[{section}] {error}") from None


def read_toml(path: Path) -> Values:
    """The content of a TOML file. Raises RecipeFileError if it is none."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a byte order mark
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeFileError(path, f"this is no TOML: {error}") from None


def _found(path: Path, corpora: Path, text: str) -> str:
    """What `text` is called of which the recipe `path` says that it is beside it, by ./ or ../, or below `corpora`."""
    return below(corpora, text, beside=path.parent)


def below(folder: Path, text: str, beside: Path | None = None) -> str:
    """What `text`, as `prepare --pairs` takes it, is called if its relative paths are those below `folder`, or below
    `beside` where they begin with ./ or ../."""
    if is_remote(text):
        return text

    def found(part: str) -> str:
        return str((beside if beside and part.startswith(("./", "../")) else folder) / part)

    whole = found(text)
    weighted = WEIGHTED.fullmatch(whole)
    if Path(whole).exists() or (weighted and Path(weighted[1]).exists()):
        return whole
    return ",".join(map(found, text.split(",")))  # two plain files


def _typed(table: Values, path: Path) -> Iterator[tuple[str, Any]]:
    """Keys and values of the file, of the types that they should have."""
    for name, value in table.items():
        if name not in SECTIONS:
            yield name, _value(value, name, TOP, path)
            continue
        if not isinstance(value, dict):
            raise RecipeFileError(path, f"{name} must be a section, as in [{name}]")
        known, section = SECTIONS[name], f"[{name}] "
        yield name, {key: _value(each, key, known, path, section) for key, each in value.items()}


def _value(value: Any, key: str, known: Mapping[str, Any], path: Path, section: str = "") -> Any:
    if key not in known:
        places = [f"[{name}]" for name, keys in SECTIONS.items() if key in keys] + ["the top"] * (key in TOP)
        advice = f"it belongs to {places[0]}" if places else f"there are {', '.join(sorted(known))}"
        raise RecipeFileError(path, f"{section}{key} is unknown here: {advice}")
    try:
        return _as(known[key], value)
    except TypeError:
        raise RecipeFileError(path, f"{section}{key} must be {_spelt(known[key])}, not {value!r}") from None


def _as(kind: Any, value: Any) -> Any:
    """`value` as an option of type `kind` takes it. TypeError if it is of another."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        for part in parts:
            try:
                return _as(part, value)
            except TypeError:
                continue
    elif origin is tuple and isinstance(value, list):
        kinds = parts[:1] * len(value) if parts[1:] == (...,) else parts
        if len(kinds) == len(value):
            return tuple(_as(*both) for both in zip(kinds, value, strict=True))
    elif value in parts if origin is typing.Literal else type(value) is kind or (kind, type(value)) == (float, int):
        return value
    raise TypeError


def _spelt(kind: Any) -> str:
    """A type as a person writes its values."""
    parts = [part for part in typing.get_args(kind) if part is not NoneType]
    match typing.get_origin(kind):
        case typing.Literal:
            return f"one of {', '.join(parts)}"
        case origin if origin is tuple:
            return "a list of " + _plural(parts[0]) if parts[1:] == [...] else f"a list of {len(parts)} numbers"
        case None:
            return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[kind]
    return " or ".join(map(_spelt, parts))


def _plural(kind: type) -> str:
    return "texts" if kind is str else "numbers"


def _without(names: Container[str], fields: Values) -> Values:
    return {name: value for name, value in fields.items() if name not in names}


def _other_than(language: str | None) -> str:
    return "en" if language != "en" else "fr"


def _architecture(fields: Values) -> ModelConfig:
    """The model that the section [model] describes, over some vocabulary. Raises ValueError."""
    all_fields = {"source_vocab_size": 1000, "target_vocab_size": 1000, **_without({"architecture"}, fields)}
    return (
        named_architecture(fields["architecture"], **all_fields)
        if "architecture" in fields
        else ModelConfig(**all_fields)
    )
