"""Counts the words of translations that are no words: neither the corpora nor a spelling dictionary has them.

    python -m benchmarks.non_words bundles/en-es --pairs flores-dev/en-es.tsv --known en-es/tatoeba.train.tsv.xz ... \\
        --dictionary es_ES [--reverse]

`--pairs` and `--known` are files of pairs with English first; `--reverse` is for a bundle into English. A dictionary is
one of hunspell's (Debian: hunspell and hunspell-es, for instance). Names do not count: words that the source has too,
and outside German those with a capital within a sentence. In Chinese, words of letters that the source does not have
are no words. The service translates, as `evaluate` measures.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from model.bundle import open_bundle
from model.languages import WITHOUT_SPACES, language_alone
from training.corpora.corpus import read_pairs
from training.evaluation.service_command import translate_served

_WORD = re.compile(r"[^\W\d_]+")
_ENDED = re.compile(r"(?:^|[.!?:…»”\"])\W*$")
"""What stands before the first word of a sentence, whose capital says nothing."""
SHOWN = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--known", type=Path, nargs="*", default=[])
    parser.add_argument("--dictionary", help="hunspell's name, such as es_ES")
    parser.add_argument("--reverse", action="store_true", help="translate the second column")
    options = parser.parse_args()
    bundle = open_bundle(options.bundle)
    side = int(not options.reverse)
    pairs, _ = read_pairs(options.pairs)
    sources = [pair[1 - side] for pair in pairs]
    translations = translate_served(options.bundle, (bundle.source, bundle.target), sources)
    known = {word for file in options.known for pair in read_pairs(file)[0] for word in words_of(pair[side])}
    found = non_words(sources, translations, bundle.target, known, options.dictionary)
    words = sum(len(words_of(translation)) for translation in translations)
    print(
        f"{bundle.name}: {found.total():,} of {words:,} words in {len(pairs):,} sentences are none, "
        f"{found.total() / max(1, words):.1%}: {', '.join(word for word, _ in found.most_common(SHOWN))}"
    )


def non_words(
    sources: Sequence[str], translations: Sequence[str], target: str, known: set[str], dictionary: str | None = None
) -> Counter[str]:
    """The words of `translations` that are none, and how often they occur. `known`: words in small letters.

    Raises OSError if a dictionary is named and hunspell cannot read it.
    """
    found = Counter[str]()
    for source, translation in zip(sources, translations, strict=True):
        copied = {*words_of(source)}
        words = without_names(translation, target)
        found.update(word for word in words if word.lower() not in known and word.lower() not in copied)
    if dictionary is None:
        return found
    wrong = misspelt(found, dictionary)
    return Counter({word: count for word, count in found.items() if word in wrong})


def without_names(translation: str, target: str) -> Iterator[str]:
    """The words of a translation that are no names by their capital; in Chinese, the words of letters."""
    language = language_alone(target)
    for match in _WORD.finditer(translation):
        if language in WITHOUT_SPACES:
            if match[0].isascii():
                yield match[0]
        elif language == "de" or match[0][0].islower() or _ENDED.search(translation[: match.start()]):
            yield match[0]


def words_of(text: str) -> list[str]:
    """Runs of letters, in small letters."""
    return _WORD.findall(text.lower())


def misspelt(words: Iterable[str], dictionary: str) -> set[str]:
    """Those that hunspell's `dictionary` has neither as they are nor with a capital. Raises OSError."""
    if shutil.which("hunspell") is None:
        raise FileNotFoundError("hunspell is not installed (Debian: apt-get install hunspell hunspell-es ...)")
    forms = {word: {word, word.capitalize(), word.lower()} for word in words}
    lines = "".join(f"{form}\n" for each in forms.values() for form in each)
    command = ["hunspell", "-d", dictionary, "-i", "utf-8", "-l"]
    done = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"hunspell: {done.stderr.decode(errors='replace').strip()}")
    wrong = {*done.stdout.decode(errors="replace").split("\n")}
    return {word for word, each in forms.items() if each <= wrong}


if __name__ == "__main__":
    main()
