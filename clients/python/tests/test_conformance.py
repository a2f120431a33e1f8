"""Random sequences of calls: every field of every answer equals that of the library's definition.

The sequences and the answers come from `cargo run -p tollgate-testkit --example sequences`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from conftest import skip
from pytollgate import Decision, Key, Limiter, Store, Tagged, hit_all

#: The keys of the testkit, by their number.
KEYS: list[Key] = [
    Tagged("acme", "alice"),
    Tagged("acme", ""),
    Tagged("acme", b"{\0\xff}"),
    Tagged("acme", ("alice", 7)),
    "",
    "alice",
    b"\0\xff\0 %\n",
    42,
    ("alice", "GET"),
    ("alice", 7, "x" * 200),
    Tagged("alice", "GET"),
]


def sequences() -> list[Any]:
    path = os.environ.get("TOLLGATE_SEQUENCES")
    if path is None:
        skip("TOLLGATE_SEQUENCES does not name a file of sequences")
    return list(json.loads(Path(str(path)).read_text()))


def seconds(micros: int | None) -> float | None:
    return None if micros is None else micros / 1e6


def same(decision: Decision, wanted: dict[str, Any]) -> None:
    got = {name: getattr(decision, name) for name in wanted}
    times = ("now", "retry_after", "reset_after", "expires_at")
    expected = {name: seconds(value) if name in times else value for name, value in wanted.items()}
    assert got == expected
    assert bool(decision) == wanted["allowed"]


def all_same(decision: Decision, call: dict[str, Any]) -> None:
    assert len(decision.outcomes) == len(call["answers"])
    for outcome, wanted in zip(decision.outcomes, call["answers"]):
        same(outcome, wanted)
    same(decision, call["headline"])


class Replay:
    def __init__(self, case: dict[str, Any], store: Store, namespace: str) -> None:
        self.limiters = [
            Limiter(limit, store=store, namespace=namespace) for limit in case["limits"]
        ]
        policy: Sequence[str] = [case["limits"][index] for index in case["policy"]]
        self.policy = Limiter(policy, store=store, namespace=namespace)
        self.decided: list[tuple[Limiter, Key, Decision]] = []
        self.charged: list[Decision] = []

    def one(self, limiter: Limiter, key: Key, decision: Decision, wanted: dict[str, Any]) -> None:
        same(decision, wanted)
        self.decided.append((limiter, key, decision))

    def step(self, call: dict[str, Any]) -> None:
        at, name = call["at"] / 1e6, call["call"]
        if name.startswith("policy_"):
            self.step_policy(name.removeprefix("policy_"), KEYS[call["key"]], call, at)
        elif name == "all":
            items = [(self.limiters[limit], KEYS[key], cost) for limit, key, cost in call["items"]]
            all_same(hit_all(items, at=at), call)
        elif name == "each":
            limiter, keys = self.limiters[call["limit"]], [KEYS[key] for key in call["keys"]]
            decisions = limiter.hit_each(keys, at=at)
            assert len(decisions) == len(call["answers"])
            for key, decision, wanted in zip(keys, decisions, call["answers"]):
                self.one(limiter, key, decision, wanted)
        elif name == "clear":
            self.limiters[call["limit"]].clear()
        else:
            self.step_key(name, self.limiters[call["limit"]], KEYS[call["key"]], call, at)

    def step_key(
        self, name: str, limiter: Limiter, key: Key, call: dict[str, Any], at: float
    ) -> None:
        if name in ("usage", "reset"):
            assert getattr(limiter, name)(key, at=at) == call["value"]
        elif name == "refund":
            _, _, charged = self.decided[call["of"]]
            self.one(limiter, key, limiter.refund(key, charged, at=at), call["answer"])
        elif name == "correct":
            self.one(limiter, key, limiter.refund(key, call["units"], at=at), call["answer"])
        else:
            decision = getattr(limiter, name)(key, call["units"], at=at)
            self.one(limiter, key, decision, call["answer"])

    def step_policy(self, name: str, key: Key, call: dict[str, Any], at: float) -> None:
        if name == "reset":
            assert self.policy.reset(key, at=at) == call["value"]
        elif name == "refund":
            all_same(self.policy.refund(key, self.charged[call["of"]], at=at), call)
        else:
            decision = getattr(self.policy, name)(key, call["units"], at=at)
            all_same(decision, call)
            if name == "hit":
                self.charged.append(decision)


def replay(store_for_case: Callable[[], Store], most: int) -> None:
    steps = 0
    cases = sequences()[:most]
    for number, case in enumerate(cases):
        store = store_for_case()
        run = Replay(case, store, f"python-{os.getpid()}-{number}")
        for index, call in enumerate(case["calls"]):
            try:
                run.step(call)
            except AssertionError as error:
                limits = case["limits"]
                raise AssertionError(f"case {number} on {limits}, call {index} {call}: {error}")
            steps += 1
    assert steps > 10 * len(cases)


def remote(url: str) -> Callable[[], Store]:
    store = Store(url, deadline=10.0, remember_denials=0)
    return lambda: store


def test_memory_equals_the_definition() -> None:
    # A store of its own for each case: once keys are forgotten, Memory begins no state before the
    # times of an earlier case.
    replay(lambda: Store("memory:"), 200)


def test_redis_equals_the_definition(redis_url: str) -> None:
    replay(remote(redis_url), 100)


def test_postgres_equals_the_definition(postgres_url: str) -> None:
    replay(remote(postgres_url), 40)
