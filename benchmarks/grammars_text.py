"""Grammars of hostile catalogues, tables and reviews; see benchmarks/grammars.py."""

from __future__ import annotations

from benchmarks.grammars import NUMBER, Grammar

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
            "a: ",
            "? ",
            "!x ",
            "'it''s',",
            '"\\u0041",',
            "| \n  line\n",
            "  ",
            "# c\n",
            "\n",
            "{% raw %}",
        ),
        (("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", ""), ("[{a: [", "]}]")),
    ),
)
