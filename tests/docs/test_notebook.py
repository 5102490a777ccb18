"""docs/: the notebook of docs/: it runs, its model learns the task, and its attention is a shifted diagonal."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from servers import WAIT_S
from traitlets.config import Config

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "transformer.ipynb"
STEPS, FEWER_STEPS = '"abcdefghij", 800, 100, 32', '"abcdefghij", 340, 100, 32'
"""The notebook's letters, steps, warm-up and batch; and steps that are enough for what is asserted."""
FACTS = """
import json

print(json.dumps({
    "losses": losses,
    "right": right,
    "shares": list(shares.items()),
    "hits": hits,
    "heads": trained.tolist(),
    "served": served.tolist(),
    "written": answer["translation"],
    "picture": picture,
    "server": server.returncode,
}))
"""
"""A cell behind the last, which prints what the others computed."""


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the notebook computes."""
    # Not in pytest's folder, whose path may be too long for a socket.
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as sockets:
        patch.setenv("PYTHONPATH", str(ROOT))  # as if this checkout were installed
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))  # no history in the home folder
        patch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path_factory.mktemp("jupyter")))
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        [training] = [cell for cell in notebook.cells if STEPS in cell.source]
        training.source = training.source.replace(STEPS, FEWER_STEPS)
        notebook.cells.append(nbformat.v4.new_code_cell(FACTS))
        config = Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"})  # TCP would open ports
        resources = {"metadata": {"path": str(NOTEBOOK.parent)}}  # where Jupyter starts a notebook's kernel
        NotebookClient(notebook, config=config, timeout=int(WAIT_S), resources=resources).execute()
    found: dict[str, Any] = json.loads(notebook.cells[-1].outputs[0].text)
    return found


def test_loss_falls_far_below_chance(facts: dict[str, Any]) -> None:
    losses = facts["losses"]
    first, last = sum(losses[:20]) / 20, sum(losses[-20:]) / 20
    assert first > math.log(10) > 8 * last
    assert facts["right"] > 0.9


def test_cross_attention_is_a_diagonal_shifted_by_one(facts: dict[str, Any]) -> None:
    shares = dict(facts["shares"])
    assert max(shares, key=lambda distance: shares[distance]) == 1
    assert shares[1] > 2 * max(share for distance, share in shares.items() if distance != 1)
    assert facts["hits"] > 0.8


def test_service_returns_the_attention_of_the_same_weights(facts: dict[str, Any]) -> None:
    assert facts["written"] == "g a i j c h b"
    for served, trained in zip(facts["served"], facts["heads"], strict=True):
        for row, expected in zip(served, trained, strict=True):
            assert row == pytest.approx(expected, abs=0.1)  # served in int8 or half precision, from weights in float16
    assert facts["picture"].startswith("<svg")
    assert facts["server"] is not None


def test_notebook_is_stored_without_outputs_and_paths() -> None:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 15
    assert [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None] == []
    sources = "".join(line for cell in stored["cells"] for line in cell["source"])
    assert re.findall(r"(?<![\w.:/])/(?:home|root|work|tmp|usr|Users)\b", sources) == []
    assert set(stored["metadata"]) == {"kernelspec", "language_info"}


def test_links_of_the_notebook_resolve() -> None:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    text = "".join(line for cell in stored["cells"] if cell["cell_type"] == "markdown" for line in cell["source"])
    links = re.findall(r"\]\(([^)#:]+)(?:#([^)]+))?\)", text)
    assert len(links) > 2
    for path, anchor in links:
        page = NOTEBOOK.parent / path
        assert page.exists(), path
        headings = {
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
        }
        assert not anchor or anchor in headings, anchor
