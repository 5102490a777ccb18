"""The pages of docs/ against the code: quoted lines, named tests and linked files exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "transformer.md").read_text(encoding="utf-8")

# A quotation is a line with a file and a symbol in it, an empty one, and a block of Python.
QUOTATION = re.compile(r"^`(?P<path>[\w/]+\.py)`, `(?P<symbol>[\w.]+)`\n\n```python\n(?P<code>.*?)^```$", re.M | re.S)
QUOTATIONS = [(match["path"], match["symbol"], match["code"]) for match in QUOTATION.finditer(PAGE)]


def source_of(path: str, symbol: str) -> list[str]:
    """The lines of a function or class, such as "Transformer.encode", stripped."""
    text = (ROOT / path).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for name in symbol.split("."):
        named = [child for child in ast.iter_child_nodes(node) if getattr(child, "name", None) == name]
        assert len(named) == 1, f"{path} has no {symbol}"
        [node] = named
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    return [line.strip() for line in text.splitlines()[node.lineno - 1 : node.end_lineno]]


def runs(code: str) -> Iterator[list[str]]:
    """The quoted lines between ellipses, stripped."""
    for run in re.split(r"^\.\.\.\n", code, flags=re.M):
        yield [line.strip() for line in run.splitlines()]


@pytest.mark.parametrize(("path", "symbol", "code"), QUOTATIONS, ids=[f"{path}:{name}" for path, name, _ in QUOTATIONS])
def test_every_quoted_line_is_in_the_named_code(path: str, symbol: str, code: str) -> None:
    lines, start = source_of(path, symbol), 0
    for run in runs(code):
        places = [at for at in range(start, len(lines)) if lines[at : at + len(run)] == run]
        assert places, f"{path}, {symbol} does not have, in this order:\n" + "\n".join(run)
        start = places[0] + len(run)


def test_every_python_block_is_a_quotation() -> None:
    assert len(QUOTATIONS) == PAGE.count("```python\n") > 20


def test_every_part_of_the_model_is_quoted() -> None:
    quoted = {f"{path}:{symbol.split('.')[0]}" for path, symbol, _ in QUOTATIONS}
    tree = ast.parse((ROOT / "model" / "transformer.py").read_text(encoding="utf-8"))
    parts = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {f"model/transformer.py:{part}" for part in parts - {"AttentionRecord", "replace_linears"}} <= quoted


def test_every_mentioned_test_exists() -> None:
    names = re.findall(r"`(test_\w+)`", PAGE)
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("test_*.py")))
    assert names
    assert [name for name in names if f"\ndef {name}(" not in tests] == []


def test_every_equation_is_closed() -> None:
    blocks = re.findall(r"^```math\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(blocks) == PAGE.count("```math\n") > 10
    for text in [*blocks, *re.findall(r"\$([^$\n]+)\$", PAGE)]:
        assert text.count("{") == text.count("}")
        assert text.count(r"\left") == text.count(r"\right")
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", PAGE, flags=re.M | re.S)
    assert all(line.count("$") % 2 == 0 for line in prose.splitlines())
