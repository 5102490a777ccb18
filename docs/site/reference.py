"""Pages of the reference, made from the code: the command line from its options, the API from its OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from app.__main__ import with_training
from app.cli.training_verbs import TRAINER
from app.engine.registry import Catalogue
from app.main import create_app
from app.settings import Settings
from training.__main__ import cli as training_cli

Json = dict[str, Any]


def _cell(text: object) -> str:
    return re.sub(r"\s+", " ", str(text)).replace("|", r"\|").replace("<", "&lt;").strip()


def _code(text: object) -> str:
    return f"`{_cell(text).replace('&lt;', '<')}`"


def command_line() -> str:
    """A section for each command of `interlinear`, with its options."""
    return "\n".join(_command_lines()) + "\n"


def _command_lines() -> Iterator[str]:
    yield "# Command line\n"
    yield "All commands, as `interlinear COMMAND --help` shows them; `.venv/bin/interlinear` in a checkout.\n"
    ours: Any = typer.main.get_command(with_training())
    trainer: Any = typer.main.get_command(training_cli)
    its_names = {name: verb.name for verbs in TRAINER.values() for name, verb in verbs.items()}
    groups: dict[str, list[str]] = {}
    for name, command in ours.commands.items():
        if not command.hidden:
            groups.setdefault(command.rich_help_panel, []).append(name)
    for group, names in groups.items():
        yield f"## {group}\n"
        for name in names:
            command = trainer.commands[its_names[name]] if name in its_names else ours.commands[name]
            yield f"### `interlinear {name}`\n"
            yield _help(command.help) + "\n"
            yield from _options(command.params)


def _help(text: str) -> str:
    """Help as Markdown: in it, a command is a paragraph of its own."""
    text = re.sub(r"^\s*\x08\n", "", re.sub(r"^ +", "", text, flags=re.M), flags=re.M)
    lines = re.sub(r"^(?=(?:interlinear|python -m|torchrun) )", "    ", text, flags=re.M).splitlines()
    return "\n".join(line if line.startswith("    ") else line.replace("<", "&lt;") for line in lines)


def _options(params: list[Any]) -> Iterator[str]:
    rows = []
    for param in params:
        if getattr(param, "hidden", False) or param.name == "help":
            continue
        names = [*param.opts, *param.secondary_opts] if param.param_type_name == "option" else [param.name.upper()]
        default = "required" if param.required else "" if param.default in (None, "", False) else _code(_plain(param))
        rows.append(f"| {', '.join(map(_code, names))} | {default} | {_cell(param.help or '')} |")
    if rows:
        yield "| option | default | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _plain(param: Any) -> object:
    """The default as one would type it."""
    value = param.default() if callable(param.default) else param.default
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(str(getattr(each, "value", each)) for each in values)


def api() -> str:
    """A section for each route: its fields, and those of its answer."""
    return "\n".join(_api_lines(create_app(Settings(_env_file=None), Catalogue([])).openapi())) + "\n"  # type: ignore[call-arg]


def _api_lines(document: Json) -> Iterator[str]:
    yield "# API\n"
    yield "Every route and its fields. A running service has the same at `/docs`, where each can be tried.\n"
    yield document["info"]["description"].replace("[The page](./)", "The page, at `/`,") + "\n"
    schemas = document["components"]["schemas"]
    used: dict[str, None] = {}
    for tag in document["tags"]:
        yield f"## {tag['name'][0].upper()}{tag['name'][1:]}\n\n{tag['description']}.\n"
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation.get("tags", []):
                    yield from _operation(f"{method.upper()} {path}", operation, schemas, used)
    yield "## Schemas\n"
    shown = 0
    while shown < len(used):  # schemas name others
        name = list(used)[shown]
        shown += 1
        rows = list(_fields(schemas[name], schemas, used))
        if rows:
            yield f"### {name}\n\n{_cell(schemas[name].get('description', ''))}\n\n" + "\n".join(rows) + "\n"


def _operation(title: str, operation: Json, schemas: Json, used: dict[str, None]) -> Iterator[str]:
    yield f"### `{title}`\n\n{operation.get('description', operation.get('summary', ''))}\n"
    rows = [
        f"| `{each['name']}` ({each['in']}) | {_type(each['schema'], used)} | {_cell(each.get('description', ''))} |"
        for each in operation.get("parameters", [])
    ]
    if rows:
        yield "| parameter | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"Body, `{kind}`: {_type(content['schema'], used)}\n"
        if "$ref" not in content["schema"] and (rows := list(_fields(content["schema"], schemas, used))):
            yield "\n".join(rows) + "\n"
    answers = []
    for status, answer in operation["responses"].items():
        kinds = [_type(content.get("schema", {}), used) for content in answer.get("content", {}).values()]
        shape = next((kind for kind in kinds if kind and "Problem" not in kind and "Error" not in kind), "")
        answers.append(f"| {status} | {_cell(answer['description'])} | {shape} |")
    yield "| status | meaning | answer |\n|--:|---|---|\n" + "\n".join(answers) + "\n"


def _fields(schema: Json, schemas: Json, used: dict[str, None]) -> Iterator[str]:
    """Rows of a table of a schema's fields, its head among them."""
    required = schema.get("required", [])
    for number, (name, field) in enumerate(schema.get("properties", {}).items()):
        if not number:
            yield "| field | type | default | meaning |\n|---|---|---|---|"
        default = field.get("default")
        told = "required" if name in required else "" if default is None else _code(default)
        yield f"| `{name}` | {_type(field, used)} | {told} | {_cell(field.get('description', ''))} |"


def _type(schema: Json, used: dict[str, None]) -> str:
    """The type in words, with links to the schemas that it names, which are added to `used`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        used[name] = None
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            kinds = [_type(each, used) for each in schema[word]]
            return " or ".join(dict.fromkeys(kind for kind in kinds if kind and kind != "null"))
    if "enum" in schema:
        return ", ".join(map(_code, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), used) or 'anything'}"
    kind = schema.get("type", "")
    return "file" if schema.get("format") == "binary" else kind if isinstance(kind, str) else " or ".join(kind)
