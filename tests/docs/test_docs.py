"""docs/: the pages of docs/ against the code: quoted lines, named tests and classes exist, and examples are
computed."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor, nn

from model.config import ModelConfig
from model.transformer import AttentionRecord, Transformer, dot_product_attention

ROOT = Path(__file__).resolve().parents[2]
PARTS = "", "-attention", "-layers", "-decoding", "-heads"
PAGE, CHINESE = (
    "\n".join((ROOT / "docs" / f"transformer{part}{end}").read_text(encoding="utf-8") for part in PARTS)
    for end in (".md", ".zh-CN.md")
)

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
    tests = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py")))
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


ROW = re.compile(r"^\| (`.+?`) \| (\[`.*?) \| .*\|$", re.M)
"""A row of the tables of classes: those of a tutorial, and links with the names of ours."""
TUTORIALS = """
EncoderDecoder Encoder Decoder EncoderLayer DecoderLayer SublayerConnection LayerNorm attention MultiHeadedAttention
subsequent_mask PositionwiseFeedForward Embeddings PositionalEncoding Generator Batch LabelSmoothing NoamOpt
greedy_decode

DotProductAttention masked_softmax MultiHeadAttention transpose_qkv PositionWiseFFN AddNorm PositionalEncoding
TransformerEncoderBlock EncoderBlock TransformerDecoderBlock DecoderBlock TransformerEncoder TransformerDecoder
sequence_mask MaskedSoftmaxCELoss Vocab Seq2Seq train_seq2seq predict_seq2seq bleu
"""


def test_tables_of_classes_have_those_of_both_tutorials() -> None:
    named = {name for theirs, _ in ROW.findall(PAGE) for name in re.findall(r"`(\w+)`", theirs)}
    assert set(TUTORIALS.split()) <= named


@pytest.mark.parametrize(
    ("symbol", "path"),
    sorted({link for _, ours in ROW.findall(PAGE) for link in re.findall(r"\[`(.+?)`\]\((.+?)\)", ours)}),
)
def test_every_class_in_the_tables_is_in_the_linked_file(symbol: str, path: str) -> None:
    assert source_of(path.removeprefix("../"), symbol)


def test_worked_example_is_what_the_model_computes() -> None:
    def matrix(name: str) -> Tensor:
        rows = re.search(rf"\b{name} = (?:[^=&\n]* = )?\\begin{{bmatrix}} (.*?) \\end", PAGE)
        assert rows, name
        return torch.tensor([[float(cell) for cell in row.split("&")] for row in rows[1].split(r"\\")])

    query, key, value = (matrix(name)[None, None] for name in "QKV")  # [batch, heads, 3, 4]
    assert (query @ key.transpose(-2, -1) / 2)[0, 0].equal(matrix("S"))
    output, weights = dot_product_attention(query, key, value, torch.ones(3, 3, dtype=torch.bool).tril())
    torch.testing.assert_close(weights[0, 0], matrix("A"), atol=6e-4, rtol=0)
    torch.testing.assert_close(output[0, 0], matrix("O"), atol=6e-4, rtol=0)
    without = (query @ key.transpose(-2, -1)).softmax(-1)[0, 0, 2].tolist()
    assert ", ".join(f"{weight:.3f}" for weight in without) in PAGE


def test_shapes_in_the_picture_are_the_models() -> None:
    texts = ElementTree.parse(ROOT / "docs" / "transformer.svg").iter("{http://www.w3.org/2000/svg}text")
    shown = {of: text.text for text in texts if (of := text.get("data-of"))}
    sizes = {"batch": 2, "source": 7, "target": 5, "d_model": 12, "heads": 3, "d_k": 4, "d_ff": 11, "vocabulary": 13}
    sizes["3 d_model"] = 36
    config = ModelConfig(13, 13, d_model=12, num_heads=3, d_ff=11, encoder_layers=1, decoder_layers=1)
    model, record = Transformer(config).eval(), AttentionRecord()
    src, tgt = torch.full((2, 7), 5), torch.full((2, 5), 5)
    found: dict[str, Tensor] = {"src": src, "tgt": tgt}

    def keep(name: str) -> None:
        def hook(module: nn.Module, inputs: object, output: Tensor) -> None:
            found[name] = output

        model.get_submodule(name).register_forward_hook(hook)

    for name, _ in model.named_modules():
        keep(name)
    model.output(model.hidden(src, tgt, record))
    found["memory"] = model.memory(model.encode(src))[0][0]
    for name, weights in vars(record).items():
        [found[f"record.{name}"]] = weights
    wide = {"source": torch.zeros(2, 7, 12), "target": torch.zeros(2, 5, 12)}
    found["encoder.0.self_attention.project"] = model.encoder[0].self_attention.project(wide["source"])[0]  # type: ignore[operator, union-attr]
    found["decoder.0.cross_attention.project_query"] = model.decoder[0].cross_attention.project_query(wide["target"])  # type: ignore[operator, union-attr]
    assert len(shown) > 20
    for name, shape in shown.items():
        assert shape
        assert [sizes[axis] for axis in shape.strip("[]").split(", ")] == list(found[name].shape), name


FENCED = re.compile(r"^```\w+\n.*?^```$", re.M | re.S)
CODE = re.compile(r"`[^`\n]+`")
LANGUAGE_FREE = {
    "blocks of code and formulas": FENCED,
    "names": CODE,
    "formulas within lines": re.compile(r"\$[^$\n]+\$"),
    "links and pictures": re.compile(r"\]\(([^)#]*)[^)]*\)"),  # but for anchors, which are headings
    "figures": re.compile(r"\d+\.\d+|\d+%|\d,\d+"),
    "rows of tables": re.compile(r"^\|(?= )", re.M),
    "items of lists": re.compile(r"^- ", re.M),
}
"""What a page and its translation have in common."""


def test_chinese_page_has_the_same_sections_code_formulas_and_figures() -> None:
    english, chinese = (re.split(r"^(?=#+ )", page, flags=re.M)[1:] for page in (PAGE, CHINESE))
    assert [section.index(" ") for section in english] == [section.index(" ") for section in chinese]
    for one, other in zip(english, chinese, strict=True):
        for what, pattern in LANGUAGE_FREE.items():
            found = []
            for section in (one, other):
                text = section.replace(".zh-CN.md", ".md")
                if pattern is not FENCED:
                    text = FENCED.sub("", text)
                    text = text if pattern is CODE else CODE.sub("", text)
                found.append(pattern.findall(text))
            if pattern is FENCED:
                assert found[0] == found[1], other.splitlines()[0]
            else:
                assert Counter(found[0]) == Counter(found[1]), f"{what}: {other.splitlines()[0]}"


def test_chinese_page_is_chinese() -> None:
    prose = re.sub(r"\]\([^)]*\)", "", CODE.sub("", FENCED.sub("", CHINESE)))
    paragraphs = [text for text in prose.split("\n\n") if len(text.strip()) > 20]
    assert len(paragraphs) > 70
    assert [text for text in paragraphs if not re.search(r"[\u4e00-\u9fff]", text)] == []
