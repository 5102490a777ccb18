"""LibreTranslate's API, compatible with its clients. Exports the dialect.

Imports what app.api may.
"""

from __future__ import annotations

from app.api.dialects.dialect import Dialect
from app.api.libretranslate import files
from app.api.libretranslate.rows import ROWS
from app.api.libretranslate.schemas import LibreError

LIBRETRANSLATE = Dialect(
    "libretranslate",
    "LibreTranslate",
    "LibreTranslate's API, for its clients",
    files.render_problem,
    ROWS,
    [files.router],
    LibreError,
)
