"""Translates one side of a file with a bundle, into pairs for a student model.

Sequence-level distillation (Kim & Rush 2016) and back-translation (Sennrich et al. 2016). Reads, distributes, writes
and resumes; `training.synthetic.teacher` decides which translations are usable.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from tqdm import tqdm

from model.bundle import Bundle, open_bundle
from model.machine import usable_cores
from training.cleaning.language_check import open_oriented_corpus
from training.compute import pick_device
from training.corpora.monolingual import Text, Texts
from training.corpora.sources import resolve
from training.corpora.text_file import CorpusError, open_text
from training.data.dataset import digests
from training.data.options import MAX_RATIO, require
from training.evaluation.scoring import ROWS
from training.file_lock import lock_output
from training.optim.progress import duration
from training.options import DEVICE, PRECISIONS, Columns, Encoding, Option
from training.process_map import map_in_order
from training.synthetic.resumable_tsv import ResumableTsv
from training.synthetic.teacher import Teacher, TranslatedBatch

BATCH_TEXTS = {"cpu": 256, "cuda": 8192}
"""Texts per task of a process; a kill loses at most one task per process."""
DISTILLATION_BEAM = 5
"""The beam size of Kim & Rush's experiments."""
_PROGRESS_EVERY_S = 30.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class TranslateOptions:
    """Options of `translate`; None means the default. Raises ValueError, naming the option."""

    bundle: Path
    """The bundle folder to translate with."""
    out: Path
    """The TSV to make: the student's source, a tab, its target."""
    pairs: Annotated[str | None, Option(metavar="FILE")] = None
    """Pairs, one side of which is translated; in any form that `prepare --pairs` accepts."""
    texts: Annotated[Path | None, Option(metavar="FILE")] = None
    """Plain text instead of pairs, one sentence per line."""
    back: bool = False
    """Back-translation: the translation becomes the student's source. With --pairs the target is translated."""
    beam: int | None = None
    """Beam size; 1 is greedy. (default: {DISTILLATION_BEAM}, or 1 with --back or --sample)"""
    nearest: bool = False
    """Choose the hypothesis in the beam that is nearest to the other side of the pair, by BLEU."""
    sample: Annotated[int | None, Option(metavar="K")] = None
    """Sample each token from the K most probable ones, such as 10: for back-translation of much text."""
    seed: int = 1
    """Seed for --sample; the same seed and --rows give the same draws."""
    max_ratio: float = MAX_RATIO
    """Drop pairs with one side this many times as long as the other, in tokens, except short pairs."""
    columns: Columns = None
    encoding: Encoding = None
    precision: Annotated[str, Option(PRECISIONS)] = "auto"
    device: Annotated[str, DEVICE] = "auto"
    rows: int | None = None
    """Number of hypotheses decoded together. (default: {ROWS[cpu]}, on a GPU {ROWS[cuda]})"""
    processes: int | None = None
    """Number of processes; does not change the result. (default: one per core)"""
    threads: int | None = None
    """CPU threads per process. (default: 1; one per core with a single process)"""
    replace: bool = False
    """Replace an existing file."""

    def __post_init__(self) -> None:
        require((self.pairs is None) != (self.texts is None), "give either --pairs or --texts")
        require(self.columns is None or self.pairs is not None, "--columns needs --pairs")
        require(self.out.suffix not in (".gz", ".xz"), f"--out is not compressed: give {self.out.with_suffix('')}")
        require(self.rows is None or self.rows >= 1, f"--rows must be at least 1, not {self.rows}")
        require(self.beam_size >= 1, f"--beam must be at least 1, not {self.beam}")
        require(self.rows is None or self.beam_size <= self.rows, f"--beam {self.beam_size} needs as many --rows")
        require(not self.nearest or self.pairs is not None, "--nearest compares with the other side of --pairs")
        require(not self.nearest or self.beam_size > 1, "--nearest chooses among hypotheses: give a --beam over 1")
        require(self.sample is None or self.sample >= 1, f"--sample must be at least 1, not {self.sample}")
        require(self.sample is None or self.beam_size == 1, "--sample draws one translation: it has no --beam")
        require(self.max_ratio > 1, f"--max-ratio must be over 1, not {self.max_ratio:g}")
        require(self.processes is None or self.processes >= 1, f"--processes must be at least 1, not {self.processes}")
        require(self.threads is None or self.threads >= 1, f"--threads must be at least 1, not {self.threads}")

    @property
    def beam_size(self) -> int:
        """The beam size: by default Kim & Rush's for distillation, else 1."""
        return (1 if self.back or self.sample is not None else DISTILLATION_BEAM) if self.beam is None else self.beam

    def settings(self, name: str, files: Sequence[Path]) -> dict[str, Any]:
        """All that the pairs depend on, including the bundle's `name` and the digests of the input `files`."""
        how = ("back", "nearest", "sample", "seed", "max_ratio", "columns", "encoding", "precision", "device")
        given = {option: getattr(self, option) for option in (*how, *(["rows"] if self.sample else []))}
        return {"bundle": name, "input": digests(files), "beam": self.beam_size, **given}


def translate_file(options: TranslateOptions, say: Say = print) -> None:
    """Makes the file `options.out`, or resumes a previous call.

    Raises ValueError, BusyError, CorpusError, FileExistsError.
    """
    with lock_output(options.out):
        _translate_file(options, say)


def _translate_file(options: TranslateOptions, say: Say) -> None:
    if options.out.exists() and not options.replace:
        raise FileExistsError(f"{options.out} exists; give --replace to overwrite it, or another --out")
    bundle = open_bundle(options.bundle)
    bundle.check_plain()
    device = pick_device(options.device).type
    texts = _texts(options, bundle)
    if options.out.resolve() in [path.resolve() for path in texts.files]:
        raise ValueError(f"--out {options.out} is also the input, which would be lost: give another")
    say(texts.describe())
    lines = array("q", (text.line for text in texts))
    if not lines:
        raise CorpusError(texts.files[0], f"nothing to translate: {next(texts.skipped.describe(), 'a header only')}")
    with closing(ResumableTsv(options.out, options.settings(bundle.name, texts.files))) as output:
        done = bisect_right(lines, output.last_line)
        if done:
            say(f"{done:,} of {len(lines):,} texts are already done: resuming")
        _translate_texts(options, bundle, device, texts, len(lines) - done, output)
        output.finish()
    for line in _summary(options, texts, output):
        say(line)
    for line in credits(bundle):
        say(line)


def _texts(options: TranslateOptions, bundle: Bundle) -> Texts:
    """The texts to translate, examined but not read. Raises CorpusError."""
    if options.texts is not None:
        return Texts(open_text(options.texts, options.encoding))
    assert options.pairs is not None
    languages = (bundle.target, bundle.source) if options.back else (bundle.source, bundle.target)
    corpus = open_oriented_corpus(resolve(options.pairs, *languages), *languages, options.columns, options.encoding)
    return Texts(corpus, options.back, options.nearest)


def _translate_texts(
    options: TranslateOptions, bundle: Bundle, device: str, texts: Texts, left: int, output: ResumableTsv
) -> None:
    """Translates the last `left` of `texts`."""
    teacher = Teacher(
        options.bundle,
        bundle.name,
        device,
        options.precision,
        beam=options.beam_size,
        rows=options.rows or max(ROWS[device], options.beam_size),
        nearest=options.nearest,
        sample=options.sample,
        seed=options.seed,
        back=options.back,
        max_ratio=options.max_ratio,
        threads=options.threads,
    )
    waiting = (text for text in texts if text.line > output.last_line)
    for batch in _with_progress(in_batches(teacher, waiting, left, options.processes), left):
        output.add(*batch)


def in_batches(
    teacher: Teacher, texts: Iterable[Text], count: int, processes: int | None = None
) -> Iterator[TranslatedBatch]:
    """The translations of `count` texts, in order, by several processes; their number does not change the result.

    Without `processes` there is one per core, or one for a GPU.
    """
    size = BATCH_TEXTS[teacher.device]
    if processes is None:
        processes = 1 if teacher.device == "cuda" else max(1, min(usable_cores(), -(-count // size)))
    if processes > 1 and teacher.threads is None:
        teacher = dataclasses.replace(teacher, threads=1)
    return map_in_order(teacher.translate, _batched(iter(texts), size), processes)


def _batched(texts: Iterator[Text], size: int) -> Iterator[list[Text]]:
    while batch := list(islice(texts, size)):
        yield batch


def _with_progress(found: Iterable[TranslatedBatch], texts: int) -> Iterator[TranslatedBatch]:
    """`found`, with a progress bar on a terminal, or elsewhere a line every half minute."""
    began = said = time.monotonic()
    with tqdm(total=texts, unit=" texts", desc="translating", dynamic_ncols=True, disable=None) as bar:
        done = 0
        for batch in found:
            yield batch
            done += len(batch.pairs) + len(batch.failed)
            bar.update(len(batch.pairs) + len(batch.failed))
            now = time.monotonic()
            if bar.disable and now - said >= _PROGRESS_EVERY_S:
                said = now
                rate = done / (now - began)
                left = duration((texts - done) / rate)
                print(f"{done:,} of {texts:,} texts, {rate:.1f} per second, {left} left", file=sys.stderr)


def _summary(options: TranslateOptions, texts: Texts, output: ResumableTsv) -> Iterator[str]:
    yield f"{output.pairs:,} pairs in {options.out}, from {texts.count:,} distinct texts"
    for skipped in (texts.skipped, output.failed):
        yield from (f"  {line}" for line in skipped.describe())


def credits(bundle: Bundle) -> Iterator[str]:
    """Lines about whom to credit for the translations, to display since a TSV file has no place for them."""
    yield f"made by {bundle.name}, licence: {bundle.config.get('licence', 'not stated')}"
    named = bundle.config.get("attribution", [])
    if named:
        yield "anyone who shares these pairs, or a bundle trained on them, must credit (`export --attribution`):"
    yield from (f"  {line}" for line in named)
