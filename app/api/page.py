"""GET /: the page and its files, with its security policy."""

from __future__ import annotations

from hashlib import sha256
from html import escape
from pathlib import Path, PurePath

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

from app.api import manual
from app.api.state import State, app_of
from app.formats import MEDIA_TYPES

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).parent.parent / "static" / "page"
_FILES = StaticFiles(directory=_FOLDER)
# The machine's own tables differ, and a browser accepts scripts of no other type.
_MEDIA_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".webmanifest": "application/manifest+json",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # File names stay the same across versions, so browsers revalidate their copy each time.
    "Cache-Control": "no-cache",
}


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The page, with what this service has and accepts filled in."""
    content = _rendered(app_of(request))
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = {**_HEADERS, "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="text/html", headers=headers)


@router.api_route("/page/{path:path}", methods=["GET", "HEAD"])
async def part_of_page(path: str, request: Request) -> Response:
    """A file of the page. Raises HTTPException 404 for any other."""
    response = await _FILES.get_response(path, request.scope)
    response.headers.update(_HEADERS)
    if isinstance(response, FileResponse) and (media_type := _MEDIA_TYPES.get(PurePath(path).suffix)):
        response.headers["Content-Type"] = f"{media_type}; charset=utf-8"
    return response


def _rendered(app: State) -> bytes:
    settings = app.settings
    values = {
        "API": f".{app.prefix}/",
        "ROOT_API": ",".join(settings.root_api),
        "KEYS": "on" if app.access_control.requires_key else "off",
        "MAX_CHARACTERS": settings.max_text_chars,
        "MAX_BYTES": settings.max_file_bytes,
        "FORMATS": ",".join(MEDIA_TYPES),
        "MEMORY": "off" if settings.translation_memory is None else "on",
        "LLM": settings.llm_model if settings.llm else "",
        "ENGINE": settings.engine,
        "ADAPTATION": "off" if app.adaptations.obstacle else "on",
        "INSTALLING": "off" if all(job.has_ended for job in app.installer.seen) else "on",
        "MANUAL": "" if manual.FOLDER.is_dir() else "hidden",
    }
    html = (_FOLDER / "index.html").read_text("utf-8")
    for name, value in values.items():
        html = html.replace(f"[[{name}]]", escape(str(value)))
    return html.encode()
