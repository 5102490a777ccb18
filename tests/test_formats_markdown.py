"""Markdown: its own parser finds the same structure around other texts, and nothing else in the file changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin
from test_documents import as_it_was, shouted, texts

from app.documents import UnreadableDocument, read
from app.passage import Passage, Tag
from app.weaving import unchanged

MARKDOWN = """---
title: Not text
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

[shortcut]: https://b.example "stays"
""".replace("{two_spaces}", "  ")
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"]).use(front_matter_plugin).use(footnote_plugin)


def structure(markdown: str) -> Sequence[object]:
    """All that the parser finds, but text: blocks, code, addresses; tags of a block in any order."""

    def inline(tokens: Sequence[Token]) -> Sequence[object]:
        shown = {"code_inline", "html_inline", "image"}
        return sorted(
            str((token.type, token.attrs, token.content if token.type in shown else ""))
            for token in tokens
            if token.type not in {"text", "text_special", "softbreak"}
        )

    return [
        (token.type, token.tag, token.info, inline(token.children or []) if token.type == "inline" else token.content)
        for token in PARSER.parse(markdown)
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_unchanged_texts_give_the_document_to_the_byte(line_end: str) -> None:
    content = MARKDOWN.replace("\n", line_end).encode()
    assert as_it_was(read("a.md", content)) == content


def test_passages_are_what_a_reader_reads() -> None:
    assert texts(read("a.md", MARKDOWN.encode())) == [
        "A first heading",
        "Some bold text, and a link in a paragraph that goes on,\nand on\n"
        "and ends with code() and https://a.example & 2 * 3.",
        "A quotation that is wrapped lazily.",
        "Another one",
        "an item in two lines",
        "with a second paragraph",
        "a task",
        "nested words gone",
        " beside text and Ctrl",
        "An alert.",
        "A name",
        "Value",
        "a | b",
        "x is",
        "only one",
        "Underlined",
        "A footnote of two lines.",
        "Shortcut and text.",
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_other_texts_have_the_same_structure_around_them(line_end: str) -> None:
    written = shouted(read("a.md", MARKDOWN.replace("\n", line_end).encode())).decode()
    assert structure(written) == structure(MARKDOWN)
    assert "[SHORTCUT][Shortcut]" in written
    assert written.count(line_end) == MARKDOWN.count("\n")
    assert f"> A QUOTATION THAT{line_end}> IS WRAPPED{line_end}LAZILY." in written
    assert "`code()` AND <https://a.example>" in written


def _moved(passage: Passage, by: int) -> tuple[Tag, ...]:
    """The tags of a passage whose last word has grown `by` characters."""
    start = passage.text.index("hello")
    return tuple(tag._replace(at=tag.at + by) if tag.at > start else tag for tag in passage.tags)


MARKUP = st.text(st.sampled_from(list("*_`[]()<>!#+-=|~\\&;:^.1a b\"'/é猫")), min_size=1, max_size=30)


@settings(max_examples=400)
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
    translations = [unchanged(passage) for passage in document.passages]
    passage = document.passages[number]
    translations[number] = unchanged(
        replace(passage, text=passage.text.replace("hello", translation), tags=_moved(passage, len(translation) - 5))
    )
    written = document.write(translations).decode()
    assert structure(written) == structure(source), written
    shown = "".join(t.content for block in PARSER.parse(written) for t in block.children or [])
    assert "".join(translation.split()) in "".join(shown.split())


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [*"*_`[]()<>!#+-=|~\\& \n:1.\xa0\u3000\v", "a ", "b", "\n\n", "> ", "- ", "```", "[^1]", "<b>", "</b>"]
        )
    )
)
def test_any_markdown_comes_back_to_the_byte(parts: list[str]) -> None:
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
def test_white_space_that_is_text_stays_where_it_was(source: str) -> None:
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
def test_only_what_would_be_markup_is_escaped(source: str, translation: str, expected: str) -> None:
    document = read("a.md", source.encode())
    assert document.write([document.passages[0].write(translation)]).decode() == expected


@pytest.mark.parametrize("bar", ["\\|", "\\\\|", "\\\\\\|"])
def test_a_bar_behind_backslashes_ends_no_cell(bar: str) -> None:
    content = f"| a | b |\n|---|---|\n| c | d {bar} e |\n".encode()
    document = read("a.md", content)
    assert len(document.passages) == 4
    assert as_it_was(document) == content


def test_a_null_character_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="null character"):
        read("a.md", b"a\0b")


def test_more_than_the_parser_can_take_is_refused() -> None:
    with pytest.raises(UnreadableDocument, match="1000001 characters"):
        read("a.md", b"a" * 1_000_001)


@pytest.mark.parametrize(
    "piece", ["[", "*a ", "![", "<a ", "<code>", "<b></i>", "[a](", "^[", "[^a]", "`a``", "> ", "1. "]
)
def test_hostile_repetition_is_read(piece: str) -> None:
    content = (piece * (20_000 // len(piece))).encode()
    assert as_it_was(read("a.md", content)) == content
