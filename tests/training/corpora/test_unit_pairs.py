"""Sentence pairs of files in two languages, by the ids of their units, as `pair` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from training.__main__ import cli
from training.corpora.text_file import CorpusError
from training.corpora.unit_pairs import PairedUnits

BOOK = """<document xmlns="http://cnx.rice.edu/cnxml" xmlns:m="http://www.w3.org/1998/Math/MathML">
<content>{}</content></document>
"""
ENGLISH = """
<para id="a1">A <term>force</term> acts on the box. It pushes the box to the right.</para>
<para id="a2">The area is <m:math><m:mi>a</m:mi></m:math>. Its sides are equal in length.</para>
<para id="a3">See <link target-id="f1"/> for the whole of it. Nothing moves in this picture.</para>
<para id="a4">One long sentence is here and it ends.</para>
<para id="only-here">Nobody translated this sentence.</para>
<para>This paragraph has no id at all.</para>
<para id="a5">The steps are these: <list><item id="i1">Open the lid of the box.</item></list></para>
"""
SPANISH = """
<para id="a4">Una frase larga está aquí. Y termina.</para>
<para id="a2">El área es <m:math><m:mi>a</m:mi></m:math>. Sus lados son de igual longitud.</para>
<para id="a1">Una <term>fuerza</term> actúa sobre la caja. La empuja hacia la derecha.</para>
<para id="a3">Vea <link target-id="f1"/> para el conjunto. Nada se mueve en esta imagen.</para>
<para id="a5">Los pasos son estos: <list><item id="i1">Abra la tapa de la caja.</item></list></para>
"""
PAIRS = [
    ("A force acts on the box.", "Una fuerza actúa sobre la caja."),
    ("It pushes the box to the right.", "La empuja hacia la derecha."),
    ("Its sides are equal in length.", "Sus lados son de igual longitud."),
    ("Nothing moves in this picture.", "Nada se mueve en esta imagen."),
    ("Open the lid of the box.", "Abra la tapa de la caja."),
]


@pytest.fixture
def books(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "en", tmp_path / "es"
    for folder, paragraphs in zip(folders, (ENGLISH, SPANISH), strict=True):
        module = folder / "modules" / f"m-{folder.name}" / "index.cnxml"
        module.parent.mkdir(parents=True)
        module.write_text(BOOK.format(paragraphs), encoding="utf-8")
    return folders


def paired(source: Path, target: Path, min_letters: int = 15, max_chars: int = 400) -> PairedUnits:
    return PairedUnits(source, target, ("en", "es"), (), min_letters, max_chars)


def test_sentences_of_paragraphs_with_equal_ids_are_pairs(books: tuple[Path, Path]) -> None:
    pairs = paired(*books)
    assert list(pairs) == PAIRS
    assert pairs.left_out == {
        "with a formula, an image or a placeholder": 3,
        "in units of other numbers of sentences": 1,
        "in one language only": 1,
    }


def test_each_pair_comes_once(books: tuple[Path, Path]) -> None:
    for folder in books:
        [module] = folder.rglob("*.cnxml")
        (folder / "again.xml").write_bytes(module.read_bytes())
    assert list(paired(*books)) == PAIRS


def test_length_is_limited_and_files_are_taken_as_they_are(books: tuple[Path, Path]) -> None:
    source, target = (next(folder.rglob("*.cnxml")) for folder in books)
    pairs = paired(source, target, max_chars=29)
    assert [pair[0] for pair in pairs] == ["Open the lid of the box."]
    assert pairs.left_out["too long"] == 4


def test_html_has_ids_too_and_an_ideograph_counts_as_three_letters(tmp_path: Path) -> None:
    english, chinese = tmp_path / "help.html", tmp_path / "zh.html"
    english.write_text('<!DOCTYPE html><h1 id="h">Opening a document<br></h1><p id="p">Choose an <b>open file</b>.')
    chinese.write_text('<h1 id="h">打开文档窗</h1><p id="p">请选择<b>打开的文件</b>。</p>', encoding="utf-8")
    pairs = PairedUnits(english, chinese, ("en", "zh"), ("p", "h1"), 15, 400)
    assert list(pairs) == [("Opening a document", "打开文档窗"), ("Choose an open file.", "请选择打开的文件。")]


def test_strings_of_programs_are_paired_by_their_keys(tmp_path: Path) -> None:
    files = {
        "en/a.json": '{"menu": {"open": "Open the <b>file</b>", "items": ["Bakery"]}, "left": "{count} are left."}',
        "es/a.json": '{"menu": {"items": ["Panadería"], "open": "Abrir el <b>archivo</b>"}, "left": "Quedan {count}."}',
        "en/b.yml": "en:\n  open: The door is open.\n",
        "es/b.yml": "es:\n  open: La puerta está abierta.\n",
        "en/c.ftl": "open = The shop is open.\n    .title = The title of it\nwho = Hello, { $name }!\n",
        "es/c.ftl": "open = La tienda está abierta.\n    .title = El título de eso\nwho = ¡Hola, { $name }!\n",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    pairs = paired(tmp_path / "en", tmp_path / "es", min_letters=3)
    assert list(pairs) == [
        ("Open the file", "Abrir el archivo"),
        ("Bakery", "Panadería"),
        ("The door is open.", "La puerta está abierta."),
        ("The shop is open.", "La tienda está abierta."),
        ("The title of it", "El título de eso"),
    ]
    assert pairs.left_out == {"with a formula, an image or a placeholder": 2}
    only = PairedUnits(tmp_path / "en" / "a.json", tmp_path / "es" / "a.json", ("en", "es"), ("open",), 3, 400)
    assert list(only) == [("Open the file", "Abrir el archivo")]


def test_an_id_is_that_of_a_file_which_both_folders_have(tmp_path: Path) -> None:
    for name, text in {"en/a": "The first title of all", "en/b": "Another title of all", "es/b": "Otro título"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.json").write_text(f'{{"title": "{text}"}}', encoding="utf-8")
    assert list(paired(tmp_path / "en", tmp_path / "es", min_letters=3)) == [("Another title of all", "Otro título")]


def test_what_cannot_be_read_is_named(books: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CorpusError, match="empty: has no file that ends in"):
        list(paired(books[0], empty))
    damaged = tmp_path / "damaged.xml"
    damaged.write_text("<document>\n<para>Not closed.", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"damaged\.xml, line 2: damaged XML"):
        list(paired(damaged, books[1]))
    (tmp_path / "a.json").write_text('{"title": ', encoding="utf-8")
    (tmp_path / "a.yaml").write_text("title: [", encoding="utf-8")
    (tmp_path / "deep.json").write_text("[" * 9000 + "]" * 9000, encoding="utf-8")
    faults = {"a.json": "json, line 1: damaged JSON", "a.yaml": "yaml: damaged YAML", "deep.json": "nested too deeply"}
    for name, said in faults.items():
        with pytest.raises(CorpusError, match=said):
            list(paired(tmp_path / name, books[1]))
    with pytest.raises(OSError, match="nowhere"):
        list(paired(tmp_path / "nowhere", books[1]))


def test_the_command_writes_pairs_and_says_what_it_left_out(books: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "pairs.tsv"
    arguments = ["pair", *map(str, books), "--source", "en", "--target", "es", "--out", str(out)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == f"5 pairs in {out}"
    assert lines[1] == "left out, with a formula, an image or a placeholder: 3"
    assert out.read_text(encoding="utf-8").splitlines() == ["\t".join(pair) for pair in PAIRS]
