"""Measures what of symbols, codes, numbers, marks, tags and names comes back as it was, in every direction served.

    python -m benchmarks.kept_text                  a table: class, example, share kept in each direction
    python -m benchmarks.kept_text --minutes 60     sentences at random, of all classes mixed, until one breaks the law

The law: every symbol, code, number, mark and tag of a text is in its translation exactly once, pairs in their order,
and none that was not in the text; U+FFFD never. The sentences are ours; it needs the bundles in bundles/.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from app.cli.offline_engine import Command, Session, open_session
from app.engine.launch import InProcessWorker, Launch
from model.bundle import open_bundle

CLASSES: dict[str, tuple[str, ...]] = {
    "symbol": tuple("*#@~^|<>§¶©®™±→♥²³†‡•¦¬∞√≠☺✓"),
    "sign": ("%", "&", "+", "=", "€", "$", "£", "°"),
    "ellipsis": ("…",),
    "account": ("@lena@social.example", "@lena_k", "lena.k@mail.example"),
    "tag": ("#garden", "#été", "#2024goals", "#123"),
    "address": (
        "https://example.org/a?b=1&c=2",
        "https://example.org/新闻/第2页",
        "https://пример.example/путь",
        "www.example.org",
    ),
    "telephone, magnet": ("tel:+49-30-555-0199", "magnet:?xt=urn:btih:6f3a&dn=b", "+49 30 555 0199"),
    "machine address": ("00:1A:2b:3C:4d:5E", "2001:db8::8a2e:370:7334", "fe80::1", "192.168.7.1", "10.0.0.0/8"),
    "time stamp": ("2025-03-01T08:15:30Z", "[00:12:34.567]", "2025-03-01"),
    "version": ("0.85.x", "v3.2.0-rc.1", "1.4.2-alpha+7", "2.x"),
    "amount": ("283,82 €", "$1,250.50", "£7", "-12.5 %", "20 °C"),
    "date pattern": ("dd/MM/yyyy", "yyyy-MM-dd", "HH:mm:ss", "MMM d, yyyy"),
    "colour, hash": ("#ff8800", "#FFF", "9e107d9d372bb6826bd81d3542a419d6", "sha256:9f86d081884c7d65"),
    "file": ("photo_1.jpg", "notes.txt", "/etc/hosts", "C:\\Temp\\a.log"),
    "escape": ("\\u00e9", "\\1", "\\g<0>", "\\x41", "\\\\"),
    "client's placeholder": ("[X7X]", "XXX3XXX", "__0__", "###name###", "{{0}}", "[[name]]", "<<1>>", "%%name%%"),
    "message reference": (
        "$t(menu.save)",
        "@:menu.save",
        "@.lower:menu",
        "%{name}",
        "{{a}}-{{b}}",
        "{a}/{b}",
        "%(n)d",
        "%1$s",
    ),
    "numbers in a row": ("3 5 8 13 21 34", "7, 11, 13, 17, 19"),
    "range, list, time": ("10–20", "§§ 3–5", "1,2,3,4", "12:34:56", "2.5e-9"),
    "call, forum, company": ("rgba(0,0,0,.5)", "r/gardening", "C++", "R&D", "notes_1(2).docx"),
    "emoticon, command, key": (":-)", ";)", "<3", "!important", "⌘K"),
    "number": ("4711", "1,000,000", "3.14", "10:45", "24/7", "1990"),
    "unit": ("m²", "cm³", "CO₂", "x²"),
    "tag alone": ("<br>", "<5/>", "<hr/>", "<img src='a.png'>"),
}
"""Examples of what is kept as it is."""
COUNTED = ("amount", "number")
"""Classes that may be written in the target's way, but with the same digits and signs."""
PAIRS = (
    *(("<0>", "</0>"), ("<b>", "</b>"), ("<color=#f00>", "</color>"), ('<a href=\\"%s\\">', "</a>"), ("[b]", "[/b]")),
    *(
        ("[color=red]", "[/color]"),
        ("[", "]"),
        ("**", "**"),
        ("\u2067", "\u2069"),
        ("\u202b", "\u202c"),
        ("<voffset=1em>", "</voffset>"),
    ),
)
"""What encloses words."""
QUOTES = (("“", "”"), ("«", "»"), ('"', '"'), ("(", ")"), ("„", "“"), ("「", "」"))
"""What encloses words, and may have the target's form."""
SENTENCES = {
    "en": (
        "The cat sleeps on the {} table.",
        "I saw {} in the street yesterday.",
        "Open the window, {}, please.",
        "We like the red car {}",
        "{} is here.",
        "Is this {}?",
        "My brother ({}) reads a book.",
    ),
    "fr": (
        "Le chat dort sur la {} table.",
        "J'ai vu {} dans la rue hier.",
        "Ouvre la fenêtre, {}, s'il te plaît.",
        "Nous aimons la voiture rouge {}",
        "{} est ici.",
        "Est-ce {} ?",
        "Mon frère ({}) lit un livre.",
    ),
    "de": (
        "Die Katze schläft auf dem {} Tisch.",
        "Ich habe gestern {} auf der Straße gesehen.",
        "Öffne bitte das Fenster, {}.",
        "Wir mögen das rote Auto {}",
        "{} ist hier.",
        "Ist das {}?",
        "Mein Bruder ({}) liest ein Buch.",
    ),
    "es": (
        "El gato duerme en la mesa {}.",
        "Ayer vi {} en la calle.",
        "Abre la ventana, {}, por favor.",
        "Nos gusta el coche rojo {}",
        "{} está aquí.",
        "¿Es esto {}?",
        "Mi hermano ({}) lee un libro.",
    ),
    "zh": (
        "猫睡在 {} 桌子上。",
        "我昨天在街上看见了{}。",
        "请打开窗户，{}，谢谢。",
        "我们喜欢红色的车 {}",
        "{} 在这里。",
        "这是 {} 吗？",
        "我的哥哥（{}）在看书。",
    ),
}
"""Sentences with a place for something to keep."""
NAMED = {
    "en": "My friend {} is here.",
    "fr": "Mon amie {} est ici.",
    "de": "Mein Freund {} ist hier.",
    "es": "Mi amigo {} está aquí.",
    "zh": "我的朋友{}在这里。",
}
NAMES = {
    "name with accents": (
        *(
            "Jürgen",
            "Ibáñez",
            "Yıldız",
            "Žižek",
            "Łukasz",
            "Håkon",
            "Nguyễn",
            "Őrsi",
            "Þóra",
            "Renée",
            "Čapek",
            "Şahin",
        ),
        *("Göğüş", "Dvořák", "Søren", "Björk", "Ștefan", "Małgorzata", "Kővári", "Đorđe", "Trần", "Ågren", "Íñigo"),
        *("Çelik", "Müllerová"),
    ),
    "plain name": (
        *("Lindqvist", "Okonkwo", "Tanaka", "Petrov", "Hendrik", "Castellani", "Whitaker", "Rajesh", "Oduya", "Wojtek"),
        *("Brzezinski", "Vandermeer", "Kowalczyk", "Zubrin", "Oyelaran", "Matsuda", "Grigoryan", "Szymanski"),
        *("Thackeray", "Abubakar", "Lundgren", "Ferreira", "Kaczmarek", "Nakagawa", "Quisling"),
    ),
    "acronym": (
        *("ISBN", "AC/DC", "GDPR", "HDMI", "DHCP", "SMTP", "JSON", "YAML", "LGTM", "SWIFT", "TCP/IP", "CUDA", "LDAP"),
        *("BIOS", "KPI", "ERP", "WLAN", "ISO", "NASA", "MIDI", "TLS", "VPN", "GIMP", "RSVP", "SATA"),
    ),
}
_SYMBOLS = re.compile(r"[^\w\s.,;:!?'’‘`´…–—‐‑·¡¿，。！？、；：～（）()\"“”„«»「」『』-]|_")
_QUOTES = re.compile(r"[\"“”„«»「」『』]")
_SINGLE = re.compile(r"(?<!\w)['‘]\w[^'’]*['’](?!\w)")
_BRACKETS = str.maketrans("（）", "()")


class Direction(NamedTuple):
    """A bundle, and the languages that it translates between."""

    folder: Path
    source: str
    target: str


def directions(folder: Path = Path("bundles")) -> list[Direction]:
    """The directions of the bundles in a folder."""
    found = sorted(path.parent for path in folder.glob("*/config.json"))
    bundles = [(path, open_bundle(path)) for path in found]
    return [Direction(path, one.source, one.target) for path, one in bundles if one.source in SENTENCES]


def faults(text: str, translation: str, kept: Sequence[str], pairs: Sequence[tuple[str, str]] = ()) -> list[str]:
    """How a translation breaks the law: `kept` are parts of `text` that it must have, each as often."""
    found = ["U+FFFD"] * ("\ufffd" in translation and "\ufffd" not in text)
    for one in kept:
        if translation.count(one) != text.count(one):
            found.append(f"{one!r} occurs {translation.count(one)} times, not {text.count(one)}")
    for opening, closing in pairs:
        if opening != closing and not 0 <= translation.find(opening) < translation.find(closing):
            found.append(f"{closing!r} stands before {opening!r}")
    for pattern, what in ((_SYMBOLS, "symbols"), (re.compile(r"\d"), "digits")):
        if Counter(pattern.findall(text)) != Counter(pattern.findall(translation)):
            found.append(f"has other {what}")
    given, made = len(_QUOTES.findall(text)), len(_QUOTES.findall(translation))
    if not made <= given <= made + 2 * len(_SINGLE.findall(translation)):
        found.append("has other quotation marks")
    sent, came = (Counter(re.findall(r"[()]", each.translate(_BRACKETS))) for each in (text, translation))
    return found + ["has other brackets"] * (sent != came)


class Drawn(NamedTuple):
    """A text, and what a translation of it must have."""

    text: str
    kept: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]


def draw(source: str, choose: random.Random) -> Drawn:
    """A text of one to three sentences in `source`, with something of several classes in each."""
    sentences, kept, pairs = list[str](), list[str](), list[tuple[str, str]]()
    used = set[str]()
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        parts = list[str]()
        for _ in range(choose.choice((1, 1, 2, 3))):
            name = choose.choice(list(CLASSES))
            one = choose.choice(CLASSES[name])
            if any(one in other or other in one for other in used):
                continue  # a part of another cannot be counted
            used.add(one)
            kept += [one] * (name not in COUNTED)
            parts.append(one)
        between = ", " if any(part.startswith("+") for part in parts) else choose.choice((" ", " ", ", "))
        sentence = choose.choice(SENTENCES[source]).replace("{}", between.join(parts))
        if choose.random() < 0.3 and source != "zh":
            sentence = _enclosed(sentence, choose, pairs, used)
        sentences.append(sentence)
    separator = "\n" if "+49" in "".join(sentences) else choose.choice((" ", "\n"))  # a number may follow it
    return Drawn(separator.join(sentences), tuple(kept), tuple(pairs))


def _enclosed(sentence: str, choose: random.Random, pairs: list[tuple[str, str]], used: set[str]) -> str:
    """The sentence with a pair of marks around a word of it."""
    words = list(re.finditer(r"(?<!\S)[a-zà-ÿß]{3,}(?=\s)", sentence))
    pair = choose.choice(PAIRS + QUOTES)
    if not words or any(mark in other or other in mark for mark in pair for other in used):
        return sentence
    word = choose.choice(words)
    used.update(pair)
    if pair in PAIRS:
        pairs.append(pair)
    return f"{sentence[: word.start()]}{pair[0]}{word[0]}{pair[1]}{sentence[word.end() :]}"


@asynccontextmanager
async def translating(direction: Direction, launch: Launch = InProcessWorker, markup: bool = False):  # type: ignore[no-untyped-def]
    command = Command(
        direction.source, direction.target, bundles=str(direction.folder), workers=1, quiet=True, markup=markup
    )
    async with open_session(command, launch) as session:
        yield session


async def translations(session: Session, texts: Sequence[str]) -> list[str]:
    return [done.text or "" for done in await session.translate(texts)]


def examples(source: str) -> Iterator[tuple[str, str, Drawn]]:
    """The rows of the table: class, example, and the texts that it is tried in."""
    for name, ones in CLASSES.items():
        for one, sentence in itertools.product(ones, SENTENCES[source]):
            yield name, one, Drawn(sentence.replace("{}", one), (one,) * (name not in COUNTED), ())
    words = {"en": "red", "fr": "rouge", "de": "rote", "es": "rojo", "zh": "红色"}
    for name, marks in (("pair of tags", PAIRS), ("quotation marks", QUOTES)):
        for opening, closing in marks:
            word, kept = words[source], (opening, closing) if marks is PAIRS and opening != closing else ()
            text = SENTENCES[source][3].replace(" {}", "").replace(word, f"{opening}{word}{closing}")
            yield name, f"{opening}..{closing}", Drawn(text, kept, ((opening, closing),) if kept else ())
    for name, ones in NAMES.items():
        for one, sentence in itertools.product(ones, (NAMED[source], SENTENCES[source][4])):
            yield name, one, Drawn(sentence.replace("{}", one), (one,), ())


async def table(served: Sequence[Direction]) -> list[str]:
    """A row for each class: an example, and the share of texts that obey the law in each direction."""
    shares: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for direction in served:
        rows = list(examples(direction.source))
        async with translating(direction) as session:
            done = await translations(session, [drawn.text for _, _, drawn in rows])
        by_class: dict[str, list[bool]] = {}
        for (name, one, drawn), translation in zip(rows, done, strict=True):
            shown.setdefault(name, one)
            by_class.setdefault(name, []).append(not faults(drawn.text, translation, drawn.kept, drawn.pairs))
        for name, good in by_class.items():
            shares.setdefault(name, []).append(f"{100 * sum(good) / len(good):.0f}")
    head = ["class", "example", *(f"{one.source}-{one.target}" for one in served)]
    lines = [head, ["---"] * 2 + ["--:"] * len(served)]
    lines += [[name, f"`{shown[name]}`".replace("|", "\\|"), *each] for name, each in shares.items()]
    return [f"| {' | '.join(line)} |" for line in lines]


async def fuzz(
    served: Sequence[Direction], minutes: float, seed: int, count: int = 200, keep_going: bool = False
) -> int:
    """Translates texts at random until the time is over, or one breaks the law; returns how many did."""
    end, choose, number, broken = time.monotonic() + 60 * minutes, random.Random(seed), 0, 0
    async with AsyncExitStack() as opened:
        sessions = [await opened.enter_async_context(translating(direction)) for direction in served]
        for direction, session in itertools.cycle(zip(served, sessions, strict=True)):
            if time.monotonic() >= end or (broken and not keep_going):
                break
            drawn = [draw(direction.source, choose) for _ in range(count)]
            done = await translations(session, [one.text for one in drawn])
            number += count
            for one, translation in zip(drawn, done, strict=True):
                if wrong := faults(one.text, translation, one.kept, one.pairs):
                    broken += 1
                    names, report = f"{direction.source}-{direction.target}", "; ".join(wrong)
                    print(f"{names}: {one.text!r}\n  {translation!r}\n  {report}", flush=True)
    print(f"{number:,} texts, {broken} broke the law")
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep-going", action="store_true", help="report what breaks the law, and go on")
    arguments = parser.parse_args()
    served = directions(arguments.bundles)
    if not arguments.minutes:
        print("\n".join(asyncio.run(table(served))))
        return
    broken = asyncio.run(fuzz(served, arguments.minutes, arguments.seed, keep_going=arguments.keep_going))
    raise SystemExit(int(broken > 0))


if __name__ == "__main__":
    main()
