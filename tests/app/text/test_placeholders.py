"""Untranslatable parts are found completely; ordinary text has none."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.markup.passage import ProtectedSpan
from app.text.checked_marks import checked_spans
from app.text.placeholders import CLASSES, TextClass, find_placeholders
from app.text.symbols import is_nesting, nesting_pairs

WORDS = [
    "the",
    "cat",
    "a",
    "He",
    "It's",
    "well-known",
    "e.g.",
    "café",
    "U.S.",
    "50%",
    "10:30",
    "3.14",
    "(so)",
    "he/she,",
]


def name(random: Random) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 8)))


def spelt(template: str, random: Random) -> str:
    """`template` with distinct names for each §, capitalised ones for each ¶, and a digit for each 9."""
    parts = {"§": lambda: name(random), "¶": lambda: name(random).title(), "9": lambda: random.choice("23456789")}
    return "".join(parts[character]() if character in parts else character for character in template)


TEMPLATES = [
    *("{§}", "{9}", "{}", "{9:.9f}", "{§.§}", "${§}", "#{§}", "%{§}", "@{§}", "{{ § }}", "{{§}}", "{% § § in § %}"),
    *("{¶ ¶}", "<%= § %>", "<?§ § ?>", "$(§)", "$§", "$§_§", "$§/§", "{§, plural, one {# §} other {# § in {§}}}"),
    "{§, select,\n  § {§ §.}\n  other {§, §}\n}",
    *(
        "Ctrl+C",
        "Alt+Shift+F9",
        "%s",
        "%d",
        "%i",
        "%9$s",
        "%(§)d",
        "%(§)s",
        "%-9.9f",
        "%@",
        "%%",
        "%99d",
        "%.9f",
        "%lu",
        "%§%",
        "%§_§%",
        "%9",
        "%99",
        "%L9",
    ),
    *(":§", ":§_§", ":§-§:", "__§__", "__§_§__", "__MAX_9__"),
    *('<x id="9"/>', "<§>", "</§>", "<§/>", "<§ §='§ §'>", '<§:§ §="§" §=9 />', "<input disabled>", "<!-- §. § -->"),
    *("<![CDATA[ § < § ]]>", "<!DOCTYPE §>", "&nbsp;", "&#99;", "&#x9a;"),
    *(
        "https://§.example/§?§=9&§=%99#§",
        "http://localhost:9999/§_(§)",
        "ftp://§.§/",
        "www.§.example",
        "§.com/§",
        "§.org",
    ),
    *("mailto:§@§.example", "§@§.example", "§.§+§@§-§.§.example", "9§@§.example"),
    *("/usr/§/§", "/§/§.md", "/etc", "./§", "../§/§.§", "~/§", "§/§.md", "§/§-§/§.py", "§_§/§", "$§/§.§"),
    *("C:\\§\\§.§", "D:\\¶ ¶\\§.exe", "\\\\§\\§\\§", "README.md", "§.json", "§-§.tar.gz", "¶.pdf"),
    *("@§", "@§_9", "@§/§", "#§", "#§_9", "#¶¶"),
    *("`§`", "`§. §`", "``§`§``", "```\n§ §\n\n§.\n```", "~~~\n§\n~~~"),
    *(
        "§_§",
        "§_§_9",
        "_§_§",
        "MAX_9",
        "§.§_§",
        "§§¶",
        "§§¶¶9",
        "§.§§¶",
        "¶¶¶",
        "§()",
        "§.§.§()",
        "§->§()",
        "¶::§",
        "§.§.§",
    ),
    *("+49 99 9999 9999", "+9 (999) 999-9999", "+39.999.999.999", "+999999999999", "+33 (0)9 99 99 99 99"),
    *("DE99 9999 9999 9999 9999 99", "GB99 WXYZ 9999 9999 9999 99"),
    *(":-)", ":D", ";)", ":P", ":p", ":o)", ":/", "=)", "<3", "^_^", "!§", "⌘K", "⇧⌘P", "u/§", "r/§_9"),
    *("99–99", "9.9–9,9", "9,9,99", "99:99:99", "9e-9", "9.9E9"),
    *("§(9, 9, .9)", "§(§,§)", "¶.§(9)", "C++", "R&D", "Q&A", "AT&T", "§_9-§(9).docx"),
    *("--§", "--§-§", "--§=§.§", "-v", "-x", "v9", "v9.9.9", "9.9.9-rc9", "V9.9", "192.168.9.9", "0x9aF"),
    *("9a9b9c9d", "123e4567-e89b-12d3-a456-42661417400a", "A9B9C9", "ABC-9999", "AB9-CD-9", "aB9cD9eF"),
    *(
        "😀",
        "👨‍👩‍👧",
        "👍🏽",
        "🇫🇷🇩🇪",
        "9️⃣",
        "❤️",
        "✓",
        "→",
        "★★☆",
        "®",
        "🎉 🎉",
        "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    ),
    *("你好", "你好，世界", "Привет, мир", "مرحبا بالعالم", "αβγ", "日本語の文", "한국어 문장", "「你好」", "שלום"),
]
STRINGS = [(template, seed) for seed in range(12) for template in TEMPLATES]


def surrounded(one: str, random: Random) -> tuple[str, int]:
    """A sentence with `one` in it, and its position."""
    before = " ".join(random.choices(WORDS, k=random.randint(0, 6)))
    opening, closing = random.choice([("", ""), ("(", ")"), ('"', '"'), ("“", "”"), ("«\u00a0", "\u00a0»")])
    head = f"{before} {opening}".lstrip(" ") if not one.startswith(("~", "(")) else f"{before}\n"
    closing = closing if not one.startswith("~") else "\n"
    tail = random.choice(["", ".", ",", "?", "!"]) + random.choice(["", " The end."])
    return f"{head}{one}{closing}{tail}", len(head)


def test_collection_has_over_a_thousand_strings() -> None:
    assert len(STRINGS) > 1_000


@pytest.mark.parametrize("language", ["en", "fr"])
def test_placeholder_of_any_kind_is_found_whole_and_once_in_any_sentence(language: str) -> None:
    missed = []
    for template, seed in STRINGS:
        random = Random(f"{template}{seed}")
        one = spelt(template, random)
        text, start = surrounded(one, random)
        if find_placeholders(text, language) != [ProtectedSpan(start, start + len(one), one)]:
            missed.append((text, find_placeholders(text, language)))
    assert missed == []


@pytest.mark.parametrize("seed", range(50))
def test_several_placeholders_in_one_sentence_are_all_found(seed: int) -> None:
    random = Random(seed)
    ones = [spelt(template, random) for template in random.choices(TEMPLATES, k=6) if template[:3] != "~~~"]
    text = "".join(f"{random.choice(['the', 'of', 'and'])} {one}, " for one in ones)
    assert [protected.raw for protected in find_placeholders(text, "en")] == ones


@pytest.mark.parametrize(
    "text",
    [
        "e.g. this, i.e. that, etc.",
        "The U.S. and the U.K. agree. J.R.R. Tolkien, Ph.D.",
        "At 3:45 pm or 10:30, 12h30, on 12.05.2024, 2024-05-01.",
        "C'est l'été, n'est-ce pas ? « Bonjour », dit-il : c'est fini !",
        "50 % or 50%, 100% sure, 5% discount, 100%. 50%, 5%!",
        "note:this, Subject: x, and re: yours",
        "x:) 8) xD (hier:)",
        "x = y + z",
        "and/or, km/h, he/she, s/he, 24/7, 1/2, red/green/blue, TCP/IP, a/b test, a.m./p.m.",
        "McDonald, O'Brien, DeepL, YouTube and JavaScript, an iPhone, 10 kWh, pH",
        "word(s), file(s), fonction(s), A Ltd. (London), see (there)",
        "$5 and $1,000, US$50, 20€, £15, Figure(2), file(s), Freund(in)",
        "the 1990s, 5th of May, 10am, 100km, MP3, A4, H2O, CO2, G20, B52, COVID-19, F-16",
        "He said -- well -- no. T-shirts – e-mail — yes. -5 degrees",
        "-Yes. -I know. -A what?\n- an item",
        "The end.Next one. Well...yes",
        "5 + 3, +5 %, +10 000 people, 1+1, a+b, +1 for that",
        "20 °C, 5 × 3 ÷ 2, ½, ¼, № 5, 3 µm",
        "“quoted” ‘text’ „so“ ‚so‘ naïve crème brûlée Škoda Łódź",
        "& % $ : / ( ) + = - – — ° ½",
    ],
)
@pytest.mark.parametrize("language", ["en", "fr", "de", "es"])
def test_ordinary_text_has_no_placeholders(text: str, language: str) -> None:
    assert [protected.raw for protected in find_placeholders(text, language)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://x.example/a. Then (https://x.example/b).", ["https://x.example/a", "https://x.example/b"]),
        ("请看https://x.example/a。谢谢", ["https://x.example/a"]),
        ("<https://x.example/a>, 'https://x.example/b'", ["<https://x.example/a>", "https://x.example/b"]),
        ("Mail to <a@x.example>; not to b@x.example.", ["<a@x.example>", "b@x.example"]),
        ("It is **so *very* good**, _and_ ~~not~~ 3*4*5.", ["**", "*", "*", "**", "_", "_", "~~", "~~", "3*4*5"]),
        ("*one\ntwo* 2 * 3 _x", ["*", "*", "*", "_x"]),
        ("**https://x.example/b**", ["**", "https://x.example/b", "**"]),
        ("[the *link*](https://x.example/a_(b)) here", ["[", "*", "*", "](https://x.example/a_(b))"]),
        ('![an image](i.png "title")', ["![", '](i.png "title")']),
        ("[![alt](i.png)](https://x.example)", ["[", "![", "](i.png)", "](https://x.example)"]),
        ("<b>Hello</b>&nbsp;you", ["<b>", "</b>", "&nbsp;"]),
        ("{a}{b} {c}/{d}", ["{a}{b}", "{c}/{d}"]),
        ("%1$s%2$s: %d%%", ["%1$s%2$s", "%d%%"]),
        ("%d/%m/%Y %H:%M", ["%d/%m/%Y", "%H:%M"]),
        ("{ {a} and {b", ["{", "{a}", "{"]),
        ("```py\nx = 1\n```\nand `y`", ["```py\nx = 1\n```", "`y`"]),
        ("请用snake_case函数和foo()", ["snake_case", "foo()"]),
        ("Ask @john, @mary. And #this!", ["@john", "@mary", "#this"]),
        ("Wow😀😀! Great 🎉.", ["😀😀", "🎉"]),
        ("Use MMM d, yyyy here, or d. MMMM yyyy.", ["MMM d, yyyy", "d. MMMM yyyy"]),
        ("EEEE, d MMMM y, not MMM alone", ["EEEE, d MMMM y"]),
        ("MMM yyyy MMM", ["MMM yyyy MMM"]),
        ("one< br / >two</ br>, a < b > c", ["< br / >", "</ br>", "<", ">"]),
    ],
)
def test_placeholder_ends_where_expected(text: str, expected: list[str]) -> None:
    language = "zh" if "请" in text else "en"
    assert [protected.raw for protected in find_placeholders(text, language)] == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "He said 你好，世界！ and left", ["你好，世界！"]),
        ("fr", "Le mot Привет мир signifie", ["Привет мир"]),
        ("zh", "他说hello world，还有Привет。", ["Привет。"]),
        ("zh-Hant", "他說你好", []),
        ("ja", "これは日本語です", []),
        ("ko", "이것은 漢字 입니다", ["漢字"]),
        ("ru", "Это слово и word", []),
        ("el", "Η λέξη и слово", ["и слово"]),
        ("ar", "مرحبا بالعالم 你好", ["你好"]),
        ("uz", "Салом", []),
    ],
)
def test_letters_of_a_foreign_script_are_kept(language: str, text: str, expected: list[str]) -> None:
    assert [protected.raw.strip("。") for protected in find_placeholders(text, language)] == [
        one.strip("。") for one in expected
    ]


def test_inner_capitals_are_ordinary_in_irish() -> None:
    assert find_placeholders("Tá bhFuil i gCorcaigh", "ga") == []
    assert [protected.raw for protected in find_placeholders("call getValue", "en")] == ["getValue"]


HOSTILE = st.lists(
    st.sampled_from([*"{}[]()<>%$#@&:;`~/\\|.-_ \n\"'=aA1é你😀", "{{", "%(", "://", "<!--", "](", "a.b", "C:\\"])
)


@given(HOSTILE.map("".join) | st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["en", "zh", "xx"]))
def test_found_placeholders_are_in_order_and_equal_their_text(text: str, language: str) -> None:
    end = 0
    for protected in find_placeholders(text, language):
        assert end <= protected.start < protected.end
        assert protected == ProtectedSpan(protected.start, protected.end, text[protected.start : protected.end])
        end = protected.end


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["{", "{a ", "<", "<a b='", "%", ":", "`", "a/", "a.", "](a", "[](", "@a", "<%", "http:/", "😀", "\\"]
)
def test_hostile_text_is_searched_in_time(unit: str) -> None:
    text = unit * (50_000 // len(unit))
    assert all(protected.raw == text[protected.start : protected.end] for protected in find_placeholders(text, "en"))


def test_opening_and_closing_placeholders_nest() -> None:
    assert all(map(is_nesting, ["**", "_", "~~", "[", "![", "](a/b)", "<b>", "</b>", "<a href='x/'>"]))
    assert not any(map(is_nesting, ["{a}", "%s", "<x id='1'/>", "<br/>", "<a@b.example>", "`*`", "http://x.example"]))


@pytest.mark.parametrize(
    ("text", "language"), [("%50 indirim", "tr"), ("5%1", "en"), ("%123 x", "en"), ("%1.5 x", "en")]
)
def test_percentage_is_not_a_qt_placeholder(text: str, language: str) -> None:
    assert find_placeholders(text, language) == []


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("<b>x</b>", [(0, 1)]),
        ("<a href='x'>{0}</a>", [(0, 2)]),
        ("**x _y_ z**", [(1, 2), (0, 3)]),
        ("**x** **y**", [(0, 1), (2, 3)]),
        ("[x](x) ![y](y)", [(0, 1), (2, 3)]),
        ("<b>a<i>b</b>c</i>", [(0, 2)]),
        ("<b>a<br>b</b>", [(0, 2)]),
        ("<0>a<5/>b</0>", [(0, 2)]),
        ("<color=#f00>a</color> <b>c</B>", [(0, 1)]),
        ("[b]a[/b] [color=red]c[/color]", [(0, 1), (2, 3)]),
        ("[a b] <c d> {d e f g h}, 5 < 6 > 4", [(0, 1), (2, 3), (4, 5)]),
        ('a \\"b c\\" d', [(0, 1)]),
        ("a \u2066b c\u2069 d \u202be\u202c", [(0, 1), (2, 3)]),
        ("a * b * c and ~ d ~", []),
        ("</b>a<b>", []),
        ("<b>a</i>b](x){0}%s", []),
        ("<b>a<b>b</b>", [(1, 2)]),
    ],
)
def test_only_marks_that_nest_properly_are_pairs(text: str, pairs: list[tuple[int, int]]) -> None:
    assert nesting_pairs(text, find_placeholders(text, "en")) == pairs


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("La « maison » est", [(0, 1)]),
        ("(« a ») «b», «\u00a0c\u00a0».", [(0, 1), (2, 3), (4, 5)]),
        ("»Wort« und »ein Wort«.", [(0, 1), (2, 3)]),
        ("Home » Page", []),
        ("“a” „b“", [(0, 1), (2, 3)]),
    ],
)
def test_quotation_marks_are_pairs_in_each_style(text: str, pairs: list[tuple[int, int]]) -> None:
    spans = [ProtectedSpan(at, at + 1, mark) for at, mark in enumerate(text) if mark in "«»“”„"]
    assert nesting_pairs(text, spans) == pairs


def test_documentation_lists_the_classes() -> None:
    page = (Path(__file__).parents[3] / "docs/protected-text.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (`+) ?(.+?) ?\2 \| (symbol|tag|rewritten|checked) \|", page, re.MULTILINE)
    listed = [(name, example.replace("\\t", "\t"), treatment) for name, _, example, treatment in rows]
    assert listed == [(one.name, one.example, one.treatment) for one in CLASSES]


@pytest.mark.parametrize("of", CLASSES, ids=lambda one: one.name)
def test_each_class_is_found_where_the_table_says(of: TextClass) -> None:
    assert find_spec(of.module)
    if of.pattern:
        assert re.fullmatch(of.pattern, of.example, re.VERBOSE | re.ASCII)
    found = [one.raw for one in find_placeholders(f"We saw {of.example} there.", "en")]
    if of.treatment == "symbol" and of.module != "app.text.word_tags":
        assert found == [of.example]
    elif of.module == "app.text.checked_marks":
        assert not found
        assert list(checked_spans(of.example, "en", "fr"))
