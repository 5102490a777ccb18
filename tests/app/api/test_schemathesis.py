"""app/api/: schemathesis over the whole OpenAPI document: no 5xx, no undocumented response, no invalid request
accepted.

Accepted findings are in schemathesis.toml, each with its reason. To run longer by hand, with another seed each time:
`schemathesis run http://127.0.0.1:8000/openapi.json --max-examples 1000`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from shared_fixtures import listening

from app.api.dialects.table import DIALECTS

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[3] / "schemathesis.toml"
QUICKER = """
[phases.coverage]
unexpected-methods = []

[[operations]]
include-tag = ["LibreTranslate", "DeepL"]
[operations.phases.coverage]
unexpected-methods = []
generation = { mode = "positive" }
"""
"""These two may accept invalid fields, so those only must not fail, as in the tests of the two APIs with Hypothesis."""
PHASES = "coverage,fuzzing,stateful"
"""Other methods, the document's examples, and who is refused without a key are tests/app/api/test_openapi.py's."""


def test_the_service_conforms_to_its_openapi_document(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG.read_text() + QUICKER)
    with listening(bundle_folder, root_api="libretranslate", root_path="/mt", precision="auto") as url:
        # A proxy takes the path off that it adds, so it is not in requests.
        command = [str(Path(sys.executable).parent / "schemathesis"), "run", f"{url}/openapi.json", "--url", url]
        told = subprocess.run(
            [*command, "--phases", PHASES, "--seed", "1", "--max-examples", "1", "--warnings", "off"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        figures = httpx.get(f"{url}/metrics").text
    assert told.returncode == 0, told.stdout + told.stderr
    rows = [f"{dialect.prefix}{row.path}" for dialect in DIALECTS for row in dialect.rows if "POST" in row.methods]
    wanted = {"/interlinear/translate", *(path for path in rows if path.endswith("/translate"))}
    assert set(re.findall(r'method="POST",route="([^"]*/translate)",status="200"', figures)) == wanted
