"""Exact rate limiting: may this key do this now, and if not, when?

>>> from pytollgate import Limiter
>>> limiter = Limiter("10/second burst=20")
>>> decision = limiter.hit("user:42")
>>> decision.allowed, decision.remaining
(True, 19)

A limiter counts in this process, or on any store that `store=` names: `redis://`, `postgres://`,
`memcached://`, `etcd://`, `durable:path`, and `leased+` in front of any of them. `AsyncLimiter` has
the same calls for asyncio. `Client` and `AsyncClient` ask a tollgate server.
"""

from __future__ import annotations

from ._interpreter import refuse_subinterpreter

refuse_subinterpreter()

from ._asyncio import AsyncLimiter, hit_all_async
from ._errors import LimitError, RequestError, StoreError, TollgateError
from ._native import (
    ClientAddress,
    Decision,
    Limiter,
    Store,
    Tagged,
    hit_all,
)
from ._types import AnyDecision, Key
from .client import AsyncClient, Client, ServerDecision

__all__ = [
    "AnyDecision",
    "AsyncClient",
    "AsyncLimiter",
    "Client",
    "ClientAddress",
    "Decision",
    "Key",
    "LimitError",
    "Limiter",
    "RequestError",
    "ServerDecision",
    "Store",
    "StoreError",
    "Tagged",
    "TollgateError",
    "hit_all",
    "hit_all_async",
]
