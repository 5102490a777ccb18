"""Texts for `benchmarks.golden_requests`: of this checkout's tests and docs, of the shared cases and corpora if they
are there, and made from these."""

from __future__ import annotations

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from training.export.samples import own_sentences

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("en", "de", "fr", "es", "zh")
NAMES = ("Anna", "Tom", "Mr. Smith", "Léa", "José", "Zoë", "Kowalski", "Dr. Müller", "Xiaoming", "O'Neill")
PLACEHOLDERS = (
    "{name}", "{0}", "{{count}}", "%s", "%d", "%1$s", "%(user)s", "${value}", ":count", "[X6X]", "$t(key)", "%@",
    "<x/>", "#{total}", "__name__", "@:link", "{n, number}", "\\n", "%%", "&nbsp;", "{{ user.name | upper }}",
)  # fmt: skip
EMOJI = ("🎉", "👍🏽", "❤️", "👩‍👩‍👧", "🇫🇷", "☺", "→", "✓", "™", "🤷‍♀️")
MARKS = ("…", "!!", "?!", ":", ";", " —", "...", "", ")", " (1)", "*", "†", "\u00a0!", "。")
QUOTES = (("“", "”"), ('"', '"'), ("'", "'"), ("«\u00a0", "\u00a0»"), ("„", "“"), ("‘", "’"), ("「", "」"), ("`", "`"))
NUMBERS = (
    "1,234.56", "3.5", "25%", "$1,299.00", "€ 12,50", "12:30", "2024-02-29", "1/2", "10⁶", "v2.4.1", "+49 30 1234-56",
    "№ 7", "1 000 000", "3–5", "0x1F", "IV", "42nd", "-7 °C", "5'11\"", "A4", "192.168.0.1", "10:30 p.m.", "½",
)  # fmt: skip
ICU = (
    "{{n, plural, one {{{0}}} other {{{1}}}}}",
    "{0} {{n, plural, =0 {{no files}} one {{# file}} other {{# files}}}}.",
    "{{gender, select, male {{{0}}} female {{{1}}} other {{They left.}}}}",
    "{{n, selectordinal, one {{#st}} two {{#nd}} few {{#rd}} other {{#th}}}} floor",
    "You have {{count, plural, offset:1 one {{one message}} other {{# messages}}}} from {{name}}. {0}",
    "{{d, date, long}}: {0}",
)
HANDLES = (
    "https://example.org/a?b=c&d=e", "mail@example.org", "@anna@social.example", "#translation", "C:\\Users\\Anna",
    "/usr/local/bin", "README.md", "--help", "Ctrl+S", "foo_bar()", "r/place", "www.example.com.", "GPT-4",
)  # fmt: skip
_CODE = re.compile(r"```.*?```|^( {4}|\||#|>|<|\[|!|-{3}).*?$", re.DOTALL | re.MULTILINE)
_MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|[*`_]")


@dataclass(frozen=True)
class Texts:
    """Texts by language, and where they are from."""

    sentences: dict[str, list[str]] = field(default_factory=lambda: {code: [] for code in LANGUAGES})
    labels: dict[str, list[str]] = field(default_factory=lambda: {code: [] for code in LANGUAGES})
    pairs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """English sentences and their translations, by language."""
    literals: list[str] = field(default_factory=list)
    """What the tests' sources have in quotation marks: texts of every kind, and much else."""
    cases: list[dict[str, object]] = field(default_factory=list)
    """The shared cases' requests of LibreTranslate's API."""
    sources: Counter[str] = field(default_factory=Counter)


def texts_of(corpora: Path | None, shared: Path | None) -> Texts:
    """All texts that there are, in an order that depends on nothing else."""
    found = Texts()
    for code in LANGUAGES:
        own = own_sentences(code)
        found.sentences[code] += own
        found.sources[f"our own sentences in {code}"] += len(own)
    for code, pattern in (("en", "*.md"), ("zh", "*.zh-CN.md")):
        for path in sorted((ROOT / "docs").glob(pattern)):
            if code == "zh" or ".zh-CN" not in path.name:
                sentences = list(_sentences(path.read_text(encoding="utf-8"), code))
                found.sentences[code] += sentences
                found.sources[f"the docs in {code}"] += len(sentences)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        found.literals.extend(_literals(path))
    found.literals[:] = sorted(set(found.literals))
    found.sources["literals of the tests"] += len(found.literals)
    found.labels["en"] += [text for text in found.literals if re.fullmatch(r"[A-Z][a-z]+( [a-z]+){0,3}", text)]
    for path in sorted((shared / "cases").glob("*.json")) if shared else ():
        found.cases.append(json.loads(path.read_text(encoding="utf-8")))
    found.sources["shared cases"] += len(found.cases)
    if corpora:
        _add_corpora(found, corpora)
    return found


def _sentences(markdown: str, code: str) -> Iterator[str]:
    for paragraph in _CODE.sub("", markdown).split("\n\n"):
        text = " ".join(_MARKUP.sub(r"\1", paragraph).split())
        for sentence in re.split(r"(?<=。)" if code == "zh" else r"(?<=[.!?]) +(?=[A-Z])", text):
            if 12 <= len(sentence) <= (60 if code == "zh" else 130) and sentence[-1:] in ".!?。":
                yield sentence


def _literals(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(text := node.value, str):
            letters = sum(map(str.isalpha, text))
            if 2 <= len(text) <= 400 and letters > len(text) / 3 and text.isprintable() and " " in text:
                yield text


def _add_corpora(found: Texts, corpora: Path) -> None:
    """Adds sentences of the parts that are for development, which nothing was trained on."""
    for code in LANGUAGES[1:]:
        for name, count in (("tatoeba.dev", 1500), ("ui.dev", 800), ("newstest*.dev", 150)):
            for path in sorted((corpora / f"en-{code}").glob(f"{name}.tsv")):
                lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
                pairs = [(line[0], line[1]) for line in lines if len(line) > 1 and len(line[0]) <= 200][:count]
                kinds = found.labels if name == "ui.dev" else found.sentences
                kinds["en"] += [english for english, _ in pairs]
                kinds[code] += [other for _, other in pairs]
                if name == "tatoeba.dev":
                    found.pairs[code] = pairs
                found.sources[f"the corpora, {name} of en-{code}"] += len(pairs)


# ---- Texts of one kind each, from sentences


class Draw(random.Random):
    """What is drawn from `texts`."""

    def __init__(self, seed: str, texts: Texts) -> None:
        super().__init__(seed)
        self.texts = texts

    def sentence(self, code: str) -> str:
        return self.choice(self.texts.sentences[code])

    def label(self, code: str) -> str:
        return self.choice(self.texts.labels[code] or self.texts.sentences[code])

    def sentences(self, code: str, low: int, high: int) -> str:
        return ("" if code == "zh" else " ").join(self.sentence(code) for _ in range(self.randint(low, high)))

    def put_in(self, text: str, *given: str) -> str:
        """The text with these put between its words, or its characters if it has one word."""
        words = text.split(" ") if " " in text else list(text)
        space = " " if " " in text else ""
        for each in given:
            words.insert(self.randint(0, len(words)), each)
        return space.join(words)


def mnemonic(draw: Draw, code: str) -> str:
    text, mark = draw.label(code), draw.choice("&&&_~")
    at = draw.randrange(len(text))
    return f"{text[:at]}{mark}{text[at:]}" + draw.choice(["", "", "...", "…", ":", "\tCtrl+O", " (&O)"])


def spaced(draw: Draw, code: str) -> str:
    spaces = ["\t", "  ", "\n", "\n\n", " \n ", "\r\n", "\u00a0", "\u3000", "\n- ", "\n* ", "\n1. ", "\u200b", "\v"]
    parts = [draw.choice([draw.sentence(code), draw.label(code)]) for _ in range(draw.randint(1, 4))]
    return draw.choice(["", *spaces]) + "".join(part + draw.choice(spaces) for part in parts)


def tagged(draw: Draw, code: str) -> str:
    """Inline tags around words, numbered or not, sometimes unbalanced."""
    words = draw.sentence(code).split(" ")
    for _ in range(draw.randint(1, 3)):
        name = draw.choice(["b", "i", "em", "0", "1", "a", "strong", 'g id="1"', "ph", 'span class="x"', "color=red"])
        start = draw.randrange(len(words))
        end = draw.randint(start, len(words) - 1)
        words[start] = f"<{name}>{words[start]}"
        if draw.random() < 0.93:
            words[end] += f"</{name.split()[0].split('=')[0]}>"
    if draw.random() < 0.3:
        words.insert(draw.randint(0, len(words)), draw.choice(["<br>", "<br/>", "<x/>", "<img src='a.png'>", "<2/>"]))
    return " ".join(words)


def icu(draw: Draw, code: str) -> str:
    return draw.choice(ICU).format(draw.sentence(code), draw.sentence(code))


def wrapped(draw: Draw, code: str) -> str:
    words, lines, line = draw.sentences(code, 2, 4).split(" "), list[str](), ""
    for word in words:
        if len(line) + len(word) > 50:
            lines.append(line.rstrip())
            line = ""
        line += f"{word} "
    return "\n".join([*lines, line.rstrip()])


def odd(draw: Draw, code: str) -> str:
    """No sentence, or hardly one."""
    kinds: Sequence[Callable[[], str]] = (
        lambda: draw.choice(["", " ", "\n", "\t\t", ".", "?!", "---", "…", "0", "a", "A.", "😀", "&", "<", "\u0301"]),
        lambda: draw.choice(NUMBERS),
        lambda: draw.choice(HANDLES),
        lambda: draw.choice(NAMES),
        lambda: draw.choice(PLACEHOLDERS) * draw.randint(1, 3),
        lambda: draw.sentence(code)[: draw.randint(1, 20)],
        lambda: "".join(draw.sample(draw.sentence(code), 5)),
        lambda: draw.label(code) + ", " + draw.label(draw.choice(LANGUAGES)),
        lambda: draw.label(code).lower(),
        lambda: " ".join(draw.choice(["ha", "no", "la", "la la"]) for _ in range(draw.randint(3, 12))),
        lambda: draw.sentence(code).replace(" ", "_"),
        lambda: draw.sentence(code).title(),
        lambda: f"{draw.sentence(code)[:-1]}{draw.choice(MARKS)}",
        lambda: "ﬁne ﬂow " + draw.sentence(code),
        lambda: draw.sentence(code).replace("e", "e\u0301"),
    )
    return draw.choice(kinds)()


PLAIN: Mapping[str, tuple[float, Callable[[Draw, str], str]]] = {
    "short": (20, lambda draw, code: draw.sentence(code)),
    "label": (10, lambda draw, code: draw.label(code)),
    "multi": (9, lambda draw, code: draw.sentences(code, 2, 4)),
    "long": (0.7, lambda draw, code: "\n\n".join(draw.sentences(code, 3, 6) for _ in range(3))),
    "capitals": (4, lambda draw, code: draw.choice([draw.sentence(code), draw.label(code)]).upper()),
    "mnemonic": (5, mnemonic),
    "numbers": (6, lambda draw, code: draw.put_in(draw.sentence(code), *draw.choices(NUMBERS, k=draw.randint(1, 3)))),
    "quotes": (4, lambda draw, code: quoted(draw, code)),
    "placeholders": (
        8,
        lambda draw, code: draw.put_in(
            draw.choice([draw.sentence(code), draw.label(code)]), *draw.choices(PLACEHOLDERS, k=draw.randint(1, 3))
        ),
    ),
    "icu": (4, icu),
    "emoji": (3, lambda draw, code: draw.put_in(draw.sentence(code), *draw.choices(EMOJI, k=draw.randint(1, 2)))),
    "spaces": (4, spaced),
    "tags": (6, tagged),
    "handles": (4, lambda draw, code: draw.put_in(draw.sentence(code), draw.choice(HANDLES))),
    "names": (3, lambda draw, code: f"{draw.choice(NAMES)}: {draw.put_in(draw.sentence(code), draw.choice(NAMES))}"),
    "odd": (5, odd),
    "literals": (9, lambda draw, code: draw.choice(draw.texts.literals)),
}
"""Each kind's weight, and how its texts are made."""


def quoted(draw: Draw, code: str) -> str:
    text, (before, after) = draw.sentence(code), draw.choice(QUOTES)
    words = text.split(" ")
    start = draw.randrange(len(words))
    end = draw.randint(start, len(words) - 1)
    words[start], words[end] = before + words[start], words[end] + after
    return draw.choice([" ".join(words), f"{before}{text}{after}", f"{draw.choice(NAMES)}: {before}{text}{after}"])


def markup(draw: Draw, code: str) -> str:
    """A piece of a page: elements, attributes, references, comments, scripts."""
    parts: Sequence[Callable[[], str]] = (
        lambda: f"<p>{tagged(draw, code)}</p>",
        lambda: f'<h2 title="{draw.label(code).replace(chr(34), "")}">{draw.label(code)}</h2>',
        lambda: f"<ul><li>{draw.label(code)}</li><li>{draw.sentence(code)}</ul>",
        lambda: f"<a href='https://example.org/?a=1&amp;b=2'>{draw.label(code)}</a> &mdash; {draw.sentence(code)}",
        lambda: f"<img alt='{draw.label(code).replace(chr(39), '')}' src=a.png><br>{draw.sentence(code)}",
        lambda: f"<td>{draw.choice(NUMBERS)}</td><td translate=no>{draw.label(code)}</td>",
        lambda: f"<!-- {draw.label(code)} --><p>{draw.sentences(code, 2, 3)}</p>",
        lambda: f"<script>var a = '{draw.label(code)}';</script>{draw.sentence(code)}",
        lambda: f"<code>{draw.label(code)}</code> {draw.sentence(code)} &lt;tag&gt; &eacute; &#x2026;",
        lambda: f'<input placeholder="{draw.label(code).replace(chr(34), "")}"><button>{draw.label(code)}</button>',
        lambda: f"<div><p>{draw.sentence(code)}<p>{draw.sentence(code)}</div>\n",
        lambda: f"<blockquote>{draw.sentence(code)}<br/>{draw.sentence(code)}</blockquote>",
        lambda: f"<span>{draw.sentence(code)[:-1]}</span><b>, {draw.label(code)}</b>",
        lambda: f"<pre>\n{draw.label(code)}\n  {draw.label(code)}</pre>",
    )
    return "".join(draw.choice(parts)() for _ in range(draw.choice([1, 1, 1, 2, 3])))


def xml(draw: Draw, code: str) -> str:
    inner = re.sub(r"<(br|img[^>]*)>|=red", "", tagged(draw, code).replace("&", "&amp;"))
    wraps = (
        "<doc><title>{}</title></doc>",
        '<?xml version="1.0"?><seg>{}</seg>',
        "<a><b/>{}<![CDATA[<i>Hello</i> there.]]></a>",
        '<string name="x">{}</string>',
        "<t:p xmlns:t='urn:t'>{}</t:p><!-- no -->",
        "{}<x id='1'/>",
    )
    return draw.choice(wraps).format(inner)
