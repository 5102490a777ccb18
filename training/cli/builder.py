"""Builds typer commands from functions that take one frozen dataclass; its fields become the options.

tyro does this too, and more; but it spells lists and pairs differently from the commands, and would be a second
command-line library beside the service's typer.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from training.options import Option, OptionGroup, Values, group_options, options_of


def command_from_options(work: Callable[[Any], None]) -> Callable[..., None]:
    """Converts `work`, whose argument `options` is a dataclass, to a function that `typer.Typer.command` takes."""
    kind = get_type_hints(work)["options"]

    @functools.wraps(work)
    def command(**arguments: Any) -> None:
        work(_build(kind, arguments))

    parameters = list(_parameters(kind))
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _parameters(kind: type) -> Iterator[inspect.Parameter]:
    """One parameter per option, annotated for typer."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    for name, (hint, declared) in options_of(kind).items():
        if isinstance(declared, OptionGroup):
            yield from (_parameter(name, *option, None) for name, option in group_options(declared).items())
        else:
            yield _parameter(name, hint, declared, defaults[name])


def _parameter(name: str, hint: Any, option: Option, default: Any) -> inspect.Parameter:
    if default is dataclasses.MISSING:
        default = inspect.Parameter.empty
    elif default == ():
        default = None
    kind = _parsed_type(hint, option)
    if default is None:
        kind |= None
    shown: Values = {"help": option.help, "metavar": option.metavar, "rich_help_panel": option.panel}
    given = typer.Argument(**shown) if option.is_argument else typer.Option(*option.flags(name), **shown)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, given])


def _parsed_type(hint: Any, option: Option) -> Any:
    """The type that typer parses for a field of type `hint`; the dataclass itself restricts the values."""
    if option.parse:
        return str
    if get_origin(hint) in (Union, UnionType):
        [hint] = [part for part in get_args(hint) if part is not NoneType]
    return {Literal: str, tuple: list[str]}.get(get_origin(hint), hint)


def _build(kind: type, arguments: Values) -> Any:
    """The dataclass, built from `arguments` by option. Raises ValueError."""
    fields: Values = {}
    for name, (_, declared) in options_of(kind).items():
        if isinstance(declared, OptionGroup):
            options = group_options(declared)
            fields[name] = dict(_values({name: option for name, (_, option) in options.items()}, arguments))
        else:
            fields.update(_values({name: declared}, arguments))
    return kind(**fields)


def _values(options: dict[str, Option], arguments: Values) -> Iterator[tuple[str, Any]]:
    """Yields those of `options` that were given, converted to the types of their fields."""
    for name, option in options.items():
        value = arguments[name]
        if value is None or value == []:
            continue
        if isinstance(value, list):
            value = tuple(value)
        yield name, option.parse(value) if option.parse else value
