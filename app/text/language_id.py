"""Detects which of the served languages a text is in, with a probability.

Combines two libraries: py3langid (140 languages) and ELD (60, better at single words);
docs/language-detection.md has their figures. Scripts that only one language uses, such as Hangul, decide by themselves.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import NamedTuple

from app.text.short_texts import listed_shares
from model.languages import language_alone
from model.scripts import HAN, KANA, SCRIPTS, is_written_in, script_of, sole_language

MIN_CHUNK_CHARS, MAX_CHUNK_CHARS = 40, 150
"""Characters per chunk: enough to be sure, and few enough to notice that a text mixes languages."""
MAX_CHUNKS = 8
"""Maximum number of chunks, evenly spaced, that are examined."""

_NOISE = re.compile(
    r"""<[^<>]{0,500}> | &\#?\w{1,20}; | `[^`]{0,300}`
    | \$?\{[^{}]{0,300}\} | %\([^()]{1,100}\)\w | %\w
    | [A-Za-z][A-Za-z0-9+.-]{0,20}://[!-~]+ | www\.[!-~]+ | [\w.+-]{1,64}@[\w.-]+
    | [\w.~-]{0,64} (?: [/\\] [\w.-]{1,64} ){2,} | [\w-]{1,64}\.[a-z]\w{0,8}\b
    | \w{0,50}[\d_]\w* | \w{0,50}[a-z][A-Z]\w*
    | [\ud800-\udfff]""",
    re.VERBOSE | re.ASCII,  # in Chinese, words are adjacent without a space
)
"""Markup, placeholders, URLs, paths, names of files and variables: not in any language, or always English. Also lone
surrogates, which are not characters."""
_CHUNK = re.compile(
    rf"\S(?:[\s\S]{{{MIN_CHUNK_CHARS - 2},{MAX_CHUNK_CHARS - 2}}}?[.!?…。！？](?=\s|$|\w)"
    rf"|[\s\S]{{0,{MAX_CHUNK_CHARS - 1}}}(?=\s|$)|[\s\S]{{0,{MAX_CHUNK_CHARS - 1}}})"
)
"""To the end of a sentence, else of a word."""
_SCRIPT_WEIGHT = {HAN: 3.0, "HANGUL": 2.0, "HIRAGANA": 2.0, "KATAKANA": 2.0}
"""How many Latin letters carry as much information as one letter of the script."""

# How to combine the libraries, fitted by maximum likelihood to 49,000 texts, from single words to sentences, from
# Tatoeba and user interfaces, in English, French, German and Spanish, of which two to four were served. One text in
# five was in a language not served. None of them is in the test sets.
_LANGID_WEIGHT, _LANGID_POWER = 0.856, 0.264
"""Weight of py3langid's log probability, times this power of the text's bytes: it is too flat."""
_ELD_WEIGHT, _ELD_POWER = 4.011, 0.451
"""The same for ELD's score."""
_SERVED_LOG_ODDS = 3.582 + math.log(9 / 4)
"""Prior log odds of a served language against one that is not: as fitted, then shifted to one text in ten in a language
that is not served."""
_COMMON_LOG_ODDS = math.log(10)
"""Prior log odds of a common language against one of the others, for which single words of any language are often
mistaken."""
_LISTED_LOG_ODDS = 4.0
"""Log odds of a language in which a short text, exactly as written, is known."""
_COMMON_LANGUAGES = {
    *("ar", "cs", "da", "de", "el", "en", "es", "fa", "fr", "he", "hi", "hu", "id", "it"),
    *("ja", "ko", "nl", "no", "pl", "pt", "ro", "ru", "sv", "th", "tr", "uk", "vi", "zh"),
}
_MIN_KANA_SHARE = 0.1
"""Chinese text quotes less kana than this share of its characters; Japanese has more."""
_LABELS = {"cmn": "zh", "fil": "tl", "in": "id", "iw": "he", "nb": "no", "prs": "fa", "sh": "sr", "zsm": "ms"}
_COUNTS_AS = {"ary": "ar", "arz": "ar", "nn": "no", "uzs": "uz", "wuu": "zh", "yue": "zh"}
"""Text in these languages counts as the other, unless they are served themselves."""
_NO_LANGUAGE = "zxx"
_TRADITIONAL = re.compile(r"(?i)zh[-_](?:hant|tw|hk|mo)")


class Detected(NamedTuple):
    """A served language, or None if the text has no words, and the probability that it is right."""

    language: str | None
    confidence: float


class Detector:
    """Distinguishes the served languages from each other, and from all others that the libraries know.

    The libraries take some 25 to 75 MB, most of it in mapped files, and a quarter of a second to load: `detect` loads
    them when it first needs them, so call it, or `load` before it, in a thread until it is `ready`. After that it takes
    0.3 ms for a sentence and 3 ms for any text. Thread-safe.
    """

    def __init__(self, languages: Collection[str], libraries: Libraries | None = None) -> None:
        """`languages`: their codes. One that no library knows is detected only if it has its own script.

        `libraries`: those of another detector, to share them.
        """
        self._served: dict[str, list[str]] = defaultdict(list)
        for code in languages:
            self._served[_label(code)].append(code)
        self._libraries = libraries or Libraries()

    def for_languages(self, languages: Collection[str]) -> Detector:
        """A detector of other languages that shares the libraries."""
        return Detector(languages, self._libraries)

    @property
    def ready(self) -> bool:
        """Whether `detect` is fast."""
        return self._libraries.loaded is not None

    def load(self) -> None:
        """Loads the libraries, so that `detect` is fast."""
        self._libraries.load()

    def detect(self, text: str) -> Detected:
        """The served language that most of `text` is in, judged by samples of a long text. Without any evidence, the
        first one served.

        The confidence is the probability that it is right, and low if the text is short, mixed or in no served
        language. Placeholders, URLs, markup and digits are ignored.
        """
        votes = self._votes(text, self._served)
        if votes is None or not self._served:
            return Detected(None, 0.0)
        best = max(self._served, key=lambda label: votes.get(label, 0.0))
        return Detected(_choose_variant(self._served[best], text), min(1.0, votes.get(best, 0.0)))

    def likeliest(self, text: str) -> Detected:
        """The likeliest of all known languages, served or not, and its probability if none is served.

        It has the libraries' code, mostly of ISO 639-1.
        """
        votes = self._votes(text, {}) or {}
        votes.pop(_NO_LANGUAGE, None)
        best = max(votes, key=votes.__getitem__, default=None)
        return Detected(best, votes.get(best or "", 0.0))

    def quick_guess(self, text: str) -> str | None:
        """The likeliest of all languages according to one library only, in a fifth of the time."""
        return self._libraries.load().quick_guess(text)

    def _votes(self, text: str, served: Mapping[str, object]) -> dict[str, float] | None:
        """The share of `text` in each language, or None if it has no words. They need not add up to 1."""
        votes: dict[str, float] = defaultdict(float)
        total = 0.0
        for chunk in text_chunks(text):
            for script, part, weight in _parts_by_script(chunk):
                total += weight
                for label, share in self._shares(script, part, served).items():
                    votes[label if label in served else _COUNTS_AS.get(label, label)] += share * weight
        return {label: vote / total for label, vote in votes.items()} if total else None

    def _shares(self, script: str | None, part: str, served: Mapping[str, object]) -> dict[str, float]:
        """The probability of each language for a part in a single script."""
        if script is None:
            return {}
        if label := "ja" if script in KANA else sole_language(script):
            return {label: 1.0}
        if served and not any(is_written_in(label, script) for label in served):
            return {}
        return self._libraries.load().shares(script, part, served.keys())


class Libraries:
    """py3langid and ELD, loaded on first use."""

    def __init__(self) -> None:
        self.loaded: _LoadedLibraries | None = None
        self._loading = threading.Lock()

    def load(self) -> _LoadedLibraries:
        with self._loading:
            self.loaded = self.loaded or _LoadedLibraries()
        return self.loaded


class _LoadedLibraries:
    """Both libraries, combined."""

    def __init__(self) -> None:
        from eld.languageData import languageData

        from app.text.langid_tables import load_eld, load_langid, prepare_tables

        prepare_tables()
        self._langid = load_langid()
        self._eld = load_eld()
        self._known_to_eld = frozenset(languageData.lang_codes.values())
        self._written = {
            script: frozenset(label for label in self._langid.labels if is_written_in(label, script)) | {_NO_LANGUAGE}
            for script in SCRIPTS
        }

    def quick_guess(self, text: str) -> str | None:
        code: str | None = self._eld.detect(text).language
        return code

    def shares(self, script: str, part: str, served: Set[str]) -> dict[str, float]:
        """The probability of each language written in `script`, with a higher prior for those `served`.

        The probability mass that py3langid gives to languages that both know is redistributed by both.
        """
        size = len(part.encode())
        sharpness = _LANGID_WEIGHT * size**_LANGID_POWER
        written = self._written[script]
        logs = {
            label: sharpness * math.log(share + 1e-30) for label, share in self._langid.rank(part) if label in written
        }
        both = logs.keys() & self._known_to_eld
        if both and script != HAN:  # ELD ignores single ideographs
            scores = self._eld.detect(part).scores()
            weight = _ELD_WEIGHT * size**_ELD_POWER
            before = _log_sum(logs[label] for label in both)
            for label in both & scores.keys():
                logs[label] += weight * scores[label]
            change = before - _log_sum(logs[label] for label in both)
            for label in both:
                logs[label] += change
        for label, share in listed_shares(part).items():
            if label in logs:
                logs[label] += _LISTED_LOG_ODDS * share
        for label in logs:
            if label in served:
                logs[label] += _SERVED_LOG_ODDS
            elif label not in _COMMON_LANGUAGES and label != _NO_LANGUAGE:
                logs[label] -= _COMMON_LOG_ODDS
        whole = _log_sum(logs.values())
        return {label: math.exp(value - whole) for label, value in logs.items()}


def _log_sum(logs: Iterable[float]) -> float:
    values = list(logs)
    highest = max(values)
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))


def text_chunks(text: str) -> Iterator[str]:
    """All of `text`, or evenly spaced chunks, without text that is in no language."""
    if len(text) > MAX_CHUNKS * MAX_CHUNK_CHARS:
        found = [
            text[number * (len(text) - MAX_CHUNK_CHARS) // (MAX_CHUNKS - 1) :][:MAX_CHUNK_CHARS]
            for number in range(MAX_CHUNKS)
        ]
    else:
        found = _CHUNK.findall(text)
        if len(found) > 1 and len(found[-1]) < MIN_CHUNK_CHARS:
            found[-2:] = [f"{found[-2]} {found[-1]}"]
        found = found[:: -(-len(found) // MAX_CHUNKS) or 1]
    for chunk in found:
        yield " ".join(_NOISE.sub(" ", chunk).split())


def _parts_by_script(chunk: str) -> Iterator[tuple[str | None, str, float]]:
    """By script: the text of `piece` in it, and its weight."""
    weights: dict[str | None, float] = defaultdict(float)
    for character, count in Counter(chunk).items():
        if character.isalpha():
            script = script_of(character)
            weights[script] += count * _SCRIPT_WEIGHT.get(script or "", 1.0)
    kana = sum(weights[script] for script in KANA & weights.keys())
    if kana > _MIN_KANA_SHARE * weights.get(HAN, 0.0):
        yield "HIRAGANA", "", kana + weights.pop(HAN, 0.0)
    for script, weight in weights.items():
        if script not in KANA:
            alone = len(weights) == 1
            yield script, chunk if alone else "".join(c if _belongs(c, script) else " " for c in chunk).strip(), weight


def _belongs(character: str, script: str | None) -> bool:
    return not character.isalpha() or script_of(character) == script


def _label(code: str) -> str:
    """The libraries' code for a language."""
    language = language_alone(code)
    return _LABELS.get(language, language)


def _choose_variant(codes: list[str], text: str) -> str:
    """The first of one language's codes, or for Chinese the one whose characters `text` has."""
    by_form = {bool(_TRADITIONAL.match(code)): code for code in reversed(codes)}
    if len(by_form) < 2:
        return codes[0]
    sample = set(text[: MAX_CHUNKS * MAX_CHUNK_CHARS])
    # The legacy national encodings: one has the simplified characters and those never simplified, the other the
    # traditional ones.
    simplified = sum(_encodes(c, "gb2312") and not _encodes(c, "big5") for c in sample)
    traditional = sum(_encodes(c, "big5") and not _encodes(c, "gb2312") for c in sample)
    return by_form[traditional > simplified]


def _encodes(character: str, encoding: str) -> bool:
    try:
        return bool(character.encode(encoding))
    except UnicodeEncodeError:
        return False
