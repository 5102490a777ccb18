"""LibreTranslate's API, compatible with its clients. Exports `router` and `voice`.

Imports what app.api may.
"""

from __future__ import annotations

from app.api.libretranslate.routes import router, voice

__all__ = ["router", "voice"]
