"""Grammars of hostile catalogues, tables and reviews; see benchmarks/grammars.py."""

from __future__ import annotations

import re
from functools import cache
from time import process_time
from typing import Any

from app.formats import Document, read
from app.formats.review import Reviewed, Unit, read_xliff, translations_of, units_of, write_xliff
from benchmarks.grammars import NUMBER, Grammar

_INTO: tuple[dict[str, Any], ...] = (
    {"target": "ar", "source": "en"},
    {"target": "ru", "source": "en"},
    {"target": "zh"},
    {},
)
_PATHS = [{**_INTO[0], "paths": paths} for paths in ("$..*", "$..a..*..b, $.*.*, $..[0]", "$" + ".*" * 30)]
_ICU = (
    "{n,plural,other{",
    "{n, plural, one {# file} other {# files}}",
    "{s,select,a{x}other{y}}",
    "}}",
    "{a}",
    "'{'",
    "#",
    "word ",
    "{n, selectordinal, two {#nd} other {#th}}",
)
_LABELS = ("&Open ", "_Save ", "(&O)", "R&D", "%d files", "%(n)s", "%1$d ", "{0", "{0}", "&&")
_XML = ("word ", "&amp;", "&#x41;", "<![CDATA[<b>x</b>]]>", "<![CDATA[<!--]]>", "<!-- c -->", "<?p i?>", "\n", "   ")


def _json(text: str) -> bytes:
    """`text` without the commas that JSON does not allow."""
    return re.sub(r",+(?=\s*[}\]])", "", text).encode()


def _quoted(pieces: tuple[str, ...], before: str, after: str) -> tuple[str, ...]:
    return tuple(f"{before}{piece}{after}" for piece in pieces)


_XCSTRINGS_UNIT = '"stringUnit":{"state":"new","value":"word %d"},'
_ANDROID_ITEM = '<item quantity="other">%d files</item>'
_FORMS = ("zero", "one", "two", "few", "many", "other")

_REVIEWED = b"<p>Hello <b>world</b> and <i>more</i><br> of <code>it</code>.</p><p>Two.</p>"


@cache
def _reviewed() -> tuple[Document, list[Unit], str]:
    document = read("a.html", _REVIEWED, "fr")
    units = units_of(document.passages, document.locations)
    reviewed = [Reviewed(unit.source, None, [], []) for unit in units]
    return document, units, write_xliff("a.html", ("en", "fr"), units, reviewed, "model").decode()


def _review(text: str) -> bytes:
    """A review whose first target is `text`, with the codes that it needs."""
    target = re.compile(r"(<target[^>]*>)([^\n]*)(</target>)")
    return target.sub(lambda found: f"{found[1]}{found[2]}{text}{found[3]}", _reviewed()[2], count=1).encode()


def _read_review(_: str, content: bytes, __: dict[str, Any]) -> list[float]:
    document, units, _xliff = _reviewed()
    began = process_time()
    document.write(translations_of(document.passages, units, read_xliff(content, units)))
    return [process_time() - began]


GRAMMARS = (
    Grammar(
        "yaml",
        ".yaml",
        (
            f"k{NUMBER}: Hello\n",
            "- word\n",
            "word words,",
            "&a ",
            "*a,",
            "&a [*a,*a],",
            "<<: *a\n",
            "a: ",
            "? ",
            "!x ",
            "!!str ",
            "'it''s',",
            '"\\u0041",',
            "| \n  line\n",
            "> \n  word word word word word word word word word word\n",
            "1:1:1:1",
            "  ",
            "# c\n",
            "\n",
            "---\n",
            *_quoted(_ICU, "- '", "'\n"),
        ),
        (("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("[{a: [", "]}]"), ("a:\n ", "")),
        options=(*_INTO, *_PATHS),
    ),
    Grammar(
        "json",
        ".json",
        (
            '"word",',
            f'"k{NUMBER}":"word",',
            '"k":"\\u00e9\\ud83d\\ude00\\"",',
            "1,",
            "null,",
            "[],",
            "{},",
            " ",
            "\n",
            *_quoted(_LABELS, '"', '",'),
        ),
        (("[", "],"), ('{"a":', "},"), (f'"k{NUMBER}":{{', "},"), ('"@a":{', "},"), ('{"k":["word",', "]},")),
        before="[",
        after="]",
        build=_json,
        options=(*_INTO, *_PATHS),
    ),
    Grammar("icu", ".json", _ICU, (("{n,plural,other{", "}}"), ("{s,select,a{x}other{", "}}")), '["', '"]'),
    Grammar(
        "icu-lists",
        ".json",
        _quoted(("{n,plural,other{" * 3 + "word" + "}}" * 3, "{n,plural,other{{m,plural,other{a}}}}"), '"', '",'),
        (('"word {n,plural,other{', '}}",'), ('"{s,select,other{a}', '}",')),
        "[",
        '"a"]',
    ),
    Grammar(
        "arb",
        ".arb",
        (
            f'"k{NUMBER}":"word {{n}}",',
            f'"@k{NUMBER}":{{"description":"word"}},',
            '"@@locale":"en",',
            *_quoted(_ICU, f'"k{NUMBER}":"', '",'),
        ),
        (('"@a":{', "},"), (f'"k{NUMBER}":{{', "},"), ('"a":[', "],")),
        before="{",
        after="}",
        build=_json,
        options=_INTO,
    ),
    Grammar(
        "properties",
        ".properties",
        (
            f"k{NUMBER}=word\n",
            "k=",
            "\\\n",
            "\\u0041",
            "\\\\",
            "1",
            "{1",
            "# c\n",
            " ",
            "''",
            "'",
            "=",
            "\t\\\n",
            *_quoted(_LABELS, "k=", "\n"),
        ),
        (("{", "}"), ("{0,choice,", "}"), ("'", "'")),
        options=_INTO,
    ),
    Grammar(
        "strings",
        ".strings",
        (
            f'"k{NUMBER}" = "word";\n',
            '"k"',
            "=",
            ";",
            "/* c */",
            "// c\n",
            "/*",
            "\\U0041",
            "\\101",
            '\\"',
            "word ",
            *_quoted(_LABELS, '"k" = "', '";\n'),
        ),
        (('"k" = "', '";\n'), ("/*", "*/")),
    ),
    Grammar(
        "strings-xml",
        ".strings",
        (f"<key>k{NUMBER}</key><string>word</string>", "<key>a</key><dict/>", *_XML),
        (("<key>a</key><dict>", "</dict>"), ("<key>", "</key>")),
        "<plist><dict>",
        "</dict></plist>",
    ),
    Grammar(
        "stringsdict",
        ".stringsdict",
        (
            f"<key>k{NUMBER}</key><string>word</string>",
            "<key>NSStringFormatSpecTypeKey</key><string>NSStringPluralRuleType</string>",
            *(f"<key>{name}</key><string>%d files</string>" for name in _FORMS),
            "<key>a</key><string>%#@a@%1$#@b@ word</string>",
            *_XML,
        ),
        (("<key>a</key><dict>", "</dict>"), (f"<key>k{NUMBER}</key><dict>", "</dict>"), ("<key>", "</key>")),
        "<plist><dict>",
        "</dict></plist>",
        options=_INTO,
    ),
    Grammar(
        "xcstrings",
        ".xcstrings",
        (
            _XCSTRINGS_UNIT,
            f'"k{NUMBER}":{{"localizations":{{"en":{{{_XCSTRINGS_UNIT}}}}}}},',
            f'"key {NUMBER}":{{}},',
            f'"device":{{"iphone":{{{_XCSTRINGS_UNIT}}}}},',
            *(f'"{name}":{{{_XCSTRINGS_UNIT}}},' for name in (*_FORMS, NUMBER)),
            '"a":[1,2],',
        ),
        (
            ('"plural":{"other":{', "}},"),
            ('"variations":{"plural":{"one":{', "}}},"),
            ('"variations":{"device":{"mac":{', "}}},"),
            ('"substitutions":{"a":{', "}},"),
            (f'"k{NUMBER}":{{"localizations":{{"en":{{', "}}},"),
            ('"a":[', "],"),
        ),
        '{"sourceLanguage":"en","strings":{"key":{"localizations":{"en":{',
        '}}}},"version":"1.0"}',
        build=_json,
        options=_INTO,
    ),
    Grammar(
        "android",
        ".xml",
        (
            f'<string name="k{NUMBER}">word</string>',
            _ANDROID_ITEM,
            *(f'<item quantity="{name}">%d files</item>' for name in _FORMS),
            "<item>word</item>",
            '<xliff:g id="a">x</xliff:g>',
            "<br/>",
            "\\u0041",
            "\\'",
            '"',
            "@a/b",
            "\\\\",
            *_XML,
        ),
        (
            ('<string name="a">', "</string>"),
            ('<plurals name="a">', "</plurals>"),
            ('<string-array name="a">', "</string-array>"),
            ("<b>", "</b>"),
            ("<![CDATA[", "]]>"),
        ),
        '<resources xmlns:xliff="x">',
        "</resources>",
        options=_INTO,
    ),
    Grammar(
        "resx",
        ".resx",
        (f'<data name="k{NUMBER}"><value>word</value></data>', "<value>", "</value>", *_XML),
        (("<data><value>", "</value></data>"), ("<data>", "</data>"), ("<b a='1' b = \"2\" >", "</b>")),
        "<root>",
        "</root>",
    ),
    Grammar(
        "toml",
        ".toml",
        (
            f'k{NUMBER} = "word"\n',
            '"word",',
            "[a.b.c]\n",
            f"[[a{NUMBER}]]\n",
            "[[a]]\n",
            '"""',
            "'''",
            "\\\\",
            '\\"',
            '"',
            "'",
            "a.",
            "1979-05-27,",
            "0x1,",
            "1_0,",
            "# c\n",
            "\n",
            *_quoted(_LABELS, "'", "',"),
        ),
        ((f"k{NUMBER} = [", "]\n"), ("[", "],"), ("{a=", "}"), ("{a.b.c.d=[", "]}"), (f'k{NUMBER} = """', '"""\n')),
        options=(*_INTO, *_PATHS),
    ),
    Grammar(
        "po",
        ".po",
        (
            f'msgid "word {NUMBER}"\nmsgstr ""\n\n',
            f'msgid "%d file {NUMBER}"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n\n',
            f'msgctxt "c{NUMBER}"\nmsgid "word"\nmsgstr ""\n\n',
            '"word\\n"\n',
            "# c\n",
            "#. c\n",
            "#: a.c:1\n",
            "#, fuzzy\n",
            '#| msgid "word"\n',
            '#~ msgid "word"\n#~ msgstr ""\n',
            '"Plural-Forms: nplurals=6; plural=n;\\n"\n',
            "<b>word</b>",
            "msgstr[9] ",
            *_quoted(_LABELS, f'msgid "{NUMBER}', '"\nmsgstr ""\n\n'),
            *_quoted(_ICU, f'msgid "{NUMBER}', '"\nmsgstr ""\n\n'),
        ),
        (('msgid "<b>', '</b>"\nmsgstr ""\n\n'), ('msgid "', '"\nmsgstr ""\n\n')),
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n',
        options=(*_INTO, {"target": "ar", "redo_fuzzy": True}),
    ),
    Grammar(
        "fluent",
        ".ftl",
        (
            f"k{NUMBER} = word\n",
            "a = { $n ->\n [one] word\n *[other] { $n } words\n }\n",
            " .b = word\n",
            "-brand = Word\n",
            "# c\n",
            "{ $a }",
            "{ -b }",
            '{ "x" }',
            '{ F(a: 1, b: "c") }',
            "{",
            "}",
            "\n word",
            "\n\n",
            " [one] word\n",
            "    ",
        ),
        (("{ ", " }"), ("a = { $n ->\n *[other] ", "\n }\n"), ("{ $n ->\n [one] word\n *[other] ", "\n }")),
        "a = ",
        "\n",
        options=_INTO,
    ),
    Grammar(
        "ts",
        ".ts",
        (
            '<message><source>word</source><translation type="unfinished"/></message>',
            '<message numerus="yes"><source>%n words</source><translation type="unfinished"></translation></message>',
            "<numerusform/>",
            "<source>word</source>",
            f"<name>c{NUMBER}</name>",
            *_XML,
        ),
        (
            ("<context>", "</context>"),
            ("<message>", "</message>"),
            (
                '<message numerus="yes"><source>%n words</source><translation type="unfinished">',
                "</translation></message>",
            ),
            ("<source>", "</source>"),
        ),
        "<TS>",
        "</TS>",
        options=_INTO,
    ),
    Grammar(
        "tmx",
        ".tmx",
        (
            '<tu><tuv xml:lang="en"><seg>word</seg></tuv></tu>',
            '<tuv xml:lang="en"><seg>word</seg></tuv>',
            '<bpt i="1">b</bpt>word<ept i="1"/>',
            '<ph x="1"/>',
            "<hi>word</hi>",
            *_XML,
        ),
        (
            ("<hi>", "</hi>"),
            ('<tu><tuv xml:lang="en"><seg>', "</seg></tuv></tu>"),
            ("<tu>", "</tu>"),
            ("<ph>", "</ph>"),
        ),
        '<tmx><header srclang="en"/><body>',
        "</body></tmx>",
        options=_INTO,
    ),
    *(
        Grammar(
            suffix[1:],
            suffix,
            (
                f"word {NUMBER}{mark}\n",
                mark,
                "word",
                '"',
                '""',
                '"word"',
                f'"a\nb"{mark}',
                "\n",
                "\r",
                " ",
                *_quoted(_LABELS, "", mark),
                *_quoted(_ICU, '"', f'"{mark}\n'),
            ),
            (('"', f'"{mark}'),),
            mark.join(("en", "ar", "c", "d")) + "\n",
            options=(
                _INTO[0],
                {"columns": "1"},
                {"columns": "en=c, en=d, en"},
                {"columns": ",".join(map(str, range(1, 5)))},
            ),
        )
        for suffix, mark in ((".csv", ","), (".tsv", "\t"))
    ),
    Grammar(
        "xliff",
        ".xliff",
        (
            "<trans-unit><source>word</source></trans-unit>",
            "<trans-unit><source>word</source><target/></trans-unit>",
            '<bpt id="1">&lt;b&gt;</bpt>word<ept id="1">&lt;/b&gt;</ept>',
            '<x id="1"/>',
            '<bx id="1"/>',
            '<ex id="1"/>',
            '<ph id="1">&lt;br&gt;</ph>',
            '<mrk mtype="seg">word</mrk>',
            '<x equiv-text="&lt;a&gt;"/>word<x equiv-text="&lt;/a&gt;"/>',
            "\ufdd00\ufdd1",
            "\ufdd2" + "9" * 20 + "\ufdd3",
            *_XML,
        ),
        (
            ("<trans-unit><source>", "</source></trans-unit>"),
            ('<g id="1">', "</g>"),
            ("<mrk>", "</mrk>"),
            ("<trans-unit><seg-source>", "</seg-source><source>a</source></trans-unit>"),
            ("<group>", "</group>"),
            ('<group xmlns:a="b">', "</group>"),
            ("<source>", "</source>"),
        ),
        '<xliff version="1.2"><file>',
        "</file></xliff>",
        options=_INTO,
    ),
    Grammar(
        "xliff2",
        ".xlf",
        (
            "<unit><segment><source>word</source></segment></unit>",
            "<segment><source>word</source><target>mot</target></segment>",
            '<ph id="1"/>',
            '<sc id="1"/>word<ec startRef="1"/>',
            '<pc id="1">word</pc>',
            *_XML,
        ),
        (
            ("<unit><segment><source>", "</source></segment></unit>"),
            ('<pc id="1">', "</pc>"),
            ('<mrk translate="no">', "</mrk>"),
            ("<group>", "</group>"),
        ),
        '<xliff version="2.0"><file>',
        "</file></xliff>",
        options=_INTO,
    ),
    Grammar(
        "review",
        ".xliff",
        (
            "mot ",
            '<x id="1"/>',
            '<bx id="1"/>',
            '<ex id="2" rid="1"/>',
            f'<x id="{"9" * 500}"/>',
            "\ufdd00\ufdd1",
            f"\ufdd0{'9' * 500}\ufdd1",
            f"\ufdd2{'9' * 500}\ufdd3",
            "</target></trans-unit><trans-unit id='1'><source/><target>",
            f"</target></trans-unit><trans-unit id='{NUMBER}'><source/><target>",
            *_XML,
        ),
        (("<mrk>", "</mrk>"), ("<g>", "</g>"), ("<alt-trans>", "</alt-trans>")),
        build=_review,
        work=_read_review,
    ),
    Grammar(
        "review-any",
        ".xliff",
        (
            "<trans-unit id='1'><source>Hello</source><target>mot</target></trans-unit>",
            "<source/>",
            "<target>mot</target>",
            *_XML,
        ),
        (("<trans-unit id='1'>", "</trans-unit>"), ("<source>", "</source>"), ("<mrk>", "</mrk>")),
        '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>',
        "</body></file></xliff>",
        work=_read_review,
    ),
)
