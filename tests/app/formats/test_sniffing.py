"""The format of documents without a suffix is detected from their first bytes, and no content breaks that."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.app.formats.test_epub as test_formats_epub
import tests.app.formats.test_odf as test_formats_odf
from app.formats import MEDIA_TYPES
from app.formats.sniffing import suffix_of
from tests.app.formats.test_docx import run, word


def zipped(name: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name, "")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (word(f"<w:p>{run('Hello')}</w:p>"), ".docx"),
        (word(f"<w:p>{run('Hello')}</w:p>")[:-30], ".docx"),
        (zipped("ppt/presentation.xml"), ".pptx"),
        (zipped("xl/workbook.xml"), ".xlsx"),
        (zipped("content.xml"), ""),
        (test_formats_epub.CONTENT, ".epub"),
        *((content, suffix) for suffix, content in test_formats_odf.DOCUMENTS.items()),
        (b"PK is a name.", ""),
        (b"<!doctype html><p>Hello", ".html"),
        (b"\xef\xbb\xbf<!-- c -->\n<HTML lang=en>", ".html"),
        ("<html>".encode("utf-16"), ".html"),
        (b'<?xml version="1.0"?>\n<html>', ".xhtml"),
        (b'<?xml version="1.0"?><!-- c --><xliff version="1.2">', ".xliff"),
        (b"<xliff>", ".xliff"),
        (b'<?xml version="1.0"?>\n<!DOCTYPE TS>\n<TS version="2.1">', ".ts"),
        (b'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">', ".tmx"),
        (b"<!-- c --><resources>", ".xml"),
        (b"\xef\xbb\xbf[Script Info]\r\n", ".ass"),
        (b"<htmlish>", ".txt"),
        (b"<root/>", ".txt"),
        (b"WEBVTT", ".vtt"),
        (b"WEBVTTX", ".txt"),
        (b"\n1\r\n00:00:01,000 --> 00:00:02,000\r\nHello.", ".srt"),
        (b'# c\n\nmsgid ""\nmsgstr ""', ".po"),
        (b".. _a-label:\r\n\r\nA title\r\n=======\r\n", ".rst"),
        (b"\n.. note:: Hello.", ".rst"),
        (b".. and so on: it is", ".txt"),
        (b"", ".txt"),
        (b"1. Hello", ".txt"),
        (b"\xff\xfe\x00", ".txt"),
    ],
)
def test_format_is_recognised_by_the_beginning_of_the_content(content: bytes, suffix: str) -> None:
    assert suffix_of(content) == suffix


def test_document_within_a_document_does_not_count() -> None:
    inner = word(f"<w:p>{run('Hello')}</w:p>")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("ppt/presentation.xml", "")
        archive.writestr("ppt/embeddings/a.docx", inner)
    assert suffix_of(content.getvalue()) == ".pptx"


@given(
    st.lists(
        st.sampled_from([b"PK", b"<?xml ", b"?>", b"<!--", b"-->", b"<html", b"WEBVTT", b"msgid", b"#", b"\n", b" "])
        | st.binary(max_size=6)
    ).map(b"".join)
)
def test_no_content_crashes_the_recognition(content: bytes) -> None:
    assert suffix_of(content) in {"", *MEDIA_TYPES}


@pytest.mark.parametrize("part", [b"<!-- ", b"\n", b"#\n", b"<?xml >", b"1", b" ", b"<?xml ><!---->"])
def test_hostile_content_is_recognised_in_time(part: bytes) -> None:
    assert suffix_of(part * 1_000_000) == ".txt"
