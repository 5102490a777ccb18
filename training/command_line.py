"""Builds typer commands from functions that take one frozen dataclass, whose fields become the options, and ends them
with one line where they fail.

tyro does the former too, and more; but it spells lists and pairs differently from the commands, and would be a second
command-line library beside the service's typer.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from training.launch import current_command, processes_started
from training.options import Option, OptionGroup, Values, group_options, options_of
from training.signals import Stopped, immediate_stop


def guarded(
    verb: Callable[..., None], resumable: bool = False, module: str = "training", is_parallel: bool = False
) -> Callable[..., None]:
    """Wraps a command of `python -m` and `module`: errors that the user can fix end it with one line and code 1, Ctrl-C
    or SIGTERM with how to resume. `is_parallel`: torchrun may run it in several processes."""

    @functools.wraps(verb)
    def guard(*args: Any, **options: Any) -> None:
        try:
            if processes_started() > 1 and not is_parallel:
                raise ValueError(f"only `train` runs in several processes: start `{verb.__name__}` without torchrun")
            with immediate_stop():
                verb(*args, **options)
        except (ValueError, OSError) as error:
            # All our errors are ValueErrors; an OSError names the file.
            _say(f"error: {error}")
            raise typer.Exit(1) from None
        except (MemoryError, RuntimeError) as error:
            if (fault := memory_fault(error)) is None:
                raise
            _say(f"error: {fault}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt as error:
            stopped = error if isinstance(error, Stopped) else Stopped()
            what = "saved and stopped" if stopped.saved else "stopped"
            _say(f"\n{what}; to resume:\n  {current_command(module)}" if resumable else f"\n{what}")
            raise typer.Exit(128 + stopped.number) from None

    return guard


def memory_fault(error: BaseException) -> str | None:
    """What to say of an error that means too little memory; None for another error."""
    text = str(error)
    if type(error).__name__ == "OutOfMemoryError":  # PyTorch's, which is not loaded for its sake
        return f"{text.partition('. ')[0]}: a smaller --batch-tokens needs less memory"
    if isinstance(error, MemoryError) or re.search(r"can't allocate memory|can't start new thread", text):
        wanted = re.search(r"tried to allocate (\d+) bytes", text)
        return "there is too little memory" + (f": {int(wanted[1]) / 1e6:,.0f} MB more are needed" if wanted else "")
    return None


def _say(text: str) -> None:
    """Writes the line and its end together: with several processes, and stderr unbuffered, another could come
    between."""
    print(f"{text}\n", end="", file=sys.stderr)


def accept_any_encoding() -> None:
    """Lets output to any terminal succeed: a character that it cannot display must not end hours of work."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
