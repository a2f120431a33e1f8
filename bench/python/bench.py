"""pytollgate beside other limiters of Python: `cargo xtask bench python`.

Contenders take turns, so that a busy machine slows all of them; each figure is the best turn (in
process) or the median (Redis, FastAPI). Ratios hold on a noisy machine, single figures do not.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Awaitable, Callable
from typing import Any

import apps
import limits
import limits.aio.storage
import limits.aio.strategies
import throttled

import pytollgate
from pytollgate import AsyncLimiter, Limiter, Store

TURNS = 7
MANY = 1_000_000_000


def in_process() -> list[tuple[str, float]]:
    """Nanoseconds of a hit on one hot key."""
    item = limits.RateLimitItemPerMinute(MANY)
    storage = limits.storage.MemoryStorage()
    throttle = throttled.Throttled(
        using="gcra", quota=throttled.per_sec(MANY, MANY), store=throttled.MemoryStore()
    )
    text = "1000000000/second"
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "an empty function": (lambda: None, 200_000),
        "pytollgate, memory": (_bound(Limiter(text).hit), 200_000),
        "pytollgate, atomic": (_bound(Limiter(text, store="atomic:").hit), 200_000),
        "pytollgate, two limits": (_bound(Limiter(f"{text}; {MANY}/minute").hit), 50_000),
        "limits, fixed window": (_of(limits.strategies.FixedWindowRateLimiter(storage), item), 5_000),
        "limits, sliding window": (
            _of(limits.strategies.SlidingWindowCounterRateLimiter(storage), item),
            5_000,
        ),
        "limits, moving window": (
            _of(limits.strategies.MovingWindowRateLimiter(storage), limits.RateLimitItemPerMinute(1000)),
            5_000,
        ),
        "throttled-py, GCRA": (lambda: throttle.limit("user:42"), 5_000),
    }
    best = {name: float("inf") for name in calls}
    for _ in range(TURNS):
        for name, (call, number) in calls.items():
            best[name] = min(best[name], timeit.timeit(call, number=number) / number * 1e9)
    return list(best.items())


def _bound(hit: Callable[[str], object]) -> Callable[[], object]:
    return lambda: hit("user:42")


def _of(strategy: Any, item: Any) -> Callable[[], object]:
    return lambda: strategy.hit(item, "user:42")


def on_redis(url: str) -> list[tuple[str, float]]:
    """Hits per second of one caller that waits."""
    ours = Limiter("1000000000/second", store=Store(url, deadline=1.0))
    theirs = limits.strategies.FixedWindowRateLimiter(limits.storage.storage_from_string(url))
    item = limits.RateLimitItemPerMinute(MANY)
    calls: dict[str, Callable[[], object]] = {
        "pytollgate, one caller": lambda: ours.hit("sync"),
        "limits, one caller": lambda: theirs.hit(item, "sync"),
    }
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            rates[name].append(2_000 / timeit.timeit(call, number=2_000))
    return [(name, statistics.median(all_rates)) for name, all_rates in rates.items()]


async def on_redis_with_tasks(url: str, tasks: int = 64) -> list[tuple[str, float]]:
    """Hits per second of many tasks of one event loop."""
    ours = AsyncLimiter("1000000000/second", store=Store(url, deadline=1.0))
    item = limits.RateLimitItemPerMinute(MANY)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        f"pytollgate, {tasks} tasks": lambda: ours.hit("async"),
    }
    for implementation in ("coredis", "redispy"):
        storage = limits.aio.storage.RedisStorage(f"async+{url}", implementation=implementation)
        strategy = limits.aio.strategies.FixedWindowRateLimiter(storage)
        calls[f"limits with {implementation}, {tasks} tasks"] = _later(strategy, item)
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            rates[name].append(await _rate(call, tasks))
    return [(name, statistics.median(all_rates)) for name, all_rates in rates.items()]


def _later(strategy: Any, item: Any) -> Callable[[], Awaitable[object]]:
    return lambda: strategy.hit(item, "async")


async def _rate(call: Callable[[], Awaitable[object]], tasks: int, hits: int = 60) -> float:
    async def work() -> None:
        for _ in range(hits):
            await call()

    begin = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(tasks)])
    return tasks * hits / (time.perf_counter() - begin)


def fastapi() -> list[tuple[str, float]]:
    """Requests per second of uvicorn with one worker, asked by wrk."""
    servers = {name: apps.start(name) for name in apps.APPS}
    rates: dict[str, list[float]] = {name: [] for name in servers}
    try:
        for turn in range(TURNS):
            for name, (_, port) in list(servers.items())[:: 1 if turn % 2 == 0 else -1]:
                rates[name].append(_wrk(port))
    finally:
        for process, _ in servers.values():
            process.terminate()
            process.wait()
    return [(name, statistics.median(all_rates)) for name, all_rates in rates.items()]


def _wrk(port: int) -> float:
    command = ["wrk", "-t1", "-c16", "-d3s", f"http://127.0.0.1:{port}/"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in printed, printed
    found = re.search(r"Requests/sec:\s*([\d.]+)", printed)
    assert found is not None, printed
    return float(found.group(1))


def table(title: str, unit: str, rows: list[tuple[str, float]], base: str, faster: bool) -> str:
    of_base = dict(rows)[base]
    lines = [f"## {title}", "", f"| | {unit} | beside {base} |", "| --- | ---: | ---: |"]
    for name, figure in rows:
        ratio = figure / of_base if faster else of_base / figure
        lines.append(f"| {name} | {figure:,.0f} | {ratio:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    url = sys.argv[1]
    print(f"Python {sys.version.split()[0]}, {pytollgate.__name__}", file=sys.stderr)
    parts = [
        table(
            "In this process, one hot key",
            "ns per hit",
            in_process(),
            "limits, fixed window",
            faster=False,
        ),
        table("Redis, one caller", "hits per second", on_redis(url), "limits, one caller", True),
        table(
            "Redis, 64 tasks of one event loop",
            "hits per second",
            asyncio.run(on_redis_with_tasks(url)),
            "limits with coredis, 64 tasks",
            True,
        ),
        table(
            "FastAPI under uvicorn, 16 connections",
            "requests per second",
            fastapi(),
            "without a limiter",
            True,
        ),
    ]
    print("\n".join(parts))


if __name__ == "__main__":
    main()
