"""app/server: what our modules use of uvicorn that no release promises, read from their syntax trees.

uvicorn documents its command line, `Config` and `Server.run`. The tests say which module of ours breaks, and at which
name, if a release renames anything else that we use.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import uvicorn
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from tests.test_architecture import ROOT, python_files

HELD = {"cycle": RequestResponseCycle, "flow": FlowControl, "server_state": ServerState, "lifespan": LifespanOn}
"""What has these names in our modules, as a variable or an attribute of self."""
REPLACED = {"HttpToolsProtocol": {"eof_received", "shutdown", "transport"}, "Server": set[str]()}
"""Members of uvicorn's classes that ours replace without a call of the one replaced."""
PRIVATE = {"HttpToolsProtocol._start_asgi_task", "Server._log_started_message"}
"""All names with an underscore that we use."""


class Source:
    """A module of ours: its syntax tree, and the dotted names of what it imports from uvicorn and us, and defines."""

    def __init__(self, path: str) -> None:
        self.path, module = path, path.removesuffix(".py").replace("/", ".")
        self.tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        self.classes = {f"{module}.{node.name}": node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.names = {node.name: dotted for dotted, node in self.classes.items()}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import) and any(alias.name.startswith("uvicorn") for alias in node.names):
                self.names["uvicorn"] = "uvicorn"
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("uvicorn", "app.server")):
                self.names |= {alias.name: f"{node.module}.{alias.name}" for alias in node.names}

    def dotted(self, node: ast.expr | None) -> str:
        """What an expression such as `uvicorn.Config` stands for; "" if it is none of `names`."""
        first, *rest = ast.unparse(node).split(".") if node else [""]
        return ".".join([self.names[first], *rest]) if first in self.names else ""


@cache
def sources() -> dict[str, Source]:
    """Our modules that name uvicorn, by path."""
    files = [path for path in python_files("app") if "uvicorn" in path.read_text(encoding="utf-8")]
    return {path: Source(path) for path in (str(file.relative_to(ROOT)) for file in files)}


def resolve(dotted: str) -> Any:
    """The module, class or value of a dotted name. Raises AttributeError if there is none."""
    module, _, name = dotted.rpartition(".")
    try:
        return import_module(dotted)
    except ImportError:
        return getattr(resolve(module), name)


@cache
def members(kind: type) -> set[str]:
    """The names of all that an instance has, also of what is only assigned in one of its methods."""
    own = [each for each in kind.__mro__ if each.__module__.startswith("uvicorn")]
    return set(dir(kind)).union(*(assigned(ast.parse(textwrap.dedent(inspect.getsource(each)))) for each in own))


def of_self(tree: ast.AST) -> Iterator[ast.Attribute]:
    """The expressions `self.name` and `super().name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()"):
            yield node


def assigned(tree: ast.AST) -> set[str]:
    """The attributes of self that are assigned."""
    return {node.attr for node in of_self(tree) if isinstance(node.ctx, ast.Store)}


@cache
def descendants() -> dict[type, list[tuple[str, ast.ClassDef]]]:
    """The paths and trees of our classes that derive from one of uvicorn's."""
    classes = {dotted: (source, node) for source in sources().values() for dotted, node in source.classes.items()}
    found: dict[type, list[tuple[str, ast.ClassDef]]] = defaultdict(list)

    def ancestor(dotted: str) -> str:
        if dotted not in classes:
            return dotted if dotted.startswith("uvicorn.") else ""
        source, node = classes[dotted]
        return next(filter(None, (ancestor(source.dotted(base)) for base in node.bases)), "")

    for dotted, (source, node) in classes.items():
        if base := ancestor(dotted):
            found[resolve(base)].append((source.path, node))
    return found


@cache
def added(kind: type) -> set[str]:
    """The members that our classes add to a class of uvicorn's.

    What they assign and never read is uvicorn's, and so is what has no underscore and is not assigned in __init__.
    """
    trees = [tree for _, tree in descendants()[kind]]
    read = {node.attr for tree in trees for node in of_self(tree) if isinstance(node.ctx, ast.Load)}
    names = set[str]()
    for tree in trees:
        overridden = {node.attr for node in of_self(tree) if ast.unparse(node.value) == "super()"}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names |= {node.name} - overridden
                names |= {each for each in assigned(node) & read if each.startswith("_") or node.name == "__init__"}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                names.add(ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0]))
    return names - REPLACED[kind.__name__]


def constructed(source: Source, tree: ast.AST) -> dict[str, type]:
    """The types of what is assigned an object of uvicorn's, such as "self.config"."""
    return {
        ast.unparse(node.targets[0]): resolve(dotted)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if (dotted := source.dotted(node.value.func)).startswith("uvicorn.")
    }


def uses_of_objects(source: Source) -> Iterator[tuple[type, str]]:
    """Members of uvicorn's objects that our variables, arguments and attributes hold."""
    held = HELD | {f"self.{name}": kind for name, kind in HELD.items()}
    inherited = {id(tree) for trees in descendants().values() for _, tree in trees}
    for outer in source.tree.body:
        attributes = {name: kind for name, kind in constructed(source, outer).items() if name.startswith("self.")}
        if id(outer) in inherited:
            attributes["self.config"] = uvicorn.Config
        for function in ast.walk(outer):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            kinds = held | attributes | constructed(source, function)
            for arg in function.args.args:
                if (dotted := source.dotted(arg.annotation)).startswith("uvicorn."):
                    kinds[arg.arg] = resolve(dotted)
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and (kind := kinds.get(ast.unparse(node.value))):
                    yield kind, node.attr


def uses(path: str) -> set[tuple[type, str]]:
    """The classes of uvicorn's whose members a module of ours uses, with the members' names."""
    found = set(uses_of_objects(sources()[path]))
    for kind, trees in descendants().items():
        for each, tree in trees:
            if each == path:
                found |= {(kind, node.attr) for node in of_self(tree) if node.attr not in added(kind)}
    return found


@pytest.mark.parametrize("path", sources())
def test_uvicorn_has_every_name_that_a_module_uses(path: str) -> None:
    source = sources()[path]
    imported = [dotted for dotted in source.names.values() if dotted.startswith("uvicorn.")]
    chains = [source.dotted(node) for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)]
    for dotted in [*imported, *(chain for chain in chains if chain.startswith("uvicorn."))]:
        try:
            resolve(dotted)
        except AttributeError:
            pytest.fail(f"uvicorn {uvicorn.__version__} has no {dotted}, which {path} uses")
    missing = sorted(f"{kind.__name__}.{name}" for kind, name in uses(path) if name not in members(kind))
    assert not missing, f"uvicorn {uvicorn.__version__} has no {', '.join(missing)}, which {path} uses"


@pytest.mark.parametrize("kind", descendants(), ids=lambda kind: kind.__name__)
def test_uvicorn_uses_no_name_that_our_classes_add(kind: type) -> None:
    paths = ", ".join(sorted({path for path, _ in descendants()[kind]}))
    taken = sorted(added(kind) & members(kind))
    assert not taken, f"uvicorn {uvicorn.__version__}'s {kind.__name__} has {taken} as well, by which {paths} break"


def test_few_private_names_are_used() -> None:
    used = {f"{kind.__name__}.{name}" for path in sources() for kind, name in uses(path) if name != "__init__"}
    assert {name for name in used if name.partition(".")[2].startswith("_")} == PRIVATE
    assert {"HttpToolsProtocol.on_response_complete", "RequestResponseCycle.keep_alive", "Server.servers"} < used
    assert {"ServerState.connections", "Config.http_protocol_class", "HttpToolsProtocol.access_log"} < used
