"""Options of `run`: combines a recipe file with a command line, and validates them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch

from model.atomic_files import check_replaceable
from model.config import ARCHITECTURES
from training.adapt.finetune import PANEL, FineTuning, InitialBundle
from training.adapt.transfer import ParentBundle
from training.data.batches import Pairs
from training.data.dataset import PreparedSummary
from training.data.options import MAX_TOKENS, PrepareOptions
from training.evaluation.evaluate import TestSet
from training.export.bundle import ATTRIBUTION, LICENCE, ExportOptions
from training.optim.bpe_dropout import NO_MERGES
from training.optim.defaults import FROM_PARENT, Size, recipe_for, size_for
from training.optim.loop import CHANGEABLE
from training.optim.trainer import MINUTES, Recipe
from training.options import DEVICE, Option, OptionGroup, Values
from training.pipeline.lexicon import LexiconBundle
from training.pipeline.plan import Plan
from training.pipeline.recipe_file import DROPOUT_FIELDS, RecipeFile
from training.pipeline.synthetic import SyntheticCorpus
from training.pipeline.work_folder import REVERSE, work_folder

Say = Callable[[str], None]
_LENGTH_FIELDS = ("epochs", *CHANGEABLE)


@dataclass(frozen=True)
class RunArguments:
    """The command line's options in addition to a recipe file's. `top_level` overrides the file's top level, `prepare`
    and `export` its sections."""

    out: Path
    """The bundle folder to make, such as mine/en-fr."""
    top_level: Annotated[Values, OptionGroup(RecipeFile)] = field(default_factory=dict)
    recipe: Annotated[Path | None, Option(metavar="FILE")] = None
    """A TOML file with all these options and more, such as recipes/en-fr.toml; options given here override it."""
    corpora: Annotated[Path | None, Option(metavar="DIR")] = None
    """The folder of the files that the recipe names. (default: the current folder)"""
    minutes: Annotated[float | None, MINUTES] = None
    work: Path | None = None
    """Folder for intermediate results, from which the same command resumes. (default: runs/mine-en-fr for --out
    mine/en-fr)"""
    replace: bool = False
    """Replace an existing bundle."""
    reverse: bool = False
    """Train the other direction of the pairs, from --target to --source; in the --work of a run of these pairs, on its
    data."""
    prepare: Annotated[Values, OptionGroup(PrepareOptions, ("columns", "encoding", "keep"))] = field(
        default_factory=dict
    )
    architecture: str | None = None
    """tiny, small, base or student. (default: depends on the number of pairs)"""
    init: Annotated[Path | None, Option(metavar="BUNDLE", panel=PANEL)] = None
    """Adapt this bundle to your pairs, instead of training from scratch."""
    mix: Annotated[tuple[str, ...], Option(metavar="FILE:N", panel=PANEL)] = ()
    """Also train on this corpus, N pairs for each of yours, to lose less in other fields; repeat for more."""
    tuning: Annotated[Values, OptionGroup(FineTuning)] = field(default_factory=dict)
    dry_run: Annotated[bool, Option(panel=PANEL)] = False
    """Only say what would be learnt, held out and measured."""
    export: Annotated[Values, OptionGroup(ExportOptions, ("licence", "attribution", "remarks"))] = field(
        default_factory=dict
    )
    device: Annotated[str, DEVICE] = "auto"
    threads: int | None = None
    """CPU threads. (default: one per core; one for `tiny`)"""

    def __post_init__(self) -> None:
        if self.corpora is not None and self.recipe is None:
            raise ValueError("--corpora is the folder of the files that a recipe names: give --recipe too")


@dataclass(frozen=True)
class RunOptions:
    """Options of all stages. `work` has the run folder and the plan. `model` and `training` override automatic choices.
    `reverse`: from the target language of `prepare` to its source language, in a folder below that of the data."""

    work: Path
    prepare: PrepareOptions
    export: ExportOptions
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    minutes: float | None = None
    tuning: FineTuning | None = None
    parent: ParentBundle | None = None
    lexicon: LexiconBundle | None = None
    threads: int | None = None
    reverse: bool = False
    synthetic: tuple[SyntheticCorpus, ...] = ()

    def __post_init__(self) -> None:
        if self.tuning is not None and self.reverse:
            raise ValueError("--init adapts a bundle of one direction: leave --reverse out")
        if self.tuning is not None and self.parent is not None:
            raise ValueError("give --init or --parent, not both")
        if self.tuning is not None:
            self._check_tuning()
        for origin in (self.tuning.initial if self.tuning else None, self.parent):
            if origin is not None and origin.bundle.folder.resolve() == self.export.out.resolve():
                raise ValueError(f"--out is {origin.name} itself, which is needed to resume: give another")
        if self.architecture is not None and self.architecture not in ARCHITECTURES:
            raise ValueError(f"--architecture must be one of {', '.join(ARCHITECTURES)}, not {self.architecture!r}")
        positions, longest = self.model.get("max_positions"), self.prepare.max_tokens
        if positions is not None and positions <= longest:  # the start or end symbol takes one
            raise ValueError(f"max_positions {positions} must be more than max_tokens, {longest}")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"--minutes must be above 0, not {self.minutes:g}")

    def _check_tuning(self) -> None:
        if self.tuning and self.training.get("bpe_dropout") and not self.tuning.initial.can_resegment:
            raise ValueError(NO_MERGES)
        if self.architecture is not None:
            raise ValueError("with --init the architecture is the bundle's: leave --architecture out")
        vocabulary = [] if self.prepare.vocab_size is None else ["vocab_size"]
        if unsupported := [*vocabulary, *(name for name in self.model if name not in DROPOUT_FIELDS)]:
            raise ValueError(f"with --init, the bundle decides {', '.join(unsupported)}: leave it out of the recipe")
        if unsupported := [name for name in ("warmup", "learning_rate_factor") if name in self.training]:
            raise ValueError(
                f"with --init, --learning-rate replaces {', '.join(unsupported)}: leave it out of the recipe"
            )

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target of the model."""
        prepared = self.prepare.source, self.prepare.target
        return prepared[::-1] if self.reverse else prepared

    @property
    def architecture(self) -> str | None:
        return self.model.get("architecture")

    def rehearsing(self, tests: Sequence[TestSet], say: Say) -> tuple[RunOptions, list[TestSet]]:
        """A copy with the rehearsal of the bundle being fine-tuned, made now if necessary; and the general sets, from
        `tests` or others. Raises NotReplaceable, CorpusError and TrainingError."""
        if self.tuning is None:
            return self, []
        general, rehearsal = self.tuning.general_sets(tests), self.tuning.rehearsal(self.work)
        if rehearsal is None:
            return self, general
        if not rehearsal.is_up_to_date:
            check_replaceable(self.export.out, self.export.replace)
            rehearsal.make(say)
        if rehearsal.is_empty:
            return self, general
        text = f"{rehearsal.path}:{self.tuning.rehearse:g}"
        return dataclasses.replace(self, prepare=dataclasses.replace(self.prepare, rehearsal=text)), general

    def size(self, summary: PreparedSummary, device: torch.device) -> Size:
        """The size that suits the corpus."""
        return FROM_PARENT if self.parent else size_for(summary.own_pairs, device.type == "cuda")

    def recipe(self, given: Mapping[str, Any], pairs: Pairs, summary: PreparedSummary, device: torch.device) -> Recipe:
        """The recipe that suits the corpus, overridden by `given`, of which minutes replace what counts steps between
        evaluations, and evaluations without a better loss."""
        if self.minutes is not None:
            given = {k: v for k, v in given.items() if k not in ("evaluate_every", "patience")}
            given["minutes"] = self.minutes
        if self.tuning is not None:
            return self.tuning.recipe(pairs, self.prepare.seed, **given)
        return recipe_for(self.size(summary, device), pairs, **given, seed=self.prepare.seed)

    @property
    def asked(self) -> dict[str, Any]:
        """The explicit choices that a plan must share, apart from the architecture's name."""
        model = {name: value for name, value in self.model.items() if name != "architecture"}
        asked: dict[str, Any] = {
            name: values for name, values in (("model", model), ("training", self.training)) if values
        }
        if self.tuning is not None and self.tuning.learning_rate is not None:
            asked["learning_rate"] = self.tuning.learning_rate
        origins = {"parent": self.parent and self.parent.name, "lexicon": self.lexicon and self.lexicon.bundle.name}
        return asked | {origin: name for origin, name in origins.items() if name}

    def fits(self, plan: Plan) -> bool:
        """Whether `plan` matches these options."""
        same_length = plan.asked == self.asked and self.minutes in (None, plan.recipe.minutes)
        return self._fits_shape(plan) and same_length

    def fits_except_length(self, plan: Plan) -> bool:
        """Whether a run by `plan` can continue with these options: longer, shorter, or with other checkpoints and
        evaluations."""
        return self._fits_shape(plan) and not self.differing(plan)

    def differing(self, plan: Plan) -> list[str]:
        """The options in which `plan` differs, as a recipe file names them, except architecture and length."""

        def flat(asked: dict[str, Any]) -> dict[str, Any]:
            tables = {k: v if isinstance(v, dict) else {"": v} for k, v in asked.items()}
            return {f"{table}.{key}".rstrip("."): v for table, keys in tables.items() for key, v in keys.items()}

        ours, theirs = flat(self.asked), flat(plan.asked)
        length = {f"training.{name}" for name in _LENGTH_FIELDS}
        return [name for name in sorted({*ours, *theirs} - length) if ours.get(name) != theirs.get(name)]

    def length_differing(self, plan: Plan) -> set[str]:
        """The options in which `plan` differs that concern length and reporting."""
        ours, theirs = self.asked.get("training", {}), plan.asked.get("training", {})
        return {name for name in _LENGTH_FIELDS if ours.get(name) != theirs.get(name)}

    def _fits_shape(self, plan: Plan) -> bool:
        name = self.architecture if self.tuning is None else self.tuning.architecture
        return name in (None, plan.architecture)


def fine_tuning_options(arguments: RunArguments, source: str | None, target: str | None) -> FineTuning | None:
    """The options of --init. Raises ValueError for an option that needs it."""
    if arguments.init is not None:
        return FineTuning(InitialBundle.load(arguments.init, source, target), **arguments.tuning)
    for name in (*arguments.tuning, *(["mix"] if arguments.mix else [])):
        option = name.replace("_", "-")
        raise ValueError(f"--{option} is for fine-tuning: give the bundle to start from with --init")
    return None


def run_options(arguments: RunArguments) -> RunOptions:
    """Combines a command line with its recipe. Raises BundleError, RecipeFileError and ValueError."""
    work = arguments.work or work_folder(arguments.out)
    recipe = RecipeFile.load(arguments.recipe, arguments.corpora or Path()) if arguments.recipe else RecipeFile()
    if arguments.init and recipe.parent:
        recipe = recipe.continued()
    model = {"architecture": arguments.architecture}
    recipe = recipe.overridden(**arguments.top_level, prepare=arguments.prepare, model=model, export=arguments.export)
    tuning = fine_tuning_options(arguments, recipe.source, recipe.target)
    parent = ParentBundle.load(Path(recipe.parent)) if recipe.parent else None
    held_out = (*recipe.test, *([recipe.dev] if recipe.dev else []))
    synthetic = tuple(
        SyntheticCorpus.of(table, work, arguments.device, arguments.threads, held_out) for table in recipe.synthetic
    )
    prepare = prepare_options(recipe, work, tuning, arguments.mix, synthetic)
    lexicon = (
        LexiconBundle.load(Path(recipe.lexicon), parent, (prepare.source, prepare.target)) if recipe.lexicon else None
    )
    export = export_options(arguments, recipe, work, tuning, parent, lexicon)
    return RunOptions(
        export.run.parent,
        prepare,
        export,
        recipe.model,
        recipe.training,
        arguments.minutes,
        tuning,
        parent,
        lexicon,
        arguments.threads,
        arguments.reverse,
        synthetic,
    )


def prepare_options(
    recipe: RecipeFile,
    work: Path,
    tuning: FineTuning | None,
    mix: tuple[str, ...],
    synthetic: Sequence[SyntheticCorpus] = (),
) -> PrepareOptions:
    """The options of preparation. Raises ValueError."""
    fields: dict[str, Any] = {"dev": recipe.dev, **recipe.prepare}
    if recipe.seed is not None:
        fields["seed"] = recipe.seed
    if tuning is not None:
        fields |= tuning.initial.text_options
        fields["max_tokens"] = min(fields.get("max_tokens", MAX_TOKENS), tuning.initial.max_tokens)
    source, target = _languages(recipe, tuning)
    made = tuple(corpus.text for corpus in synthetic)
    pairs = (*recipe.pairs, *made)
    options = PrepareOptions(pairs, source, target, work / "data", replace=True, mix=mix, made=made, **fields)
    return options if tuning is None or "script" in fields else tuning.initial.with_bundle_script(options)


def export_options(
    arguments: RunArguments,
    recipe: RecipeFile,
    work: Path,
    tuning: FineTuning | None,
    parent: ParentBundle | None,
    lexicon: LexiconBundle | None,
) -> ExportOptions:
    """The options of export and measurement. Raises ValueError."""
    fields = dict(recipe.export)
    licence, credits = fields.pop("licence", None), fields.pop("attribution", (ATTRIBUTION,))
    origin = tuning.initial if tuning else parent
    credits = origin.attribution(credits) if origin else credits
    columns = recipe.prepare.get("columns")
    return ExportOptions(
        run=(work / REVERSE if arguments.reverse else work) / "run",
        data=work / "data",
        out=arguments.out,
        replace=arguments.replace,
        evaluate_on=(*recipe.test, *(tuning.general if tuning else ())),
        columns=columns[::-1] if columns and arguments.reverse else columns,
        encoding=recipe.prepare.get("encoding"),
        below=(arguments.corpora or Path()) if arguments.recipe else None,
        licence=tuning.initial.licence(licence) if tuning else licence or LICENCE,
        attribution=lexicon.attribution(credits) if lexicon else credits,
        device=arguments.device,
        accept_loss=tuning.accept_loss if tuning else None,
        blend=tuning.blend if tuning else None,
        accept_general_loss=tuning.accept_general_loss if tuning else None,
        parent=parent.record() | (lexicon.record() if lexicon else {}) if parent else None,
        **fields,
    )


def _languages(recipe: RecipeFile, tuning: FineTuning | None) -> tuple[str, str]:
    """Source and target; the bundle's in fine-tuning. Raises ValueError."""
    if tuning is not None:
        return tuning.initial.languages(recipe.source, recipe.target)
    if recipe.source is None or recipe.target is None:
        raise ValueError("give --source and --target, or a bundle to start from with --init")
    return recipe.source, recipe.target
