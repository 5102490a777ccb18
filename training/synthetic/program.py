"""Translates texts by programs that read a sentence a line and write a translation a line, such as Apertium.

`training.synthetic.teacher` translates by a bundle.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from training.corpora.corpus import Pair
from training.corpora.monolingual import Text
from training.synthetic.teacher import StudentPairs, TranslatedBatch

BATCH_TEXTS = 4096
"""Texts for which a program is started once: Apertium takes a second to start."""
MAX_SECONDS = 3600
"""For a batch. A program that waits for something must not take a night."""
_UNKNOWN = re.compile(r"\*+(?=\w)")
"""Apertium's mark of a word that it does not know, and copies; each of several programs adds one."""
_UNKNOWN_INITIAL = re.compile(r"\*([^\W\d_])")
_NOT_GENERATED = re.compile(r"[@#](?=\w)")
"""Its marks of a word without a translation, and of one whose form it cannot make."""
_SPACE_BEFORE_MARK = re.compile(r"\s+(?=[,;:.?!])")
_END_MARKS, _CLOSING_QUOTES = ".?!…", "\"'»”)"
_OPENING_MARKS = {"es": {"?": "¿", "!": "¡"}}
"""By language: the mark before a sentence that ends in another."""


class ProgramError(ValueError):
    """A translation program failed; the message is one line and names it."""


@dataclass(frozen=True)
class ProgramTeacher:
    """`programs` translate one after the other, each what the one before it wrote, into the language `into`."""

    programs: tuple[str, ...]
    into: str | None = None
    student: StudentPairs = field(default_factory=StudentPairs)
    batch_texts: int = BATCH_TEXTS

    def translate(self, texts: Sequence[Text]) -> TranslatedBatch:
        """Raises ProgramError."""
        lines = [text.text for text in texts]
        for program in self.programs:
            lines = run_program(program, lines)
        pairs: list[Pair] = []
        failed: list[tuple[int, str]] = []
        for text, line in zip(texts, lines, strict=True):
            self.student.add(text, *usable_translation(text.text, line, self.into), pairs, failed)
        return TranslatedBatch(pairs, failed, texts[-1].line)


def run_program(program: str, lines: Sequence[str]) -> list[str]:
    """What `program` writes for `lines`, a line for each. Raises ProgramError."""
    given = "".join(f"{line}\n" for line in lines).encode()
    try:
        done = subprocess.run(shlex.split(program), input=given, capture_output=True, timeout=MAX_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ProgramError(f"{program} failed with the status {error.returncode}: {said}") from None
    except subprocess.TimeoutExpired:
        raise ProgramError(f"{program} took over {MAX_SECONDS / 60:.0f} minutes for {len(lines):,} lines") from None
    except (OSError, ValueError) as error:
        raise ProgramError(f"{program} cannot be run: {error}") from None
    written = done.stdout.decode(errors="replace").removesuffix("\n").split("\n")
    if len(written) != len(lines):
        raise ProgramError(f"{program} wrote {len(written):,} lines for {len(lines):,}: it must write one for each")
    return written


def usable_translation(source: str, written: str, into: str | None) -> tuple[str, str]:
    """What a program wrote for `source` as a sentence to learn from, and ""; or "" and why there is none.

    Apertium copies words that it does not know: names among them are kept, other sentences with one are not. It drops a
    final full stop, and opens no Spanish question: both are put right.
    """
    if any(map(str.islower, _UNKNOWN_INITIAL.findall(written))):
        return "", "a word that the program does not know"
    if _NOT_GENERATED.search(written):
        return "", "a word that the program cannot write"
    text = _SPACE_BEFORE_MARK.sub("", " ".join(_UNKNOWN.sub("", written).split()))
    if not text or "\ufffd" in text:
        return "", "an empty translation" if not text else "a broken character in the translation"
    end = source.rstrip()[-1:]
    if end in _END_MARKS and text[-1] not in _END_MARKS + _CLOSING_QUOTES:
        text += end
    opening = _OPENING_MARKS.get(into or "", {}).get(text[-1])
    return (opening + text if opening and opening not in text else text), ""
