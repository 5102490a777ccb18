"""app/formats/: documents that are large, or expand to be: refused before they are parsed, which would delay all
other requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shared_fixtures import serving

from app.formats import UnreadableDocument, document, docx_paragraphs, read
from app.translation import documents
from tests.app.api.test_files import PATH
from tests.app.formats.test_docx import run, word

pytestmark = pytest.mark.slow

_UNIT = "<trans-unit id='{}'><source>Hello.</source></trans-unit>"
_XLIFF = "<xliff version='1.2' xmlns='urn:oasis:names:tc:xliff:document:1.2'><file><body>{}</body></file></xliff>"


def of(name: str, count: int) -> bytes:
    """A file with that number of passages."""
    if name.endswith("docx"):
        # One of the notes as well.
        return word("".join(f"<w:p>{run('Hello.')}</w:p>" for _ in range(count - 1)))
    if name.endswith("xliff"):
        return _XLIFF.format("".join(map(_UNIT.format, range(count)))).encode()
    return json.dumps(["Hello."] * count).encode()


@pytest.fixture
def at_most_five_passages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_PASSAGES", 5)


@pytest.mark.usefixtures("at_most_five_passages")
@pytest.mark.parametrize("name", ["a.docx", "a.xliff", "a.json"])
def test_a_document_has_a_maximum_number_of_passages(name: str) -> None:
    assert len(read(name, of(name, 5), "fr").passages) == 5
    with pytest.raises(UnreadableDocument, match="over 5 paragraphs"):
        read(name, of(name, 6), "fr")


@pytest.mark.usefixtures("at_most_five_passages")
def test_paragraphs_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docx_paragraphs, "Paragraph", None)
    with pytest.raises(UnreadableDocument, match="over 5 paragraphs"):
        read("a.docx", of("a.docx", 7))


def test_text_has_a_size_limit_that_pictures_and_markup_do_not(
    bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_MAX_TEXT_BYTES", 100)
    fields = {"source": "en", "target": "fr"}
    with serving(bundle_folder) as service:

        def status(name: str, content: bytes) -> int:
            return service.request("POST", PATH, data=fields, files={"file": (name, content)}).status_code

        assert status("a.txt", b"a" * 100) == 200
        assert status("a.TXT", b"a" * 101) == status("a.json", of("a.json", 20)) == 413
        assert status("a.docx", of("a.docx", 2)) == status("a.XLIFF", of("a.xliff", 2)) == 200
