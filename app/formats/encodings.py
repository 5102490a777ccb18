"""Decodes and encodes files: UTF-8, UTF-16 with a byte order mark, in the encoding that they declare, or in the one
that their bytes show beyond doubt."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from typing import Literal

from app.formats.document import UnreadableDocument, WrongOption
from model.languages import language_alone

UTF_8 = "utf-8"
Encoding = Literal["auto", "keep"]
"""Of a translated text that was not Unicode: UTF-8, or its own."""
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_SUPPORTED_NAME = re.compile(r"utf-?(?:8|16)", re.IGNORECASE)
XML_ENCODING = re.compile(r"""<\?xml[^>]{0,100}\sencoding\s*=\s*["']([\w.:-]+)""")
_META_CHARSET = re.compile(
    r"""<meta(?:[\s/]+[^\s=>"'/]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?){0,9}?[\s/]+
    (?:charset\s*=\s*["']?\s*|content\s*=\s*["']?\s*[\w.+-]+/[\w.+-]+\s*;\s*charset\s*=\s*)([\w.:-]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HEAD_CHARS = 4_096
"""The number of characters in which an encoding may be declared."""
_LEGACY = re.compile(
    r"windows-(?:874|125[0-8])|iso-8859-(?:[2-8]|10|1[3-6])|koi8-[ru]|gbk|gb18030|big5|shift_jis|euc-(?:jp|kr)"
    r"|iso-2022-jp|macintosh|ibm8(?:50|52|66)|utf-16(?:le|be)"
)
_LABELS = {
    **dict.fromkeys(["iso-8859-1", "iso8859-1", "latin1", "latin-1", "ascii", "us-ascii", "cp1252"], "windows-1252"),
    **dict.fromkeys(["iso-8859-9", "latin5"], "windows-1254"),
    **dict.fromkeys(["iso-8859-11", "tis-620"], "windows-874"),
    **dict.fromkeys(["shift-jis", "sjis", "x-sjis", "windows-31j", "ms932", "cp932"], "shift_jis"),
    **dict.fromkeys(["gb2312", "x-gbk", "cp936"], "gbk"),
    **dict.fromkeys(["ks_c_5601-1987", "windows-949", "cp949"], "euc-kr"),
    **dict.fromkeys(["utf-16", "utf16"], "utf-16le"),
    **{f"cp{number}": f"windows-{number}" for number in (874, *range(1250, 1259))},
}
"""Other names, in the meaning that they have on the web (https://encoding.spec.whatwg.org/#names-and-labels)."""
_CODECS = {"shift_jis": "cp932", "euc-kr": "cp949", "windows-874": "cp874"}
"""Python's names, where they differ."""
_LATIN = {
    language: (encodings.split(), frozenset(letters))
    for encodings, alphabets in (
        (
            "windows-1252 ibm850 macintosh",
            "en éèêëàâçîïôöñüæœ fr àâæçéèêëîïôœùûüÿ de äöüßéèàê es áéíóúüñ it àèéìíîòóùú pt ãáàâçéêíóôõúü nl éëïóöüèêáà"
            " da æøåéèêóô nb æøåéèêóô nn æøåéèêóô no æøåéèêóô sv åäöéüà fi åäöéšž is áðéíóúýþæö ca àçéèíïóòúü"
            " gl áéíóúüñ eu ñçü ga áéíóú sq çë af êëéèïôöûü lb äëéüöèêâç",
        ),
        (
            "windows-1250 iso-8859-2 ibm852",
            "pl ąćęłńóśźż cs áčďéěíňóřšťúůýž sk áäčďéíĺľňóôŕšťúýž hu áéíóöőúüű sl čćđšž hr čćđšž bs čćđšž ro ăâîşţ",
        ),
        ("windows-1254", "tr çğıöşüâîû"),
        ("windows-1257 iso-8859-13", "lt ąčęėįšųūž lv āčēģīķļņšūž et äöüõšž"),
    )
    for language, letters in zip(alphabets.split()[::2], alphabets.split()[1::2], strict=True)
}
"""The encodings in which files of a language are, if not in Unicode, and its letters that ASCII lacks."""
_OTHERS = {
    "ru": "windows-1251 koi8-r ibm866 iso-8859-5",
    "bg": "windows-1251 koi8-r ibm866 iso-8859-5",
    "mk": "windows-1251 iso-8859-5",
    "be": "windows-1251 ibm866 iso-8859-5",
    "uk": "windows-1251 koi8-u iso-8859-5",
    "el": "windows-1253",
    "he": "windows-1255",
    "ar": "windows-1256",
    "fa": "windows-1256",
    "th": "windows-874",
    "zh": "gb18030 big5",
    "ja": "shift_jis euc-jp",
    "ko": "euc-kr",
}
"""The same for languages whose letters differ from those of Latin in whatever encoding."""
_PUNCTUATION = frozenset("‘’“”„‚«»‹›–—…€£¥¢°·•©®™§¿¡ªº½¼¾²³±×÷µ\xa0")
_OPENING = frozenset("„‚«‹“‘¿¡")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_MIN_SHARE, _MAX_OTHER_SHARE = 0.95, 0.85
"""How much of what ASCII lacks must be of the language in its encoding, and may be in another."""
_MIN_BYTES = 24
"""How many bytes that ASCII lacks must speak for an encoding of a language that is not known."""
_MAX_CHAOS, _MIN_LEAD = 0.1, 0.05
"""Of charset-normalizer: how much of a text may be noise, and by how much its letters must be more like those of a
language than in another encoding."""


def decode(content: bytes) -> tuple[str, Callable[[str], bytes]]:
    """The text without its byte order mark, and a function that encodes text the same way. Raises
    UnreadableDocument."""
    bom, encoding = next(((m, name) for m, name in BYTE_ORDER_MARKS.items() if content.startswith(m)), (b"", "utf-8"))
    try:
        text = content[len(bom) :].decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(bom) + error.start
        raise UnreadableDocument(
            f"The file is not {encoding.upper()}: byte {offset} is 0x{content[offset]:02x}. Save it as UTF-8."
        ) from None
    if "\0" in text[:2]:
        fault = "The file has a null character; it is not text, or UTF-16 or UTF-32 that does not say so."
        raise UnreadableDocument(f"{fault} Save it as UTF-8.")
    return text, lambda text: bom + text.encode(encoding)


def check_declared_encoding(declaration: re.Match[str] | None) -> None:
    """Raises UnreadableDocument if the first group, the encoding that the file declares, is not supported.

    The file may be ASCII while its translation is not, and would then be read in the declared encoding.
    """
    if declaration and not _SUPPORTED_NAME.fullmatch(declaration[1]):
        raise UnreadableDocument(f"The file declares the encoding {declaration[1]}. Save it as UTF-8.")


def declared_encoding(content: bytes, charset: str, is_html: bool) -> str:
    """The encoding of `content` without a byte order mark: `charset`, which who sent it declares, or what the page
    itself declares; "" if nothing does. Raises UnreadableDocument if it is unknown."""
    if content.startswith(tuple(BYTE_ORDER_MARKS)):
        return ""
    declared = charset.strip().lower()
    if is_html and not declared:
        found = next(_declarations(content[:_HEAD_CHARS].decode("latin-1")), None)
        declared = found[1].lower() if found else ""
        declared = UTF_8 if _SUPPORTED_NAME.fullmatch(declared) else declared
    if declared in ("", UTF_8, "utf8"):
        return declared and UTF_8
    name = _LABELS.get(declared, declared)
    if not _LEGACY.fullmatch(name):
        raise UnreadableDocument(f"The file declares the encoding {declared[:100]!r}. Save it as UTF-8.")
    return name


def evident_encoding(content: bytes, language: str) -> str:
    """The encoding of a text that declares none; "" if it is Unicode. Of several that its language may have, the bytes
    must speak for one; if the language is not known, for one of all.

    Raises UnreadableDocument if they do not.
    """
    if content.startswith(tuple(BYTE_ORDER_MARKS)) or b"\0" in content:
        return ""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        if found := _evident(content, language_alone(language)):
            return found
        where = f"byte {error.start} is 0x{content[error.start]:02x}"
        raise UnreadableDocument(
            f"The file is not UTF-8: {where}, and its encoding is not evident. Name its language, or its encoding"
            " (charset), or save it as UTF-8."
        ) from None
    return ""


def _evident(content: bytes, language: str) -> str:
    if language in _LATIN:
        return _by_letters(content, *_LATIN[language])
    return _by_noise(content, _OTHERS.get(language))


def _by_letters(content: bytes, encodings: Sequence[str], letters: Set[str]) -> str:
    """The encoding in which a text has the letters of its language; "" if there is no such one."""
    shares: dict[str, tuple[float, str]] = {}
    for name in encodings:
        with suppress(UnicodeDecodeError):
            text = content.decode(name)
            shares[text] = max(shares.get(text, (0.0, "")), (_share(text, letters), name))
    best, *others = sorted(shares.values(), reverse=True) or [(0.0, "")]
    is_evident = best[0] >= _MIN_SHARE and all(share <= _MAX_OTHER_SHARE for share, _ in others)
    return best[1] if is_evident else ""


def _share(text: str, letters: Set[str]) -> float:
    """How much of what ASCII lacks in `text` is one of these letters, or punctuation in a place for it."""
    found = expected = 0
    for one in _NOT_ASCII.finditer(text):
        found += 1
        character, at = one[0], one.start()
        before, after = text[max(0, at - 1) : at], text[at + 1 : at + 2]
        if character.lower() in letters or character == "İ":
            expected += 1
        elif character in _PUNCTUATION:
            is_inside = before.isalpha() and (after.isalpha() or character in _OPENING)
            expected += not is_inside or character in "’·"
    return expected / found if found else 0.0


def _by_noise(content: bytes, encodings: str | None) -> str:
    """The encoding of a text in another script, or if the language is not known, in which it is one."""
    if encodings is None and sum(byte >= 0x80 for byte in content) < _MIN_BYTES:
        return ""
    from charset_normalizer import from_bytes  # 20 ms, and few files need it

    asked = (encodings or " ".join(["windows-1252", "windows-1250", "windows-1254", *_OTHERS.values()])).split()
    names = {codecs.lookup(_CODECS.get(name, name)).name.replace("-", "_"): name for name in asked}
    likely = [one for one in from_bytes(content, cp_isolation=list(names)) if one.chaos <= _MAX_CHAOS]
    if not likely or (len(likely) > 1 and likely[0].coherence < likely[1].coherence + _MIN_LEAD):
        return ""
    found = names[likely[0].encoding]
    return found if encodings or any(found in usual.split() for usual in _OTHERS.values()) else ""


def _declarations(head: str) -> Iterator[re.Match[str]]:
    """The declarations of an encoding, its name as the first group, of XML and of HTML, outside comments."""
    head = _COMMENT.sub(lambda found: " " * len(found[0]), head)
    yield from filter(None, (XML_ENCODING.match(head), _META_CHARSET.search(head)))


def from_legacy(content: bytes, encoding: str) -> bytes:
    """`content` in UTF-8. Raises UnreadableDocument."""
    try:
        return content.decode(_CODECS.get(encoding, encoding)).encode()
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is 0x{content[error.start]:02x}"
        raise UnreadableDocument(f"The file is not {encoding}, which it declares: {where}. Save it as UTF-8.") from None


def to_legacy(content: bytes, encoding: str, is_html: bool) -> bytes:
    """The reverse; HTML has references for what `encoding` lacks. Raises WrongOption."""
    try:
        return content.decode().encode(_CODECS.get(encoding, encoding), "xmlcharrefreplace" if is_html else "strict")
    except UnicodeEncodeError as error:
        lacks = f"The translation has {error.object[error.start]!r}, which {encoding} lacks."
        raise WrongOption("encoding", f"{lacks} Leave the option out, to get UTF-8.") from None


def unicode_charset(content: bytes) -> str:
    """The charset to name for a text."""
    return "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"


def declare_utf8(text: str) -> str:
    """A page that declares UTF-8 in the place of an encoding that is not Unicode."""
    for found in reversed(list(_declarations(text[:_HEAD_CHARS]))):
        if not _SUPPORTED_NAME.fullmatch(found[1]):
            text = f"{text[: found.start(1)]}utf-8{text[found.end(1) :]}"
    return text


def escape_above(limit: int, text: str, prefix: str) -> str:
    """`text` with characters above the code point `limit` as their UTF-16 code units, `prefix` and four digits each."""
    return text if max(text, default="") <= chr(limit) else "".join(_escaped(limit, one, prefix) for one in text)


def _escaped(limit: int, character: str, prefix: str) -> str:
    if ord(character) <= limit:
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"{prefix}{units[place : place + 4]}" for place in range(0, len(units), 4))


def join_surrogates(text: str) -> str:
    """`text`, in which escapes may have spelled a character as two halves; a lone half becomes U+FFFD."""
    if not any("\ud800" <= one <= "\udfff" for one in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
