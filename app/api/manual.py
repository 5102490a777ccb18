"""GET /manual/: the documentation as a site, where `make docs` has built it."""

from __future__ import annotations

from pathlib import Path

from fastapi import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PATH = "/manual"
FOLDER = Path(__file__).parents[2] / "site"
_HEADERS = {
    # Material for MkDocs has scripts and styles in its pages. Nothing in them comes from a user.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Manual(StaticFiles):
    """The files of the site, also of one that is built while the service runs. Nobody needs a key for them."""

    def __init__(self) -> None:
        super().__init__(directory=FOLDER, html=True, check_dir=False)
        self.config_checked = True  # without the folder every path is 404

    async def get_response(self, path: str, scope: Scope) -> Response:
        """As of StaticFiles, with the site's security policy."""
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response
