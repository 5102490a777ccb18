"""Whole sentences of running text: of a plain text whose lines are paragraphs, or of XML such as the proceedings of a
parliament in TEI.

Back-translation learns from text that a person wrote; this makes a file of it for `translate --texts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sentencex
from lxml import etree

from model.languages import ends_sentence, language_alone
from training.corpora.corpus import hash64
from training.corpora.text_file import CorpusError, open_text
from training.corpora.tmx import text_below

_MIN_CHARS = 6
_REMARKS = {"note", "kinesic", "vocal", "incident", "gap", "desc", "head", "label", "kommentar", "redner", "name"}
"""Elements of TEI and of the Bundestag's proceedings that are not a part of what is said around them."""
_ORDINAL = re.compile(r"\b\d{1,3}\.\s*$")
_WITH_ORDINALS = {"cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "no", "pl", "sk", "sl", "sr", "tr"}
"""Languages that write ordinal numbers with a full stop: "the 20. Bundestag"."""
_OPENING = "\"'“„«‹‚‘¿¡(「『《"


def whole_sentences(paths: Iterable[Path], language: str, elements: Sequence[str], max_chars: int) -> Iterator[str]:
    """Yields each sentence of `paths` once, without fragments: it begins with a capital, a digit or an ideograph, ends
    with a full stop or the like, and has at most `max_chars` characters. Of XML only `elements` are read.

    Raises CorpusError.
    """
    seen: set[int] = set()
    for path in paths:
        for paragraph in _xml_paragraphs(path, elements) if _is_xml(path) else open_text(path).lines():
            for sentence in split_sentences(" ".join(paragraph.split()), language):
                if _is_whole(sentence, max_chars) and (key := hash64(sentence)) not in seen:
                    seen.add(key)
                    yield sentence


def split_sentences(paragraph: str, language: str) -> list[str]:
    """The sentences of `paragraph`. The splitter ends one after an ordinal number."""
    found, has_ordinals = [""], language_alone(language) in _WITH_ORDINALS
    for part in sentencex.segment(language, paragraph):
        found[-1] += part
        if not (has_ordinals and _ORDINAL.search(found[-1])):
            found.append("")
    return [sentence for each in found if (sentence := each.strip())]


def _is_whole(sentence: str, max_chars: int) -> bool:
    if not _MIN_CHARS <= len(sentence) <= max_chars or not ends_sentence(sentence):
        return False
    first = sentence.lstrip(_OPENING)[:1]
    return first.isalnum() and not first.islower()


def _is_xml(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def _xml_paragraphs(path: Path, elements: Sequence[str]) -> Iterator[str]:
    """The text of each element of these names, without remarks in it, such as applause, and the name of who speaks."""
    for element in parsed(path).iter(*in_any_namespace(elements)):
        yield "".join(text_below(element, {*_REMARKS, *elements}))


def parsed(path: Path) -> etree._Element:
    """The root of a file in XML, or in HTML by its name. Loads nothing else. Raises CorpusError."""
    is_html = path.suffix in (".html", ".htm")
    safe = etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True)
    parser = etree.HTMLParser(no_network=True, encoding="utf-8") if is_html else safe
    try:
        return etree.parse(path, parser).getroot()
    except etree.XMLSyntaxError as error:
        raise CorpusError(path, f"damaged XML: {error.msg}", error.lineno) from None


def in_any_namespace(names: Iterable[str]) -> set[str]:
    """The names, for lxml, of elements of these local names."""
    return {each for name in names for each in (name, f"{{*}}{name}")}
