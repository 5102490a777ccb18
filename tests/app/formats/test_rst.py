"""reStructuredText: docutils finds the same structure around other texts, and nothing else in the file changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from app.formats import Document, UnreadableDocument, read
from app.formats.rst_inline import CLOSE, END, MARKERS, OPEN, WHOLE
from app.formats.rst_lines import Lines, lines_of
from app.formats.rst_tables import cells_of, with_texts
from app.markup.passage import Passage
from app.markup.render import render_source
from tests.app.formats.test_formats import as_it_was, shouted, texts

RST = """.. _top:

=======
A title
=======

:Author: Jo Doe
:param name: The name of *something*.
:type name: str

Some *emphasised text* and **strong words**, with ``code()``, `a role`, :class:`int`,
the :ref:`title of a link <top>`, a `page <https://a.example/x_y>`_, |version| and [1]_;
see also Python_ and `A section`_, at https://a.example/a_b or me\\*.

A section
---------

* a bullet item
  in two lines

  with a second paragraph
* another one

  1. an enumerated item
  2. and one more

term
    Its definition.
``code`` : classifier
    Not a term to translate.

-o FILE, --output=FILE   Write to that file.
--quiet                  Say nothing.

| The first line
| the second one,
  which goes on

    A quotation.

    -- Its author

.. [1] A footnote
   of two lines.
.. [Ref2024] A citation.

.. note:: A note that begins
   beside its name.

   - with a list

.. admonition:: A title of its own
   :class: special

   And text.

.. versionadded:: 3.4
   The version is kept.

.. figure:: picture.png
   :alt: A picture of a cat
   :width: 10%

   The caption.

   The legend.

.. toctree::
   :maxdepth: 2
   :caption: The contents

   A page with a title <page>
   other/page

.. code-block:: python
   :caption: The caption of code

   print("not text")

.. py:function:: f(x)
   :noindex:

   What it does.

.. list-table:: A table of lists
   :header-rows: 1

   * - Name
     - Value
   * - The first
     - 1

.. unknown:: argument

   not.text{}

.. unknown:: argument

   A sentence that is certainly text, and not code.

.. a comment

.. |version| replace:: one

An example::

    literal text

Another one: ::

    literal text

>>> doctest
text

+-----------+----------------+
| Head      | Another head   |
+===========+================+
| one       | two words      |
|           | in two lines   |
+-----------+----------------+
| A cell over both columns   |
+-----------+----------------+

=====  ===========
Left   Right
=====  ===========
a      a text
       that goes on
b      last
=====  ===========

.. _Python: https://python.example/
"""
PASSAGES = [
    "A title",
    "The name of something.",
    "Some emphasised text and strong words, with code(), a role, int, the title of a link, a page, version and [1]_; "
    "see also Python and A section, at https://a.example/a_b or me*.",
    "A section",
    "a bullet item in two lines",
    "with a second paragraph",
    "another one",
    "an enumerated item",
    "and one more",
    "term",
    "Its definition.",
    "Not a term to translate.",
    "Write to that file.",
    "Say nothing.",
    "The first line",
    "the second one, which goes on",
    "A quotation.",
    "Its author",
    "A footnote of two lines.",
    "A citation.",
    "A note that begins beside its name.",
    "with a list",
    "A title of its own",
    "And text.",
    "The version is kept.",
    "A picture of a cat",
    "The caption.",
    "The legend.",
    "The contents",
    "A page with a title",
    "The caption of code",
    "What it does.",
    "A table of lists",
    "Name",
    "Value",
    "The first",
    "A sentence that is certainly text, and not code.",
    "An example:",
    "Another one:",
    "Head",
    "Another head",
    "one",
    "two words in two lines",
    "A cell over both columns",
    "Left",
    "Right",
    "a",
    "a text that goes on",
    "b",
    "last",
]


class Lenient(Directive):
    """In the place of the directives of Sphinx."""

    has_content, optional_arguments, final_argument_whitespace = True, 9, True
    option_spec = dict.fromkeys(["caption", "maxdepth", "noindex", "class"], directives.unchanged)

    def run(self) -> list[nodes.Node]:
        node = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


@pytest.fixture(autouse=True)
def sphinx(monkeypatch: pytest.MonkeyPatch) -> None:
    role, directive = roles.role, directives.directive

    def any_role(name: str, *arguments: Any) -> Any:
        found, _ = role(name, *arguments)
        return found or (lambda _, raw, text, *more: ([nodes.inline(raw, text)], [])), []

    def any_directive(name: str, *arguments: Any) -> Any:
        return directive(name, *arguments)[0] or Lenient, []

    monkeypatch.setattr(roles, "role", any_role)
    monkeypatch.setattr(directives, "directive", any_directive)


def tree(text: str) -> nodes.document:
    settings = {"_disable_config": True, "report_level": 5, "halt_level": 5, "file_insertion_enabled": False}
    return publish_doctree(text, settings_overrides=settings)


def faults(text: str) -> Counter[str]:
    """What docutils complains of."""
    return Counter(one.astext().partition(" ")[2].split('"')[0] for one in tree(text).findall(nodes.system_message))


def structure(text: str) -> list[str]:
    """The elements of a document; those of a paragraph in any order."""

    def found(node: nodes.Node) -> Iterator[str]:
        kept = (nodes.literal, nodes.literal_block, nodes.comment, nodes.doctest_block)
        yield f"{type(node).__name__} {node.astext()}" if isinstance(node, kept) else type(node).__name__
        for child in node.children:
            if isinstance(child, nodes.Element) and not isinstance(child, (nodes.system_message, nodes.target)):
                yield from found(child)

    return sorted(found(tree(text)))


def written_with(document: Document, text: str) -> str:
    """The document with `text` around and between the markup of each passage."""

    def told(passage: Passage) -> str:
        raws = [tag.raw for tag in passage.tags] + [span.raw for span in passage.protected]
        inside = [raw for raw in raws if raw.startswith(OPEN)]
        whole = [raw for raw in raws if raw.startswith(WHOLE)]
        closing = [raw for raw in raws if raw.startswith(CLOSE)]
        pairs = [f"{a}{passage.write(text)}{b}" for a, b in zip(inside, closing, strict=True)]
        return passage.write(text).join(["", *pairs, *whole, ""])

    return document.write([told(passage) for passage in document.passages]).decode()


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_unchanged_texts_reproduce_the_document_byte_for_byte(line_end: str) -> None:
    for text in (RST, RST.rstrip("\n"), RST.replace("    ", "\t"), RST.replace("\n", "  \n")):
        content = text.replace("\n", line_end).encode()
        assert as_it_was(read("a.rst", content)) == content


def test_passages_are_the_displayed_text() -> None:
    assert texts(read("a.rst", RST.encode())) == PASSAGES


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_other_texts_keep_the_structure_around_them(line_end: str) -> None:
    written = shouted(read("a.rst", RST.replace("\n", line_end).encode())).decode()
    assert structure(written) == structure(RST)
    assert faults(written) == faults(RST)
    assert written.count(line_end) == RST.count("\n")
    assert f".. note:: A NOTE THAT BEGINS{line_end}   BESIDE ITS NAME.{line_end}" in written
    assert f"| AND ``x``{line_end}" not in written


def test_docutils_settings_do_not_limit_lines() -> None:
    assert texts(read("a.rst", b"word " * 4_000)) == [("word " * 4_000).strip()]


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("A *b c* d", "A *B C* D"),
        ("A :ref:`b c <d>` e", "A :ref:`B C <d>` E"),
        ("A :func:`open() <io.open>` e", "A :func:`open() <io.open>` E"),
        ("A `b c <d>`:doc: e", "A `B C <d>`:doc: E"),
        ("A :class:`b` `c` ``d e``", "A :class:`b` `c` ``d e``"),
        ("A :strong:`b c` d", "A :strong:`B C` D"),
        ("A `b c <https://d.example>`_ e", "A `B C <https://d.example>`__ E"),
        ("A `b c <d_>`__ e", "A `B C <d_>`__ E"),
        ("A `<https://d.example>`_ e", "A `<https://d.example>`_ E"),
        ("A `b c`_ d", "A `B C <b c_>`__ D"),
        ("A b_ c", "A `B <b_>`__ C"),
        ("A b-c_ d", "A b-c_ D"),
        ("A |b c| d [#e]_ _`f g`", "A |b c| D [#e]_ _`f g`"),
        ("A `b <c>`_ and b_", "A `b <c>`_ AND `B <b_>`__"),
        ("H\\ :sub:`2`\\ O and re\\ *mark*\\ able", "H\\ :sub:`2`\\ O AND RE\\ *MARK*\\ ABLE"),
        ("A \\*b c\\_ d\\\\e 2 * 3 f", "A \\*B C\\_ D\\\\E 2 * 3 F"),
        ("A 'b' (*c*) \"*\" e", "A 'B' (*C*) \"*\" E"),
        ("A __init__ b", "A __INIT__ B"),
        ("A\\\nb c", "AB C"),
        ("A ``b\nc`` d\ne", "A ``b\nc`` D\nE"),
        ("- a\n  b\n\n  c", "- A\n  B\n\n  C"),
        ("a -- b", "A -- B"),
        ("A::\n\n  b", "A::\n\n  b"),
        ("A ::\n\n  b", "A ::\n\n  b"),
        ("A b\n::\n\n  c", "A B\n::\n\n  c"),
        ("Ab\n==\n\nCd\n--\n", "AB\n==\n\nCD\n--\n"),
        (".. note:: a\n", ".. note:: A\n"),
        (".. note::\n   :class: x\n\n   a\n", ".. note::\n   :class: x\n\n   A\n"),
        (".. versionadded:: 3.4 a b\n   c\n", ".. versionadded:: 3.4 A B\n   C\n"),
        (".. deprecated-removed:: 3.4 3.6 a\n", ".. deprecated-removed:: 3.4 3.6 A\n"),
        (".. image:: a.png\n   :alt: a *b*\n     c\n", ".. image:: a.png\n   :alt: A *B*\n     C\n"),
        (".. glossary::\n\n   term\n     a\n\n     b\n", ".. glossary::\n\n   term\n     A\n\n     B\n"),
        (".. only:: html\n\n   Ab\n   --\n\n   c\n", ".. only:: html\n\n   AB\n   --\n\n   C\n"),
        (".. rubric:: a b\n", ".. rubric:: A B\n"),
        (".. csv-table:: a b\n   :header: c\n\n   d,e\n", ".. csv-table:: A B\n   :header: c\n\n   d,e\n"),
        *(
            (kept, kept)
            for kept in (
                ".. include:: /etc/passwd\n",
                ".. raw:: html\n\n   <b>a b</b>\n",
                ".. csv-table::\n   :file: a b\n",
                ".. math::\n\n   a b\n",
                ".. a comment\n   of lines\n",
                ".. |a| replace:: b c\n",
                ".. _a: b c\n",
                "__ a b\n",
                ".. index:: a b\n",
                ".. code-block:: c\n\n   a b\n",
                "PEP: 8\nTitle: A b\n",
                "term : classifier\n  1\n",
                "+---+\n| a\n",
            )
        ),
    ],
)
def test_only_text_is_translated(source: str, written: str) -> None:
    document = read("a.rst", source.encode())
    assert as_it_was(document).decode() == source
    assert shouted(document).decode() == written


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        ("A title\n=======\n", "一个很长的标题", "一个很长的标题\n==============\n"),
        ("=====\n  a\n=====\n", "Un titre", "==========\n  Un titre\n==========\n"),
        ("a", "- b", "\\- b"),
        ("a", "1. b", "\\1. b"),
        ("a", ".. b", "\\.. b"),
        ("a", ":b: c", "\\:b: c"),
        ("a", "| b", "\\| b"),
        ("a", "...", "\\..."),
        ("a", "b::", "b:\\:"),
        ("a:", "b ：", "b ："),
        ("a::\n\n  b", "一：", "一： ::\n\n  b"),
        ("a b\n::\n\n  c", "一", "a b\n::\n\n  c"),
        ("a", "b_ c__ *d `e` |f| g*h [1]_", "b\\_ c\\_\\_ \\*d \\`e\\` \\|f| g*h [1]\\_"),
        ("a", "b\\", "b\\\\"),
        ("a", "b\0\ufdd6c\u2028d\ne", "bc d e"),
        ("a", "b\0\x85", "b"),
        ("  a", "-- b", "  \\-- b"),
        ("a\n  b", ("c : d", "e"), "c \\: d\n  e"),
        ("*a*", f"{OPEN}*{END} b c {CLOSE}*{END}", "*b c*"),
        ("*a*", f"b{OPEN}*{END}c{CLOSE}*{END}d", "b\\ *c*\\ d"),
        ("*a*", f"用{OPEN}*{END}代码{CLOSE}*{END}登录", "用\\ *代码*\\ 登录"),
        ("``a`` b", f"用{WHOLE}``a``{END}，{WHOLE}``c``{END}{WHOLE}``d``{END}", "用\\ ``a``，``c``\\ ``d``"),
        ("*a* ``b``", f"{OPEN}*{END}c {WHOLE}``b``{END} d{CLOSE}*{END}", "*c* ``b`` *d*"),
        ("*a*", f"{OPEN}*{END}b*c{CLOSE}*{END}", "*b\\*c*"),
        ("`a <b>`__", f"{OPEN}`{END}c <d>{CLOSE} <b>`__{END}", "`c \\<d\\> <b>`__"),
        ("``)``  a", f"({WHOLE}``)``{END} b", "(\\ ``)`` b"),
        ("a\nb", "c\n。", "c。"),
        ("a\nb", "c\n---", "c\n\\---"),
    ],
)
def test_any_translation_is_text(source: str, translation: str | tuple[str, ...], written: str) -> None:
    document = read("a.rst", source.encode())
    given = [translation] if isinstance(translation, str) else translation
    told = [
        text if MARKERS.search(text) and "\0" not in text else "\n".join(map(passage.write, text.split("\n")))
        for passage, text in zip(document.passages, given, strict=True)
    ]
    assert document.write(told).decode() == written
    assert faults(written) <= faults(source)


def test_reference_to_a_title_finds_it_under_its_old_name() -> None:
    source = "A title\n=======\n\nSee `A title`_.\n"
    document = read("a.rst", source.encode())
    titles = [f"{OPEN}`{END}Un titre{CLOSE} <A title_>`__{END}."]
    written = document.write(["Un titre", *titles]).decode()
    assert written == ".. _`A title`:\n\nUn titre\n========\n\n`Un titre <A title_>`__.\n"
    assert not faults(written)


@pytest.mark.parametrize(
    ("source", "before"),
    [
        ("A title\n=======\n\nSee :ref:`A title`.\n", ".. _`A title`:\n\n"),
        ("A title\n=======\n\nSee `A\ntitle`:std:ref:.\n", ".. _`A title`:\n\n"),
        ("标题\n====\n\nSee :ref:`标题`.\n", ".. _`标题`:\n\n"),
        ("A title\n=======\n\nSee :ref:`A title <b>`.\n", ""),
        ("Title\n=====\n\nSee :ref:`title`.\n", ""),
        (".. _A title:\n\nA title\n=======\n\nSee :ref:`A title`.\n", ".. _A title:\n\n"),
        ("A title\n=======\n\nSee :term:`A title`.\n", ""),
    ],
)
def test_role_that_refers_to_a_title_finds_it_under_its_old_name(source: str, before: str) -> None:
    document = read("a.rst", source.encode())
    written = document.write(["Un titre", *map(render_source, document.passages[1:])]).decode()
    assert written.partition("Un titre\n")[0] == before


def test_anonymous_references_keep_their_order() -> None:
    source = "A b__ `c d`__.\n\n__ d\n__ e\n"
    document = read("a.rst", source.encode())
    one, two = (f"{WHOLE}{raw}{END}" for raw in ("b__", "`c d`__"))
    assert document.write([f"x {one} {two}"]).decode().startswith("x b__ `c d`__\n")
    assert document.write([f"x {two} {one}"]).decode() == source
    assert shouted(read("a.rst", b"A `b c`__ d__\\ e")).decode() == "A `b c`__ d__\\ E"
    assert shouted(read("a.rst", b"A `b c`__ d")).decode() == "A `B C`__ D"


SIMPLE = "===  ===\na    b\n===  ==="
TABLE = """
+------+---------+
| a    | b       |
|      |         |
|      | - c     |
+------+    d    |
| e f  |         |
+------+---------+
| g              |
+----------------+
"""


@pytest.mark.parametrize("text", ["x", "一个很长的文字", "a long text that is wider than its cell", "e\u0301e\u0301"])
@pytest.mark.parametrize("indent", ["", "   "])
def test_cells_of_tables_grow_with_their_texts(text: str, indent: str) -> None:
    lines = RST[RST.index("+---") : RST.index(".. _Python")]
    for table in (lines, TABLE):
        source = "".join(f"{indent}{line}".rstrip() + "\n" for line in table.splitlines())
        written = written_with(read("a.rst", source.encode()), text)
        assert not faults(written)
        assert structure(written) == structure(source)
        shown = "\n".join(entry.astext() for entry in tree(written).findall(nodes.entry))
        assert shown.count(text) == len(read("a.rst", source.encode()).passages)


def test_table_without_room_for_lines_stays() -> None:
    block = Lines(lines_of(SIMPLE))
    grid = cells_of(block, False)
    assert with_texts(grid, [["c"], ["d"]]) == ["===  ===", "c    d", "===  ==="]
    assert with_texts(grid, [["c"], ["d", "e"]]) is None
    assert with_texts(grid, [["-"], [""]]) is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- " * 100 + "a", "nested too deeply"),
        ("a\0", "null character"),
        ("a" * 1_000_001, "may have 1000000"),
        ("\n".join(["+-" * 400 + "+", "|+" * 400 + "|"] * 40 + ["+-" * 400 + "+"])[:-3] + "|+", None),
    ],
)
def test_hostile_file_is_refused_or_read(text: str, fault: str | None) -> None:
    if fault:
        with pytest.raises(UnreadableDocument, match=fault):
            read("a.rst", text.encode())
    else:
        assert as_it_was(read("a.rst", text.encode())).decode() == text


def test_nothing_of_a_file_is_included(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret", encoding="utf-8")
    text = f".. include:: {secret}\n\n.. raw:: html\n   :file: {secret}\n\n.. csv-table:: a\n   :file: {secret}\n"
    document = read("a.rst", text.encode())
    assert "secret" not in "".join(texts(document))
    assert as_it_was(document).decode() == text


MARKS = "a ,b,word ,  ,   ,*,**,`,``,|,_,__,\\,:a:,::,..,.. a:: ,- ,1. ,<b>,=,==== ,|  |,[1]_,),>>> ,-a  ,:a: ,.. _a: "
PIECES = st.sampled_from(
    [*MARKS.split(","), "\n", "\n\n", "+--+\n", "\t", "一", '"', "\r\n", "\x0b", "\x85", "\u2028", "e\u0301"]
)


@pytest.mark.slow
@draw_examples(300)
@given(text=st.lists(PIECES, max_size=40).map("".join), translation=st.lists(PIECES, max_size=8).map("".join))
def test_any_file_comes_back_and_holds_any_translation(text: str, translation: str) -> None:
    try:
        document = read("a.rst", text.encode())
    except UnreadableDocument:
        return
    assert as_it_was(document).decode() == text
    read("a.rst", written_with(document, translation or "x").encode())
    read("a.rst", shouted(document))
