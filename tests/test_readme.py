"""The READMEs and the pages they link to, against the service: links lead somewhere, settings and metrics are its."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import Metrics
from app.settings import PREFIX, described

READMES = ["README.md", "README.zh-CN.md"]
PAGES = [*READMES, *map(str, sorted([*Path("bundles").glob("*/README.md"), *Path("docs").glob("*.md")]))]
NOTHING = "none", "无"


def anchors(page: Path) -> set[str]:
    """What GitHub makes of its headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_and_its_anchor_lead_somewhere(name: str) -> None:
    page = Path(name)
    for path, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        linked = page.parent / path if path else page
        assert linked.exists(), path
        assert not anchor or anchor in anchors(linked), f"{path}#{anchor}"


@pytest.mark.parametrize("name", READMES)
def test_the_table_of_settings_has_each_with_its_default(name: str) -> None:
    rows = re.findall(rf"^\| (`{PREFIX}[^|]*) \| ([^|]*) \|", Path(name).read_text(encoding="utf-8"), re.MULTILINE)
    told = {}
    for names, defaults in rows:
        each = [variable.strip("`") for variable in re.split("[,、] ?", names)]
        values = [default.strip("`") for default in re.split("[,、] ?", defaults)]
        for index, variable in enumerate(each):
            value = values[min(index, len(values) - 1)]
            told[PREFIX + variable.removeprefix(PREFIX).lstrip("_")] = "" if value in NOTHING else value
    assert told == dict(line.split(" ", 1)[0].split("=", 1) for line in described().splitlines())


def test_operators_are_told_of_every_metric() -> None:
    exposed = text_string_to_metric_families(Metrics().exposition().decode())
    ours = {family.name for family in exposed if family.name.startswith("interlinear")}
    names = re.findall(r"`(interlinear_\w+)`", Path("docs/operation.md").read_text(encoding="utf-8"))
    told = {name.removesuffix("_total") for name in names}
    assert {name for name in ours if not name.endswith("_created")} == told
