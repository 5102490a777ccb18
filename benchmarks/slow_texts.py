"""Searches for texts that take the front long: to plan, to check and to render; the decoder is a fake one.

    python -m benchmarks.slow_texts --minutes 60
    python -m benchmarks.slow_texts --minutes 2 --kind html --kind glossary --seed 7

A recipe is a list of blocks, each of which repeats or nests a few pieces until it fills its share of a text. For each
kind of request, a hill climb changes recipes so that a text of 4 KB takes as much work as possible: processor time in
units of what this machine takes for a fixed piece of work, about a millisecond (app/runtime/work_unit.py). The worst
text of a kind may take 500 units and 64 MB, eight times as much text at most twenty times as much, and no call on the
event loop more than 50 units at 50,000 characters. Anything else ends the program, which prints the recipe. It needs
the bundles in bundles/, whose weights it does not load.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import math
import random
import time
import tracemalloc
from asyncio import Future, events
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.api.deepl.text import TextRequest, to_items
from app.engine import sequence as engine
from app.engine.sequence import Decoded
from app.errors import ServiceError
from app.runtime.work_unit import unit_seconds
from app.services.startup import load_catalogue
from app.settings import Settings
from app.text.line_breaks import ReflowedText
from app.text.memory_index import MemoryIndex, MemorySnapshot, Pair
from app.translation.attention import Kind as AttentionKind
from app.translation.attention import Selection, attend
from app.translation.memory import MemoryMode, MemoryOption
from app.translation.scoring import GivenPair, score_pairs
from app.translation.translator import Translator
from app.translation.types import AUTO, Item, Options
from benchmarks import text_blocks
from benchmarks.text_blocks import NUMBER, Length, changed_blocks, random_blocks, text_of, utf8_length
from benchmarks.text_blocks import Blocks as Recipe
from model.bundle import Bundle

SIZE = 4_096
"""Bytes of UTF-8, as a request carries a text."""
MAX_WORK, MAX_BYTES = 500, 64 << 20
"""Of a text of that size."""
GROWTH = 8
MAX_GROWTH = 2.5 * GROWTH
"""How much more work a text `GROWTH` times as long may take."""
MIN_WORK = 20
"""Less is too little to compare."""
ATTEMPTS = 6
"""Measurements of what seems to take too much, of which the least counts: a busy machine only ever adds to it."""
LONG_SIZE, MAX_HELD_WORK = 50_000, 50
"""The characters of the longest text that the default settings accept, and how long it may keep the event loop from
other requests."""
PIECES = (
    *("\u0301", "\u0316", "\u0345", "\u0f73", "\u0334", "\u05b0", "\u3099", "e\u0301", "\u1100\u1161", "\ufe0f"),
    *("\u200b", "\u200d", "\u200c", "\u00ad", "\u202e", "\u2066", "\ufeff", "\u061c", "\ufdd0", "\ufdd4", "\uffff"),
    *("1", "0", "1,", "1.", "1.1", "1 ", "1 000 ", "１", "٣", "1-1", "1/1", "+1", "№1 ", f"{NUMBER} ", f"{NUMBER}."),
    *("(", ")", "[", "]", "{", "}", "()", "[]", "{}", "(a", "[a](", "[a](b)", "![", "](", "{a} ", "{{", "}}", "(s)"),
    *('"', "'", "«", "»", "“", "”", "‘", "’", "„", "「", "」", "『", "`", "``", "```", "~~~", "*", "**", "_", "~~"),
    *("<", ">", "<b>", "</b>", "<b>a</b>", "<a ", "<a b=", '<a b="', "</", "<!--", "-->", "<![CDATA[", "]]>", "<?"),
    *('<img alt="a">', "<br>", "<p>", "<li>", "<td>", "<i>", "</i>", "<x>", "<x/>", "<code>", "</code>", '" title="a'),
    *("&amp;", "&nbsp;", "&#160;", "&#1", "&", "&a;", "&shy;", "&lt", "&CounterClockwiseContourIntegral;", "&#x301;"),
    *('<span title="a b">', '<i translate="no">', f"<i{NUMBER}>", f"</i{NUMBER}>", '<a class="', "<script>", "<%"),
    *("%s", "%d", "%(a)s", "%1$s", "%%", "%", "$a", "$(a)", "#a", "@a", "@a.", ":a:", "::", "a::", "--a", "-a ", "{0}"),
    *(
        "https://a.b/",
        "http://",
        "www.",
        "a.com/",
        "a@b.c ",
        "a@",
        "a.b.",
        "/a",
        "/",
        "a/",
        "C:\\a ",
        "\\\\a\\",
        "a.md",
    ),
    *("aA", "aAa", "Aa", "A", "a_", "_a", "a_A1", "a-", "A1-", "A1", "1a", "0x", "v1.", "a1B", "ABC ", "__A", "a()"),
    *("😀", "👩\u200d", "1\ufe0f\u20e3", "🇫🇷", "→", "☃", "©", "\ufffc", "\ufffd", "①", "½", "°C", "&", "€"),
    *(" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2009", "\u3000", "\u2028", "\x0b", "\x85", "\x00"),
    *(
        "我",
        "我们",
        "。",
        "，",
        "、",
        "！",
        "我。",
        "カ",
        "ا",
        "ש",
        "ह",
        "ก",
        "가",
        "ж",
        "жук ",
        "我 ",
        "ﬁ",
        "ß",
        "İ",
        "ı",
    ),
    *("a", "ab ", "cat ", "the cat ", "The cat sleeps. ", "Hello ", "Hello. ", "haha", "ha ", "x", "I ", "CAT ", "e"),
    *(f"w{NUMBER} ", f"Word{NUMBER}. ", f"{NUMBER}w", f"a{NUMBER}. ", f"q{NUMBER}\n", f"X{NUMBER}", f"é{NUMBER} "),
    *(".", "!", "?", "!!", "?!", "…", "..", ". ", "! ", "a. ", "A. ", "a? ", "Dr. ", "e.g. ", "etc. ", "No. 1 ", ", "),
    *(":", ";", "-", "–", "—", "|", " | ", "- ", "* ", "1. ", "> ", "# ", "//", "a, ", "·", "¡", "¿", "¿a? ", "!a"),
    *("{n, plural, one {a} other {b}}", "{n, select, a {", "other {#}}", "{n, plural, ", "one {", "other {", "=1 {"),
    *("'{", "''", "'", "} ", "{n}", "{n, number}", "# ", "{n, select, other {", "&a", "_a ", "&&"),
)
"""What texts are made of."""


class FakeDecoder:
    """Answers at once: with the source itself, with the source backwards, or with one token up to the limit."""

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self.ends = {bundle.spec.name: bundle.target_tokenizer.eos_id for bundle in bundles}
        self.mode = 0

    async def decode(
        self, sequences: list[engine.Sequence], deadline: float, client: str = "", continues: bool = False
    ) -> list[Future[Decoded]]:
        futures: list[Future[Decoded]] = []
        for sequence in sequences:
            future: Future[Decoded] = asyncio.get_running_loop().create_future()
            future.set_result(self._decoded(sequence))
            futures.append(future)
        return futures

    def _decoded(self, sequence: engine.Sequence) -> Decoded:
        source, limit = sequence.source, sequence.limit
        if sequence.forced is not None:
            made = sequence.forced
        elif self.mode == 0:
            made = (*sequence.prefix, *source[len(sequence.prefix) :])
        elif self.mode == 1:
            made = (*sequence.prefix, *source[::-1])
        else:
            made = (*sequence.prefix, *sequence.required, *source[:1] * limit)
        made = made[: max(limit, len(sequence.prefix))]
        made += tuple(token for token in sequence.required if token not in made)
        tokens = (*made, self.ends[sequence.model])
        last = max(0, len(source) - 1)
        places, end = (range(last, 0, -1), 0) if self.mode == 1 else (range(last), last)
        aligned = (*places, *[end] * len(tokens))[: len(tokens)]
        coverage = (0.05,) * (len(source) + 1)
        others = tuple(
            Decoded((*made[:n], tokens[-1]), (-2.0,) * (n + 1), "stop", aligned[: n + 1], coverage)
            for n in range(1, min(sequence.beam_size, len(made)))
        )
        attention = _no_attention(len(source) + 1, len(tokens)) if sequence.attention else None
        return Decoded(tokens, (-1.0,) * len(tokens), "stop", aligned, coverage, others, attention)


def _no_attention(source: int, target: int) -> engine.Attention:
    def weights(queries: int, keys: int) -> engine.Weights:
        return engine.Weights((1, 1, queries, keys), "float32", np.zeros((queries, keys), np.float32).tobytes())

    return engine.Attention(weights(source, source), weights(target, target), weights(target, source))


class Lab:
    """A translator without workers, and how requests of each kind reach it."""

    def __init__(self) -> None:
        settings = Settings(bundles=(Path("bundles"),), deadline_ms=3_600_000)
        catalogue = load_catalogue(settings)
        self.decoder = FakeDecoder(list(catalogue))
        self.translator = Translator(catalogue, self.decoder, settings)
        self.translator.detector.load()
        index = MemoryIndex("en", "fr")
        for number, text in enumerate(("The cat sleeps.", "Hello {a} 1.", "1 1 1 1 1 1", "Open the file 1, please.")):
            index.put(Pair(text, text, 0.0, ""), number + 1)
        self.memory = {("en", "fr"): MemorySnapshot(index, 4)}

    async def _translate(self, item: Item, options: Options) -> None:
        await self.translator.translate([item], options)

    async def text(self, text: str) -> None:
        await self._translate(text, Options("en", "fr"))

    async def messages(self, text: str) -> None:
        await self._translate(text, Options("en", "fr"))

    async def german(self, text: str) -> None:
        await self._translate(text, Options("de", "en"))

    async def chinese(self, text: str) -> None:
        await self._translate(text, Options("zh", "en"))

    async def stream(self, text: str) -> None:
        async for _ in self.translator.stream([text], Options("en", "zh")):
            pass

    async def auto(self, text: str) -> None:
        await self._translate(text, Options(AUTO, "en"))

    async def html(self, text: str) -> None:
        await self._translate(text, Options("en", "fr", html=True))

    async def alignment(self, text: str) -> None:
        await self._translate(text, Options("en", "fr", alternatives=2, alignment=True))

    async def glossary(self, text: str) -> None:
        text, terms = _halves(text)
        await self._translate(text, Options("en", "fr", glossary=_terms(terms)))

    async def pivot(self, text: str) -> None:
        text, terms = _halves(text)
        await self._translate(text, Options("de", "fr", glossary=_terms(terms)))

    async def pivot_html(self, text: str) -> None:
        await self._translate(text, Options("de", "fr", html=True))

    async def pivot_alignment(self, text: str) -> None:
        await self._translate(text, Options("de", "fr", alignment=True))

    async def prefix(self, text: str) -> None:
        text, prefix = _halves(text)
        await self._translate(text, Options("en", "fr", prefix=prefix or "a"))

    async def joined(self, text: str) -> None:
        lines = await asyncio.to_thread(ReflowedText.of, text, "join")
        await self._translate(lines.text, Options("en", "fr"))
        await asyncio.to_thread(lines.rewrap, lines.text)

    async def score(self, text: str) -> None:
        await score_pairs(self.translator, [GivenPair(*_halves(text))], "en", "fr")

    async def attention(self, text: str) -> None:
        kinds: list[AttentionKind] = ["encoder", "decoder", "cross"]
        await attend(self.translator, "en", "fr", *_halves(text), Selection(kinds))

    async def deepl(self, text: str) -> None:
        await self._deepl(text, tag_handling=None, split_sentences="nonewlines")

    async def deepl_whole(self, text: str) -> None:
        await self._deepl(text, tag_handling=None, split_sentences="0")

    async def deepl_xml(self, text: str) -> None:
        names = {"ignore_tags": ["i"], "splitting_tags": ["x"], "non_splitting_tags": ["p"]}
        await self._deepl(text, tag_handling="xml", split_sentences="nonewlines", outline_detection=False, **names)

    async def deepl_html(self, text: str) -> None:
        await self._deepl(text, tag_handling="html", split_sentences="0")

    async def _deepl(self, text: str, **fields: object) -> None:
        body = TextRequest.model_validate({"text": [text], "target_lang": "FR", **fields})
        [item] = await to_items(body)
        await self._translate(item, Options("en", "fr"))

    async def exact_memory(self, text: str) -> None:
        await self._remembered(text, "exact")

    async def repaired_memory(self, text: str) -> None:
        await self._remembered(text, "repair")

    async def _remembered(self, text: str, mode: MemoryMode) -> None:
        await self._translate(text, Options("en", "fr", memory=MemoryOption(self.memory, mode)))


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _terms(text: str) -> dict[str, str]:
    """As many terms of a glossary as there are words, up to 200 characters each."""
    words = text.split(" ")
    pairs = (" ".join(words[at : at + 1 + at % 9])[:200].strip() for at in range(len(words)))
    return {term: term for term in pairs if term and not any(map(_is_control, term))}


def _is_control(character: str) -> bool:
    return not character.isprintable() and not character.isspace()


KINDS: dict[str, Callable[[Lab, str], Awaitable[None]]] = {
    name.replace("_", "-"): method for name, method in vars(Lab).items() if not name.startswith("_")
}
MARKED = [piece for piece in PIECES if set("<>&") & set(piece)]
MESSAGES = [piece for piece in PIECES if set("{}#'") & set(piece)]
FAVOURITES = {"messages": MESSAGES, "html": MARKED, "deepl-xml": MARKED, "deepl-html": MARKED, "pivot-html": MARKED}
"""Pieces that are likelier in texts of a kind."""


class Cost(NamedTuple):
    """What a request took, and the longest call on the event loop, in units of work."""

    work: float
    held_work: float


def measure(lab: Lab, kind: str, recipe: Recipe, size: int, length: Length = utf8_length) -> Cost:
    """The cost of a text in the mode of the decoder that is set. A refusal is an answer."""
    text = text_of(recipe, size, length)
    held = 0.0
    run = events.Handle._run

    def timed(handle: events.Handle) -> None:
        nonlocal held
        start = time.thread_time()
        run(handle)
        held = max(held, time.thread_time() - start)

    async def request() -> None:
        with contextlib.suppress(ServiceError):
            await KINDS[kind](lab, text)

    lab.decoder.mode = len(recipe[0].pieces) % 3
    gc.disable()  # a collection would fall on some texts and not on others
    events.Handle._run = timed  # type: ignore[method-assign, assignment]
    start = time.process_time()
    try:
        asyncio.run(request())
    finally:
        events.Handle._run = run  # type: ignore[method-assign]
        gc.enable()
    return Cost((time.process_time() - start) / unit_seconds(), held / unit_seconds())


def peak_bytes(lab: Lab, kind: str, recipe: Recipe, size: int) -> int:
    """The most memory that a request took at a time."""
    tracemalloc.start()
    try:
        measure(lab, kind, recipe, size)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def least(measured: Callable[[], float], limit: float) -> float:
    """Of measurements, until one is within the limit."""
    found = math.inf
    for _ in range(ATTEMPTS):
        found = min(found, measured())
        if found <= limit:
            break
    return found


def faults(lab: Lab, kind: str, recipe: Recipe, size: int = SIZE) -> list[str]:
    """What is wrong with the cost of a recipe's texts of `size` and of more bytes, up to `GROWTH` times as many."""

    def work(at: int, limit: float) -> float:
        return least(lambda: measure(lab, kind, recipe, at).work, limit)

    found = list[str]()
    # A short text may take half of a long one's: what runs beside it counts for more there.
    allowed = MAX_WORK * max(size / SIZE, 0.5)
    once = work(size, allowed)
    if once > allowed:
        found.append(f"{size:,} bytes take {once:.0f} units of work")
    for times in (2, 4, GROWTH):  # so that what is quadratic is noticed before it takes minutes
        limit = MAX_GROWTH / GROWTH * times * max(MIN_WORK, once)
        longer = work(times * size, limit)
        if longer > limit:
            found.append(f"{size:,} bytes take {once:.0f} units of work, {times} times as many take {longer:.0f}")
            break
    if (peak := peak_bytes(lab, kind, recipe, size)) > MAX_BYTES:
        found.append(f"{size:,} bytes take {peak >> 20} MB")
    return found


def held_work(lab: Lab, kind: str, recipe: Recipe) -> float:
    """The units of the longest call on the event loop for a text of `LONG_SIZE` characters."""
    return least(lambda: measure(lab, kind, recipe, LONG_SIZE, len).held_work, MAX_HELD_WORK)


class Worst(NamedTuple):
    """The slowest recipe of a kind so far, and its units of work."""

    work: float
    recipe: Recipe


def climb(lab: Lab, kind: str, draw: random.Random, steps: int, size: int = SIZE) -> Worst:
    """Looks for a slow recipe."""
    pieces = [*PIECES, *4 * FAVOURITES.get(kind, [])]
    found = text_blocks.climb(
        draw,
        steps,
        start=lambda: random_blocks(draw, pieces),
        change=lambda recipe: changed_blocks(recipe, draw, pieces),
        cost=lambda recipe: measure(lab, kind, recipe, size).work,
        enough=4 * MAX_WORK,
    )
    return Worst(*found)


def _work(worst: Worst) -> float:
    return worst.work


def described(recipe: Recipe) -> str:
    return json.dumps([block._asdict() for block in recipe])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="default: all of them in turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200, help="texts of a climb")
    parser.add_argument("--keep-going", action="store_true", help="report what is too slow, and search on")
    arguments = parser.parse_args()
    print(f"a unit of work takes {1000 * unit_seconds():.2f} ms")
    lab, draw = Lab(), random.Random(arguments.seed)
    kinds = arguments.kind or list(KINDS)
    end, number, worst = time.monotonic() + 60 * arguments.minutes, 0, dict[str, Worst]()
    failed = False
    while time.monotonic() < end:
        kind = kinds[number % len(kinds)]
        number += 1
        found = climb(lab, kind, draw, arguments.steps)
        worst[kind] = max(worst.get(kind, found), found, key=_work)
        wrong = faults(lab, kind, found.recipe)
        held = held_work(lab, kind, found.recipe) if not wrong else 0.0
        if held > MAX_HELD_WORK:
            wrong.append(f"{LONG_SIZE:,} characters keep the event loop for {held:.0f} units")
        print(f"{kind}: {found.work:.0f} units, held {held:.0f} {'; '.join(wrong)}", flush=True)
        if wrong:
            print(described(found.recipe), flush=True)
            failed = True
            if not arguments.keep_going:
                break
    for kind, found in sorted(worst.items(), key=lambda pair: -pair[1].work):
        print(f"{kind:16} {found.work:6.0f} units  {described(found.recipe)[:200]}")
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
