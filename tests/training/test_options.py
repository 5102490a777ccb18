"""training/options.py: options declared once: a dataclass's fields and their docstrings become a command, which
builds the dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.testing import CliRunner, Result

from training.command_line import command_from_options
from training.options import Columns, Option, OptionGroup, Values

USUAL = 7


@dataclass(frozen=True)
class Shape:
    """A group of options; `inner` is not an option."""

    width: int = 4
    """Of a layer."""
    names: tuple[str, ...] = ("a",)
    """What it is called."""
    inner: int = 0


@dataclass(frozen=True)
class Options:
    out: Path
    """Where it goes."""
    pairs: Annotated[tuple[str, ...], Option(names=("--pairs", "--from"), metavar="FILE")] = ()
    """What is read,
    usually {USUAL} files."""
    columns: Columns = None
    norm: Literal["pre", "post"] = "pre"
    """Where it stands."""
    as_is: bool = False
    """Changes nothing."""
    shape: Annotated[Values, OptionGroup(Shape)] = field(default_factory=dict)
    hidden: int = 3


built: list[Options] = []


@command_from_options
def work(options: Options) -> None:
    """Does the work."""
    built.append(options)


def invoke(*arguments: str) -> Result:
    cli = typer.Typer()
    cli.command()(work)
    return CliRunner().invoke(cli, arguments, env={"COLUMNS": "200"})


def test_given_options_override_the_dataclass_defaults() -> None:
    assert invoke("--out", "o").exit_code == 0
    assert built.pop() == Options(Path("o"))
    given = "--out o --pairs a --from b --columns 2,1 --norm post --as-is --names x --names y"
    assert invoke(*given.split()).exit_code == 0
    assert built.pop() == Options(Path("o"), ("a", "b"), (2, 1), "post", True, {"names": ("x", "y")})


def test_help_texts_are_the_docstrings() -> None:
    shown = " ".join(invoke("--help").output.split())
    for text in (
        "Does the work.",
        "What is read, usually 7 files.",
        "such as 2,1",
        "Of a layer.",
        "FILE",
        "[default: pre]",
    ):
        assert text in shown
    assert "hidden" not in shown
    assert "inner" not in shown
    assert "--no-as-is" not in shown
    assert "[default: 4]" not in shown  # of a part only what is given counts


def test_unparsable_values_are_user_errors() -> None:
    result = invoke("--out", "o", "--columns", "2")
    assert isinstance(result.exception, ValueError)
    with pytest.raises(ValueError, match="--columns must be two different numbers"):
        raise result.exception
