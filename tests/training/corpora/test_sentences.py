"""Whole sentences of plain text and of XML, as `sentences` writes them."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from training.__main__ import cli
from training.corpora.sentences import whole_sentences
from training.corpora.text_file import CorpusError

TEI = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0"><text><body><div>
<head>PREGUNTAS DEL DIPUTADO.</head>
<u><seg>Buenos días, <hi>señorías</hi>. ¿Qué <kinesic><desc>Aplausos.</desc></kinesic>tal están?</seg>
<seg>Buenos días, señorías.</seg></u>
</div></body></text></TEI>
"""
GERMAN = """<protokoll><p klasse="redner"><name>Dr. Anna Weber</name>Dr. Anna Weber (SPD):</p>
<p>Das ist der 20. Bundestag. Die Sitzung ist eröffnet.</p><p>– Drucksache 20/12 –</p>
<kommentar>(Beifall bei der SPD.)</kommentar></protokoll>
"""


def sentences_of(path: Path, language: str, max_chars: int = 300) -> list[str]:
    return list(whole_sentences([path], language, ("p", "seg"), max_chars))


def test_each_sentence_of_proceedings_comes_once_without_what_is_not_said(tmp_path: Path) -> None:
    path = tmp_path / "session.xml"
    path.write_text(TEI, encoding="utf-8")
    assert sentences_of(path, "es") == ["Buenos días, señorías.", "¿Qué tal están?"]


def test_an_ordinal_number_does_not_end_a_sentence_and_a_heading_is_none(tmp_path: Path) -> None:
    path = tmp_path / "session.xml"
    path.write_text(GERMAN, encoding="utf-8")
    assert sentences_of(path, "de") == ["Das ist der 20. Bundestag.", "Die Sitzung ist eröffnet."]


def test_lines_of_plain_text_are_paragraphs(tmp_path: Path) -> None:
    path = tmp_path / "wiki.txt.xz"
    text = "本种之下又可分为三个亚种。它们都非常小！\n参见\nand so it was.\nA " + "long " * 70 + "line.\n"
    path.write_bytes(lzma.compress(text.encode()))
    assert sentences_of(path, "zh") == ["本种之下又可分为三个亚种。", "它们都非常小！"]
    assert len(sentences_of(path, "zh", max_chars=400)) == 3


def test_damaged_xml_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "session.xml"
    path.write_text("<protokoll>\n<p>Die Sitzung ist eröffnet.", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"session\.xml, line 2: damaged XML"):
        sentences_of(path, "de")


def test_the_command_writes_a_sentence_a_line(tmp_path: Path) -> None:
    path, out = tmp_path / "session.xml", tmp_path / "de.txt"
    path.write_text(GERMAN, encoding="utf-8")
    result = CliRunner().invoke(cli, ["sentences", str(path), "--language", "de", "--out", str(out)])
    assert (result.exit_code, result.output) == (0, f"2 sentences in {out}\n")
    assert out.read_text(encoding="utf-8") == "Das ist der 20. Bundestag.\nDie Sitzung ist eröffnet.\n"
    result = CliRunner().invoke(
        cli, ["sentences", str(path), "--language", "de", "--out", str(out), "--element", "name"]
    )
    assert result.output.startswith("0 sentences")
