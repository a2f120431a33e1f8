"""Clients of a tollgate server, with the standard library alone.

A call ends within its deadline. Denials are remembered for a moment, so that a client that is
denied does not cost a round trip each time. A server that fails several times in a row is left
alone for a moment. `on_failure` says what happens without an answer: `error` raises `StoreError`,
`open` allows, `closed` denies.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
from collections.abc import Awaitable, Sequence
from time import monotonic
from typing import Any, TypeVar, cast

from ._decided import ServerDecision
from ._errors import StoreError, TollgateError
from ._http1 import Address, Parser, Response
from ._memory import Breaker, Denials
from ._questions import Question, answer_of, items_of, question_of, refused
from ._types import Key

__all__ = ["AsyncClient", "AsyncServerLimiter", "Client", "ServerDecision", "ServerLimiter"]

_T = TypeVar("_T")

#: The most connections that are kept open for later calls.
_KEPT = 32


class _Asking:
    """What both clients do before and after they speak to the server."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        namespace: str | None = None,
        deadline: float = 0.25,
        on_failure: str = "error",
        remember_denials: int = 10_000,
        remember_rules: bool = False,
    ) -> None:
        if on_failure not in ("error", "open", "closed"):
            raise refused(f"on_failure {on_failure!r}: must be error, open or closed")
        self._address = Address.of(url, token)
        self._namespace = namespace
        self._deadline = deadline
        self._on_failure = on_failure
        self._denials = Denials(remember_denials, remember_rules)
        self._breaker = Breaker()
        self._tls = ssl.create_default_context() if self._address.tls else None

    def _known(self, question: Question) -> ServerDecision | None:
        return self._denials.recall(question) if question.operation == "hit" else None

    def _closed_by_breaker(self) -> StoreError | None:
        pause = self._breaker.pause()
        if pause <= 0:
            return None
        what = f"it failed {self._breaker.failures} times; the next try is in {pause:.3f} s"
        return StoreError(f"server not available: {what}", "unavailable", True)

    def _answered(self, question: Question, response: Response) -> Any:
        self._breaker.succeeded()
        answer = answer_of(question, response)
        self._denials.learn(question, answer)
        return answer

    def _failed(self, question: Question, error: StoreError) -> ServerDecision:
        """The decision without the server, or the error."""
        self._denials.forget(question)
        if self._on_failure == "error" or question.operation not in ("hit", "peek", "take", "all"):
            raise error
        return ServerDecision.without_server(self._on_failure == "open", question.cost)


class Client(_Asking):
    """A client of a tollgate server whose calls wait. Threads may share it.

    `limit` is the name of a rule of the server, or a limit as text. `token` is sent as a bearer
    token. `deadline` is the longest time of a call in seconds. `remember_denials` is how many
    denials are remembered. Denials of rules are remembered only with `remember_rules`: set it if no
    rule is an elastic window or charges denied hits, because those count every attempt.
    """

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._idle: list[socket.socket] = []
        self._process = os.getpid()

    def hit(self, limit: str, key: Key, cost: int = 1) -> ServerDecision:
        """Decides whether this key may make a request of this cost now, and charges it if so."""
        return cast(ServerDecision, self._ask("hit", limit, key, cost))

    def peek(self, limit: str, key: Key, cost: int = 1) -> ServerDecision:
        """Returns the decision that a hit would get, and changes nothing."""
        return cast(ServerDecision, self._ask("peek", limit, key, cost))

    def take(self, limit: str, key: Key, cost: int) -> ServerDecision:
        """Charges as many units as fit, from zero to `cost`."""
        return cast(ServerDecision, self._ask("take", limit, key, cost))

    def charge(self, limit: str, key: Key, units: int) -> ServerDecision:
        """Charges without checking."""
        return cast(ServerDecision, self._ask("charge", limit, key, units))

    def refund(self, limit: str, key: Key, units: int = 1) -> ServerDecision:
        """Gives back units, the newest first: a correction."""
        return cast(ServerDecision, self._ask("refund", limit, key, units))

    def set(self, limit: str, key: Key, units: int) -> ServerDecision:
        """Sets the units in use."""
        return cast(ServerDecision, self._ask("set", limit, key, units))

    def usage(self, limit: str, key: Key) -> int:
        """Returns the units in use."""
        return cast(int, self._ask("usage", limit, key, None))

    def reset(self, limit: str, key: Key) -> bool:
        """Forgets the key. True if it was not fresh."""
        return cast(bool, self._ask("reset", limit, key, None))

    def hit_all(self, items: Sequence[tuple[str, Key, int]]) -> ServerDecision:
        """Hits several limits or keys: all are charged or none is."""
        return cast(ServerDecision, self._answer(items_of(items, self._namespace)))

    def limiter(self, limit: str) -> ServerLimiter:
        """One limit of the server with the calls of `Limiter`."""
        return ServerLimiter(self, limit)

    def close(self) -> None:
        """Closes the connections. A later call opens new ones."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, operation: str, limit: str, key: Key, cost: int | None) -> Any:
        return self._answer(question_of(operation, limit, key, cost, self._namespace))

    def _answer(self, question: Question) -> Any:
        known = self._known(question)
        if known is not None:
            return known
        error = self._closed_by_breaker()
        if error is None:
            try:
                response = self._exchange(self._address.request(question.path, question.body))
                return self._answered(question, response)
            except StoreError as failure:
                if failure.kind != "store":
                    self._breaker.failed()
                error = failure
        return self._failed(question, error)

    def _exchange(self, request: bytes) -> Response:
        end = monotonic() + self._deadline
        connection = self._connected(end)
        try:
            connection.settimeout(_left(end))
            connection.sendall(request)
            parser, response = Parser(), None
            while response is None:
                connection.settimeout(_left(end))
                response = parser.feed(connection.recv(65536))
        except BaseException as error:
            connection.close()
            if isinstance(error, (TimeoutError, OSError)):
                raise _lost(self._deadline, error) from error
            raise
        if response.keeps_alive and len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    def _connected(self, end: float) -> socket.socket:
        if self._process != os.getpid():
            # The connections are those of the parent, which goes on using them.
            self._idle, self._process = [], os.getpid()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # Another thread was faster.
            # Nothing can be readable here but the end of the connection.
            if not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()
        address = self._address
        try:
            plain = socket.create_connection((address.host, address.port), _left(end))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return plain
            return self._tls.wrap_socket(plain, server_hostname=address.host)
        except (TimeoutError, OSError) as error:
            raise _unavailable(error) from error


class ServerLimiter:
    """One limit of a server, with the calls of `Limiter`."""

    def __init__(self, client: Client, limit: str) -> None:
        self.client = client
        self.limit = limit

    def hit(self, key: Key, cost: int = 1) -> ServerDecision:
        """Decides whether this key may make a request of this cost now, and charges it if so."""
        return self.client.hit(self.limit, key, cost)

    def peek(self, key: Key, cost: int = 1) -> ServerDecision:
        """Returns the decision that a hit would get, and changes nothing."""
        return self.client.peek(self.limit, key, cost)

    def reset(self, key: Key) -> bool:
        """Forgets the key."""
        return self.client.reset(self.limit, key)


class AsyncClient(_Asking):
    """A client of a tollgate server for asyncio: the arguments and calls of `Client`."""

    def __init__(self, url: str, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._owner: tuple[int, int] | None = None

    async def hit(self, limit: str, key: Key, cost: int = 1) -> ServerDecision:
        """Decides whether this key may make a request of this cost now, and charges it if so."""
        return cast(ServerDecision, await self._ask("hit", limit, key, cost))

    async def peek(self, limit: str, key: Key, cost: int = 1) -> ServerDecision:
        """Returns the decision that a hit would get, and changes nothing."""
        return cast(ServerDecision, await self._ask("peek", limit, key, cost))

    async def take(self, limit: str, key: Key, cost: int) -> ServerDecision:
        """Charges as many units as fit, from zero to `cost`."""
        return cast(ServerDecision, await self._ask("take", limit, key, cost))

    async def charge(self, limit: str, key: Key, units: int) -> ServerDecision:
        """Charges without checking."""
        return cast(ServerDecision, await self._ask("charge", limit, key, units))

    async def refund(self, limit: str, key: Key, units: int = 1) -> ServerDecision:
        """Gives back units, the newest first: a correction."""
        return cast(ServerDecision, await self._ask("refund", limit, key, units))

    async def set(self, limit: str, key: Key, units: int) -> ServerDecision:
        """Sets the units in use."""
        return cast(ServerDecision, await self._ask("set", limit, key, units))

    async def usage(self, limit: str, key: Key) -> int:
        """Returns the units in use."""
        return cast(int, await self._ask("usage", limit, key, None))

    async def reset(self, limit: str, key: Key) -> bool:
        """Forgets the key. True if it was not fresh."""
        return cast(bool, await self._ask("reset", limit, key, None))

    async def hit_all(self, items: Sequence[tuple[str, Key, int]]) -> ServerDecision:
        """Hits several limits or keys: all are charged or none is."""
        return cast(ServerDecision, await self._answer(items_of(items, self._namespace)))

    def limiter(self, limit: str) -> AsyncServerLimiter:
        """One limit of the server with the calls of `AsyncLimiter`."""
        return AsyncServerLimiter(self, limit)

    async def close(self) -> None:
        """Closes the connections. A later call opens new ones."""
        while self._idle:
            _, writer = self._idle.pop()
            writer.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, operation: str, limit: str, key: Key, cost: int | None) -> Any:
        return await self._answer(question_of(operation, limit, key, cost, self._namespace))

    async def _answer(self, question: Question) -> Any:
        known = self._known(question)
        if known is not None:
            return known
        error = self._closed_by_breaker()
        if error is None:
            try:
                response = await self._exchange(self._address.request(question.path, question.body))
                return self._answered(question, response)
            except StoreError as failure:
                if failure.kind != "store":
                    self._breaker.failed()
                error = failure
        return self._failed(question, error)

    async def _exchange(self, request: bytes) -> Response:
        end = monotonic() + self._deadline
        try:
            reader, writer = await _within(end, self._connected())
        except (TimeoutError, asyncio.TimeoutError, OSError) as error:
            raise _unavailable(error) from error
        try:
            writer.write(request)
            response = await _within(end, _response(reader))
        except BaseException as error:
            writer.close()
            if isinstance(error, (TimeoutError, asyncio.TimeoutError, OSError)):
                raise _lost(self._deadline, error) from error
            raise
        if response.keeps_alive and len(self._idle) < _KEPT:
            self._idle.append((reader, writer))
        else:
            writer.close()
        return response

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        owner = os.getpid(), id(asyncio.get_running_loop())
        if self._owner != owner:
            # The connections belong to another event loop or to the parent process.
            self._idle, self._owner = [], owner
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        address = self._address
        return await asyncio.open_connection(address.host, address.port, ssl=self._tls)


class AsyncServerLimiter:
    """One limit of a server, with the calls of `AsyncLimiter`."""

    def __init__(self, client: AsyncClient, limit: str) -> None:
        self.client = client
        self.limit = limit

    async def hit(self, key: Key, cost: int = 1) -> ServerDecision:
        """Decides whether this key may make a request of this cost now, and charges it if so."""
        return await self.client.hit(self.limit, key, cost)

    async def peek(self, key: Key, cost: int = 1) -> ServerDecision:
        """Returns the decision that a hit would get, and changes nothing."""
        return await self.client.peek(self.limit, key, cost)

    async def reset(self, key: Key) -> bool:
        """Forgets the key."""
        return await self.client.reset(self.limit, key)


async def _response(reader: asyncio.StreamReader) -> Response:
    parser, response = Parser(), None
    while response is None:
        response = parser.feed(await reader.read(65536))
    return response


async def _within(end: float, work: Awaitable[_T]) -> _T:
    return await asyncio.wait_for(work, max(end - monotonic(), 0))


def _left(end: float) -> float:
    left = end - monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left


def _unavailable(error: BaseException) -> StoreError:
    return StoreError(f"server not available: {_text(error)}", "unavailable", True)


def _lost(deadline: float, error: BaseException) -> TollgateError:
    return StoreError(f"no answer within {deadline} s: {_text(error)}", "lost", True)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
