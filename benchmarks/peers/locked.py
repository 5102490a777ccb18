"""FastAPI around CTranslate2 as commonly written: a lock, and one `translate_batch` call per request.

python -m benchmarks.peers.locked MODEL PORT
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.peers.translation import Translation


class Body(BaseModel):
    """A request in the fields of ours."""

    text: str
    source: str
    target: str


def create_app(folder: Path) -> FastAPI:
    """The application around the model in `folder`."""
    translation, lock = Translation(folder), threading.Lock()
    app = FastAPI()

    @app.post("/translate")
    def translate(body: Body) -> dict[str, Any]:
        with lock:
            [answer] = translation.translate([body.text])
        return answer

    return app


if __name__ == "__main__":
    uvicorn.run(create_app(Path(sys.argv[1])), port=int(sys.argv[2]), access_log=False, log_level="warning", ws="none")
