"""The model card's section about quality estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BAR = 20
"""Characters of a bar for a share of 1."""


def quality_section(config: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the section; none if nothing was fitted."""
    if not config.get("quality"):
        return
    yield "## Quality estimates"
    yield ""
    yield (
        "With each translation the service says how probable it is that the sentence is good enough to use as it is. "
        "Good is a chrF of at least the number below against a reference. The calibration error is the mean distance "
        "between the estimates and the share of good translations, in ten bins; AUROC is the probability that a good "
        "translation is rated above another. The last two columns are the shares of translations that are not good, "
        "among all and among the better rated half."
    )
    for pair, entry in config["quality"].items():
        fitted = ", ".join(map(_fitted_set, entry["fitted_on"]))
        yield ""
        yield f"{pair}: good is a chrF of {entry['good_chrf']:g}; fitted on {fitted}."
        yield ""
        yield "| set | sentences | good | calibration error | AUROC | not good | in the better half |"
        yield "|---|--:|--:|--:|--:|--:|--:|"
        for one in entry["measured"]:
            auroc = "" if one["auroc"] is None else f"{one['auroc']:.2f}"
            yield (
                f"| {one['set']} | {one['sentences']:,} | {one['good']:.1%} | {one['error']:.3f} | {auroc} "
                f"| {one['risks'][-1]:.1%} | {one['risks'][4]:.1%} |"
            )
        used = {one["set"] for one in entry["fitted_on"]}
        unused = (one for one in entry["measured"] if one["set"] not in used)
        if shown := next(unused, next(iter(entry["measured"]), None)):
            yield ""
            yield from _diagram(shown)
    yield ""


def _fitted_set(one: Mapping[str, Any]) -> str:
    times = f", each counted {one['times']} times" if one.get("times", 1) > 1 else ""
    return f"{one['set']} ({one['pairs']:,} pairs{times})"


def _diagram(measured: Mapping[str, Any]) -> Iterator[str]:
    """The reliability diagram of a set, as text: the estimates in each bin, and the shares that are good."""
    yield f"On {measured['set']}, mean estimates and the shares that are good:"
    yield ""
    bins: Sequence[Sequence[float]] = measured["bins"]
    for count, estimate, good in bins:
        bar = "#" * round(good * _BAR)
        yield f"    {estimate:4.0%} {bar:<{_BAR}} {good:4.0%} of {count:,}"
