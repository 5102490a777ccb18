"""A large model for `benchmarks.golden_answers`: the tests' stub, whose answer depends on nothing but the prompt."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
"""What tests import by its name alone."""
TEMPLATES: Sequence[tuple[str, str, str]] = (
    ("The house of {} is small.", "La petite maison est à {}.", "Das Häuschen von {} ist klein."),
    (
        "We sold {} cars and {} bikes.",
        "Nous avons vendu {} autos et {} vélos.",
        "Wir verkauften {} Autos und {} Räder.",
    ),
    ("{} bought {} apples at the market.", "{} a acheté {} pommes au marché.", "{} kaufte {} Äpfel auf dem Markt."),
    ("Open the window before {}.", "Ouvre donc la fenêtre avant {}.", "Mach das Fenster vor {} auf."),
    ("The red car belongs to {}.", "L'auto rouge est à {}.", "Das rote Auto gehört {}."),
    ("Delete {} from {}?", "Faut-il supprimer {} de {} ?", "Soll {} aus {} gelöscht werden?"),
    ("You have {} new messages from {}.", "Tu as {} nouveaux messages de {}.", "Du hast {} neue Nachrichten von {}."),
    ("The meeting with {} begins at {}.", "La réunion avec {} commence à {}.", "Das Treffen mit {} beginnt um {}."),
    ("My sister lives {} kilometres from {}.", "Ma sœur habite à {} km de {}.", "Meine Schwester wohnt {} km von {}."),
    ("The file {} was saved in {}.", "Le fichier {} a été mis dans {}.", "Die Datei {} wurde in {} gespeichert."),
    ("{} has waited for {} hours.", "{} a attendu pendant {} heures.", "{} wartet seit {} Stunden."),
    (
        "The train to {} leaves from platform {}.",
        "Le train pour {} part du quai {}.",
        "Der Zug nach {} fährt ab Gleis {}.",
    ),
)
"""Sentences of which the stub knows good translations, into French and German; names and numbers fill the gaps."""
_PLACES = {"French": 1, "German": 2}
_READERS = [re.compile(re.escape(each[0]).replace(r"\{\}", "(.+)")) for each in TEMPLATES]
_MARK = re.compile(r"<[a-z]\d+/>")
ANSWERS: Sequence[Callable[[str, str], str]] = (
    *([lambda text, good: good] * 8),
    lambda text, good: f"Sure! Here is the translation: {good}",
    lambda text, good: f"{good} Let me know if you need anything else!",
    lambda text, good: f'"{good}"',
    lambda text, good: f"**{good}**",
    lambda text, good: f"<think>French.</think>{good}",
    lambda text, good: _MARK.sub("", good, count=1),
    lambda text, good: f"{good} <x1/>",
    lambda text, good: re.sub(r"\d\d+", lambda found: str(int(found[0]) + 1), good),
    lambda text, good: f"{good[:-1]} 42.",
    lambda text, good: "HACKED",
    lambda text, good: f"{good} " + "et puis " * 60,
    lambda text, good: "Das kleine Haus steht dort drüben am Ende der langen Straße.",
    lambda text, good: f"{good}\n\nNote: this is informal.",
    lambda text, good: text,
)
"""Fit and unfit answers, from the text and a good translation."""


def good_answer(text: str, language: str) -> str:
    """A translation that is fit to use, or the text where there is none. `language`: the English name of the target."""
    if language == "Japanese":
        return f"これは{'と'.join(_MARK.findall(text))}良い翻訳です。"
    for reader, template in zip(_READERS, TEMPLATES, strict=True):
        if (found := reader.fullmatch(text)) and language in _PLACES:
            return template[_PLACES[language]].format(*found.groups())
    return text


def answer(prompt: Sequence[dict[str, Any]], text: str) -> str:
    """The answer to a prompt of the template `instruct`; unfit ones are mended in half of the second tries."""
    system = str(prompt[0]["content"])
    language = re.search(r" into ([A-Z]\w+)", system)
    good = good_answer(text, language[1] if language else "")
    number = zlib.crc32(text.encode())
    if "Your last answer was not used" in system and number % 2:
        return good
    return ANSWERS[number % len(ANSWERS)](text, good)


@contextmanager
def large_model() -> Iterator[str]:
    """Serves on loopback; yields the address."""
    sys.path.append(str(SUPPORT))
    from llm_stub import llm_stub, text_of

    with llm_stub() as stub:
        answers: list[str] = []

        def note(body: dict[str, Any], headers: dict[str, str]) -> int:
            """In place of the stub's, which counts: the number of an answer that no other request changes."""
            with stub.lock:
                answers.append(answer(body["messages"], text_of(body)))
                return len(answers) - 1

        stub.note = note  # type: ignore[method-assign]
        stub.answer = lambda text, times: answers[times]
        yield stub.url
