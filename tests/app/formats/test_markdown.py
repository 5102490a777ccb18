"""Markdown: its own parser finds the same structure around other texts, and nothing else in the file changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from app.formats import UnreadableDocument, read
from app.markup.passage import NestedPassage, Passage, Tag
from app.markup.render import render_source
from tests.app.formats.test_formats import as_it_was, shouted, texts

MARKDOWN = """---
title: A title
layout: not text
---

# A *first* heading #

Some **bold text, and [a link](https://a.example/x "With a title") in
a paragraph** that goes on,\\
and on{two_spaces}
and ends with `code()` and <https://a.example> &amp; 2 \\* 3.

> A quotation that
> is wrapped
lazily.
>
> > Another one

- an item
  in two lines

  with a second paragraph
- [x] a task
    1. nested _words_ ~~gone~~
- ![an image](a.png) beside text[^note] and <kbd>Ctrl</kbd>

> [!NOTE]
> An alert.

> | A name | Value |
> |--------|------:|
> | a \\| b | `x` is |
> | only one |

Underlined
==========

```python
code = "stays"
```

    indented code

<div>
an HTML block
</div>

[^note]: A footnote
    of two lines.

[Shortcut] and [text][Shortcut].

[shortcut]: https://b.example "A place"
""".replace("{two_spaces}", "  ")
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(front_matter_plugin).use(footnote_plugin)


def structure(markdown: str) -> Sequence[object]:
    """Everything that the parser finds except text: blocks, code, addresses; tags of a block in any order."""

    def inline(tokens: Sequence[Token]) -> Sequence[object]:
        shown = {"code_inline", "html_inline"}
        return sorted(
            str((token.type, _plain_attributes(token), token.content if token.type in shown else ""))
            for token in tokens
            if token.type not in {"text", "text_special", "softbreak"}
        )

    return [
        (token.type, token.tag, token.info, inline(token.children or []) if token.type == "inline" else token.content)
        for token in PARSER.parse(markdown)
        if token.type != "front_matter"
    ]


def _plain_attributes(token: Token) -> Sequence[tuple[str, object]]:
    """All attributes except those that are text, which are only checked for presence."""
    return [(name, name == "title" or value) for name, value in token.attrs.items()]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_unchanged_texts_reproduce_the_document_byte_for_byte(line_end: str) -> None:
    content = MARKDOWN.replace("\n", line_end).encode()
    assert as_it_was(read("a.md", content)) == content


def test_passages_are_the_displayed_text() -> None:
    assert texts(read("a.md", MARKDOWN.encode())) == [
        "A title",
        "A first heading",
        "Some bold text, and a link in a paragraph that goes on,\nand on\n"
        "and ends with code() and https://a.example & 2 * 3.",
        "A quotation that is wrapped lazily.",
        "Another one",
        "an item in two lines",
        "with a second paragraph",
        "a task",
        "nested words gone",
        "\ufffc beside text and Ctrl",
        "An alert.",
        "A name",
        "Value",
        "a | b",
        "x is",
        "only one",
        "Underlined",
        "A footnote of two lines.",
        "Shortcut and text.",
        "A place",
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_other_texts_keep_the_structure_around_them(line_end: str) -> None:
    written = shouted(read("a.md", MARKDOWN.replace("\n", line_end).encode())).decode()
    assert structure(written) == structure(MARKDOWN)
    assert "[SHORTCUT][Shortcut]" in written
    assert written.count(line_end) == MARKDOWN.count("\n")
    assert f"> A QUOTATION THAT{line_end}> IS WRAPPED{line_end}LAZILY." in written
    assert "`code()` AND <https://a.example>" in written


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ('See ![a *red* car](u.png "the t\\"itle") now.\n', 'SEE ![A *RED* CAR](u.png "THE T\\"ITLE") NOW.\n'),
        ("![a car](u.png)\n", "![A CAR](u.png)\n"),
        ("![123](u.png 'a t')\n", "![123](u.png 'A T')\n"),
        ("![a car](u.png (a t))\n", "![A CAR](u.png (A T))\n"),
        ("![a car][ref]\n\n[ref]: u.png\n", "![A CAR][ref]\n\n[ref]: u.png\n"),
        ("See ![ref] now\n\n[ref]: u.png 'a t'\n", "SEE ![REF][ref] NOW\n\n[ref]: u.png 'A T'\n"),
        ("![ref][]\n\n[ref]: u.png\n", "![REF][ref]\n\n[ref]: u.png\n"),
        ('[a link](u "a t") b\n', '[A LINK](u "A T") B\n'),
        ('[![an icon](i.png "x y")](u "z")\n', '[![AN ICON](i.png "X Y")](u "Z")\n'),
        ("> a ![b\n> c](u) d\n", "> A ![B\n> C](u) D\n"),
        ("| a |\n|---|\n| ![b \\| c](u) |\n", "| A |\n|---|\n| ![B \\| C](u) |\n"),
        ("# ![b](u) #\n", "# ![B](u) #\n"),
        ("![a ![b](c) d](u)\n", "![A ![b](c) D](u)\n"),
        ('[a](u "b\ufdd2")\n', '[A](u "b\ufdd2")\n'),
    ],
)
def test_descriptions_and_titles_of_images_and_links_are_translated(source: str, written: str) -> None:
    document = read("a.md", source.encode())
    assert as_it_was(document).decode() == source
    assert shouted(document).decode() == written


def test_picture_between_words_is_one_object_in_the_sentence() -> None:
    (passage,) = read("a.md", b"There are ![ten](n.png) books.").passages
    assert passage.text == "There are \ufffc books."
    assert [passage.text[one.start : one.end] for one in passage.protected] == ["\ufffc"]
    assert [inner.passage.text for inner in passage.nested] == ["ten"]


@pytest.mark.parametrize("title", ['say "x" \\', "a) (b", "it's", "&amp; \\*"])
@pytest.mark.parametrize("marks", ['""', "''", "()"])
def test_title_may_contain_anything(title: str, marks: str) -> None:
    document = read("a.md", f"[a](u {marks[0]}t{marks[1]})".encode())
    (passage,) = document.passages
    ((number, inner),) = passage.nested
    written = document.write(
        [render_source(replace(passage, nested=(NestedPassage(number, replace(inner, text=title)),)))]
    )
    (link, *_) = PARSER.parse(written.decode())[1].children or []
    assert (link.attrs["href"], link.attrs["title"]) == ("u", title)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("A title", "A TITLE"),
        ('"A \\"b\\" title"  # c', '"A \\"B\\" TITLE"  # c'),
        ("'it''s'", "'IT''S'"),
        ("A title # c", "A TITLE # c"),
        (">-\n  two\n  lines", ">-\n  TWO LINES"),
        ("a\n  b", "A B"),
        ("|\n  two\n  lines", "|\n  TWO\n  LINES"),
        *((kept, kept) for kept in ("2024-01-01", "true", "null", "[a, b]", "{a: b}", "&x y", '"\\x41"', '"a')),
    ],
)
@pytest.mark.parametrize("key", ["title", "description", "summary", "subtitle"])
def test_front_matter_keeps_its_quoting(key: str, value: str, written: str) -> None:
    page = "---\nlayout: post\n{}: {}\ntags: [a]\nparams:\n  title: kept\n---\n\n# B\n"
    document = read("a.md", page.format(key, value).encode())
    assert as_it_was(document).decode() == page.format(key, value)
    assert shouted(document).decode() == page.format(key, written)


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ("Un titre", "Un titre"),
        ("Titre : un", '"Titre : un"'),
        ("un #2", '"un #2"'),
        ("- un", '"- un"'),
        ('"un"', '"\\"un\\""'),
        ("no", '"no"'),
        ("12", '"12"'),
    ],
)
def test_unquoted_title_is_quoted_if_yaml_would_read_it_differently(translation: str, written: str) -> None:
    document = read("a.md", b"---\ntitle: A title\n---\n")
    assert document.write([translation]).decode() == f"---\ntitle: {written}\n---\n"


def _moved(passage: Passage, by: int) -> tuple[Tag, ...]:
    """The tags of a passage whose last word has grown by `by` characters."""
    start = passage.text.index("hello")
    return tuple(tag._replace(at=tag.at + by) if tag.at > start else tag for tag in passage.tags)


MARKUP = st.text(st.sampled_from(list("*_`[]()<>!#+-=|~\\&;:^.1a b\"'/é猫")), min_size=1, max_size=30)


@pytest.mark.slow
@draw_examples(200)
@given(text=MARKUP)
@pytest.mark.parametrize(
    "around",
    ["{}\n", "> one\n> {}\n", "- {}\n", "# {}\n", "{}\n===\n", "| a |\n|---|\n| {} |\n", "[{}](x)\n", "*b* `c` {}\n"],
    ids=["paragraph", "quotation", "item", "heading", "underlined", "cell", "link", "after code"],
)
def test_no_translation_becomes_markup(around: str, text: str) -> None:
    source = around.format("hello")
    translation = text.strip() or "a"
    document = read("a.md", source.encode())
    number = next(i for i, passage in enumerate(document.passages) if "hello" in passage.text)
    translations = [render_source(passage) for passage in document.passages]
    passage = document.passages[number]
    translations[number] = render_source(
        replace(passage, text=passage.text.replace("hello", translation), tags=_moved(passage, len(translation) - 5))
    )
    written = document.write(translations).decode()
    assert structure(written) == structure(source), written
    shown = "".join(t.content for block in PARSER.parse(written) for t in block.children or [])
    assert "".join(translation.split()) in "".join(shown.split())


@pytest.mark.slow
@draw_examples(200)
@given(text=MARKUP)
@pytest.mark.parametrize(
    "around", ["a ![hello](x) b\n", "![hello](x)\n", "# ![hello][r]\n\n[r]: x\n", "[![hello](x)](y)\n"]
)
def test_no_translation_of_a_pictures_description_becomes_markup(around: str, text: str) -> None:
    text = text.strip() or "a"
    document = read("a.md", around.encode())
    passage = document.passages[0]
    ((number, inner),) = passage.nested
    written = document.write(
        [render_source(replace(passage, nested=(NestedPassage(number, replace(inner, text=text)),)))]
    ).decode()
    assert structure(written) == structure(around), written
    (image,) = (t for block in PARSER.parse(written) for t in block.children or [] if t.type == "image")
    assert "".join(text.split()) == "".join("".join(t.content for t in image.children or []).split())


EXTENDED = [
    "a ",
    "b",
    "\n",
    "\n\n",
    "    ",
    "> ",
    "- ",
    "$",
    "$$",
    "\\$",
    ":::",
    "note",
    "[[",
    "]]",
    "|",
    "==",
    "{#",
    "}",
    "+++\n",
]
EXTENDED += [
    '!!! note "b"\n    ',
    '=== "b"\n    ',
    "```{note} b\n",
    "```\n",
    "::a[b]{c}",
    ":a[b]",
    "<A b={c}>",
    "<A\n",
    "{a}`b`",
]
EXTENDED += ['title = "b"\n', "import a from 'b'\n", "export {", "[", "](c)", "*", "`", "\\begin{a}\n", "\\end{a}\n"]


@draw_examples(300)
@given(
    st.lists(
        st.sampled_from(
            [*"*_`[]()<>!#+-=|~\\& \n:1.\xa0\u3000\v", "a ", "b", "\n\n", "> ", "- ", "```", "[^1]", "<b>", "</b>"]
        )
    )
    | st.lists(st.sampled_from(EXTENDED))
)
def test_any_markdown_is_reproduced_byte_for_byte(parts: list[str]) -> None:
    content = "".join(parts).encode()
    assert as_it_was(read("a.md", content)) == content


@pytest.mark.parametrize(
    "source",
    [
        "Hello.\n\xa0\n",
        "\xa0\nHello\n",
        "> Hi\n> \xa0\n",
        "你好 a。\n\u3000\n",
        "a\n\u3000b\n\u2003\nc",
        "- [x] \xa0\n  hi",
        "\xa0\nUnder\n\u3000\n===\n",
        "| a\x1e| b |\n|---|---|\n|\x1f| c\x1c |\n",
    ],
)
def test_significant_white_space_is_kept(source: str) -> None:
    assert shouted(read("a.md", source.encode())).decode() == source.upper().replace("[X]", "[x]")


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("A", "1. Un", "1\\. Un"),
        ("A", "- Un", "\\- Un"),
        ("A", "snake_case, 2 * 3 < 4 & 5", "snake_case, 2 * 3 < 4 & 5"),
        ("A", "*un* _deux_ [x](y) <b> &amp;", "\\*un\\* \\_deux\\_ \\[x\\](y) \\<b> \\&amp;"),
        ("A", "C:\\dir \\* x", "C:\\dir \\\\\\* x"),
    ],
)
def test_only_text_that_would_be_markup_is_escaped(source: str, translation: str, expected: str) -> None:
    document = read("a.md", source.encode())
    assert document.write([document.passages[0].write(translation)]).decode() == expected


@pytest.mark.parametrize("bar", ["\\|", "\\\\|", "\\\\\\|"])
def test_pipe_behind_backslashes_ends_no_cell(bar: str) -> None:
    content = f"| a | b |\n|---|---|\n| c | d {bar} e |\n".encode()
    document = read("a.md", content)
    assert len(document.passages) == 4
    assert as_it_was(document) == content


def test_a_null_character_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="null character"):
        read("a.md", b"a\0b")


def test_text_too_deep_for_the_parser_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="1000001 characters"):
        read("a.md", b"a" * 1_000_001)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "*a ",
        "![",
        "<a ",
        "<code>",
        "<b></i>",
        "[a](",
        "^[",
        "[^a]",
        "`a``",
        "> ",
        "1. ",
        "$",
        "$a",
        "==a",
        "[[a",
        "[[a|",
        "{#",
        ":a[",
        "{a}`",
        "<A b={",
        '<A b="',
        "<A\n",
        ":::a\n",
        "!!! a\n    ",
        "```{note}\n",
        "import {",
        "export {\n",
        "\\begin{a}\n",
        "++a",
        "~a",
        "^a",
        "\\(",
        "\\[",
        "\\\\[a=",
        "^[a",
    ],
)
def test_hostile_repetition_is_read_in_time(piece: str) -> None:
    content = (piece * (10_000 // len(piece))).encode()
    assert as_it_was(read("a.md", content)) == content


def test_table_that_lacks_more_cells_than_its_file_has_characters_is_refused() -> None:
    columns = 300
    content = "|a" * columns + "\n" + "|-" * columns + "\n" + "|a\n" * columns
    with pytest.raises(UnreadableDocument, match="lack too many cells"):
        read("a.md", content.encode())


EXTENSIONS = r"""+++
title = "A title"
draft = "no"
+++

# Heading {#id .c}

:::note
Open door.
:::

::: tip A tip
> quoted
:::

:::warning[Watch *out*]{.big}
:::

::youtube[A film]{#id}

!!! note "A note"
    Black cat.

    - an item

??? info
    Hidden.

=== "Tab one"

    Inside.

So $x^2$ costs $5 and $6, or $$y$$.

$$
\frac{a}{b} = c^2
$$

\begin{align}
a &= b
\end{align}

See [[Page]], [[page|the page]], a ==marked *word*==, {ref}`my ref`, :abbr[HTML]{title="x"}.

| a |
|---|
| [[x\|y]] |

import X from "./x"

export const word = 1

<Tabs items={["a", "b"]}
      on:click="c">
Tabs.
</Tabs>

<template v-if="a < b" #default>
Hello <B :c="d">inside</B>.
</template>

```{note} Another
:class: word
Within.
```

```{code-block} python
x = "word"
```

[[toc]]

{/* a comment that has many words in it */}

Import duties, and export them.

> [!NOTE]- Folded title
> Folded text
> goes on.

:::{admonition} Braced
:class: word
:name: word

Options above.
:::

*[HTML]: Hyper Text

export default ({children}) => <div>word</div>

<>
In a fragment.
</>

H~2~O, x^2^, ++inserted words++, ++ctrl+alt+del++, C++ and C++, \(x^2\), \\(y\\), \[z_1\].

Here^[A note with [a link](u).] then \[words\].
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_extensions_are_reproduced_byte_for_byte(line_end: str) -> None:
    content = EXTENSIONS.replace("\n", line_end).encode()
    assert as_it_was(read("a.md", content)) == content


def test_only_the_text_of_extensions_is_translated() -> None:
    document = read("a.md", EXTENSIONS.encode())
    found = "|".join(texts(document))
    assert found == (
        "A title|Heading |Open door.|A tip|quoted|Watch out|A film|A note|Black cat.|an item|Hidden.|Tab one|Inside."
        "|So x^2 costs $5 and $6, or y.|See Page, the page, a marked word, {ref}`my ref`, HTML.|a|y|Tabs.|Hello inside."
        "|Another|Within.|Import duties, and export them.|Folded title|Folded text goes on.|Braced|Options above."
        "|Hyper Text|In a fragment.|H2O, x2, inserted words, ctrl+alt+del, C++ and C++, x^2, y, z_1."
        "|Here then [words]."
    )
    kept = ["H~2~O", "X^2^", "++INSERTED WORDS++", "++ctrl+alt+del++", r"\(x^2\)", r"\\(y\\)", r"\[z_1\]", "\n</>\n"]
    kept += [
        "> [!NOTE]- FOLDED",
        "\n:name: word\n",
        "*[HTML]: HYPER TEXT",
        "export default ({",
        "^[A NOTE WITH [A LINK](u).]",
    ]
    kept += ["x^2", "$$y$$", "[[Page]]", "[[page|", "]]", "{ref}`my ref`", ']{title="x"}', '<B :c="d">', "[[x\\|"]
    written = shouted(document).decode()
    assert all(markup in written for markup in kept)
    lines = zip(EXTENSIONS.splitlines(), written.splitlines(), strict=True)
    changed = [new for old, new in lines if old != new]
    assert changed[0] == 'title = "A TITLE"'
    assert changed[1] == "# HEADING {#id .c}"
    assert '!!! note "A NOTE"' in changed
    assert ":::warning[WATCH *OUT*]{.big}" in changed
    assert "```{note} ANOTHER" in changed


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("costs \\$5 or \\$6", "5$ ou 6$ a", "5\\$ ou 6\\$ a"),
        ("costs $5 or $6", "5$ ou 6$ a", "5$ ou 6$ a"),
        ('!!! note "a"\n    b', 'say "a"', "!!! note \"say 'a'\"\n    b"),
    ],
)
def test_escapes_that_only_extensions_need_are_those_of_the_source(
    source: str, translation: str, expected: str
) -> None:
    document = read("a.md", source.encode())
    translations = [render_source(passage) for passage in document.passages]
    assert document.write([document.passages[0].write(translation), *translations[1:]]).decode() == expected


@pytest.mark.parametrize("text", ["Of x++y++ we speak.", "Of ++x++y we speak."])
def test_plus_signs_within_a_word_mark_nothing(text: str) -> None:
    assert [passage.text for passage in read("a.md", text.encode()).passages] == [text]
