"""Recipe files: all options of a run, in TOML, so that a run is one command.

Names, types and defaults are those of the options' dataclasses; pydantic checks the types.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
import typing
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Annotated, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from model.config import ARCHITECTURES, ModelConfig, named_architecture
from training.corpora.corpus import WEIGHT_SUFFIX
from training.corpora.sources import is_remote
from training.data.options import DEVELOPMENT, PAIRS, PrepareOptions
from training.export.bundle import ExportOptions
from training.optim.trainer import Recipe
from training.options import SOURCE, TARGET, Option, OptionGroup, Values, group_options
from training.synthetic.translate import TranslateOptions

_DERIVED_FIELDS = {"source_vocab_size", "target_vocab_size", "pad_id", "bos_id", "eos_id"}
DROPOUT_FIELDS = ("dropout", "attention_dropout")
SHAPE_FIELDS = {name for shape in ARCHITECTURES.values() for name in shape}
"""The fields that an architecture's name determines."""


def _types(kind: type, *others: str, **more: Any) -> dict[str, Any]:
    """The names and types of a dataclass's options, without `others`, plus `more`."""
    options = {name: hint for name, (hint, _) in group_options(OptionGroup(kind)).items() if name not in others}
    return options | more


SECTIONS: dict[str, dict[str, Any]] = {
    "prepare": _types(PrepareOptions, "pairs", "source", "target", "out", "dev", "seed", "replace", "processes"),
    "model": {
        **{name: hint for name, hint in typing.get_type_hints(ModelConfig).items() if name not in _DERIVED_FIELDS},
        "architecture": str,
    },
    "training": _types(Recipe, "seed", "minutes", epochs=float),
    "export": _types(ExportOptions, "device", "evaluate_on"),
}
"""The keys of each section and their types: the options that depend on no machine and are not at the top level."""
SYNTHETIC = _types(
    TranslateOptions, "out", "device", "processes", "threads", "replace", bundle=str, texts=str, name=str, weight=float
)
"""The keys of each table [[synthetic]] and their types."""


class RecipeFileError(ValueError):
    """A recipe file is invalid; the message names the file and the key."""

    def __init__(self, path: Path, message: object) -> None:
        super().__init__(f"{path}: {message}")


@dataclass(frozen=True)
class RecipeFile:
    """The content of a recipe file; anything not given is None or missing.

    Names of files are as for `prepare --pairs`, from the current folder. `test`: pairs to measure on at the end.
    `parent`, `lexicon`: folders of the bundles that the model starts from, in a file relative to that file's folder.
    `prepare`, `model`, `training`, `export`: options by name, as their dataclasses take them. `synthetic`: options of
    `translate` for each corpus that the run makes, with its name and weight (`training.pipeline.synthetic`).
    """

    source: Annotated[str | None, SOURCE] = None
    target: Annotated[str | None, TARGET] = None
    pairs: Annotated[tuple[str, ...], PAIRS] = ()
    dev: Annotated[str | None, DEVELOPMENT] = None
    test: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Pairs to measure the finished bundle on; repeat for more."""
    seed: int | None = None
    """Random seed; the same seed gives the same model. (default: 1)"""
    parent: Annotated[str | None, Option(metavar="BUNDLE")] = None
    """Start from the weights of this bundle for other languages: trains faster, and needs fewer pairs."""
    lexicon: Annotated[str | None, Option(metavar="BUNDLE")] = None
    """With --parent: a bundle from the language that your pairs share with the parent to the parent's other one. New
    tokens start as the parent's that translate them."""
    prepare: Values = field(default_factory=dict)
    model: Values = field(default_factory=dict)
    training: Values = field(default_factory=dict)
    export: Values = field(default_factory=dict)
    synthetic: tuple[Values, ...] = ()

    @classmethod
    def load(cls, path: Path, corpora: Path) -> RecipeFile:
        """Reads the file. Raises RecipeFileError, with a one-line message.

        Relative paths of corpora are below `corpora`; those that begin with ./ or ../ are relative to the file's own
        folder.
        """
        return cls.of(read_toml(path), path, corpora)

    @classmethod
    def of(cls, table: Values, path: Path, corpora: Path) -> RecipeFile:
        """The recipe in `table`, the content of the file `path`; see `load`."""
        recipe = cls(**dict(_checked_items(table, path)))
        recipe._check(path)
        samples = recipe.export.get("samples", "own")
        found = {} if samples in ("own", "dev") else {"samples": _resolve_path(path, corpora, samples)}
        return dataclasses.replace(
            recipe,
            pairs=tuple(_resolve_path(path, corpora, text) for text in recipe.pairs),
            dev=recipe.dev and _resolve_path(path, corpora, recipe.dev),
            test=tuple(_resolve_path(path, corpora, text) for text in recipe.test),
            parent=recipe.parent and str(path.parent / recipe.parent),
            lexicon=recipe.lexicon and str(path.parent / recipe.lexicon),
            synthetic=tuple(_resolved(table, path, corpora) for table in recipe.synthetic),
            export=recipe.export | found,
        )

    def overridden(self, **given: Any) -> RecipeFile:
        """A copy overridden by `given`; None and () do not override. Sections are merged key by key."""
        fields: Values = {}
        for name, value in given.items():
            if isinstance(value, Mapping):
                fields[name] = getattr(self, name) | {key: each for key, each in value.items() if each is not None}
            elif value is not None and value != ():
                fields[name] = value
        if given.get("dev"):  # instead of held-out pairs
            fields["prepare"] = _without({"dev_size"}, fields.get("prepare", self.prepare))
        if given.get("model", {}).get("architecture"):  # instead of another shape
            fields["model"] = _without(SHAPE_FIELDS, fields["model"])
        return dataclasses.replace(self, **fields)

    def continued(self) -> RecipeFile:
        """For a run that goes on from a bundle of this recipe, which decides the vocabulary and the shape; the rate is
        that of fine-tuning."""
        return dataclasses.replace(
            self,
            parent=None,
            lexicon=None,
            prepare=_without({"vocab_size"}, self.prepare),
            model={name: value for name, value in self.model.items() if name in DROPOUT_FIELDS},
            training=_without({"warmup", "learning_rate_factor"}, self.training),
        )

    def _check(self, path: Path) -> None:
        """Validates the options of each section, before any work."""
        if "steps" in self.training and "epochs" in self.training:
            raise RecipeFileError(path, "[training] has both steps and epochs: keep one of them")
        if not 0 < self.training.get("epochs", 1) < math.inf:
            raise RecipeFileError(path, f"[training] epochs must be above 0, not {self.training['epochs']:g}")
        # An option that is missing here may be given elsewhere, so placeholders replace it.
        source = self.source or _placeholder_language(self.target)
        languages = (source, self.target or _placeholder_language(self.source or "en"))
        prepare = self.prepare | ({} if self.seed is None else {"seed": self.seed})
        training = _without({"epochs"}, self.training)
        here = Path()
        checks: dict[str, Callable[[], object]] = {
            "prepare": lambda: PrepareOptions(("-",), *languages, here, self.dev, **prepare),
            "model": lambda: _model_config(self.model),
            "training": lambda: Recipe(**{"steps": 1, **training}),
            "export": lambda: ExportOptions(here, here, here, **self.export),
        }
        for section, check in checks.items():
            try:
                check()
            except ValueError as error:
                raise RecipeFileError(path, f"[{section}] {error}") from None
        self._check_synthetic(path)

    def _check_synthetic(self, path: Path) -> None:
        names = [table.get("name", "") for table in self.synthetic]
        if not all(re.fullmatch(r"[\w.-]*\w[\w.-]*", name) for name in names):
            raise RecipeFileError(path, "each [[synthetic]] needs a name, of letters, digits, dots and hyphens")
        for name, table in zip(names, self.synthetic, strict=True):
            if not table.get("weight", 1.0) > 0:
                raise RecipeFileError(path, f"[[synthetic]] {name}: the weight must be above 0")
            try:
                TranslateOptions(Path("-"), **_without({"name", "weight"}, table))
            except ValueError as error:
                raise RecipeFileError(path, f"[[synthetic]] {name}: {error}") from None
        if len(names) != len({*names}):
            raise RecipeFileError(path, "two tables [[synthetic]] have the same name")


TOP_LEVEL = {name: hint for name, (hint, _) in group_options(OptionGroup(RecipeFile)).items()}
"""The keys before the sections, and their types."""


def read_toml(path: Path) -> Values:
    """The content of a TOML file. Raises RecipeFileError if it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a byte order mark
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeFileError(path, f"this is not TOML: {error}") from None


def _resolve_path(path: Path, corpora: Path, text: str) -> str:
    """The path of `text`, which the recipe `path` gives relative to itself, by ./ or ../, or to `corpora`."""
    return below(corpora, text, beside=path.parent)


def _resolved(table: Values, path: Path, corpora: Path) -> Values:
    """A table [[synthetic]] with its paths: corpora as the recipe's pairs, a bundle as its parent."""
    found = dict(table)
    for key in ("pairs", "texts"):
        if key in table:
            found[key] = _resolve_path(path, corpora, table[key])
    for key in {"like", "without"} & table.keys():
        found[key] = tuple(_resolve_path(path, corpora, text) for text in table[key])
    if "bundle" in table:
        found["bundle"] = str(path.parent / table["bundle"])
    return found


def below(folder: Path, text: str, beside: Path | None = None) -> str:
    """`text`, as `prepare --pairs` takes it, with relative paths put below `folder`, or below `beside` if they begin
    with ./ or ../."""
    if is_remote(text):
        return text

    def found(part: str) -> str:
        return str((beside if beside and part.startswith(("./", "../")) else folder) / part)

    whole = found(text)
    weighted = WEIGHT_SUFFIX.fullmatch(whole)
    if Path(whole).exists() or (weighted and Path(weighted[1]).exists()):
        return whole
    return ",".join(map(found, text.split(",")))  # two plain files


def _checked_items(table: Values, path: Path) -> Iterator[tuple[str, Any]]:
    """Keys and values of the file, with their types checked."""
    for name, value in table.items():
        if name == "synthetic":
            if not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
                raise RecipeFileError(path, "synthetic must be tables, each as in [[synthetic]]")
            where = "[[synthetic]] "
            yield (
                name,
                tuple({k: _checked_value(v, k, SYNTHETIC, path, where) for k, v in each.items()} for each in value),
            )
            continue
        if name not in SECTIONS:
            yield name, _checked_value(value, name, TOP_LEVEL, path)
            continue
        if not isinstance(value, dict):
            raise RecipeFileError(path, f"{name} must be a section, as in [{name}]")
        known, section = SECTIONS[name], f"[{name}] "
        yield name, {key: _checked_value(each, key, known, path, section) for key, each in value.items()}


def _checked_value(value: Any, key: str, known: Mapping[str, Any], path: Path, section: str = "") -> Any:
    if key not in known:
        places = [f"[{name}]" for name, keys in SECTIONS.items() if key in keys] + ["the top"] * (key in TOP_LEVEL)
        advice = f"it belongs to {places[0]}" if places else f"there are {', '.join(sorted(known))}"
        raise RecipeFileError(path, f"{section}{key} is unknown here: {advice}")
    try:
        kind = TypeAdapter(known[key], config=ConfigDict(strict=True))
        return kind.validate_python(tuple(value) if isinstance(value, list) else value)
    except ValidationError:
        raise RecipeFileError(path, f"{section}{key} must be {_describe_type(known[key])}, not {value!r}") from None


def _describe_type(kind: Any) -> str:
    """A readable description of a type's values."""
    parts = [part for part in typing.get_args(kind) if part is not NoneType]
    match typing.get_origin(kind):
        case typing.Literal:
            return f"one of {', '.join(parts)}"
        case origin if origin is tuple:
            return "a list of " + _plural(parts[0]) if parts[1:] == [...] else f"a list of {len(parts)} numbers"
        case None:
            return {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}[kind]
    return " or ".join(map(_describe_type, parts))


def _plural(kind: type) -> str:
    return "texts" if kind is str else "numbers"


def _without(names: Container[str], fields: Values) -> Values:
    return {name: value for name, value in fields.items() if name not in names}


def _placeholder_language(language: str | None) -> str:
    return "en" if language != "en" else "fr"


def _model_config(fields: Values) -> ModelConfig:
    """The model that the section [model] describes, with a placeholder vocabulary. Raises ValueError."""
    all_fields = {"source_vocab_size": 1000, "target_vocab_size": 1000, **_without({"architecture"}, fields)}
    return (
        named_architecture(fields["architecture"], **all_fields)
        if "architecture" in fields
        else ModelConfig(**all_fields)
    )
