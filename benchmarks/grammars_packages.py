"""Grammars of hostile packages, pages and subtitles; see benchmarks/grammars.py."""

from __future__ import annotations

from benchmarks.grammars import Grammar

GRAMMARS = (
    Grammar(
        "html",
        ".html",
        ("word ", "<br>", "<p>", "<img alt='a'>", "&amp;", "<!-- c -->", "<a href='x'>", "</b>", "\n", "\ufdd20\ufdd3"),
        (("<b>", "</b>"), ("<div>", "</div>"), ("<table><tr><td>", "</td></tr></table>"), ("<ul><li>", "</li></ul>")),
    ),
)
