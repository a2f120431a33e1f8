"""Shared stores: Redis, dead stores, forks."""

from __future__ import annotations

import threading
import time

import pytest
from conftest import free_port, python, start_redis
from pytollgate import Limiter, Store, StoreError


def test_redis_is_shared_between_limiters(redis_url: str, key: str) -> None:
    one, other = Limiter("2/hour", store=redis_url), Limiter("2/hour", store=Store(redis_url))
    assert one.hit(key) and other.hit(key) and not one.hit(key)
    assert one.usage(key) == 2 and one.reset(key) and other.hit(key)
    one.check()


def test_lease_has_the_same_interface(redis_url: str, key: str) -> None:
    store = Store(f"leased+{redis_url}?lease.nodes=1")
    limiter = Limiter("100/hour fixed-window", store=store)
    assert sum(bool(limiter.hit(key)) for _ in range(150)) == 100
    store.close()


def test_dead_store_decides_by_the_rule_for_failures(key: str) -> None:
    url = f"redis://127.0.0.1:{free_port()}/"
    with pytest.raises(StoreError) as error:
        Limiter("2/hour", store=Store(url, deadline=0.05)).hit(key)
    assert error.value.is_transient
    store = Store(url, deadline=0.05)
    assert Limiter("2/hour", store=store, on_failure="open").hit(key).source == "fail_open"
    assert Limiter("2/hour", store=store, on_failure="closed").hit(key).source == "fail_closed"
    local = Limiter("4/hour", store=store, on_failure="local 1/2")
    assert [bool(local.hit(key)) for _ in range(3)] == [True, True, False]


def test_other_threads_run_while_a_call_waits(key: str) -> None:
    redis = start_redis()
    limiter = Limiter("9/hour", store=Store(f"redis://127.0.0.1:{redis.port}/", deadline=1.0))
    assert limiter.hit(key)
    redis.process.send_signal(19)  # SIGSTOP
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks[0]
    with pytest.raises(StoreError):
        limiter.hit(key)
    during = ticks[0] - before
    done.set()
    thread.join()
    redis.stop()
    assert during > 100


FORK = """
import os, sys
from pytollgate import Limiter
limiter = Limiter("100/hour fixed-window", store=sys.argv[1])
memory = Limiter("3/hour")
assert limiter.hit("fork") and memory.hit("a")
children = []
for _ in range(4):
    reader, writer = os.pipe()
    if os.fork() == 0:
        admitted = sum(bool(limiter.hit("fork")) for _ in range(60))
        own = sum(bool(memory.hit("a")) for _ in range(9))
        if os.fork() == 0:
            admitted += bool(limiter.hit("fork"))
            os.write(writer, f"{admitted} {own}".encode())
            os._exit(0)
        os.wait()
        os._exit(0)
    os.close(writer)
    children.append(reader)
counts = [os.read(reader, 99).decode().split() for reader in children]
assert not limiter.hit("fork")
print(sum(int(admitted) for admitted, _ in counts), [int(own) for _, own in counts])
"""


def test_children_of_a_fork_count_together_on_a_shared_store(redis_url: str) -> None:
    # In memory each process counts for itself, from the start.
    assert python(FORK, redis_url).strip() == "99 [3, 3, 3, 3]"


def test_subinterpreters_are_refused() -> None:
    code = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if "main" in __import__("sys").argv:
    import pytollgate
number = interpreters.create()
try:
    result = interpreters.run_string(number, '''
try:
    import pytollgate
except ImportError as error:
    assert "does not run in subinterpreters" in str(error), error
else:
    raise SystemError("imported")
''')
    print("refused" if result is None else result)
except Exception as error:
    print(error)
"""
    assert python(code).strip() == "refused"
    assert python(code, "main").strip() == "refused"


def test_calls_end_within_the_deadline(key: str) -> None:
    redis = start_redis()
    limiter = Limiter("9/hour", store=f"redis://127.0.0.1:{redis.port}/", deadline=0.1)
    assert limiter.hit(key)
    redis.process.send_signal(19)
    begin = time.monotonic()
    with pytest.raises(StoreError) as error:
        limiter.hit(key)
    redis.stop()
    assert error.value.kind in ("lost", "unavailable")
    assert time.monotonic() - begin < 5, "the call did not end"


def test_process_ends_with_calls_under_way(redis_url: str) -> None:
    code = """
import sys, threading
from pytollgate import Limiter
limiter = Limiter("1/hour", store=sys.argv[1])
limiter.hit("busy")
threading.Thread(target=lambda: limiter.wait("busy", timeout=9999), daemon=True).start()
print("end")
"""
    assert python(code, redis_url).strip() == "end"
