"""Writes the model cards of bundles, and of converted ones, in Markdown, from config.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from model.languages import language_name
from training.evaluation.quality_card import quality_section

CONVERTED = """\
# {source} to {target}, for CTranslate2

Converted from the Interlinear bundle {name}. With a beam of one, as below, float32 gives the bundle's own translations.
It translates one sentence at a time, of at most {max_source} pieces.

```python
import ctranslate2
import sentencepiece

vocabulary = sentencepiece.SentencePieceProcessor(model_file="sentencepiece.model")
{target_vocabulary}translator = ctranslate2.Translator(".")

source = vocabulary.encode(" " + "Hello.", out_type=str)  # the space makes a first word the same piece as any other
longest = min({max_target}, int({ratio} * len(source)) + {margin})
[result] = translator.translate_batch([source], beam_size=1, max_decoding_length=longest, min_decoding_length=0)
print({target_name}.decode(result.hypotheses[0]).removeprefix(" "))
```
"""
FOR_MARIAN = """\
# {source} to {target}, for Marian

Converted from the Interlinear bundle {name}. It translates one sentence at a time, of at most {max_source} pieces:

    echo "Hello." | marian-decoder -c decoder.yml

Marian splits text by the same pieces, but does not tidy it as Interlinear does: typographic apostrophes and invisible
characters stay as they are. `marian-conv --gemm-type intgemm8` makes a quantised file of model.npz.
"""
FOR_ARGOS = """\
# {source} to {target}, for Argos Translate

Converted from the Interlinear bundle {name}. To install it for Argos Translate or LibreTranslate, unpack the file into
the packages' folder, `~/.local/share/argos-translate/packages`.

Argos Translate searches with a beam of 4; ARGOS_BEAM_SIZE=1 decodes greedily, as Interlinear does by default. A
sentence may have {max_source} pieces; longer ones are translated badly. The model in `minisbd` splits sentences by
rules. Without that folder, Argos Translate downloads one of MiniSBD's.
"""
MAX_NAMED_LANGUAGES = 8
"""Maximum number of languages of a side that a card names."""
_NOT_MEASURED = (
    "## Figures",
    "",
    "Nothing was measured. `evaluate` (below) measures BLEU and chrF on your own sentences, and with "
    "--placeholders how well placeholders are placed.",
    "",
)


def model_card(config: Mapping[str, Any]) -> str:
    """A description of the bundle: its metrics, training data and their owners, and limitations."""
    return "\n".join(
        [
            *_opening(config),
            *_metrics(config),
            *quality_section(config),
            *_initial(config),
            *_training(config),
            *_parent(config),
            *_rights(config),
            *_limits(config),
            *_usage(config),
        ]
    )


def converted_card(config: Mapping[str, Any], name: str, target_file: str | None = None) -> str:
    """The card of bundle `name` as a CTranslate2 model: its owners, and how to tokenise and detokenise. `target_file`:
    the target's SentencePiece model, if it has one of its own."""
    line = f'target_vocabulary = sentencepiece.SentencePieceProcessor(model_file="{target_file}")\n'
    names = ("target_vocabulary", line) if target_file else ("vocabulary", "")
    return _converted(CONVERTED, config, name, target_name=names[0], target_vocabulary=names[1])


def marian_card(config: Mapping[str, Any], name: str) -> str:
    """The card of bundle `name` as a model for Marian: its owners, and how to use it."""
    return _converted(FOR_MARIAN, config, name)


def argos_card(config: Mapping[str, Any], name: str) -> str:
    """The card of bundle `name` as a package for Argos Translate: its owners, and what differs there."""
    return _converted(FOR_ARGOS, config, name)


def _converted(text: str, config: Mapping[str, Any], name: str, **names: str) -> str:
    opening = text.format(
        name=name,
        source=language_name(config["source"]),
        target=language_name(config["target"]),
        **config["limits"],
        **names,
    )
    rights = _rights({"licence": "Not stated", "attribution": [], **config})
    return "\n".join([opening, *_limitations(config), *rights])


def imported_card(config: Mapping[str, Any]) -> str:
    """A description of a bundle that was made of a published model: where it comes from, what was changed, and what was
    measured."""
    imported = config["training"]["imported"]
    return "\n".join(
        [
            *_opening(config),
            "## Where it comes from",
            "",
            f"Imported from a {imported['family']} model, {imported['file']}.",
            f"SHA-256 of its file: {imported['sha256']}.",
            *(_address(imported) if "address" in imported else ()),
            "",
            *(_published(imported["published"]) if imported.get("published") else ()),
            *(_metrics(config) if config["metrics"] else _NOT_MEASURED),
            *quality_section(config),
            *_rights(config),
            *_limits(config),
            *_usage(config),
        ]
    )


def _address(imported: Mapping[str, Any]) -> Iterator[str]:
    """Where a downloaded model comes from."""
    yield f"Downloaded on {imported['downloaded']} as {imported['name']} from <{imported['address']}>."
    yield f"Described at <{imported['page']}>."


def _published(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "## Published figures"
    yield ""
    yield "As published, not measured here, and not of this bundle: the publisher's own program translated."
    yield ""
    yield "| set | metric | score | published by |"
    yield "|---|---|--:|---|"
    for figure in figures:
        yield f"| {figure['dataset']} | {figure['metric']} | {figure['score']:.4g} | {figure['origin']} |"
    yield ""


def _sides(config: Mapping[str, Any]) -> Iterator[str]:
    """The source and the target language, or how many there are."""
    several = config.get("directions")
    for side in ("source", "target"):
        codes = [*several[f"{side}s"]] if several else [config[side]]
        named = ", ".join(map(language_name, codes))
        yield named if len(codes) <= MAX_NAMED_LANGUAGES else f"{len(codes)} languages"


def _opening(config: Mapping[str, Any]) -> Iterator[str]:
    shape, storage = config["architecture"], config["training"]["form"]["dtype"]
    source, target = _sides(config)
    yield f"# {source} to {target}"
    yield ""
    yield (
        f"A Transformer that translates {source} into {target}, one sentence at a time: "
        f"{shape['encoder_layers']} encoder and {shape['decoder_layers']} decoder layers, width {shape['d_model']}, "
        f"{config['training']['parameters']:,} parameters, {shape['target_vocab_size']:,} tokens."
        + (f" Its weights are stored in {storage}." if storage != "float16" else "")
    )
    yield ""


def _metrics(config: Mapping[str, Any]) -> Iterator[str]:
    yield "## Figures"
    yield ""
    if all(metric.get("served") for metric in config["metrics"]):
        yield "Measured as the service answers by default; each can be repeated with `evaluate` (below)."
    else:
        yield "Measured with the bare decoder, greedily; each can be repeated with `evaluate --raw` (below)."
    yield ""
    yield "| set | sentences | metric | score | precision |"
    yield "|---|--:|---|--:|---|"
    for metric in config["metrics"]:
        name, count, score = metric["set"], metric["sentences"], metric["score"]
        yield f"| {name} | {count:,} | {metric['metric']} | {score:.1f} | {metric['precision']} |"
    yield ""
    signatures = {metric["metric"]: metric["signature"] for metric in config["metrics"]}
    yield from (f"- {name} is `{signature}`" for name, signature in signatures.items())
    for found in config.get("placeholders", ()):
        yield (
            f"- Names as placeholders, in {found['sentences']:,} sentences of {found['set']}: {found['kept']:,} kept, "
            f"{found['moved_to_end']:,} moved to the end; BLEU {found['bleu']:.1f}, with the names themselves "
            f"{found['bleu_of_names']:.1f}."
        )
    overlaps = {metric["set"]: metric.get("sources_trained_on", 0) for metric in config["metrics"]}
    yield from (
        f"- Sentences of {name} that were trained on: {count:,}. Its figures flatter."
        for name, count in overlaps.items()
        if count
    )
    yield ""


def changes(config: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], float]]:
    """From a fine-tuned bundle's config.json, each metric of its initial bundle with the score now, except those that
    another export of the same run did not measure."""
    # The bare decoder was measured before, as is usual for comparing weights.
    measured = config["training"].get("decoder_metrics", config["metrics"])
    after = {(metric["set"], metric["metric"]): metric["score"] for metric in measured}
    before = [(metric, (metric["set"], metric["metric"])) for metric in config["training"]["initial"]["metrics"]]
    return [(metric, after[key]) for metric, key in before if key in after]


def _initial(config: Mapping[str, Any]) -> Iterator[str]:
    """The initial bundle of a fine-tuned one, and the gains and losses."""
    initial = config["training"].get("initial")
    if initial is None:
        return
    yield "## Fine-tuned"
    yield ""
    yield f"Made from {initial['bundle']}; what that gained and cost, on the same sentences:"
    yield ""
    yield "| set | sentences | metric | before | after |"
    yield "|---|--:|---|--:|--:|"
    for metric, after in changes(config):
        name, count, score = metric["set"], metric["sentences"], metric["score"]
        yield f"| {name} | {count:,} | {metric['metric']} | {score:.1f} | {after:.1f} |"
    yield ""
    yield f"{initial['bundle']} was trained on {_named(initial)}."
    yield ""
    yield from _origins(initial["bundle"], initial)


def _named(origin: Mapping[str, Any]) -> str:
    """The corpora of a bundle from which another started."""
    corpora = (f"{corpus['name']} ({corpus['pairs']:,} pairs)" for corpus in origin.get("corpora", ()))
    return ", ".join(corpora) or "corpora that it does not name"


def _origins(child: str, record: Mapping[str, Any]) -> Iterator[str]:
    """The bundles that `child` started from, according to its `record`, and their own ancestors or origin."""
    if imported := record.get("imported"):
        yield f"{child} was imported from a {imported['family']} model, {imported['file']}, which has the SHA-256"
        yield f"{imported['sha256']}."
        yield from _address(imported) if "address" in imported else ()
        yield ""
    if initial := record.get("initial"):
        yield f"{child} was made from {initial['bundle']}, which was trained on {_named(initial)}."
        yield ""
        yield from _origins(initial["bundle"], initial)
    if parent := record.get("parent"):
        whose = f"{parent['bundle']}, {language_name(parent['source'])} to {language_name(parent['target'])}"
        yield f"{child} began from the weights of {whose}, which was trained on {_named(parent)}."
        if lexicon := parent.get("lexicon"):
            yield f"New tokens began as the mean of those that translate them, by translations of {lexicon}."
        yield ""
        yield from _origins(parent["bundle"], parent)


def _training(config: Mapping[str, Any]) -> Iterator[str]:
    training = config["training"]
    yield "## Training"
    yield ""
    for corpus in training["corpora"]:
        weight = "" if corpus["weight"] == 1 else f", each drawn {corpus['weight']:g} times an epoch"
        yield f"- {corpus['name']}: {corpus['pairs']:,} sentence pairs{weight}"
    yield ""
    sessions = training.get("sessions", ())
    is_whole = len(sessions) == 1 and sessions[0]["from_step"] == 1
    place = f"in {training['precision']} on {training['device']}"
    if sessions:
        place = _place(sessions[0]) if is_whole else "in the sessions below"
    software = " and the versions of the software" if "versions" in training else ""
    yield (
        f"{training['steps']:,} steps, {training['epochs']:.1f} epochs, {training['target_tokens']:,} target tokens "
        f"{place}, seed {training['recipe']['seed']}. The weights are {training['weights']}. "
        f"config.json has the whole recipe{software}."
    )
    yield ""
    if sessions and not is_whole:  # the first steps may be older than such records
        yield from (f"- From step {session['from_step']:,}: {_place(session)}" for session in sessions)
        yield ""
    if "schedule" in training:
        yield _schedule(training["recipe"], training["schedule"])
        yield ""


def _place(session: Mapping[str, Any]) -> str:
    """The precision of a session, and what it ran on."""
    count, versions = session["processes"], session["versions"]
    processes = f"{count} processes on " if count > 1 else ""
    software = f"PyTorch {versions['torch']}, Python {versions['python']}"
    return f"in {session['precision']} on {processes}{session['device_name']} ({software})"


def _schedule(recipe: Mapping[str, Any], schedule: Mapping[str, Any]) -> str:
    rises = f"the learning rate rises for {schedule['warmup']:,} steps to {schedule['peak']:.2g}"
    falls = "then falls with the square root of the step"
    cooldown, most = recipe["cooldown"], f"{recipe['steps']:,} steps"
    if recipe.get("minutes") is None:
        ends = f", and in the last {cooldown:.0%} of at most {most} linearly to zero" if cooldown else ""
        return f"Schedule: {rises}, {falls}{ends}."
    held = f"{falls}, and" if recipe["steps"] else f"is held until {1 - cooldown:.0%} of the training time, and"
    ends = f" or of {most}, whichever is first" if recipe["steps"] else ""
    zero = f"falls linearly to zero at the end of the time{ends}" if cooldown else "stays"
    early = "" if schedule["ended"] or ends else " These weights are from before that end."
    return (
        f"Schedule: by the clock, {recipe['minutes']:g} minutes for the whole command; {rises}, {held} {zero}.{early} "
        "How many steps that gives depends on the machine, so the recipe alone does not reproduce the weights; "
        "config.json has the learning rates as they were."
    )


def _parent(config: Mapping[str, Any]) -> Iterator[str]:
    """The bundle for other languages from whose weights this one started, and that bundle's ancestors."""
    yield from _origins("It", {"parent": config["training"].get("parent")})


def _rights(config: Mapping[str, Any]) -> Iterator[str]:
    yield "## Licence and attribution"
    yield ""
    yield config["licence"]
    yield ""
    yield from (f"- {line}" for line in config["attribution"])
    yield ""


def _limits(config: Mapping[str, Any]) -> Iterator[str]:
    yield from _limitations(config)
    longest = config["limits"]["max_source"]
    yield f"A sentence may have {longest} tokens; what is longer, the service translates in parts."
    yield ""


def _limitations(config: Mapping[str, Any]) -> Iterator[str]:
    yield "## What it cannot do"
    yield ""
    for remark in config.get("remarks", ()):
        yield remark
        yield ""
    yield (
        "It knows what its corpora know. On subjects and styles unlike theirs it is worse than the figures say, and "
        "it can be fluent and wrong: leave out a negation, change a number or a name, invent. It sees one sentence "
        "and does not know what went before it, nor who is speaking. It repeats the prejudices of its corpora. Do "
        "not rely on it where an error does harm, unless someone who knows both languages reads what it wrote."
    )
    yield ""


def _usage(config: Mapping[str, Any]) -> Iterator[str]:
    yield "## Use"
    yield ""
    yield "    INTERLINEAR_BUNDLES=<this folder> python -m app serve"
    yield "    python -m training evaluate --bundle <this folder> --pairs test.tsv"
    yield ""
