"""Translates one side of a file with a bundle or by programs, into pairs for a student model.

Sequence-level distillation (Kim & Rush 2016), back-translation (Sennrich et al. 2016) and pivoting. Reads, chooses,
distributes, writes and resumes; `training.synthetic.teacher` and `training.synthetic.program` decide which translations
are usable.
"""

from __future__ import annotations

import dataclasses
import random
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
from training.cleaning.holdout import sentence_key
from training.cleaning.language_check import open_oriented_corpus
from training.compute import pick_device
from training.corpora.corpus import LineTally, open_corpus
from training.corpora.monolingual import NumberedTexts, Text, Texts
from training.corpora.selection import most_like
from training.corpora.sources import resolve
from training.corpora.text_file import CorpusError, open_text
from training.data.dataset import digests
from training.data.options import MAX_RATIO, require
from training.evaluation.translate import ROWS
from training.file_lock import lock_output
from training.optim.progress import duration
from training.options import DEVICE, PRECISIONS, Columns, Encoding, Option
from training.process_map import map_in_order
from training.synthetic.program import ProgramTeacher
from training.synthetic.resumable_tsv import ResumableTsv
from training.synthetic.teacher import StudentPairs, Teacher, TranslatedBatch

DISTILLATION_BEAM = 5
"""The beam size of Kim & Rush's experiments."""
_PROGRESS_EVERY_S = 30.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class TranslateOptions:
    """Options of `translate`; None means the default. Raises ValueError, naming the option."""

    out: Path
    """The TSV to make: the student's source, a tab, its target."""
    bundle: Path | None = None
    """The bundle folder to translate with."""
    program: Annotated[tuple[str, ...], Option(metavar="COMMAND")] = ()
    """Translate by this program instead, which reads a sentence a line and writes a translation a line, such as
    "apertium -f line fra-cat"; repeat it for one that translates what the one before it wrote."""
    into: Annotated[str | None, Option(metavar="CODE")] = None
    """The language that the programs write: Spanish gets the opening marks that they leave out."""
    pairs: Annotated[str | None, Option(metavar="FILE")] = None
    """Pairs, one side of which is translated; in any form that `prepare --pairs` accepts."""
    texts: Annotated[Path | None, Option(metavar="FILE")] = None
    """Plain text instead of pairs, one sentence per line."""
    pivot: bool = False
    """With --pairs, put the translation in its text's place: pairs of English and French, of which the French is
    translated into Spanish, become pairs of English and Spanish."""
    like: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Choose the --limit texts that are most like this file's sentences, one per line or between tabs, in the language
    of the side that stays; repeat for more."""
    like_column: int = 1
    """The column of the files of --like that has that language. (default: 1)"""
    limit: int | None = None
    """Translate at most this many texts, the most --like a file, or drawn at random."""
    back: bool = False
    """Back-translation: the translation becomes the student's source. With --pairs the target is translated."""
    beam: int | None = None
    """Beam size; 1 is greedy. (default: {DISTILLATION_BEAM}, or 1 with --back or --sample)"""
    without: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Drop pairs that share a sentence, on either side, with this file of pairs, such as a test set; repeat for
    more."""
    nearest: bool = False
    """Choose the hypothesis in the beam that is nearest to the other side of the pair, by BLEU."""
    min_chrf: float = 0.0
    """Drop a translation whose chrF against the other side of the pair is below this. (default: 0)"""
    sample: Annotated[int | None, Option(metavar="K")] = None
    """Sample each token from the K most probable ones, such as 10: for back-translation of much text."""
    seed: int = 1
    """Seed for --sample and --limit; the same seed and --rows give the same draws."""
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
        require((self.bundle is None) != (not self.program), "give either --bundle or --program")
        require((self.pairs is None) != (self.texts is None), "give either --pairs or --texts")
        require(self.columns is None or self.pairs is not None, "--columns needs --pairs")
        require(self.out.suffix not in (".gz", ".xz"), f"--out is not compressed: give {self.out.with_suffix('')}")
        require(self.rows is None or self.rows >= 1, f"--rows must be at least 1, not {self.rows}")
        require(self.beam_size >= 1, f"--beam must be at least 1, not {self.beam}")
        require(self.rows is None or self.beam_size <= self.rows, f"--beam {self.beam_size} needs as many --rows")
        require(not self.nearest or self.pairs is not None, "--nearest compares with the other side of --pairs")
        require(not self.nearest or self.beam_size > 1, "--nearest chooses among hypotheses: give a --beam over 1")
        require(not self.pivot or self.pairs is not None, "--pivot needs --pairs")
        require(not self.pivot or not self.nearest, "--pivot has no translation to be the --nearest to")
        require(
            not self.like or self.limit is not None, "--like chooses the most like ones: give their number, --limit"
        )
        require(self.like_column >= 1, f"--like-column must be at least 1, not {self.like_column}")
        require(self.limit is None or self.limit >= 1, f"--limit must be at least 1, not {self.limit}")
        require(0 <= self.min_chrf <= 100, f"--min-chrf must be from 0 to 100, not {self.min_chrf:g}")
        compares = self.pairs is not None and not self.pivot
        require(not self.min_chrf or compares, "--min-chrf compares with the other side of --pairs, without --pivot")
        if self.program:
            decoding = self.nearest or self.min_chrf or self.beam is not None or self.sample is not None
            require(not decoding, "--beam, --nearest, --min-chrf and --sample need a --bundle")
        else:
            require(self.into is None, "--into is the language of a --program: a bundle has its own")
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
        decoded = ("nearest", "sample", "seed", "max_ratio", "precision", "device", "program", "into", "min_chrf")
        chosen = ("back", "pivot", "columns", "encoding", "limit", "like_column", *(["rows"] if self.sample else []))
        given = {option: getattr(self, option) for option in (*decoded, *chosen)}
        read = {option: digests(_files(getattr(self, option))) for option in ("like", "without")}
        return {"bundle": name, "input": digests(files), "beam": self.beam_size, **given, **read}


def translate_file(options: TranslateOptions, say: Say = print) -> dict[str, Any]:
    """Makes the file `options.out`, or resumes a previous call. Returns all that the file depends on, as `made_from`.

    Raises ValueError, BusyError, CorpusError, FileExistsError.
    """
    with lock_output(options.out):
        return _translate_file(options, say)


def _translate_file(options: TranslateOptions, say: Say) -> dict[str, Any]:
    if options.out.exists() and not options.replace:
        raise FileExistsError(f"{options.out} exists; give --replace to overwrite it, or another --out")
    bundle = None if options.bundle is None else open_bundle(options.bundle)
    if bundle is not None:
        bundle.check_plain()
    texts = _texts(options, bundle)
    if options.out.resolve() in [path.resolve() for path in texts.files]:
        raise ValueError(f"--out {options.out} is also the input, which would be lost: give another")
    say(texts.describe())
    chosen = _chosen_lines(options, texts)
    lines = array("q", (text.line for text in texts if chosen is None or text.line in chosen))
    if not lines:
        raise CorpusError(texts.files[0], f"nothing to translate: {next(texts.skipped.describe(), 'a header only')}")
    settings = _settings(options, bundle, texts)
    with closing(ResumableTsv(options.out, settings)) as output:
        done = bisect_right(lines, output.last_line)
        if done:
            say(f"{done:,} of {len(lines):,} texts are already done: resuming")
        waiting = (text for text in texts if text.line > output.last_line and (chosen is None or text.line in chosen))
        left, teacher = len(lines) - done, _teacher(options, bundle)
        for batch in _with_progress(in_batches(teacher, waiting, left, options.processes), left):
            output.add(*batch)
        output.finish()
    for line in _summary(options, texts, output, len(lines)):
        say(line)
    for line in credits(bundle) if bundle is not None else ():
        say(line)
    return settings


def made_from(options: TranslateOptions) -> dict[str, Any]:
    """All that the file depends on. Raises BundleError and CorpusError."""
    bundle = None if options.bundle is None else open_bundle(options.bundle)
    return _settings(options, bundle, _texts(options, bundle))


def _settings(options: TranslateOptions, bundle: Bundle | None, texts: Texts) -> dict[str, Any]:
    return options.settings("" if bundle is None else bundle.name, texts.files)


def _texts(options: TranslateOptions, bundle: Bundle | None) -> Texts:
    """The texts to translate, examined but not read. Raises CorpusError."""
    if options.texts is not None:
        return Texts(open_text(options.texts, options.encoding))
    assert options.pairs is not None
    references = options.nearest or options.pivot or options.min_chrf > 0
    if bundle is None or options.pivot:  # one language at most is known
        spec = resolve(options.pairs, "source", "target")
        corpus = open_corpus(spec, "source", "target", options.columns, options.encoding)
    else:
        languages = (bundle.target, bundle.source) if options.back else (bundle.source, bundle.target)
        spec = resolve(options.pairs, *languages)
        corpus = open_oriented_corpus(spec, *languages, options.columns, options.encoding)
    return Texts(corpus, options.back, references)


def _chosen_lines(options: TranslateOptions, texts: Texts) -> set[int] | None:
    """The lines of the texts that --limit leaves; None if it leaves all. Raises CorpusError."""
    if options.limit is None:
        return None
    if not options.like:
        lines = [text.line for text in texts]
        return set(random.Random(options.seed).sample(lines, min(options.limit, len(lines))))
    like = list(_like(options))
    kept = NumberedTexts(texts, options.pivot)
    return most_like(like, kept, options.limit, options.seed)


def _like(options: TranslateOptions) -> Iterator[str]:
    """The sentences that the chosen ones are to be like. Raises CorpusError."""
    for file in _files(options.like):
        for number, line in enumerate(open_text(file, options.encoding).lines(), 1):
            columns = line.split("\t")
            if len(columns) < options.like_column:
                raise CorpusError(file, f"has no column {options.like_column}: give another --like-column", number)
            yield columns[options.like_column - 1]


def _files(named: Iterable[str]) -> Iterator[Path]:
    """The files that `named` name, as --pairs names them. Raises CorpusError."""
    for text in named:
        yield from resolve(text, "source", "target").paths


def _teacher(options: TranslateOptions, bundle: Bundle | None) -> Teacher | ProgramTeacher:
    student = StudentPairs(options.back, options.pivot, frozenset(_held_out_keys(options.without)))
    if bundle is None:
        return ProgramTeacher(options.program, options.into, student)
    assert options.bundle is not None
    device = pick_device(options.device).type
    return Teacher(
        options.bundle,
        bundle.name,
        device,
        options.precision,
        beam=options.beam_size,
        rows=options.rows or max(ROWS[device], options.beam_size),
        nearest=options.nearest,
        sample=options.sample,
        seed=options.seed,
        max_ratio=options.max_ratio,
        threads=options.threads,
        min_chrf=options.min_chrf,
        student=student,
    )


def _held_out_keys(files: Iterable[str]) -> Iterator[int]:
    """The keys of all sentences in files of pairs. Raises CorpusError."""
    for file in files:
        for _, pair in open_corpus(resolve(file, "source", "target")).pairs(LineTally()):
            yield from map(sentence_key, pair)


def in_batches(
    teacher: Teacher | ProgramTeacher, texts: Iterable[Text], count: int, processes: int | None = None
) -> Iterator[TranslatedBatch]:
    """The translations of `count` texts, in order, by several processes; their number does not change the result.

    Without `processes` there is one per core, or one for a GPU.
    """
    size, on_gpu = teacher.batch_texts, isinstance(teacher, Teacher) and teacher.device == "cuda"
    if processes is None:
        processes = 1 if on_gpu else max(1, min(usable_cores(), -(-count // size)))
    if processes > 1 and isinstance(teacher, Teacher) and teacher.threads is None:
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


def _summary(options: TranslateOptions, texts: Texts, output: ResumableTsv, chosen: int) -> Iterator[str]:
    of = "" if chosen == texts.count else f"{chosen:,} of "
    yield f"{output.pairs:,} pairs in {options.out}, from {of}{texts.count:,} distinct texts"
    for skipped in (texts.skipped, output.failed):
        yield from (f"  {line}" for line in skipped.describe())


def credits(bundle: Bundle) -> Iterator[str]:
    """Lines about whom to credit for the translations, to display since a TSV file has no place for them."""
    yield f"made by {bundle.name}, licence: {bundle.config.get('licence', 'not stated')}"
    named = bundle.config.get("attribution", [])
    if named:
        yield "anyone who shares these pairs, or a bundle trained on them, must credit (`export --attribution`):"
    yield from (f"  {line}" for line in named)
