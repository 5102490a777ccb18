"""The path of a request, without the prefix under which a proxy serves the application."""

from __future__ import annotations

from starlette.types import Scope


def route_path(scope: Scope) -> str:
    """The path that the router sees: without the root path."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
