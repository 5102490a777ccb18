"""deploy/prometheus/ and deploy/grafana/: the alert rules and the dashboard: each expression is valid PromQL over
metrics that the service has, and each alert fires when it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.runtime.metrics import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())
TESTS = yaml.safe_load((DEPLOY / "prometheus/tests.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana/interlinear.json").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]

needs_promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool, of Prometheus, is not installed")


def promtool(*arguments: str | Path) -> None:
    checked = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def metric_names() -> set[str]:
    """The names of all series, those of labelled metrics without values too."""
    names = {"up"}
    for metric in Metrics().registry.collect():
        suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(metric.type, [""])
        names |= {metric.name + suffix for suffix in suffixes}
    return names


@pytest.mark.slow
@needs_promtool
def test_alerts_fire_when_they_should() -> None:
    promtool("test", "rules", DEPLOY / "prometheus/tests.yml")


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    cases = [case for test in TESTS["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == {rule["alert"] for rule in ALERTS}


@needs_promtool
def test_dashboard_queries_are_valid(tmp_path: Path) -> None:
    values = {"$__rate_interval": "5m", "$instance": ".*"}
    rules = [
        {"record": f"query_{number}", "expr": re.sub(r"\$\w+", lambda name: values[name[0]], query)}
        for number, query in enumerate(queries(DASHBOARD))
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.yml")


@pytest.mark.parametrize("query", [*queries(DASHBOARD), *(rule["expr"] for rule in ALERTS)])
def test_query_names_only_metrics_that_the_service_has(query: str) -> None:
    named = set(re.findall(r"\b(?:up|(?:interlinear|process)_\w+)\b", query))
    assert named
    assert named <= metric_names()


def test_dashboard_shows_every_metric_of_ours() -> None:
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in metric_names() if name.startswith("interlinear_")}
    assert ours - set(re.findall(r"interlinear_\w+?(?=_bucket|_sum|_count|\b)", " ".join(queries(DASHBOARD)))) == set()


def test_dashboard_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
