"""AsyncLimiter: the event loop never waits."""

from __future__ import annotations

import asyncio

import pytest
from conftest import free_port, start_redis
from pytollgate import AsyncLimiter, Limiter, Store, StoreError, hit_all_async


def test_calls_are_those_of_the_limiter() -> None:
    async def main() -> None:
        limiter = AsyncLimiter("5/hour fixed-window")
        charged = await limiter.hit("a", 2)
        assert (await limiter.peek("a")).used == 2
        assert (await limiter.refund("a", charged)).used == 0
        assert (await limiter.take("a", 9)).charged == 5
        assert (await limiter.charge("a", 1)).used == 6
        assert (await limiter.set("a", 4)).used == 4
        assert await limiter.usage("a") == 4
        assert await limiter.reset("a") is True
        assert [bool(one) for one in await limiter.hit_each(["a", "a"])] == [True, True]
        assert await hit_all_async([(limiter, "a", 1), (limiter, "b", 1)])
        assert await limiter.wait("a", timeout=1)
        await limiter.clear()
        await limiter.check()
        assert await limiter.usage("a") == 0
        assert limiter.policy == "5/hour fixed-window" and limiter.store.url == "memory:"

    asyncio.run(main())


def test_tasks_on_redis_admit_exactly_the_limit(redis_url: str, key: str) -> None:
    async def main() -> int:
        limiter = AsyncLimiter("100/hour", store=redis_url)
        return sum(map(bool, await asyncio.gather(*[limiter.hit(key) for _ in range(300)])))

    assert asyncio.run(main()) == 100
    # A second event loop in the same process has a mailbox of its own.
    assert asyncio.run(main()) == 0


def test_sync_and_async_share_counters(key: str) -> None:
    limiter = Limiter("1/hour")
    assert limiter.hit(key)
    assert not asyncio.run(AsyncLimiter(limiter).hit(key))


def test_cancelled_wait_charges_nothing(redis_url: str, key: str) -> None:
    async def main() -> int:
        limiter = AsyncLimiter("10/second burst=1", store=redis_url)
        assert await limiter.hit(key)
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await asyncio.wait_for(limiter.wait(key, timeout=9), 0.01)
        assert await limiter.wait(key, timeout=9)
        return await limiter.usage(key)

    assert asyncio.run(main()) <= 1


async def longest_pause(work: asyncio.Future[None] | asyncio.Task[None]) -> float:
    """The longest time in which the event loop did nothing but `work`, by its slowest of many
    turns."""
    loop, longest = asyncio.get_running_loop(), 0.0
    while not work.done():
        begin = loop.time()
        await asyncio.sleep(0)
        longest = max(longest, loop.time() - begin)
    return longest


@pytest.mark.parametrize("state", ["dead", "stopped"])
def test_store_that_does_not_answer_never_blocks_the_loop(state: str, key: str) -> None:
    async def main() -> None:
        redis = start_redis() if state == "stopped" else None
        port = redis.port if redis else free_port()
        store = Store(f"redis://127.0.0.1:{port}/", deadline=0.3)
        limiter = AsyncLimiter("5/hour", store=store)
        if redis:
            assert await limiter.hit(key)
            redis.process.send_signal(19)  # SIGSTOP

        async def hit() -> None:
            with pytest.raises(StoreError):
                await limiter.hit(key)

        # A loop that waited for the store would stand still for the deadline.
        assert await longest_pause(asyncio.create_task(hit())) < 0.15
        if redis:
            redis.stop()

    asyncio.run(main())
