"""Rates: usage is restored evenly, and one kind of usage does not count for another."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.rate_limits import Rate, RateLimiter


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_used_allowance_refills_evenly() -> None:
    clock, rate = Clock(), Rate.parse("60/minute")
    meter = RateLimiter(clock)
    assert [meter.take("a", rate, 30) for _ in range(2)] == [0, 0]
    assert meter.take("a", rate, 1) == pytest.approx(1)
    assert meter.used("a", rate) == 60
    assert meter.take("b", rate, 60) == 0
    clock.now += 10
    assert meter.used("a", rate) == 50
    assert meter.take("a", rate, 11) == pytest.approx(1)
    assert meter.take("a", rate, 10) == 0


def test_burst_size_may_exceed_the_rate() -> None:
    clock, rate = Clock(), Rate.parse("1/second burst 5")
    meter = RateLimiter(clock)
    assert rate.amount == 5
    assert [bool(meter.take("a", rate, 1)) for _ in range(6)] == [False] * 5 + [True]
    clock.now += 1
    assert meter.take("a", rate, 1) == 0


@pytest.mark.parametrize(
    ("text", "amount", "interval_s"),
    [
        ("600/minute", 600, 0.1),
        ("10/second burst 100", 100, 0.1),
        (" 2 / H ", 2, 1800),
        ("24 per day", 24, 3600),
        ("1/wk", 1, 604_800),
    ],
)
def test_rate_has_an_amount_and_a_unit_of_time(text: str, amount: int, interval_s: float) -> None:
    rate = Rate.parse(text)
    assert (rate.text, rate.amount, rate.interval_s) == (text, amount, interval_s)


@given(st.text(max_size=30))
def test_any_text_is_a_rate_or_an_error(text: str) -> None:
    with suppress(ValueError):
        assert Rate.parse(text).amount > 0


@pytest.mark.parametrize(
    "text", ["", "10", "0/day", "10/year", "1/s,1/m", "-1/day", "9" * 400 + "/day", "1/day burst 0"]
)
def test_invalid_rates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        Rate.parse(text)
