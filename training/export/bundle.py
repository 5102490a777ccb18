"""Exports a run's best weights, with metrics, as a bundle that the service loads.

`training.export.run_folder` reads the run, `model.bundle` defines the format, and `training.export.ctranslate2`
converts a bundle for another library.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from model.atomic_files import check_replaceable
from model.bundle_weights import check_samples, load_bundle, save_bundle
from model.machine import keep_freed_memory
from model.quality import QualityModel
from model.transformer import AlignmentHead, Transformer
from model.weight_storage import STORAGES
from training.align.head import head_of
from training.compute import pick_device, use_threads
from training.corpora.general import general_pairs_of
from training.corpora.text_file import open_text
from training.evaluation.evaluate import DEVELOPMENT, Result, TestSet, evaluate_set, report
from training.evaluation.scoring import MIN_BLEU_DIFFERENCE
from training.evaluation.service_command import NotServed
from training.export.alignment import align_run
from training.export.argos import pack_for_argos
from training.export.ctranslate2 import ConvertOptions, convert_bundle
from training.export.interpolation import Baseline, choose_interpolation, load_choice
from training.export.marian import MarianOptions, convert_for_marian
from training.export.metrics import fit_as_served, measure_as_served
from training.export.model_card import model_card
from training.export.run_folder import INITIAL_WEIGHTS, TrainedRun, origin_of, training_record
from training.export.samples import MARGIN, choose_samples, own_sentences, uncertainty_warning
from training.file_lock import lock_output
from training.launch import serve_command
from training.optim.checkpoint import BEST
from training.optim.diagnostics import trained_on
from training.options import Option, OptionGroup, Values, group_options, options_of

LICENCE = "Not stated. The owners of the corpora decide how a model trained on them may be used."
ATTRIBUTION = "The corpora above; if you share this bundle, credit their owners as their licences require."
REQUIRED_OPTIONS = {"bundle": ("run", "data"), "ctranslate2": ("bundle",), "argos": ("bundle",), "marian": ("bundle",)}
"""The options that each value of `--to` requires."""
CONVERTER_OPTIONS = {"ctranslate2": ("dtype",), "argos": ("dtype",), "marian": ()}
"""The options that a conversion of a bundle may have besides."""
SERVED_FIELDS = ("decoding", "text", "reserved_copies")
"""Fields of config.json about serving, which a fine-tuned bundle has from the bundle that it started from."""
CARRIED = ("general", "quality")
"""Fields of an initial bundle's record that an export takes in, and its config.json does not repeat."""
GENERAL_PAIRS = 200
"""Maximum number of development pairs that a bundle carries as general pairs."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class ExportOptions:
    """What to export. A ValueError names the fault.

    `columns`, counted from 1, and `encoding` are those of `evaluate_on`; None: detected. A test set in the folder
    `below` is named by its path there, others by their file's name. `initial` is the record of the bundle that the run
    fine-tunes, `parent` that of the bundle for other languages from whose weights it started. `accept_loss`: BLEU that
    the fine-tuned weights may lose on the development set and still ship; None: MIN_BLEU_DIFFERENCE.
    `accept_general_loss`: BLEU that they may lose on each general set; None: `tradeoff.ACCEPTED`. `blend`: how far to
    go from the initial bundle's weights to the fine-tuned ones; None: as far as `accept_general_loss` allows.
    """

    run: Path
    data: Path
    out: Path
    replace: bool = False
    dtype: str = "float16"
    """Storage type of weights: float16, bfloat16, float32, or int8, which has half the size of float16. (default:
    float16; for CTranslate2 and Argos float32)"""
    evaluate_on: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Additional sentence pairs to measure on; repeat for more."""
    columns: tuple[int, int] | None = None
    encoding: str | None = None
    below: Path | None = None
    licence: str = LICENCE
    """The licence under which the bundle may be used. (default: that of the bundle it started from, or not stated)"""
    attribution: Annotated[tuple[str, ...], Option(metavar="TEXT")] = (ATTRIBUTION,)
    """Credits for the corpora, as their licences require; repeat for more. Credits of the bundle it started from are
    kept."""
    remarks: Annotated[tuple[str, ...], Option(names=("--remark",), metavar="TEXT")] = ()
    """A paragraph for the model card: what the model is and is not for; repeat for more."""
    samples: Annotated[str, Option(metavar="own|dev|FILE")] = "own"
    """The sentences with which the bundle checks itself. own: ours, or the development set's if we have none in the
    language; dev: the development set's; or a file with one per line. (default: own)"""
    device: str = "auto"
    """Where to measure: cpu, cuda, or auto: a GPU if available. (default: auto)"""
    initial: dict[str, Any] | None = None
    accept_loss: float | None = None
    blend: float | None = None
    accept_general_loss: float | None = None
    parent: dict[str, Any] | None = None

    @property
    def origin(self) -> dict[str, Any]:
        """The record of a bundle that the run started from; empty if there was none."""
        began = {name: record for name in ("initial", "parent") if (record := getattr(self, name))}
        return began | {"licence": self.licence, "attribution": list(self.attribution)} if began else {}

    @property
    def form(self) -> dict[str, Any]:
        """The choice and storage of weights and the origin of samples, as config.json records them."""
        sentences = self.sentences()
        digest = hashlib.sha256("\n".join(sentences).encode()).hexdigest() if sentences else None
        chosen = {"accept_loss": self.accept_loss, "blend": self.blend, "samples_sha256": digest}
        chosen["accept_general_loss"] = self.accept_general_loss
        given = {name: value for name, value in chosen.items() if value is not None}
        return {"dtype": self.dtype, "samples": Path(self.samples).name, **given}

    def __post_init__(self) -> None:
        if self.dtype not in STORAGES:
            raise ValueError(f"--dtype must be one of {', '.join(STORAGES)}, not {self.dtype!r}")

    def sentences(self) -> list[str]:
        """The sentences in the file `samples`, if it is one. Raises CorpusError."""
        if self.samples in ("own", "dev"):
            return []
        return [line.strip() for line in open_text(Path(self.samples)).lines() if line.strip()]

    def tests(self, source: str, target: str) -> list[TestSet]:
        """The sets of `evaluate_on`, in these languages. Raises CorpusError, and ValueError if two have the same name,
        since names identify scores."""
        tests = [self._test(text, source, target) for text in self.evaluate_on]
        counts = Counter([DEVELOPMENT, *(test.name for test in tests)])
        for test in tests:
            if counts[test.name] > 1:
                raise ValueError(f"two test sets are called {test.name}: give each once, or rename one")
        return tests

    def _test(self, text: str, source: str, target: str) -> TestSet:
        return TestSet.read(text, source, target, self.columns, self.encoding, self.below)


def export_run(
    options: ExportOptions,
    say: Say = print,
    tests: Sequence[TestSet] | None = None,
    baseline: Baseline | None = None,
) -> None:
    """Chooses weights by development BLEU, measures them as they will be loaded, and writes the bundle.

    `tests`: `options.tests()`, if already read. `baseline`: the bundle that the run fine-tunes; without it, the weights
    of such a run are those chosen before. Nothing exists at `out` before all is done. Raises BundleError,
    NotReplaceable, TrainingError, CorpusError, ValueError.
    """
    check_replaceable(options.out, options.replace)
    device = pick_device(options.device)
    run, learnt = _load_snapshot(options)
    sentences = options.sentences()
    if tests is None:
        tests = options.tests(run.summary.source, run.summary.target)
    dev = TestSet.development(run.data, run.summary.reverse)
    chosen = _choose(options, run, learnt, baseline, dev, device, say)
    model, metrics = chosen.model, chosen.metrics
    seen: dict[str, int] = {}
    for test in tests:
        result = _evaluated(run, model, test)
        seen[test.name] = trained_on(
            [run.tokenizers.source.encode_source(pair.source) for pair in test.pairs], run.pairs
        )
        result = dataclasses.replace(result, trained_on=seen[test.name])
        report(result, test, run.limits, say)
        metrics = [*metrics, *result.metrics()]
    samples = _samples(model, run, sentences or _sample_sentences(run, options.samples), say)
    record = _record(options, run, chosen, metrics, samples)
    if not record.get("decoding", {}).get("replace_unknowns"):  # an unknown token's text comes by attention
        aligned = align_run(run, model, chosen.alignment, say)
        model = aligned.model
        record |= {"alignment": aligned.record} if aligned.record else {}
    model = model.cpu()

    def write(folder: Path) -> None:
        card = model_card({"architecture": model.config.to_dict(), "limits": dataclasses.asdict(run.limits), **record})
        how: dict[str, Any] = {"dtype": options.dtype, "replace": options.replace}
        source, target = run.tokenizers
        save_bundle(folder, model, source, run.limits, record, card, target_tokenizer=target, **how)

    try:
        results = measure_as_served(write, [dev, *tests], device)
    except NotServed as error:
        say(f"warning: the scores are those of the bare decoder, since {error}")
    else:
        results = [dataclasses.replace(result, trained_on=seen.get(result.set)) for result in results]
        for result, test in zip(results, [dev, *tests], strict=True):
            report(result, test, run.limits, say)
        record["metrics"] = [metric for result in results for metric in result.metrics()]
    unseen = [test for test in tests if not seen.get(test.name)]
    initial = options.initial or {}
    prior = QualityModel.read(initial["quality"]) if "quality" in initial else None
    record |= fit_as_served(write, [dev], unseen, device, say=say, prior=prior)
    write(options.out)
    bundle = load_bundle(options.out, torch.device("cpu"))
    check_samples(bundle)
    size = sum(file.stat().st_size for file in options.out.iterdir())
    say(f"{options.out} is {bundle.name}, {size / 2**20:.1f} MiB in {options.dtype}, with {chosen.weights}")


class _Chosen(NamedTuple):
    weights: str
    """Which, in words."""
    model: Transformer
    metrics: list[dict[str, Any]]
    """On the development set."""
    candidates: list[dict[str, Any]]
    tradeoff: dict[str, Any]
    alignment: AlignmentHead | None
    """That of the bundle that is fine-tuned, if it has one."""


def _choose(
    options: ExportOptions,
    run: TrainedRun,
    learnt: list[tuple[str, dict[str, Tensor]]],
    baseline: Baseline | None,
    dev: TestSet,
    device: torch.device,
    say: Say,
) -> _Chosen:
    """The weights that ship: the best of those learnt, or, for a fine-tuned bundle, what lies between these and its
    own."""
    tradeoff: dict[str, Any] = {}
    alignment = baseline.alignment if baseline else None
    if options.initial and baseline is None:
        weights, of_weights, tradeoff = load_choice(run.folder)
        learnt, alignment = [(weights, of_weights)], head_of(of_weights)
    before = None if options.initial else run.beginning()
    weights, model, result, candidates = choose_weights(
        run,
        learnt,
        before,
        options.dtype,
        device,
        lambda model: _evaluated(run, model, dev),
        MIN_BLEU_DIFFERENCE,
        say,
    )
    report(result, dev, run.limits, say)
    if baseline is not None:
        best = weights, dict(learnt)[weights]
        weights, model, tradeoff = choose_interpolation(run, best, baseline, dev, options.dtype, device, say)
        result = _evaluated(run, model, dev)
        report(result, dev, run.limits, say)
    return _Chosen(weights, model, result.metrics(), candidates, tradeoff, alignment)


def _evaluated(run: TrainedRun, model: Transformer, test: TestSet) -> Result:
    return evaluate_set(model, run.tokenizers, run.limits, run.summary.target, test, direction=run.direction)


def _record(
    options: ExportOptions,
    run: TrainedRun,
    chosen: _Chosen,
    metrics: list[dict[str, Any]],
    samples: list[dict[str, Any]],
) -> dict[str, Any]:
    """What config.json records of the run, and what the bundle is served with."""
    initial = options.initial or {}
    training = training_record(run, chosen.weights, chosen.model)
    training |= {"candidates": chosen.candidates, "form": options.form, "decoder_metrics": metrics}
    if chosen.tradeoff:
        training["tradeoff"] = chosen.tradeoff
    if initial:
        training["initial"] = {k: v for k, v in initial.items() if k not in (*CARRIED, *SERVED_FIELDS)}
    if options.parent:
        training["parent"] = options.parent
    return {
        **run.direction.to_dict(),
        "training": training,
        "metrics": metrics,
        "licence": options.licence,
        "attribution": list(options.attribution),
        "remarks": list(options.remarks),
        "samples": samples,
        "general": _general(run, options),
        **{name: initial[name] for name in SERVED_FIELDS if name in initial},
    }


def _load_snapshot(options: ExportOptions) -> tuple[TrainedRun, list[tuple[str, dict[str, Tensor]]]]:
    """The run and its candidates, as of one moment: training may continue in the folder while they are measured."""
    while True:
        run = TrainedRun.load(options.run, options.data)
        try:
            learnt = list(run.candidates())
        except FileNotFoundError:  # an evaluation replaced them
            if not (run.folder / BEST).exists():  # training replaces it but never removes it: the copy is incomplete
                raise
            continue
        if run.is_current():
            return _with_limits_of(run, options.initial), learnt


def _with_limits_of(run: TrainedRun, initial: dict[str, Any] | None) -> TrainedRun:
    """The run of a fine-tuned bundle still translates long sentences that it could translate before."""
    if not initial:
        return run
    theirs = initial["limits"]
    longer = {name: max(getattr(run.limits, name), theirs[name]) for name in ("max_source", "max_target", "ratio")}
    return dataclasses.replace(run, limits=dataclasses.replace(run.limits, **longer))


def choose_weights(
    run: TrainedRun,
    learnt: Iterable[tuple[str, dict[str, Tensor]]],
    before: dict[str, Tensor] | None,
    dtype: str,
    device: torch.device,
    evaluate: Callable[[Transformer], Result],
    accepted: float,
    say: Say,
) -> tuple[str, Transformer, Result, list[dict[str, Any]]]:
    """Chooses the candidate with the best BLEU on the development set, on which `evaluate` measures a model.

    Returns its description, its model, its result there, and the BLEU of each candidate. The weights from `before` the
    run win only by more than `accepted`.
    """
    found = []
    for what, weights in chain(learnt, [(INITIAL_WEIGHTS, before)] if before else []):
        model = run.model(weights, dtype, device)
        result = evaluate(model)
        found.append((result.scores[0].score, what, model, result))
        say(f"{what}: BLEU {result.scores[0].score:.2f} on the development set")
    best = max(found[:-1] if before else found, key=lambda candidate: candidate[0])
    if before and (cost := found[-1][0] - best[0]) > accepted:
        best = found[-1]
        say(
            f"warning: what was learnt costs {cost:.2f} BLEU on the development set: the bundle has the weights that "
            "the run began with"
        )
    _, what, model, result = best
    tried = [{"weights": name, "development_bleu": round(bleu, 2)} for bleu, name, *_ in found]
    return what, model, result, tried


def _samples(model: Transformer, run: TrainedRun, sentences: Sequence[str], say: Say) -> list[dict[str, Any]]:
    """At least one sample, since the service refuses a bundle without. Raises ValueError if no sentence fits."""
    samples, lead = choose_samples(model, run.tokenizers, run.limits, sentences, direction=run.direction)
    if lead is None:
        say(f"{len(samples)} samples whose every token leads by {MARGIN} nats")
    else:
        say(f"{uncertainty_warning(lead)}; train for longer")
    return samples


def _sample_sentences(run: TrainedRun, samples: str) -> Sequence[str]:
    """Our own sentences; the development set's if `samples` says so, or if we have none in the language."""
    own = own_sentences(run.summary.source) if samples == "own" else []
    return own or [pair.source for pair in run.development()]


def _general(run: TrainedRun, options: ExportOptions) -> list[list[str]]:
    """The pairs by which a later `run --init` measures what is lost outside its field: those of the fine-tuned bundle,
    or ours, or for languages that we have none in some of the development set, as with samples."""
    origin = options.initial or {}
    pairs = general_pairs_of({"source": run.summary.source, "target": run.summary.target, **origin})
    return [list(pair) for pair in pairs or run.development()[:GENERAL_PAIRS]]


@dataclass(frozen=True)
class ExportArguments:
    """What the command line requests; a ValueError names options that do not go together."""

    out: Path
    """The folder to make, such as bundles/en-fr."""
    run: Path | None = None
    """The run folder that `train` made."""
    data: Path | None = None
    """The data folder that it was trained on."""
    to: Annotated[str, Option(metavar="bundle|ctranslate2|argos|marian")] = "bundle"
    """What to make: a bundle from --run and --data, or from --bundle a model folder for CTranslate2 or Marian, or a
    package (.argosmodel) for Argos Translate and LibreTranslate."""
    bundle: Path | None = None
    """The bundle folder to convert with --to ctranslate2, argos or marian."""
    replace: bool = False
    """Replace an existing folder or package."""
    export: Annotated[Values, OptionGroup(ExportOptions)] = field(default_factory=dict)
    threads: int | None = None
    """CPU threads. (default: one per core)"""

    def __post_init__(self) -> None:
        if self.to not in REQUIRED_OPTIONS:
            raise ValueError(f"--to must be one of {', '.join(REQUIRED_OPTIONS)}, not {self.to!r}")
        given = {name for name in ("run", "data", "bundle", "threads") if getattr(self, name) is not None}
        given |= self.export.keys()
        others = {name for kind, names in REQUIRED_OPTIONS.items() if kind != self.to for name in names}
        missing = [name for name in REQUIRED_OPTIONS[self.to] if name not in given]
        surplus = (
            given & others if self.to == "bundle" else given - {*REQUIRED_OPTIONS[self.to], *CONVERTER_OPTIONS[self.to]}
        )
        faults = [f"needs {_flags(missing)}"] if missing else []
        faults += [f"takes no {_flags(sorted(surplus))}"] if surplus else []
        if faults:
            raise ValueError(f"--to {self.to} {' and '.join(faults)}")


def export_or_convert(arguments: ExportArguments, say: Say = print) -> None:
    """Makes what the command line requests. Raises what `export_run` and the converters raise, and BusyError."""
    out, given = arguments.out, arguments.export
    with lock_output(out):
        if arguments.bundle is not None and arguments.to == "marian":
            convert_for_marian(MarianOptions(arguments.bundle, out, arguments.replace), say)
            return
        if arguments.bundle is not None:
            convert = pack_for_argos if arguments.to == "argos" else convert_bundle
            convert(ConvertOptions(arguments.bundle, out, arguments.replace, **given), say)
            return
        assert arguments.run is not None and arguments.data is not None
        keep_freed_memory()
        use_threads(arguments.threads)
        began = origin_of(arguments.run)
        credits = (*given.get("attribution", ()), *began.pop("attribution", ()))
        attribution = {"attribution": tuple(dict.fromkeys(credits))} if credits else {}
        fields = {**began, **given, **attribution}
        export_run(ExportOptions(arguments.run, arguments.data, out, arguments.replace, **fields), say)
    say(f"next: {serve_command(out)}")


def _flags(names: Iterable[str]) -> str:
    declared = {**options_of(ExportArguments), **group_options(OptionGroup(ExportOptions))}
    return ", ".join(option.flags(name)[0] for name in names if isinstance(option := declared[name][1], Option))
