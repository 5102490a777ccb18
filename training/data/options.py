"""The options of `prepare`, and their validation."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from model.languages import NAMES, TWO_LETTERS, is_language_code, language_alone
from model.normalisation import Punctuation
from training.cleaning.rules import RULES, CleaningOptions
from training.cleaning.simplified_chinese import has_own_ideographs, is_chinese, is_simplified_chinese
from training.data.pair_store import PairStore
from training.data.vocabulary import check_size
from training.options import SOURCE, TARGET, Columns, Encoding, Option
from training.process_map import process_count

MAX_TOKENS = 256
MAX_RATIO = 4.0
RATIO_FROM_TOKENS = 24
"""Sentences with no more tokens than this on both sides always pass: "Thanks." may well take eight."""
RESERVED_SHARE = 0.05
AUGMENT_SHARE = 0.15
MAX_REHEARSAL_WEIGHT = 4.0
"""Maximum draws per epoch: beside many pairs, a few sentences would otherwise be memorised."""
RULES_LISTED = "; ".join(f"{name}: {what}" for name, what in RULES.items())
SCRIPTS = ("auto", "simplified", "keep")
# Fewer pairs than this are processed before other processes have started.
_MIN_PAIRS_FOR_PROCESSES = 200_000


PAIRS = Option(
    "A file of sentence pairs, one per line: source, tab, translation; may be compressed, as .gz or .xz. Or two plain "
    "files, such as a.en,b.fr. Repeat for more corpora. A number after a colon is a weight: big.tsv:0.25 draws a "
    "quarter of its pairs each epoch, clean.tsv:2 draws each pair twice. A pair in several corpora counts for the "
    "first. Also accepted: a zip or tar archive of these, a TMX file, a URL of any of these, such as "
    "https://.../file.tsv.gz#sha256=..., and mtdata:ID if mtdata is installed.",
    names=("--pairs", "--from"),
    metavar="FILE",
)
DEVELOPMENT = Option(
    "Development pairs, for evaluation during training; pairs that share a sentence with them are not trained on. "
    "(default: some pairs are held out)",
    metavar="FILE",
)


@dataclass(frozen=True)
class PrepareOptions:
    """Options of `prepare`. None means detected, or chosen by size. Raises ValueError, naming the option.

    `mix` are corpora in addition to `pairs` that contribute no development pairs; a weight there counts pairs drawn for
    each of `pairs`. `rehearsal` is one more of these; an epoch draws each of its pairs at most MAX_REHEARSAL_WEIGHT
    times. `made` are those of `pairs` that a run made, with the source first. `vocabulary` is a sentencepiece.model to
    use unchanged, instead of learning one; `target_vocabulary` is the target's, if it has its own. `punctuation`
    normalises sources. The prefixes are those of a `model.directions.Direction`.
    """

    pairs: Annotated[tuple[str, ...], PAIRS]
    source: Annotated[str, SOURCE]
    target: Annotated[str, TARGET]
    out: Path
    """The data folder to make."""
    dev: Annotated[str | None, DEVELOPMENT] = None
    dev_size: int | None = None
    """Pairs to hold out. (default: a twentieth, at most 1,000)"""
    limit: int | None = None
    """Train on at most this many pairs, drawn at random."""
    vocab_size: int | None = None
    """Number of pieces in the vocabulary. (default: 1,000 to 8,000, depending on the number of pairs; more for scripts
    with many characters, such as Chinese)"""
    max_tokens: int = MAX_TOKENS
    """Drop pairs with a side of more tokens than this."""
    max_ratio: float = MAX_RATIO
    """Drop pairs whose length ratio is this many times the usual one, except short pairs."""
    keep: Annotated[tuple[str, ...], Option(metavar="RULE")] = ()
    """Turn off this cleaning rule; repeat for more, or `all`. {RULES_LISTED}"""
    reserved_share: float = RESERVED_SHARE
    """Copies of pairs with placeholders for names and numbers, as a share of all pairs; 0 for none."""
    augment_share: float = AUGMENT_SHARE
    """Copies of pairs in lower case, with other quotes, without final marks or with other names, as a share of all
    pairs; 0 for none."""
    script: Annotated[str, Option(metavar="|".join(SCRIPTS))] = "auto"
    """Convert Chinese text to simplified characters, or keep it; auto: simplified for zh, kept for zh-TW."""
    columns: Columns = None
    encoding: Encoding = None
    seed: int = 1
    """Seed for held-out pairs and copies: the same seed gives the same data."""
    processes: int | None = None
    """Number of processes; does not change the result. (default: one per core for large corpora)"""
    replace: bool = False
    """Replace an existing data folder."""
    mix: tuple[str, ...] = ()
    vocabulary: str | None = None
    target_vocabulary: str | None = None
    punctuation: Punctuation | None = None
    source_prefix: tuple[int, ...] = ()
    target_prefix: tuple[int, ...] = ()
    rehearsal: str | None = None
    made: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(bool(self.pairs), "no --pairs given: name at least one file of sentence pairs")
        for option, code in (("--source", self.source), ("--target", self.target)):
            require(is_language_code(code), f"{option} {code!r} is not a language code such as en or pt-BR")
            usual = code if self.vocabulary else _canonical_code(code)  # a bundle being fine-tuned keeps its code
            require(usual == code, f"{option} {code!r}: services call that language {usual}")
        require(self.source != self.target, f"--source and --target are both {self.source}")
        require(self.dev is None or self.dev_size is None, "give --dev or --dev-size, not both")
        require(self.dev_size is None or self.dev_size >= 1, f"--dev-size must be at least 1, not {self.dev_size}")
        require(self.limit is None or self.limit >= 1, f"--limit must be at least 1, not {self.limit}")
        require(self.max_tokens >= 8, f"--max-tokens must be at least 8, not {self.max_tokens}")
        require(self.max_ratio > 1, f"--max-ratio must be above 1, not {self.max_ratio}")
        require(0 <= self.reserved_share <= 1, f"--reserved-share must be from 0 to 1, not {self.reserved_share}")
        require(0 <= self.augment_share <= 1, f"--augment-share must be from 0 to 1, not {self.augment_share}")
        columns = self.columns or (1, 2)
        require(min(columns) >= 1 and columns[0] != columns[1], f"expected two columns, counted from 1, not {columns}")
        require(self.seed >= 0, f"--seed must be at least 0, not {self.seed}")
        require(self.processes is None or self.processes >= 1, f"--processes must be at least 1, not {self.processes}")
        require(self.script in SCRIPTS, f"--script must be one of {', '.join(SCRIPTS)}, not {self.script!r}")
        chinese = is_chinese(self.source) or is_chinese(self.target)
        require(self.script != "simplified" or chinese, "--script simplified needs Chinese as one language")
        if self.vocab_size is not None:
            check_size(self.vocab_size, (self.source, self.target))
        self.cleaning()

    @property
    def mixed(self) -> tuple[str, ...]:
        """All corpora in addition to `pairs`."""
        return self.mix + ((self.rehearsal,) if self.rehearsal else ())

    def content_options(self) -> dict[str, Any]:
        """The options that determine the folder's content, as JSON returns them."""
        return _content_options(dataclasses.asdict(self))

    def matches(self, recorded: Mapping[str, Any]) -> bool:
        """Whether a folder's record matches these options. An option that it lacks is newer, and had its default."""
        optional = [field for field in dataclasses.fields(self) if field.default is not dataclasses.MISSING]
        younger = {field.name: field.default for field in optional if field.name not in recorded}
        return _content_options({**recorded, **younger}) == self.content_options()

    def cleaning(self) -> CleaningOptions:
        """The options of cleaning. A piece has at most 16 characters, so longer texts exceed the token limit anyway."""
        return CleaningOptions(self.source, self.target, self.max_ratio, 16 * self.max_tokens, frozenset(self.keep))

    def simplified_sides(self) -> tuple[bool, bool]:
        """Whether to convert source and target to simplified Chinese, as far as they are Chinese.

        If one is converted, so is the other, since columns may be swapped: English text does not change. An exception
        is another language with ideographs of its own.
        """
        wanted = self._is_simplified(self.source), self._is_simplified(self.target)
        return (True, True) if any(wanted) and self.normalises_characters() else wanted

    def normalises_characters(self) -> bool:
        """Whether the vocabulary simplifies traditional characters wherever they occur."""
        codes = (self.source, self.target)
        wanted = list(map(self._is_simplified, codes))
        return any(wanted) and not any(
            has_own_ideographs(code) for code, here in zip(codes, wanted, strict=True) if not here
        )

    def _is_simplified(self, code: str) -> bool:
        by_script = {"auto": is_simplified_chinese(code), "simplified": is_chinese(code), "keep": False}
        return by_script[self.script]

    def processes_for(self, store: PairStore) -> int:
        """The number of processes for the work on `store`."""
        return process_count(self.processes, much=len(store.pairs) >= _MIN_PAIRS_FOR_PROCESSES)


def _canonical_code(code: str) -> str:
    """The usual code of a language if `code` is its name, has three letters instead of two, or is in capitals; a bundle
    is found by its exact code only."""
    language = language_alone(code)
    by_name = {name.casefold(): short for short, name in NAMES.items()}
    return by_name.get(language) or TWO_LETTERS.get(language, language) + code[len(language) :]


def _content_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in fields.items() if name not in ("out", "replace", "processes")}
    return dict(json.loads(json.dumps(kept)))


def require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
