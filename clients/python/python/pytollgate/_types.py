"""Types that several modules use."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol, Union

from ._native import Tagged

#: What is limited. Numbers and addresses are the same key as their text; the parts of a tuple never
#: run together, and `bytes` are the same key as the text that they encode.
Key = Union[str, bytes, int, IPv4Address, IPv6Address, Tagged, "tuple[Key, ...]"]


class AnyDecision(Protocol):
    """What decisions of limiters and of servers have in common."""

    @property
    def allowed(self) -> bool: ...
    @property
    def limit(self) -> int: ...
    @property
    def remaining(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def retry_after(self) -> float | None: ...
    @property
    def reset_after(self) -> float: ...
    @property
    def charged(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def bound(self) -> int | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def outcomes(self) -> Sequence[AnyDecision]: ...
    def headers(self, names: Sequence[str] | None = None) -> list[tuple[str, str]]: ...
    def problem(self, status: int = 429) -> str: ...
    def __bool__(self) -> bool: ...


class AnyLimiter(Protocol):
    """A limiter whose calls wait: `Limiter`, or `Client.limiter(..)`."""

    def hit(self, key: Key, cost: int = 1) -> AnyDecision: ...


class AnyAsyncLimiter(Protocol):
    """A limiter for asyncio: `AsyncLimiter`, or `AsyncClient.limiter(..)`."""

    async def hit(self, key: Key, cost: int = 1) -> AnyDecision: ...
