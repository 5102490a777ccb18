"""The path of a request, independent of the prefix under which a proxy serves it."""

from __future__ import annotations

from starlette.types import Scope


def route_path(scope: Scope) -> str:
    """The requested path without the root path, under which a proxy shows the service."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
