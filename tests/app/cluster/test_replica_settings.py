"""The settings of a replica, and the variables of Ray that it depends on."""

from __future__ import annotations

from typing import Any

import pytest

from app.cluster.ray_variables import EXPECTED, REQUIRED, faults, missing
from app.cluster.replica_settings import check_names, replica_settings
from app.settings import SettingsError

ALL = {**REQUIRED, **{name: value for name, (value, _) in EXPECTED.items()}}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKERS", "DEVICE"):
        monkeypatch.delenv(f"INTERLINEAR_{name}", raising=False)


@pytest.mark.parametrize(
    ("resources", "device", "workers"),
    [
        ({"CPU": 4.0}, "cpu", 3),
        ({"CPU": 2.0}, "cpu", 1),
        ({"CPU": 1.0}, "cpu", 1),
        ({}, "cpu", 1),
        ({"CPU": 4.0, "GPU": 1.0}, "cuda", 1),
        ({"CPU": 4.0, "GPU": 0.25}, "cuda", 1),
    ],
)
def test_workers_follow_from_what_ray_has_assigned_and_not_from_the_nodes_cores(
    resources: dict[str, float], device: str, workers: int
) -> None:
    settings = replica_settings({}, resources)
    assert (settings.device, settings.workers) == (device, workers)


def test_named_settings_go_before_what_follows_from_the_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_CACHE_BYTES", "5")
    settings = replica_settings({"workers": "2", "precision": "int8"}, {"CPU": 8.0})
    assert (settings.workers, settings.precision, settings.cache_bytes) == (2, "int8", 5)


@pytest.mark.parametrize(
    ("options", "resources", "message"),
    [
        ({"instances": 2}, {"CPU": 4.0}, "INTERLINEAR_INSTANCES=2: must be 1 in a replica; run more replicas"),
        ({"admin_port": 9000}, {"CPU": 4.0}, "INTERLINEAR_ADMIN_PORT=9000: two replicas on a node cannot share it"),
        ({"device": "cuda"}, {"CPU": 4.0}, "INTERLINEAR_DEVICE=cuda: the replica has no GPU; change num_gpus"),
        ({"device": "cpu"}, {"GPU": 0.5}, "INTERLINEAR_DEVICE=cpu: the replica has a GPU; change num_gpus"),
        ({"rate_requests": "10/minute"}, {}, "hides the addresses of clients, who would share one rate"),
        ({"rate_characters": "10/day"}, {}, "hides the addresses of clients, who would share one rate"),
        ({"rate_requests": "10/minute", "api_keys_file": "keys"}, {}, "each replica would count for itself"),
        ({"workers": "many"}, {}, "--workers many: "),
        ({"worker": 1, "bundels": "x"}, {}, "bundels, worker: no such setting; the arguments are settings"),
    ],
)
def test_settings_that_cannot_hold_for_replicas_are_refused_in_a_line(
    options: dict[str, Any], resources: dict[str, float], message: str
) -> None:
    with pytest.raises(SettingsError) as error:
        replica_settings(options, resources)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options",
    [
        {"rate_requests": "10/minute", "api_keys_file": "keys", "store": "redis://127.0.0.1"},
        {"rate_requests": "10/minute", "trusted_proxies": "10.0.0.0/8", "store": "redis://127.0.0.1"},
        {"admin_port": 0},
        {"instances": 1},
    ],
)
def test_settings_that_hold_for_each_replica_are_accepted(options: dict[str, Any]) -> None:
    replica_settings(options, {"CPU": 2.0})


def test_arguments_are_settings() -> None:
    check_names({"bundles": "/data", "cache_bytes": 0})
    with pytest.raises(SettingsError, match="prot: no such setting"):
        check_names({"prot": 1})


def test_nothing_is_said_of_variables_that_are_as_they_should_be() -> None:
    assert list(faults(ALL)) == []
    assert list(missing(ALL)) == []


@pytest.mark.parametrize("name", EXPECTED)
def test_each_variable_that_is_missing_or_wrong_is_said_in_a_line(name: str) -> None:
    without = {key: value for key, value in ALL.items() if key != name}
    value, otherwise = EXPECTED[name]
    assert faults(without) == [f"{name} should be {value!r}, and is not set: {otherwise}"]
    assert faults({**ALL, name: "wrong"}) == [f"{name}=wrong should be {value!r}: {otherwise}"]


@pytest.mark.parametrize("name", REQUIRED)
def test_variable_without_which_no_replica_can_work_is_named(name: str) -> None:
    assert missing({key: value for key, value in ALL.items() if key != name}) == [f"{name}=1"]
