"""The path that a request asks for, wherever a proxy shows the service."""

from __future__ import annotations

from starlette.types import Scope


def path_of(scope: Scope) -> str:
    """The path that was asked for, less the root path under which a proxy shows the service."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path.removeprefix(root) if path.startswith(f"{root}/") else path
