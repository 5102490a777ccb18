"""app/api/: schemathesis over the whole OpenAPI document: no 5xx, no undocumented response, no invalid request
accepted.

Accepted findings are in schemathesis.toml, each with its reason. To run longer by hand, with another seed each time:
`schemathesis run http://127.0.0.1:8000/openapi.json --max-examples 1000`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from shared_fixtures import listening

from app.http.api_keys import new_key

CONFIG = Path(__file__).parent.parent / "schemathesis.toml"
KEY, KEY_LINE = new_key("reader")
QUICKER = "\n[phases.coverage]\nunexpected-methods = []\n"
"""Other methods are tests/test_api_openapi.py's."""
OPENED = f"""
[auth.openapi.key]
bearer = "{KEY}"
[auth.openapi.api_key]
api_key = "{KEY}"
[auth.openapi.DeepL-Auth-Key]
api_key = "DeepL-Auth-Key {KEY}"
"""


@pytest.mark.parametrize(
    ("settings", "locks", "phases", "examples"),
    [
        ({}, "", "examples,coverage,fuzzing,stateful", "1"),
        # Only what is different: who is refused, and the paths.
        ({"api_keys_file": "keys"}, "", "fuzzing", "1"),
        ({"api_keys_file": "keys", "root_api": "libretranslate", "root_path": "/mt"}, OPENED, "examples,fuzzing", "1"),
    ],
    ids=["as it is", "without the key that it wants", "with it, LibreTranslate at the root, below a path"],
)
def test_the_service_conforms_to_its_openapi_document(
    bundle_folder: Path, tmp_path: Path, settings: Mapping[str, Any], locks: str, phases: str, examples: str
) -> None:
    (tmp_path / "keys").write_text(KEY_LINE)
    (tmp_path / "schemathesis.toml").write_text(CONFIG.read_text() + locks + QUICKER)
    settings = {name: tmp_path / value if name == "api_keys_file" else value for name, value in settings.items()}
    with listening(bundle_folder, **settings) as url:
        # A proxy takes the path off that it adds, so it is not in requests.
        command = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json", "--url", url]
        told = subprocess.run(
            [*command, "--phases", phases, "--seed", "1", "--max-examples", examples, "--warnings", "off"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        figures = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {KEY}"}).text
    assert told.returncode == 0, told.stdout + told.stderr
    translating = set(re.findall(r'method="POST",route="([^"]*/translate)",status="200"', figures))
    assert len(translating) == (0 if "api_keys_file" in settings and not locks else 3)
