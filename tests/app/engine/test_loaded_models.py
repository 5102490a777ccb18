"""Models within a memory limit: the least recently used are unloaded, those with work stay, and none waits forever."""

from __future__ import annotations

import pytest

from app.engine.loaded_models import LoadedModels

SIZES = {"a": 4, "b": 4, "c": 3, "d": 1}


class Workers:
    """Tracks which models have jobs in a worker, and requests space from `models`."""

    def __init__(self, max_bytes: int | None) -> None:
        self.models = LoadedModels(max_bytes)
        self.models.add_sizes(SIZES)
        self.busy: set[str] = set()

    def want(self, wanted: str) -> str:
        """Which of the models `wanted` may have jobs now."""
        return "".join(self.models.admitted(wanted, self.busy.__contains__))

    @property
    def loaded(self) -> str:
        return "".join(model for model in SIZES if self.models.is_loaded(model))


def test_without_a_limit_every_model_stays() -> None:
    workers = Workers(None)
    assert workers.want("dcba") == "dcba"
    assert workers.loaded == "abcd"
    assert workers.models.loaded == 4
    assert workers.models.take_unloaded() == []


def test_a_model_is_loaded_when_it_is_first_wanted() -> None:
    workers = Workers(12)
    assert workers.loaded == ""
    assert workers.want("b") == "b"
    assert (workers.loaded, workers.models.loaded) == ("b", 1)


def test_the_least_recently_used_model_makes_room() -> None:
    workers = Workers(8)
    for wanted in "abac":
        workers.want(wanted)
    assert workers.loaded == "ac"
    assert workers.models.take_unloaded() == ["b"]
    assert workers.models.take_unloaded() == []


def test_a_model_that_is_wanted_again_before_workers_are_told_does_not_leave() -> None:
    workers = Workers(4)
    for wanted in "aca":
        workers.want(wanted)
    assert (workers.loaded, workers.models.take_unloaded()) == ("a", ["c"])


def test_a_model_with_work_stays_though_others_were_used_later() -> None:
    workers = Workers(8)
    workers.want("a")
    workers.busy.add("a")
    workers.want("b")
    assert workers.want("c") == "c"
    assert workers.loaded == "ac"


def test_a_model_in_use_gets_no_new_work_while_another_waits_for_its_room() -> None:
    workers = Workers(4)
    workers.want("a")
    workers.busy.add("a")
    assert workers.want("ab") == ""
    workers.busy.clear()
    assert workers.want("ab") == "b"
    assert workers.models.take_unloaded() == ["a"]
    workers.busy.add("b")
    assert workers.want("ab") == ""  # now it is a's turn


def test_only_as_many_models_drain_as_the_next_one_needs() -> None:
    workers = Workers(8)
    workers.want("ab")
    workers.busy |= {"a", "b"}
    assert workers.want("abd") == "b"


def test_models_get_room_in_the_order_in_which_they_asked() -> None:
    workers = Workers(4)
    workers.want("c")
    workers.busy.add("c")
    assert workers.want("a") == ""
    assert workers.want("da") == ""  # d would fit, and waits behind a
    workers.busy.clear()
    assert workers.want("da") == "a"
    assert workers.want("d") == "d"


def test_a_model_whose_jobs_were_cancelled_no_longer_waits() -> None:
    workers = Workers(4)
    workers.want("a")
    workers.busy.add("a")
    assert workers.want("ab") == ""
    assert workers.want("a") == "a"


@pytest.mark.parametrize("limit", [4, 5, 7])
def test_the_limit_is_never_passed(limit: int) -> None:
    workers = Workers(limit)
    for turn in range(60):
        wanted = "abcd"[turn % 4] + "abcd"[turn * 7 % 4]
        admitted = workers.want(wanted)
        workers.busy = set(admitted) if turn % 3 else set()
        assert sum(SIZES[model] for model in workers.loaded) <= limit
