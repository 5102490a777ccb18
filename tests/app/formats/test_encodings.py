"""Texts and pages in the encoding that they declare: read in it, and written as UTF-8 or in it again."""

from __future__ import annotations

import pytest

from app.formats import UnreadableDocument, WrongOption, read
from tests.app.formats.test_formats import as_it_was, shouted, texts

PAGE = '<html><head><meta charset="{}"><title>{}</title></head><body><p>{}</p></body></html>'


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("windows-1252", "cp1252", "L’été à Noël"),
        ("ISO-8859-1", "cp1252", "L’été"),
        ("iso-8859-2", "iso-8859-2", "Příliš žluťoučký"),
        ("KOI8-R", "koi8-r", "Привет"),
        ("windows-1251", "cp1251", "Привет"),
        ("gb2312", "gbk", "你好"),
        ("GB18030", "gb18030", "你好𠮷"),
        ("Big5", "big5", "你好"),
        ("Shift_JIS", "cp932", "こんにちは"),
        ("euc-kr", "cp949", "안녕"),
    ],
)
def test_page_is_read_in_the_encoding_that_it_declares(charset: str, codec: str, text: str) -> None:
    page = PAGE.format(charset, text, "Hello")
    document = read("a.html", page.encode(codec))
    assert texts(document) == [text, "Hello"]
    assert document.media_type == "text/html"  # in UTF-8, which is declared
    assert as_it_was(document).decode() == PAGE.format("utf-8", text, "Hello")
    kept = read("a.html", page.encode(codec), encoding="keep")
    assert as_it_was(kept) == page.encode(codec)
    assert kept.media_type.startswith("text/html; charset=")
    lacking = "\u2603".encode(codec, "xmlcharrefreplace").decode(codec)
    assert kept.write([text, "\u2603"]).decode(codec) == PAGE.format(charset, text, lacking)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "Été"),
        ("a.md", "# Été"),
        ("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nÉté\n"),
        ("a.csv", "en,fr\nÉté,\n"),
    ],
)
def test_text_is_read_in_the_encoding_that_who_sends_it_declares(name: str, text: str) -> None:
    columns = "en" if name == "a.csv" else ""
    document = read(name, text.encode("cp1252"), charset="Windows-1252", columns=columns)
    assert texts(document) == ["Été"]
    assert as_it_was(document).decode() == text
    kept = read(name, text.encode("cp1252"), encoding="keep", charset="windows-1252", columns=columns)
    assert as_it_was(kept) == text.encode("cp1252")
    assert kept.media_type.endswith("; charset=windows-1252")
    with pytest.raises(WrongOption, match="'猫', which windows-1252 lacks"):
        kept.write(["猫"])


def test_an_instruction_of_xml_declares_the_encoding() -> None:
    page = '<?xml version="1.0" encoding="ISO-8859-2"?><html><p>Příliš</p></html>'
    assert shouted(read("a.xhtml", page.encode("iso-8859-2"))).decode() == page.replace("ISO-8859-2", "utf-8").replace(
        "Příliš", "PŘÍLIŠ"
    )


@pytest.mark.parametrize(
    ("content", "charset"),
    [
        ("Été".encode("utf-8-sig"), "windows-1252"),
        ("Été".encode("utf-16"), "windows-1252"),
        ("Été".encode("utf-16-le"), "utf-16le"),
        ("Été".encode(), "UTF-8"),
    ],
)
def test_byte_order_mark_comes_before_what_is_declared(content: bytes, charset: str) -> None:
    assert texts(read("a.txt", content, charset=charset)) == ["Été"]


def test_charset_of_the_sender_comes_before_that_of_the_page() -> None:
    page = PAGE.format("koi8-r", "Été", "Hello").encode("cp1252")
    assert texts(read("a.html", page, charset="windows-1252")) == ["Été", "Hello"]


def test_utf16_is_named_as_such() -> None:
    document = read("a.txt", "Hi".encode("utf-16"))
    assert document.media_type == "text/plain; charset=utf-16"
    assert as_it_was(document) == "Hi".encode("utf-16")


@pytest.mark.parametrize(
    "before",
    [
        '<!-- <meta charset="shift_jis"> -->',
        '<meta name="description" content="About charset=big5, and more">',
        "<meta name=a content='text: charset=big5'/>",
        "<title>charset=big5</title>",
    ],
)
def test_only_a_meta_element_declares_an_encoding(before: str) -> None:
    page = f'<html><head>{before}<meta http-equiv="Content-Type" content="text/html; charset=windows-1252">Été'
    document = read("a.html", page.encode("cp1252"))
    assert texts(document)[-1] == "Été"
    assert as_it_was(document).decode() == page.replace("windows-1252", "utf-8")
    page = f"<html><head>{before}<p>Été"
    assert as_it_was(read("a.html", page.encode())).decode() == page


def test_hostile_declarations_are_read_in_time() -> None:
    for piece in ("<meta", "<meta a", "<meta a=", '<meta a="', "<meta a=b c", "<!--", "<meta content=a/b;"):
        page = (piece * 4_000).encode()
        assert as_it_was(read("a.html", page)) == page


def test_xml_in_another_encoding_is_named_as_such() -> None:
    head = '<?xml version="1.0" encoding="windows-1252"?>'
    content = f'{head}<root><data name="a"><value>Été</value></data></root>'.encode("cp1252")
    document = read("a.resx", content)
    assert as_it_was(document) == content
    assert document.media_type == "text/microsoft-resx; charset=windows-1252"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
def test_text_in_unmarked_utf_16_is_refused(codec: str) -> None:
    with pytest.raises(UnreadableDocument, match="UTF-16 or UTF-32 that does not say so"):
        read("a.txt", "Hello.".encode(codec))


@pytest.mark.parametrize(
    ("content", "charset", "fault"),
    [
        (b"a\x81", "latin1", "not windows-1252, which it declares: byte 1 is 0x81"),
        (b"\xff", "utf-8", "not UTF-8: byte 0 is 0xff"),
        (b"a", "utf-7", "declares the encoding 'utf-7'"),
        (b"a", "unicode_escape", "declares the encoding 'unicode_escape'"),
        (b"a", "a" * 10_000, "declares the encoding"),
    ],
)
def test_wrong_and_unknown_encodings_are_refused(content: bytes, charset: str, fault: str) -> None:
    with pytest.raises(UnreadableDocument, match=fault) as error:
        read("a.txt", content, charset=charset)
    assert len(str(error.value)) < 300


SAID = {
    "en": "The café’s naïve façade – “Hello.” It is €5.",
    "de": "Die Straße ist gesperrt. Wir können später fahren, wenn die Brücke geöffnet ist.",
    "fr": "Où est passé le garçon ? Il a mangé à l'hôtel, près de la forêt.",
    "ru": "Где находится ближайшая станция? Мы приедем завтра вечером.",
    "es": "¿Dónde está el niño?",
    "pl": "Zażółć gęślą jaźń. Proszę przyjść jutro wieczorem.",
    "cs": "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "lt": "Ačiū, širdinga žmogau.",
    "el": "Πού είναι ο σταθμός; Θα έρθουμε αύριο το βράδυ.",
    "tr": "Yarın akşam geleceğiz. İstasyon nerede?",
    "zh": "你好，世界。今天天气很好，我们去公园散步吧。",
    "zh-TW": "你好，世界。今天天氣很好，我們去公園散步吧。",
    "ja": "こんにちは。明日は雨が降るそうです。",
}


def subtitles(language: str) -> str:
    return f"1\r\n00:00:01,000 --> 00:00:04,000\r\n{SAID[language]}\r\n\r\n"


@pytest.mark.parametrize(
    ("language", "encoding", "codec"),
    [
        ("en", "windows-1252", "cp1252"),
        ("de", "windows-1252", "cp1252"),
        ("de", "ibm850", "cp850"),
        ("de", "macintosh", "mac_roman"),
        ("fr", "windows-1252", "cp1252"),
        ("fr", "macintosh", "mac_roman"),
        ("es", "windows-1252", "cp1252"),
        ("es", "ibm850", "cp850"),
        ("pl", "windows-1250", "cp1250"),
        ("pl", "iso-8859-2", "iso8859_2"),
        ("cs", "windows-1250", "cp1250"),
        ("cs", "ibm852", "cp852"),
        ("lt", "windows-1257", "cp1257"),
        ("ru", "windows-1251", "cp1251"),
        ("ru", "koi8-r", "koi8_r"),
        ("el", "windows-1253", "cp1253"),
        ("tr", "windows-1254", "cp1254"),
        ("zh", "gb18030", "gb18030"),
        ("zh-TW", "big5", "big5"),
        ("ja", "shift_jis", "cp932"),
    ],
)
def test_the_language_and_the_bytes_say_which_encoding_it_is(language: str, encoding: str, codec: str) -> None:
    content = subtitles(language).encode(codec)
    document = read("a.srt", content, source=language)
    assert document.evident_encoding == encoding
    assert texts(document) == [SAID[language]]
    assert as_it_was(document) == subtitles(language).encode()
    kept = read("a.srt", content, source=language, encoding="keep")
    assert (as_it_was(kept), kept.media_type) == (content, f"application/x-subrip; charset={encoding}")


def test_ideographs_are_evident_in_any_language() -> None:
    assert read("a.txt", SAID["zh"].encode("gb18030"), source="auto").evident_encoding == "gb18030"


@pytest.mark.parametrize(
    ("language", "codec", "source"),
    [
        ("fr", "cp1252", "auto"),  # "Oů est passé" is possible, too
        ("es", "cp1252", "auto"),  # a few bytes may be of any language
        ("pl", "cp1250", "de"),
        ("ru", "cp1251", "de"),
        ("ja", "cp932", "fr"),
    ],
)
def test_what_is_not_evident_is_refused(language: str, codec: str, source: str) -> None:
    with pytest.raises(UnreadableDocument, match=r"not UTF-8: byte \d+ is 0x.., and its encoding is not evident"):
        read("a.srt", subtitles(language).encode(codec), source=source)


def test_what_is_declared_or_in_unicode_is_not_guessed() -> None:
    assert read("a.txt", "Été.".encode(), source="fr").evident_encoding == ""
    assert read("a.txt", "Été.".encode("utf-16"), source="fr").evident_encoding == ""
    assert read("a.txt", "Été.".encode("cp1252"), source="fr", charset="latin1").evident_encoding == ""
    page = f'<meta charset="utf-8"><p>{SAID["fr"]}'.encode("cp1252")
    with pytest.raises(UnreadableDocument, match="not UTF-8"):
        read("a.html", page, source="fr")
