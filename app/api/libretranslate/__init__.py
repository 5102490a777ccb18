"""LibreTranslate's API, compatible with its clients. Exports `router` and `render_problem`.

Imports what app.api may.
"""

from __future__ import annotations

from app.api.libretranslate.openapi import render_problem
from app.api.libretranslate.routes import router

__all__ = ["render_problem", "router"]
