"""Limiters in this process: keys, limits, decisions, times."""

from __future__ import annotations

import ipaddress
import pickle
import threading

import pytest
from pytollgate import Decision, Limiter, LimitError, RequestError, Store, Tagged, hit_all

NOON = 1_767_268_800.0


def test_denial_is_a_value_with_an_exact_wait() -> None:
    limiter = Limiter("2/second burst=3")
    assert limiter.hit("alice", 3, at=NOON)
    denied = limiter.hit("alice", at=NOON)
    assert not denied
    assert (denied.limit, denied.used, denied.remaining) == (3, 3, 0)
    assert (denied.retry_after, denied.reset_after) == (0.5, 1.5)
    assert (denied.expires_at, denied.now) == (NOON + 1.5, NOON)
    assert not limiter.peek("alice", at=NOON + 0.499999)
    assert limiter.peek("alice", at=NOON + 0.5)
    assert limiter.hit("alice", 4, at=NOON).retry_after is None


def test_every_operation_is_that_of_the_library() -> None:
    limiter = Limiter("5/hour fixed-window")
    assert limiter.take("a", 3, at=NOON).charged == 3
    assert limiter.take("a", 3, at=NOON).charged == 2
    assert limiter.charge("a", 2, at=NOON).used == 7
    assert limiter.refund("a", 4, at=NOON).used == 3
    charged = limiter.hit("a", 2, at=NOON)
    assert limiter.refund("a", charged, 1, at=NOON).used == 4
    assert limiter.refund("a", charged, at=NOON).used == 2
    assert limiter.set("a", 5, at=NOON).remaining == 0
    assert limiter.usage("a", at=NOON) == 5
    assert limiter.reset("a", at=NOON) and not limiter.reset("a", at=NOON)
    assert [bool(one) for one in limiter.hit_each(["a", "b"], at=NOON)] == [True, True]
    limiter.clear()
    assert limiter.usage("b", at=NOON) == 0
    limiter.check()


def test_refund_never_reaches_another_window() -> None:
    limiter = Limiter("1000/minute fixed-window")
    first = limiter.hit("a", 900, at=59.9)
    assert limiter.hit("a", 900, at=60.1)
    assert limiter.refund("a", first, at=60.2).used == 900
    assert not limiter.hit("a", 850, at=60.3)


def test_policy_shows_the_limit_that_denies_longest() -> None:
    limiter = Limiter("5/second; 2/minute name=minute")
    for _ in range(2):
        assert limiter.hit("a", at=NOON)
    denied = limiter.hit("a", at=NOON)
    assert denied.name == "minute"
    assert [one.allowed for one in denied.outcomes] == [True, False]
    assert [one.policy for one in denied.outcomes] == ["5/second", "2/minute name=minute"]
    assert Limiter(["5/second", "2/minute"]).policy == "5/second; 2/minute"


def test_several_keys_are_charged_together_or_not() -> None:
    store = Store()
    accounts, addresses = Limiter("2/hour", store=store), Limiter("1/hour", store=store)
    items = [(accounts, "alice", 1), (addresses, "192.0.2.1", 1)]
    assert hit_all(items)
    denied = hit_all(items)
    assert not denied and denied.outcomes[0].allowed
    assert accounts.usage("alice") == 1
    with pytest.raises(RequestError, match="belongs to another store"):
        hit_all([(accounts, "alice", 1), (Limiter("1/hour"), "alice", 1)])
    with pytest.raises(RequestError, match="0 items"):
        hit_all([])


def test_limiters_on_one_store_share_counters() -> None:
    store = Store()
    one, other = Limiter("1/hour", store=store), Limiter("1 per hour", store=store)
    assert one.hit("a") and not other.hit("a")
    assert Limiter("1/hour", store=store, namespace="x").hit("a")
    assert Limiter("1/hour").hit("a")


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("42", 42),
        ("-7", -7),
        (str(2**200), 2**200),
        ("abc", b"abc"),
        ("192.0.2.1", ipaddress.ip_address("192.0.2.1")),
        ("2001:db8::1", ipaddress.ip_address("2001:0db8:0::1")),
        (("a", 1), ("a", "1")),
        (("a", ("b", 2)), ("a", (b"b", 2))),
        (Tagged("t", ("a", 1)), Tagged("t", ("a", "1"))),
    ],
)
def test_keys_with_one_text_are_one_key(one: object, same: object) -> None:
    limiter = Limiter("1/hour")
    assert limiter.hit(one)  # type: ignore[arg-type]
    assert not limiter.hit(same)  # type: ignore[arg-type]


def test_keys_never_run_together() -> None:
    limiter = Limiter("1/hour")
    for key in [
        ("a/b", "c"),
        ("a", "b/c"),
        "a",
        ("a",),
        ("a", ""),
        "",
        Tagged("a", ""),
        ("a", ("",)),
    ]:
        assert limiter.hit(key), key  # type: ignore[arg-type]
    long = "x" * 100_000
    assert limiter.hit(long) and limiter.hit(long + "x") and not limiter.hit(long)


@pytest.mark.parametrize("key", [None, 1.5, True, ["a"], {}, ("a", None)])
def test_other_values_are_no_keys(key: object) -> None:
    with pytest.raises(TypeError, match="must be str, bytes, int"):
        Limiter("1/hour").hit(key)  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [-1, 2**64, 1.5, "1", None])
def test_cost_is_a_whole_number(cost: object) -> None:
    with pytest.raises(RequestError, match="must be a whole number from 0 to 2\\^64 - 1"):
        Limiter("1/hour").hit("a", cost)  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [-1.0, float("nan"), float("inf"), 1e300])
def test_time_is_a_number_of_seconds(at: float) -> None:
    with pytest.raises(RequestError, match="seconds since 1970"):
        Limiter("1/hour").hit("a", at=at)


def test_mistakes_state_value_and_rule() -> None:
    with pytest.raises(LimitError, match='found "fortnight", expected a unit') as error:
        Limiter("10/fortnight")
    assert (error.value.kind, error.value.is_transient) == ("limit", False)
    copy = pickle.loads(pickle.dumps(error.value))
    assert str(copy) == str(error.value) and copy.kind == "limit"
    with pytest.raises(LimitError, match="Atomic cannot hold a log") as error:
        Limiter("10/hour moving-window", store="atomic:")
    assert error.value.kind == "unsupported"
    with pytest.raises(RequestError, match='on_failure "shrug": expected error, open'):
        Limiter("10/hour", on_failure="shrug")
    with pytest.raises(RequestError, match='store "mysql": unknown; known are memory:'):
        Limiter("10/hour", store="mysql://x")
    with pytest.raises(ValueError):
        Limiter("")


def test_passwords_are_not_shown() -> None:
    store = Store("redis://user:secret@127.0.0.1:1/")
    assert "secret" not in repr(Limiter("1/hour", store=store))


def test_threads_admit_exactly_the_limit() -> None:
    limiter = Limiter("1000/hour")
    admitted: list[int] = []

    def work() -> None:
        admitted.append(sum(bool(limiter.hit("one")) for _ in range(400)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 1000


def test_wait_serves_callers_in_turn_and_lets_other_threads_run() -> None:
    limiter = Limiter("50/second burst=1")
    ran = threading.Event()
    assert limiter.hit("a")
    threading.Thread(target=ran.set).start()
    assert limiter.wait("a", timeout=5)
    assert ran.is_set()
    limiter = Limiter("1/hour")
    assert limiter.wait("a", timeout=5)
    denied = limiter.wait("a", timeout=5)
    assert not denied and denied.retry_after is not None and denied.retry_after > 3000


def test_decision_has_the_headers_of_the_middleware() -> None:
    limiter = Limiter("2/minute fixed-window-per-key name=api")
    assert limiter.hit("a", at=NOON).headers() == [
        ("ratelimit-policy", '"api";q=2;w=60'),
        ("ratelimit", '"api";r=1;t=60'),
    ]
    limiter.hit("a", at=NOON)
    denied: Decision = limiter.hit("a", at=NOON + 30)
    assert denied.headers(["x-ratelimit", "retry-after"]) == [
        ("x-ratelimit-limit", "2"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "30"),
        ("retry-after", "30"),
    ]
    assert '"violated-policies":["api"]' in denied.problem()
    with pytest.raises(RequestError, match="known are ratelimit"):
        denied.headers(["server"])
