"""Grammars of hostile packages, PDFs, pages and subtitles; see benchmarks/grammars.py.

What a package or a PDF holds is packed: a file's text is repeated as often as leaves it within 4 KB, up to what a package may hold.
"""

# ruff: noqa: E501  # tables of short pieces, several on a line
from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.grammars import NUMBER, Grammar

_PACKED_BYTES, _UNPACKED_BYTES = 4_096, 125_000


def _repeated(build: Callable[[str], bytes], text: str) -> bytes:
    """The file with `text` as often as leaves it within 4 KB."""
    count = max(1, _UNPACKED_BYTES // max(1, len(text)))
    while count > 1 and len(build(text * count)) > _PACKED_BYTES:
        count //= 2
    return build(text * count)


def _zip(parts: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in parts.items():
            archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
    return out.getvalue()


def _office(kind: str, main: str, parts: Mapping[str, str], text: str) -> bytes:
    """An Office document with `text` in the place of TEXT."""
    types = "".join(
        f'<Override PartName="/{name}" ContentType="application/vnd.openxmlformats-officedocument.{content_type}+xml"/>'
        for name, content_type in _TYPES[kind].items()
    )
    listed = {"[Content_Types].xml": f"<Types>{types}</Types>", **parts}
    return _zip({name: content.replace("TEXT", text) for name, content in listed.items()})


def _open_document(suffix: str, text: str) -> bytes:
    kind = {"odt": "text", "ods": "spreadsheet", "odp": "presentation"}[suffix]
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "table", "drawing", "style", "presentation")
    )
    content = (
        f"<office:document-content {names}><office:automatic-styles/><office:body><office:{kind}>{text}"
        f"</office:{kind}></office:body></office:document-content>"
    )
    return _zip({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content})


def _book(part: str, text: str) -> bytes:
    opf = (
        '<package><metadata><title>A book</title></metadata><manifest><item id="a" href="a.xhtml"'
        ' media-type="application/xhtml+xml"/>OPF</manifest><spine><itemref idref="a"/>SPINE</spine></package>'
    )
    root = '<container><rootfiles><rootfile full-path="b.opf"/>ROOTS</rootfiles></container>'
    page = "<html><body>PAGE</body></html>"
    parts = {"META-INF/container.xml": root, "b.opf": opf, "a.xhtml": page}
    known = {"ROOTS": "", "OPF": "", "SPINE": "", "PAGE": "<p>A page.</p>", part: text}
    for name, content in known.items():
        parts = {key: value.replace(name, content) for key, value in parts.items()}
    return _zip({"mimetype": "application/epub+zip", **parts})


_TYPES = {
    "word": {"word/document.xml": "wordprocessingml.document.main"},
    "slides": {"ppt/presentation.xml": "presentationml.presentation.main"},
    "book": {"xl/workbook.xml": "spreadsheetml.sheet.main", "xl/tables/t.xml": "spreadsheetml.table"},
}
_RELATIONSHIP = '<Relationship Id="{}" Type="x/{}" Target="{}"/>'
_WORD = {
    "word/document.xml": '<w:document xmlns:w="x/wordprocessingml/main" xmlns:mc="mc" xmlns:wp="wp"><w:body>TEXT</w:body>'
    "</w:document>"
}
_SLIDES = {
    "ppt/presentation.xml": '<p:presentation xmlns:p="p" xmlns:r="r"><p:sldIdLst><p:sldId r:id="a"/></p:sldIdLst>'
    "</p:presentation>",
    "ppt/_rels/presentation.xml.rels": f"<R>{_RELATIONSHIP.format('a', 'slide', 'slide.xml')}</R>",
    "ppt/slide.xml": '<p:sld xmlns:p="p" xmlns:a="x/drawingml/main" xmlns:mc="mc"><p:cSld>TEXT</p:cSld></p:sld>',
}
_BOOK = {
    "xl/workbook.xml": '<workbook><sheets><sheet name="Some words"/><sheet name="Others"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": (
        f"<R>{_RELATIONSHIP.format('a', 'sharedStrings', 'strings.xml')}"
        f"{_RELATIONSHIP.format('b', 'worksheet', 'sheet.xml')}</R>"
    ),
    "xl/strings.xml": "<sst><si><t>Some words</t></si>STRINGS</sst>",
    "xl/sheet.xml": "<worksheet><sheetData>SHEET</sheetData></worksheet>",
    "xl/tables/t.xml": '<table><tableColumns><tableColumn name="Some words"/>COLUMNS</tableColumns></table>',
}


def _workbook(place: str, text: str) -> bytes:
    known = {"STRINGS": "", "SHEET": "", "COLUMNS": "", place: text}
    parts = dict(_BOOK)
    for name, content in known.items():
        parts = {key: value.replace(name, content) for key, value in parts.items()}
    return _office("book", "", parts, "")


def _package_grammars() -> tuple[Grammar, ...]:
    runs = (
        "<w:r><w:t>some words </w:t></w:r>", f"<w:r><w:rPr><w:b w:val='{NUMBER}'/></w:rPr><w:t>w </w:t></w:r>", "<w:t>a</w:t>",
        "<w:r><w:fldChar w:fldCharType='begin'/></w:r>", "<w:r><w:fldChar w:fldCharType='separate'/></w:r>", "<w:r><w:tab/></w:r>",
        "<w:r><w:fldChar w:fldCharType='end'/></w:r>", "<w:r><w:instrText>HYPERLINK</w:instrText></w:r>", "<w:bookmarkStart/>",
        "<w:r><w:drawing><wp:inline><wp:docPr descr='a word'/></wp:inline></w:drawing></w:r>", "<w:proofErr/>", "word ", "<!-- -->",
    )  # fmt: skip
    word_nests = (
        ("<w:p>", "</w:p>"), ("<w:p><w:r><w:t>a word</w:t></w:r>", "</w:p>"), ("<w:r>", "</w:r>"), ("<w:hyperlink>", "</w:hyperlink>"),
        ("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"), ("<mc:AlternateContent>", "</mc:AlternateContent>"),
        ("<mc:Choice>", "</mc:Choice>"), ("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"), ("<w:pict>", "</w:pict>"),
        ("<w:fldSimple w:instr='HYPERLINK'>", "</w:fldSimple>"), ("<w:p><w:hyperlink><w:r><w:t>w</w:t></w:r>", "</w:hyperlink></w:p>"),
    )  # fmt: skip
    shown = (
        "<a:r><a:t>some words </a:t></a:r>", f"<a:r><a:rPr b='{NUMBER}'/><a:t>w </a:t></a:r>", "<a:br/>", "<a:fld><a:t>1</a:t></a:fld>",
        "<p:cNvPr descr='a word'/>", "<a:p/>", "<a:endParaRPr/>", "words ",
    )  # fmt: skip
    shown_nests = (
        ("<a:p>", "</a:p>"), ("<a:p><a:r><a:t>a word</a:t></a:r>", "</a:p>"), ("<mc:AlternateContent>", "</mc:AlternateContent>"),
        ("<a:r>", "</a:r>"), ("<p:sp textlink='A1'>", "</p:sp>"),
    )  # fmt: skip
    strings = (
        "<si><t>some words</t></si>", f"<si><t>word {NUMBER}</t></si>", "<r><t>w </t></r>", "<r><rPr><b/></rPr><t>word </t></r>",
        "<t>word _x000a_ </t>", "<t>_x000d_</t>", "<rPh><t>a</t></rPh>", "<tableColumn name='a'/>", f"<tableColumn name='c{NUMBER}'/>",
        "<c t='inlineStr'><is><t>a word</t></is></c>", "<f>'Some words'!A1</f>", "'a", "''", "a!", "[a]", "sheet='a'", "&apos;a", "[",
    )  # fmt: skip
    string_nests = (
        ("<si>", "</si>"),
        ("<r>", "</r>"),
        ("<c t='inlineStr'><is>", "</is></c>"),
        ("<f>", "</f>"),
        ("<row>", "</row>"),
    )
    odf = (
        "some words ", "<text:s text:c='999999999'/>", "<text:tab/>", "<text:line-break/>", "<text:p>a word</text:p>", "<text:note/>",
        "<text:date>1</text:date>", "<table:table-cell table:number-columns-repeated='1000000'><text:p>a word</text:p></table:table-cell>",
        "<table:table-row table:number-rows-repeated='1000000'/>", "<text:soft-page-break/>", "<drawing:frame/>", "  \n",
    )  # fmt: skip
    odf_nests = (
        ("<text:p>", "</text:p>"), ("<text:p>a word", "</text:p>"), ("<text:span>", "</text:span>"), ("<text:span>a", "</text:span>"),
        ("<text:a>", "</text:a>"), ("<text:ruby><text:ruby-base>", "</text:ruby-base></text:ruby>"), ("<text:note>", "</text:note>"),
        ("<table:table-cell office:value-type='string' office:string-value='a'>", "</table:table-cell>"), ("<text:list>", "</text:list>"),
        ("<text:sequence>", "</text:sequence>"), ("<office:annotation>", "</office:annotation>"), ("<drawing:frame>", "</drawing:frame>"),
    )  # fmt: skip
    opf = (
        '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/>', '<item id="n" properties="nav" href="a.xhtml"/>',
        f'<item id="i{NUMBER}" href="a.xhtml" media-type="application/x-dtbncx+xml"/>', '<itemref idref="a"/>',
        '<rootfile full-path="b.opf"/>', '<rootfile full-path="./b.opf"/>',
    )  # fmt: skip
    word = partial(_office, "word", "", _WORD)
    slides = partial(_office, "slides", "", _SLIDES)
    return (
        *_packed("docx", ".docx", (*runs, "<w:p><w:r><w:t>a word</w:t></w:r></w:p>", "<w:p/>"), word_nests, word),
        *_packed("docx-paragraph", ".docx", runs, word_nests, word, "<w:p>", "</w:p>"),
        *_packed("pptx", ".pptx", shown, shown_nests, slides),
        *_packed("xlsx-strings", ".xlsx", strings, string_nests, partial(_workbook, "STRINGS")),
        *_packed("xlsx-sheet", ".xlsx", strings, string_nests, partial(_workbook, "SHEET")),
        *_packed("xlsx-columns", ".xlsx", strings, string_nests, partial(_workbook, "COLUMNS")),
        *_packed("odt", ".odt", odf, odf_nests, partial(_open_document, "odt")),
        *_packed("odt-paragraph", ".odt", odf, odf_nests, partial(_open_document, "odt"), "<text:p>", "</text:p>"),
        *_packed("ods", ".ods", odf, odf_nests, partial(_open_document, "ods")),
        *_packed("odp", ".odp", odf, odf_nests, partial(_open_document, "odp")),
        *_packed("epub-page", ".epub", _HTML, _HTML_NESTS, partial(_book, "PAGE")),
        *_packed("epub-list", ".epub", opf, (), partial(_book, "OPF")),
        *_packed("epub-spine", ".epub", opf, (), partial(_book, "SPINE")),
        *_packed("epub-roots", ".epub", opf, (), partial(_book, "ROOTS")),
    )  # fmt: skip


def _packed(
    name: str,
    suffix: str,
    pieces: Sequence[str],
    nests: Sequence[tuple[str, str]],
    build: Callable[[str], bytes],
    before: str = "",
    after: str = "",
) -> Iterator[Grammar]:
    """A grammar of a package's text, once and repeated."""
    given: dict[str, Any] = {"target": "ar", "source": "en"}
    options = [given, {**given, "sheet_names": True}] if suffix == ".xlsx" else [given]

    def built(text: str) -> bytes:
        return build(f"{before}{text}{after}")

    yield Grammar(name, suffix, pieces, nests, options=options, build=built)
    yield Grammar(f"{name}-repeated", suffix, pieces, nests, options=options, build=partial(_repeated, built))


def _pdf(kind: str, text: str) -> bytes:
    """A PDF in which `text` is the page's content, its font's letters, or objects."""
    data = text.encode("latin-1", "replace")
    drawn = data if kind == "content" else b"BT /F1 12 Tf (Hello there AAAA) Tj ET"
    letters = data if kind == "letters" else b""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources"
        b"<</Font<</F1 5 0 R/F2 6 0 R>>/XObject<</X 4 0 R>>>>>>",
        _stream(drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/X/ToUnicode 7 0 R>>",
        _stream(letters),
        *([data] if kind == "objects" else []),
    ]
    out = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % one for one in enumerate(objects, 1))
    return out + b"trailer<</Root 1 0 R>>\n"


def _stream(data: bytes) -> bytes:
    packed = zlib.compress(data, 9)
    return b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(packed), packed)


def _pdf_grammars() -> tuple[Grammar, ...]:
    numbers = ("0 ", "1 ", "37 ", "-5.5 ", "1e9 ", "99999999 ")
    content = (
        *numbers, "(a) Tj ", "(word here) Tj ", "<41> Tj ", "[(a)-500(b)] TJ ", "(a) ' ", "1 0 0 1 37 91 Tm ",
        f"1 0 0 1 {NUMBER} {NUMBER} Tm (w) Tj ", f"1 0 0 1 {NUMBER} 91 Tm (w) Tj ", f"{NUMBER} 2 Td (w) Tj ",
        "/F1 1 Tf ", "/F2 900 Tf ", "/F9 1 Tf ", "q ", "Q ", "1 0 0 1 9 9 cm ", "/X Do ", "BT ", "ET ", "\\n", "(\\053) ",
        "/A#41 ", f"/N{NUMBER} gs ", "0 0 m 9 9 l S ", "0 0 9 9 re f ", "BI /W 1 /H 1 ID EEEEI ", "EI ", "% c\n", "xyz ",
        "/Pattern cs /P scn ", "T* ", "<", ">", "\0\0",
    )  # fmt: skip
    letters = (
        "1 beginbfchar <41> <0041> endbfchar ", "1 beginbfrange <0000> <ffff> <0041> endbfrange ", "<41> ", "<0041>",
        "1 beginbfrange <00000000> <7fffffff> <0041> endbfrange ", f"<{NUMBER}> ", "beginbfchar ", "endbfchar ",
        "/Adobe-Japan1-UCS2 usecmap ", "1 begincidrange <0000> <ffff> 0 endcidrange ", "beginbfrange ", "endbfrange ",
        "[<0041>] ", "1 ", "/x ", "def ",
    )  # fmt: skip
    objects = (
        "8 0 R ", "9 0 R ", "1 0 R ", f"{NUMBER} 0 R ", "<</Type/Pages/Kids[8 0 R 2 0 R]>> ", f"\nendobj\n{NUMBER} 0 obj\n",
        "/Kids ", "/Type/Page ", "/K ", "1 ", "(a) ", "\nstream\n", "\nendstream\n", "null ", "\nendobj\n9 0 obj\n", "xref\n0 1\n",
        "\nendobj\n2 0 obj\n<</Type/Pages/Kids[8 0 R 9 0 R]>>", "\nendobj\n8 0 obj\n<</Type/Page/Contents[4 0 R 4 0 R]>>",
        "\nendobj\n5 0 obj\n<</Type/Font/Subtype/Type1/Widths 8 0 R>>", "trailer<</Root 1 0 R/Prev 9>>\n", "/W[0 99999999 1] ",
        "<</Type/Font/Subtype/CIDFontType2/CIDSystemInfo<</Registry(Adobe)/Ordering(GB1)>>/Encoding/UniGB-UCS2-H/W[0 9999999 1]>>",
    )  # fmt: skip
    nests = (("[", "]"), ("<<", ">>"), ("(", ")"), ("{", "}"))
    return tuple(
        grammar
        for name, pieces, more in (
            ("content", content, (("q ", "Q "), ("BT /F1 1 Tf ", "ET "))),
            ("letters", letters, ()),
            ("objects", objects, ()),
        )
        for grammar in _packed(f"pdf-{name}", ".pdf", pieces, (*nests, *more), partial(_pdf, name))
    )


_HTML = (
    "word ", "<br>", "<p>", "<img alt='a'>", "<img alt='", "&amp;", "&nbsp;", "&shy;", "&#65;", "&", "&amp", "<!-- c -->", "<!--", "<!",
    "<a href='x'>", "</b>", "\n", "\ufdd20\ufdd3", "<a ", "b='c' ", "title='a word' ", "=", "'", '"', "<", "</", ">", "<![CDATA[", "]]>",
    "<?php x ?>", "<%= x %>", "<script>", "</script>", "<input value='a' type=button>", "a word. ", "<x", "/", "\t", "<td>", "<li>",
)  # fmt: skip
_HTML_NESTS = (
    ("<b>", "</b>"), ("<b>a", "</b>"), ("<div>", "</div>"), ("<table><tr><td>", "</td></tr></table>"), ("<ul><li>", "</li></ul>"),
    ("<a href='x'>", "</a>"), ("<x>", "</x>"), ("<code>", "</code>"), ("<svg>", "</svg>"), ("<p>", ""), ("<b translate=no>", "</b>"),
    ("<a>", "</b>"), ("<span title='a word'>", "</span>"), ("<pre>", "</pre>"),
)  # fmt: skip
_MARKDOWN = (
    "word ", "*", "**", "_", "`", "``", "[", "]", "(", ")", "![", "[a](b)", "[a][b]", "[a]: b\n", f"[a{NUMBER}]: b 'word'\n", "\n", "\n\n",
    "> ", "- ", "1. ", "    ", "\t", "# ", "===\n", "---\n", "|", "| a | b |\n", "|-|-|\n", "<b>", "</b>", "<!--", "-->", "&amp;", "\\", "~~",
    "[^a]", "[^a]: word\n", "^[", "<http://a>", "```\n", "~", "!", "a*", "*a", "_a_ ", "<", ">", "'", '"', ":", "title: a\n", "  \n", "[x] ",
    "\\\n", "<a ", "&", "<![CDATA[", "<?", "\xa0",
)  # fmt: skip
_MARKDOWN_NESTS = (
    ("[", "](a)"), ("![", "](a)"), ("*", "*"), ("**", "**"), ("_", "_"), ("> ", ""), ("- ", ""), ("1. ", ""), ("<b>", "</b>"), ("`", "`"),
    ("[", "]"), ("(", ")"), ("^[", "]"), ("*a **a ", "** *"), ("~~", "~~"), ("[a](", ")"), ("[a](<", ">)"),
)  # fmt: skip
_MARKDOWN_EXTENDED = (
    "word ", "\n", "\n\n", "    ", "$", "$$", "$$\n", "\\$", "\\begin{a}\n", "\\end{a}\n", ":::note\n", ":::\n", "::: a word\n", ":::", "::a[b]{c}\n",
    ":a[", "]{b}", "]", '!!! note "word"\n', "!!! a\n    ", "??? a\n", '=== "a"\n    ', "```{note} word\n", "```\n", ":a: b\n", "[[", "]]", "[[a|b]]", "|",
    "==", "==a", "a==", "{#a}", "{", "}", "{.a b=c}", "{a}`b`", "{a}`", "`", "<A b={", "<A b={c} ", "}>\n", "<A\n", "<A>", "</A>", "<a-b ", ' @c="', '"',
    "import {", "} from 'a'\n", "import a from 'b'\n", "export {\n", "{/*", "*/}\n", "> ", "- ", "*", "[", "(", ":", "a", "<", "=", "+++\n", 'title = "word"\n',
    "title = [",
)  # fmt: skip
_MARKDOWN_EXTENDED_NESTS = (
    ("[[a|", "]]"), ("==a ", " a=="), (":a[", "]"), ("{a=", "}"), ("<A b={", "}>"), ("!!! a\n    ", "\n"), ("> ", ""), ("- ", ""), ("$", "$"),
    (":::a\n", "\n:::\n"), ("```{note}\n", "\n```\n"), ("*", "*"), ("[", "](a)"),
)  # fmt: skip
_RST = (
    "word ", "Word", "\n", "\n\n", "  ", "    ", "\t", "*", "**", "`", "``", "|", "_", "__", "\\", "`a <b>`_ ", "a_ ", "[1]_ ", ":a:`b c <d>`", ":a:`", "::\n\n", "<", ">",
    "- ", "* ", "1. ", "#. ", "i. ", ":a: ", "-a  ", "--a=b, /c  ", "| ", ">>> ", "=====\n", "---\n", "== ==\n", "a  b\n", "+--+--+\n", "|a |b |\n", "+==+==+\n", "+--", "+", "|", "=",
    "a-", "-", ".", ".. note:: ", ".. a:: ", ".. list-table:: a\n\n", "   * - a\n", ".. glossary::\n\n", "   a\n     b\n", ".. toctree::\n\n", "   a <b>\n", ".. figure:: a\n", "   :alt: b\n",
    ".. [1] ", ".. _a: b\n", ".. _`a`: ", ".. |a| b:: ", ".. ", "__ a\n", "-- a\n", "\u4e00", "e\u0301", f"A {NUMBER}\n====\n\n", f"`A {NUMBER}`_ ", ".. only:: a\n\n", "a\n  b\n",
)  # fmt: skip
_RST_NESTS = (
    ("- ", ""),
    ("  ", ""),
    (".. note:: ", ""),
    ("*", "*"),
    ("`a ", "`_"),
    ("+-\n|", "|\n+-"),
    ("1. ", ""),
    (":a: ", ""),
    ("\n ", ""),
    ("(", ")"),
)
_TEXT = (
    "word ", "a\n", "\n", "  ", "Some words of a line that is as long as lines are in hard-wrapped texts,\n", "- a\n", ". ", ".", "\t", "|", "`",
    ")", "\u4e00", "\u3000", "-\n", "\u2028", "{;", "\x0c", "\r", "\r\n", "!", '"', "    a b c\n",
)  # fmt: skip
_TIMES = "00:00:01,000 --> 00:00:02,000\n"
_CUES = (
    "word ", "\n", "\n\n", f"\n\n1\n{_TIMES}", "<b>", "</b>", "<", ">", "{\\an8}", "{", "}", "- ", "<00:01.000>", "&amp;", "<a", "a", "1", "\u4e00",
    "NOTE\n", "STYLE\n", "--> ", ". ", "...", "<c.x>", "\r",
)  # fmt: skip
_EVENTS = (
    "word ", "\\N", "\\h", "{\\i1}", "{\\i0}", "{\\p1}", "{", "}", "\nDialogue: 0,0,0,a,b,0,0,0,,", ",", "\nFormat: a, Text\n", "\n[Events]\n", "- ",
    "[", "]", "{\\", "\\p", ".", "\u4e00", "\nDialogue:a,",
)  # fmt: skip

GRAMMARS = (
    Grammar("html", ".html", _HTML, _HTML_NESTS),
    Grammar("markdown", ".md", _MARKDOWN, _MARKDOWN_NESTS),
    Grammar("markdown-front", ".md", _MARKDOWN, _MARKDOWN_NESTS, before="---\n", after="\n---\n"),
    Grammar("markdown-extended", ".md", _MARKDOWN_EXTENDED, _MARKDOWN_EXTENDED_NESTS),
    Grammar("markdown-toml", ".md", _MARKDOWN_EXTENDED, _MARKDOWN_EXTENDED_NESTS, before="+++\n", after="\n+++\n"),
    Grammar("rst", ".rst", _RST, _RST_NESTS),
    Grammar("txt", ".txt", _TEXT, options=({"target": "ar"}, {"target": "ar", "line_breaks": "join"})),
    Grammar("srt", ".srt", _CUES, (("<b>", "</b>"), ("<i>a", "</i>")), before=f"1\n{_TIMES}"),
    Grammar("vtt", ".vtt", _CUES, (("<b>", "</b>"), ("<i>a", "</i>")), before=f"WEBVTT\n\n{_TIMES.replace(',', '.')}"),
    Grammar("ass", ".ass", _EVENTS, (("{\\i1}", "{\\i0}"), ("{\\b1}a", "{\\b0}")), before="[Events]\nDialogue: 0,0,0,a,b,0,0,0,,"),
    *_package_grammars(),
    *_pdf_grammars(),
)  # fmt: skip
