"""Decides on requests. The frameworks translate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any, cast

from . import keys
from ._asyncio import AsyncLimiter
from ._errors import RequestError, TollgateError
from ._native import Limiter, Store, check_headers
from ._types import AnyAsyncLimiter, AnyDecision, AnyLimiter, Key
from .client import AsyncClient, AsyncServerLimiter, Client, ServerLimiter
from .keys import Head, KeyBy

_log = logging.getLogger("pytollgate")

#: The bucket of all requests without a key.
_KEYLESS: Key = ("pytollgate", "no key")

DEFAULT_HEADERS = ("ratelimit", "retry-after")


@dataclass(frozen=True)
class Refusal:
    """A response to a request that does not pass."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class Admission:
    """What a gate says about a request: the refusal, or the headers for the response."""

    decision: AnyDecision | None = None
    headers: list[tuple[str, str]] = field(default_factory=lambda: [])
    refusal: Refusal | None = None


@dataclass(frozen=True)
class _Asked:
    key: Key
    cost: int


class Gate:
    """The settings that all frameworks share.

    - `limiter`: a limit as text, a limiter, or a limit of a server (`Client.limiter(..)`).
    - `key`: a function of `pytollgate.keys`, or one of yours; the client's address unless given.
    - `cost`: units, or a function of the head.
    - `exempt`: a function of the head; requests for which it is true are not limited.
    - `on_missing`: the status for requests without a key. Without it they share one bucket.
    - `headers`: names of headers for the responses, as in `Decision.headers`.
    - `problem_json`: whether refusals have a body of `application/problem+json`.
    - `shadow`: decides and logs, and refuses nobody.
    """

    def __init__(
        self,
        limiter: str
        | Sequence[str]
        | AnyLimiter
        | AnyAsyncLimiter
        | Limiter
        | AsyncLimiter
        | ServerLimiter
        | AsyncServerLimiter,
        *,
        key: KeyBy | None = None,
        cost: int | Callable[[Head], int] = 1,
        exempt: Callable[[Head], bool] | None = None,
        on_missing: int | None = None,
        headers: Sequence[str] = DEFAULT_HEADERS,
        problem_json: bool = False,
        shadow: bool = False,
        store: str | Store | None = None,
        on_failure: str = "error",
    ) -> None:
        if isinstance(limiter, (str, list, tuple)):
            texts = cast("str | Sequence[str]", limiter)
            self._limiter: Any = Limiter(texts, store=store, on_failure=on_failure)
        elif isinstance(limiter, (Client, AsyncClient)):
            rule = "a client has many limits: pass client.limiter(..)"
            raise RequestError(f"limiter {limiter!r}: {rule}", "request", False)
        else:
            self._limiter = limiter
        self._async: Any = None
        self._key = keys.client() if key is None else key
        self._cost = cost
        self._exempt = exempt
        self._on_missing = on_missing
        check_headers(list(headers))
        self._headers = list(headers)
        self._problem_json = problem_json
        self._shadow = shadow
        self._warned_missing_key = False

    def admit(self, head: Head) -> Admission:
        """Decides, and waits for the store."""
        asked = self._ask(head)
        if isinstance(asked, Admission):
            return asked
        try:
            limiter = (
                self._limiter.sync if isinstance(self._limiter, AsyncLimiter) else self._limiter
            )
            return self._decided(limiter.hit(asked.key, asked.cost))
        except TollgateError as error:
            return self._failed(error)

    async def admit_async(self, head: Head) -> Admission:
        """Decides without ever blocking the event loop."""
        asked = self._ask(head)
        if isinstance(asked, Admission):
            return asked
        if self._async is None:
            self._async = _awaited(self._limiter)
        try:
            return self._decided(await self._async.hit(asked.key, asked.cost))
        except TollgateError as error:
            return self._failed(error)

    def _ask(self, head: Head) -> _Asked | Admission:
        if self._exempt is not None and self._exempt(head):
            return Admission()
        key = self._key(head)
        if key is None:
            if self._on_missing is not None:
                body = b"this request cannot be limited: it has no key\n"
                return self._refused(Refusal(self._on_missing, _plain(), body))
            if not self._warned_missing_key:
                self._warned_missing_key = True
                _log.warning("a request has no key; all requests without one share a bucket")
            key = _KEYLESS
        return _Asked(key, self._cost(head) if callable(self._cost) else self._cost)

    def _decided(self, decision: AnyDecision) -> Admission:
        headers = decision.headers(self._headers)
        if decision.allowed:
            return Admission(decision, headers)
        if self._problem_json:
            kind, body = "application/problem+json", decision.problem(429)
        else:
            kind, body = "text/plain; charset=utf-8", _text(decision.retry_after)
        all_headers = [("content-type", kind), ("cache-control", "no-store"), *headers]
        return self._refused(Refusal(429, all_headers, body.encode()), decision, headers)

    def _failed(self, error: TollgateError) -> Admission:
        _log.warning("a request was not decided: %s", error)
        body = b"the rate limit could not be checked\n"
        return self._refused(Refusal(503, _plain(), body))

    def _refused(
        self,
        refusal: Refusal,
        decision: AnyDecision | None = None,
        headers: list[tuple[str, str]] | None = None,
    ) -> Admission:
        if self._shadow:
            _log.info("shadow: a request would have been refused with %s", refusal.status)
            shown = [one for one in headers or [] if one[0] != "retry-after"]
            return Admission(decision, shown)
        return Admission(decision, headers or [], refusal)


def _awaited(limiter: Any) -> Any:
    """A limiter for asyncio with the same counters."""
    if isinstance(limiter, Limiter):
        return AsyncLimiter(limiter)
    if isinstance(limiter, ServerLimiter):
        rule = "its calls wait, which would block the event loop: use AsyncClient"
        raise RequestError(f"limiter {limiter!r}: {rule}", "request", False)
    return limiter


def _plain() -> list[tuple[str, str]]:
    return [("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store")]


def _text(wait: float | None) -> str:
    if wait is None:
        return "too much for one request: it costs more than the limit ever allows\n"
    return f"too many requests: come back in {max(ceil(wait), 1)} s\n"
