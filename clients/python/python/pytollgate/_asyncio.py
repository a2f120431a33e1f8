"""Limiters for asyncio. The event loop never waits: answers come through a pipe that it watches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from ._native import Decision, Limiter, Mailbox, Pending, Store, start_hit_all
from ._types import Key


class _Answers:
    """The calls of one event loop that have no answer yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.mailbox = Mailbox()
        self._pending: dict[int, asyncio.Future[Any]] = {}
        loop.add_reader(self.mailbox.fileno(), self._deliver)

    async def of(self, answer: object) -> Any:
        if not isinstance(answer, Pending):
            return answer
        future = asyncio.get_running_loop().create_future()
        self._pending[answer.number] = future
        try:
            return await future
        except asyncio.CancelledError:
            answer.cancel()
            raise
        finally:
            self._pending.pop(answer.number, None)

    def _deliver(self) -> None:
        for number, answer, succeeded in self.mailbox.take():
            future = self._pending.get(number)
            if future is None or future.done():
                continue  # Its caller was cancelled.
            if succeeded:
                future.set_result(answer)
            else:
                future.set_exception(answer)


_answers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Answers] = WeakKeyDictionary()


def _of_loop() -> _Answers:
    loop = asyncio.get_running_loop()
    known = _answers.get(loop)
    if known is None:
        known = _answers[loop] = _Answers(loop)
    return known


class AsyncLimiter:
    """A `Limiter` for asyncio: the same arguments and the same calls, which are awaited.

    >>> import asyncio
    >>> async def main():
    ...     limiter = AsyncLimiter("2/minute")
    ...     return [bool(await limiter.hit("alice")) for _ in range(3)]
    >>> asyncio.run(main())
    [True, True, False]
    """

    __slots__ = ("sync",)

    #: The limiter with the same counters whose calls wait.
    sync: Limiter

    def __init__(
        self,
        policy: str | Sequence[str] | Limiter,
        *,
        store: str | Store | None = None,
        namespace: str = "",
        on_failure: str = "error",
        deadline: float | None = None,
    ) -> None:
        if isinstance(policy, Limiter):
            self.sync = policy
        else:
            self.sync = Limiter(
                policy, store=store, namespace=namespace, on_failure=on_failure, deadline=deadline
            )

    async def hit(self, key: Key, cost: int = 1, *, at: float | None = None) -> Decision:
        """Decides whether this key may make a request of this cost now, and charges it if so."""
        answers = _of_loop()
        answer = self.sync.start_hit(answers.mailbox, key, cost, at)
        return answer if isinstance(answer, Decision) else await answers.of(answer)

    async def _call(self, name: str, key: Key, units: int, at: float | None) -> Any:
        answers = _of_loop()
        return await answers.of(self.sync.start_call(answers.mailbox, name, key, units, at))

    async def peek(self, key: Key, cost: int = 1, *, at: float | None = None) -> Decision:
        """Returns the decision that a hit would get, and changes nothing."""
        return cast(Decision, await self._call("peek", key, cost, at))

    async def take(self, key: Key, cost: int, *, at: float | None = None) -> Decision:
        """Charges as many units as fit, from zero to `cost`: see `Decision.charged`."""
        return cast(Decision, await self._call("take", key, cost, at))

    async def charge(self, key: Key, units: int, *, at: float | None = None) -> Decision:
        """Charges without checking. The usage may exceed the limit."""
        return cast(Decision, await self._call("charge", key, units, at))

    async def refund(
        self,
        key: Key,
        charged: Decision | int,
        units: int | None = None,
        *,
        at: float | None = None,
    ) -> Decision:
        """Gives back what a decision charged, at most `units` of it; or so many units without a
        decision, as a correction."""
        answers = _of_loop()
        answer = self.sync.start_refund(answers.mailbox, key, charged, units, at)
        return cast(Decision, await answers.of(answer))

    async def set(self, key: Key, units: int, *, at: float | None = None) -> Decision:
        """Sets the units in use."""
        return cast(Decision, await self._call("set", key, units, at))

    async def usage(self, key: Key, *, at: float | None = None) -> int:
        """Returns the units in use."""
        return cast(int, await self._call("usage", key, 0, at))

    async def reset(self, key: Key, *, at: float | None = None) -> bool:
        """Forgets the key. True if it was not fresh."""
        return cast(bool, await self._call("reset", key, 0, at))

    async def wait(self, key: Key, cost: int = 1, *, timeout: float) -> Decision:
        """Waits until a hit of this cost is allowed, and charges it then. Returns the denial at once
        if that would take longer than `timeout` seconds. A cancelled wait charges nothing."""
        answers = _of_loop()
        answer = self.sync.start_wait(answers.mailbox, key, cost, timeout)
        return cast(Decision, await answers.of(answer))

    async def hit_each(self, keys: Iterable[Key], *, at: float | None = None) -> list[Decision]:
        """Hits many keys independently of each other."""
        answers = _of_loop()
        answer = self.sync.start_hit_each(answers.mailbox, keys, at)
        return cast("list[Decision]", await answers.of(answer))

    async def clear(self) -> None:
        """Forgets all keys."""
        answers = _of_loop()
        await answers.of(self.sync.start_clear(answers.mailbox))

    async def check(self) -> None:
        """Raises `StoreError` if the store cannot decide."""
        answers = _of_loop()
        await answers.of(self.sync.start_check(answers.mailbox))

    @property
    def policy(self) -> str:
        """The limits as text."""
        return self.sync.policy

    @property
    def store(self) -> Store:
        """The store."""
        return self.sync.store

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"


async def hit_all_async(
    items: Sequence[tuple[AsyncLimiter, Key, int]], *, at: float | None = None
) -> Decision:
    """Hits several keys of limiters on one store: all are charged or none is."""
    answers = _of_loop()
    of_sync = [(limiter.sync, key, cost) for limiter, key, cost in items]
    return cast(Decision, await answers.of(start_hit_all(answers.mailbox, of_sync, at)))
