"""Equations as MathML, which browsers draw without a script: `$...$` and ```` ```math ````, as Git hosts write them."""

from __future__ import annotations

import re
from collections.abc import Callable

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor


def mathml(latex: str, display: str) -> str:
    """The `<math>` element of a formula, `display` being "inline" or "block".

    The style sheet draws a matrix's brackets, which browsers stretch only with a font for mathematics.
    """
    drawn = convert(latex, display=display)
    return re.sub(r"<mo>&#x0005B;</mo><mtable(>.*?</mtable>)<mo>&#x0005D;</mo>", r'<mtable class="matrix"\1', drawn)


class _Blocks(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        def block(match: re.Match[str]) -> str:
            return "\n" + self.md.htmlStash.store(f'<div class="math">{mathml(match[1], "block")}</div>') + "\n"

        return re.sub(r"^```math\n(.*?)^```$", block, "\n".join(lines), flags=re.M | re.S).split("\n")


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]
        return self.md.htmlStash.store(mathml(m[1], "inline")), m.start(0), m.end(0)


class MathML(Extension):
    """Runs before fenced code (priority 25) and escapes (180), and after code within a line (190)."""

    def extendMarkdown(self, md: Markdown) -> None:
        add: Callable[..., None] = md.preprocessors.register
        add(_Blocks(md), "mathml", 27)
        md.inlinePatterns.register(_Inline(r"\$([^$\n]+)\$", md), "mathml", 185)
