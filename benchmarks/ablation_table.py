"""Reads the rows of an ablation from its file, writes them as recipes, and formats their results as a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.pipeline.recipe_file import RecipeFileError, read_toml

BASE = "base"
PLACEHOLDERS = ("{corpora}", "{out}")
"""Placeholders of folders in a recipe and its commands."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True)
class Row:
    """A recipe, with its `changes` of the base, such as "model.dropout = 0.2".

    `before`: commands that make its training data, with {corpora} and {out}, the row's folder, substituted.
    A parent without placeholders, and paths that begin with ./ or ../, are relative to the ablation's file.
    """

    name: str
    recipe: dict[str, Any]
    changes: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def read_rows(path: Path) -> list[Row]:
    """Reads the base and the rows of an ablation's file, in its order. Raises RecipeFileError."""
    content = read_toml(path)
    if unknown := sorted(set(content) - {"base", "rows"}):
        raise RecipeFileError(path, f"{unknown[0]} is unknown here: the keys are base and rows")
    base, rows = content.get("base"), content.get("rows", {})
    if isinstance(base, str):
        base = resolve_paths(Path(base).parent, read_toml(path.parent / base))
    if not isinstance(base, dict):
        raise RecipeFileError(path, "base must be the name of a recipe file, or a section with the keys of one")
    if not isinstance(rows, dict):
        raise RecipeFileError(path, "rows must be sections, as in [rows.NAME]")
    return [Row(BASE, base), *(_row(path, name, changes, base) for name, changes in rows.items())]


def resolve_paths(folder: Path, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Joins `folder`, that of the recipe's file, with the recipe's parent and its paths that begin with ./ or ../."""

    def of(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: of(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [of(each) for each in value]
        if not isinstance(value, str) or any(placeholder in value for placeholder in PLACEHOLDERS):
            return value
        if key == "parent":
            return (folder / value).as_posix()
        return ",".join(map(resolved, value.split(",")))  # a string may name two plain files

    def resolved(part: str) -> str:
        if not part.startswith(("./", "../")):
            return part
        path = (folder / part).as_posix()
        return path if folder.is_absolute() else f"./{path}"

    return {name: of(value, name) for name, value in recipe.items()}


def _row(path: Path, name: str, changes: Any, base: Mapping[str, Any]) -> Row:
    if not _NAME.fullmatch(name) or name == BASE:
        raise RecipeFileError(
            path, f"the name of a row must consist of letters, digits and .-_, and not be {BASE}: {name!r}"
        )
    if not isinstance(changes, dict):
        raise RecipeFileError(path, f"the row {name} must be a section, as in [rows.{name}]")
    changes = dict(changes)
    before = changes.pop("before", [])
    if not isinstance(before, list) or not all(isinstance(each, str) and each.strip() for each in before):
        raise RecipeFileError(path, f"row {name}: before must be a list of commands")
    return Row(name, _merged(base, changes), tuple(_spelt(changes)), tuple(before))


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        merged[key] = _merged(merged.get(key, {}), value) if isinstance(value, dict) else value
    return merged


def _spelt(changes: Mapping[str, Any], section: str = "") -> Iterator[str]:
    for key, value in changes.items():
        if isinstance(value, dict):
            yield from _spelt(value, f"{section}{key}.")
        else:
            yield f"{section}{key} = {_toml(value)}"


def toml_text(recipe: Mapping[str, Any]) -> str:
    """The recipe as TOML: values first, then its sections, which contain no further sections."""
    lines = [f"{key} = {_toml(value)}" for key, value in recipe.items() if not isinstance(value, dict)]
    for name, section in recipe.items():
        if isinstance(section, dict):
            lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in section.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value as TOML, which for strings, numbers and lists is JSON except for one character. No option is a date."""
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def table(command: str, results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The finished rows in Markdown: their scores with the difference from the base, and the effect of averaging."""
    if not results:
        yield "no row is finished yet"
        return
    base = next((_scores(result) for result in results if result["row"] == BASE), {})
    scores = list(dict.fromkeys(name for result in results for name in _scores(result)))
    yield f"BLEU ({results[0]['signature']}). To repeat a row: `{command} --row ROW`"
    yield ""
    yield from _markdown(
        ["row", "differs by", "seed", "steps", "seconds", "parameters", *scores],
        [
            [result["row"], "; ".join(result["changes"]), *map(_figure, _facts(result))]
            + [_against(_scores(result).get(name), base.get(name), result["row"] == BASE) for name in scores]
            for result in results
        ],
    )
    yield ""
    yield from _markdown(
        ["row", "best single weights, dev", "best average, dev", "shipped"],
        [[result["row"], *map(_shown, _averaging(result)), result["weights"]] for result in results],
    )


def _facts(result: Mapping[str, Any]) -> list[int]:
    return [result[name] for name in ("seed", "steps", "seconds", "parameters")]


def _scores(result: Mapping[str, Any]) -> dict[str, float]:
    tests = {f"{name}, {how}": score for name, test in result["test"].items() for how, score in test.items()}
    return {"dev": result["dev"], **tests}


def _averaging(result: Mapping[str, Any]) -> Iterator[float | None]:
    """Development BLEU of the best single weights, and of the best average."""
    for averaged in (False, True):
        found = [
            candidate["development_bleu"]
            for candidate in result["candidates"]
            if candidate["weights"].startswith("the average") == averaged
        ]
        yield max(found, default=None)


def _against(score: float | None, base: float | None, is_base: bool) -> str:
    return _shown(score) + ("" if score is None or base is None or is_base else f" ({score - base:+.2f})")


def _shown(score: float | None) -> str:
    return "-" if score is None else f"{score:.2f}"


def _figure(number: int) -> str:
    return f"{number:,}"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join('---' for _ in columns)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
