"""GET /docs: the API reference, with assets from this service and a security policy that they satisfy."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.staticfiles import StaticFiles

ASSETS = "/static-offline-docs"
"""The path of the assets, which the package fastapi-offline brings."""
ASSET_FILES = StaticFiles(directory=Path(fastapi_offline.__file__).parent / "static")
_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_POLICY = (
    # Swagger UI has styles in its elements.
    "default-src 'none'; script-src 'self' 'sha256-{}'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The page, whose only script of its own is known to the policy by its hash."""
    root = request.scope.get("root_path", "")
    page = get_swagger_ui_html(
        title=f"{request.app.title} - Swagger UI",
        openapi_url=f"{root}{request.app.openapi_url}",
        swagger_js_url=f"{root}{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{root}{ASSETS}/favicon.png",
    )
    [script] = _SCRIPT.findall(bytes(page.body))
    page.headers["Content-Security-Policy"] = _POLICY.format(b64encode(sha256(script).digest()).decode())
    page.headers["X-Content-Type-Options"] = "nosniff"
    page.headers["Referrer-Policy"] = "no-referrer"
    return page
