"""Options declared once, as fields of frozen dataclasses; their docstrings are the command line's help.

The command line (`training.command_line`) and recipe files (`training.pipeline.recipe_file`) both read these
declarations.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from textwrap import dedent
from typing import Annotated, Any, get_args, get_type_hints

Values = dict[str, Any]
"""The given fields of a dataclass, by name."""


@dataclass(frozen=True)
class Option:
    """Details of a field as an option, beyond its docstring: `Annotated[Path, Option(metavar="DIR")]`."""

    help: str = ""
    """For fields with one meaning in several dataclasses; otherwise the docstring is the help."""
    names: tuple[str, ...] = ()
    """Such as "--from"; by default the field's name."""
    metavar: str | None = None
    is_argument: bool = False
    """Whether it is given by its place on the command line, without a name."""
    panel: str | None = None
    """The heading under which `--help` lists it."""
    parse: Callable[[str], Any] | None = None
    """Converts the argument to the field's value. Raises ValueError, naming the option."""

    def flags(self, field: str) -> tuple[str, ...]:
        """The option's name on the command line."""
        return self.names or (f"--{field.replace('_', '-')}",)


@dataclass(frozen=True)
class OptionGroup:
    """Marks `Values` of `kind`: its options, here without defaults, as in `Annotated[Values, OptionGroup(Recipe)]`.

    `only` restricts it to these fields. `options` adds those of a dataclass that declares none itself.
    """

    kind: type
    only: tuple[str, ...] = ()
    options: Mapping[str, Option] = field(default_factory=dict)


def options_of(kind: type) -> dict[str, tuple[Any, Option | OptionGroup]]:
    """The type and declaration of each field of the dataclass `kind` that is an option, or a group of options.

    An option has a docstring or a help text. The docstring of `kind` explains the other fields.
    """
    documented, found = _docstrings(kind), {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        plain, *more = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        declared = next((each for each in more if isinstance(each, Option | OptionGroup)), Option())
        if isinstance(declared, Option) and name in documented:
            declared = replace(declared, help=documented[name])
        if isinstance(declared, OptionGroup) or declared.help:
            found[name] = plain, declared
    return found


@lru_cache
def _docstrings(kind: type) -> dict[str, str]:
    """The docstrings below the fields of `kind`; names in braces are replaced by the module's values."""
    [definition] = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for pair in pairwise(definition.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split()).format_map(vars(sys.modules[kind.__module__]))
    return found


def group_options(given: OptionGroup) -> dict[str, tuple[Any, Option]]:
    """The type and declaration of each option in the group `given`."""
    hints = get_type_hints(given.kind)
    declared = {name: option for name, (_, option) in options_of(given.kind).items() if isinstance(option, Option)}
    chosen = {name: declared[name] for name in given.only} if given.only else declared
    return {name: (hints[name], option) for name, option in {**given.options, **chosen}.items()}


def two_columns(text: str) -> tuple[int, int]:
    """Parses `--columns`. Raises ValueError."""
    match = re.fullmatch(r"([1-9]\d*),([1-9]\d*)", text)
    if not match or match[1] == match[2]:
        raise ValueError(f"--columns must be two different numbers, counted from 1, such as 2,1, not {text!r}")
    return int(match[1]), int(match[2])


Columns = Annotated[
    tuple[int, int] | None,
    Option("The columns of source and target, such as 2,1. (default: detected)", metavar="N,N", parse=two_columns),
]
Encoding = Annotated[
    str | None, Option("Encoding of the files, such as cp1252 or gb18030. (default: detected, usually UTF-8)")
]
SOURCE = Option("The language to translate from, such as en or pt-BR.", metavar="CODE")
TARGET = Option("The language to translate into.", metavar="CODE")
DEVICE = Option("cpu, cuda, or auto: a GPU if available.")
PRECISIONS = "float32, bfloat16, float16, int8, or auto: as the service chooses."
