"""Beside the package `limits`: the same texts, and the same decisions where the contract agrees.

The differences are listed in guides/python.md, and each has a test here.
"""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import limits
import pytest
import pytollgate
from pytollgate import Limiter

# In the future: a thread of `limits` forgets what has expired by the real clock.
START = 2_000_000_000.0


class Theirs:
    """A limiter of `limits` whose time is given."""

    def __init__(self, strategy: type[Any], text: str) -> None:
        self.item = limits.parse(text)
        self.strategy = strategy(limits.storage.MemoryStorage())

    def hit(self, key: str, cost: int, at: float) -> bool:
        with mock.patch("time.time", return_value=at):
            return bool(self.strategy.hit(self.item, key, cost=cost))


@pytest.mark.parametrize("multiple", ["2 seconds", "3 minutes", "hour"])
@pytest.mark.parametrize(
    ("strategy", "algorithm"),
    [
        (limits.strategies.FixedWindowRateLimiter, "fixed-window-per-key charge-denied"),
        (limits.strategies.MovingWindowRateLimiter, "moving-window"),
    ],
)
def test_decisions_are_those_of_limits(strategy: type[Any], algorithm: str, multiple: str) -> None:
    numbers = random.Random(7)
    theirs = Theirs(strategy, f"10 per {multiple}")
    ours = Limiter(f"10 per {multiple} {algorithm}")
    period, now, admitted = theirs.item.get_expiry(), START, 0
    for _ in range(2_000):
        # Never on an edge: see the differences.
        now += numbers.randrange(1, 250_000) * 2 * period / 1e6 + 1e-6
        key, cost = numbers.choice("ab"), numbers.choice([1, 1, 1, 2, 3])
        decision = ours.hit(key, cost, at=now)
        assert bool(decision) == theirs.hit(key, cost, now), (now, key, cost, decision)
        admitted += bool(decision)
    assert 500 < admitted < 2_000


def test_entry_of_a_whole_period_has_left_the_moving_window() -> None:
    theirs = Theirs(limits.strategies.MovingWindowRateLimiter, "1/minute")
    ours = Limiter("1/minute moving-window")
    assert theirs.hit("a", 1, START) and ours.hit("a", at=START)
    assert not theirs.hit("a", 1, START + 60)
    assert ours.hit("a", at=START + 60)


def test_one_per_day_passes_once_a_day() -> None:
    midnight = START - START % 86_400
    theirs = Theirs(limits.strategies.SlidingWindowCounterRateLimiter, "1/day")
    ours = Limiter("1/day sliding-window")
    times = [midnight - 0.001, midnight + 0.001]
    assert [theirs.hit("a", 1, at) for at in times] == [True, True]
    assert [bool(ours.hit("a", at=at)) for at in times] == [True, False]


def test_denied_hit_costs_nothing_without_the_option() -> None:
    theirs = Theirs(limits.strategies.FixedWindowRateLimiter, "10/minute")
    ours = Limiter("10/minute fixed-window-per-key")
    costs = [5, 6, 1]
    assert [theirs.hit("a", cost, START) for cost in costs] == [True, False, False]
    assert [bool(ours.hit("a", cost, at=START)) for cost in costs] == [True, False, True]


TEXTS = [
    "10/hour", "10 per hour", "10per2hours", "10/2hours", "10 / 2 hours", "1/second;100/minute",
    "1/second,100/minute|5/day", "10 PER Hour", " 10/hour ", "1 per 1 second", "7/3 days",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_texts_mean_the_same(text: str) -> None:
    theirs = [(one.amount, one.get_expiry()) for one in limits.parse_many(text)]
    limiter = Limiter(text)
    ours = []
    for one in limiter.peek("a").outcomes:
        capacity = Limiter(f"{one.policy} fixed-window-per-key").hit("a", at=START)
        ours.append((capacity.limit, capacity.reset_after))
    assert ours == theirs


@pytest.mark.parametrize(
    "text", ["", "10/fortnight", "-1/hour", "1.5/hour", "10 every hour", "1/hour;;"]
)
def test_texts_that_neither_takes(text: str) -> None:
    with pytest.raises(ValueError):
        limits.parse_many(text)
    with pytest.raises(ValueError):
        Limiter(text)


@pytest.mark.parametrize("text", ["1/month", "1/year", "0/second"])
def test_texts_that_only_limits_takes(text: str) -> None:
    limits.parse(text)
    with pytest.raises(pytollgate.LimitError):
        Limiter(text)
