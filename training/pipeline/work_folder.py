"""Finds the work folder of a run, its earlier results, and other bundles beside the output, before any work."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from model.bundle_files import BundleError, read_bundle
from training.evaluation.evaluate import DEVELOPMENT, TestSet
from training.export.bundle import ExportOptions
from training.export.run_folder import data_digest
from training.pipeline.plan import Plan

REVERSE = "reverse"
"""Folder in a work folder: the run of the other direction, and its plan."""


def work_folder(out: Path) -> Path:
    """The default work folder for `out`: runs/mine-en-fr for mine/en-fr, so that bundles of one name do not collide."""
    return Path("runs", "-".join(part for part in out.parts if part not in (out.anchor, os.pardir)))


def same_direction_bundles(out: Path, pair: str) -> Iterator[Path]:
    """The bundles beside `out` that translate the same language pair."""
    for folder in sorted(out.parent.iterdir()) if out.parent.is_dir() else ():
        if folder.name != out.name and not folder.name.startswith("."):
            with contextlib.suppress(BundleError):
                config, _ = read_bundle(folder)
                if f"{config.get('source')}-{config.get('target')}" == pair:
                    yield folder


def is_made_by(
    plan: Plan, export: ExportOptions, tests: Sequence[TestSet], languages: tuple[str, str] | None = None
) -> bool:
    """Whether `export.out` is the bundle that `plan` leads to, measured on `tests`, in the requested form, with the
    requested licence and remarks; and in the direction `languages`, if given. If so, a run killed after its export has
    nothing left to do."""
    try:
        config, _ = read_bundle(export.out)
    except BundleError:
        return False
    training = config["training"]
    recipe = {"minutes": None} | training.get("recipe", {})  # older bundles lack the field
    # The alignment head is learnt after the run.
    architecture = {name: value for name, value in config["architecture"].items() if name != "alignment_size"}
    theirs = (training.get("data_sha256"), recipe, architecture)
    stated = (config.get("licence"), config.get("attribution"), config.get("remarks", []), training.get("form"))
    measured = {metric["set"]: metric.get("digest") for metric in config["metrics"]}
    measured.pop(DEVELOPMENT, None)
    return (
        plan.data == data_digest(export.data)
        and theirs == (plan.data, dataclasses.asdict(plan.recipe), plan.config.to_dict())
        and stated == (export.licence, list(export.attribution), list(export.remarks), export.form)
        and measured == {test.name: test.digest for test in tests}
        and languages in (None, (config.get("source"), config.get("target")))
    )
