"""Middleware for ASGI: Starlette, FastAPI, Quart, Litestar, or a plain application.

app = RateLimitMiddleware(app, "100/minute")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ._gate import Gate, Refusal
from .keys import Head

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Where a handler finds the decision: `scope["state"][DECISION]`.
DECISION = "pytollgate"


class RateLimitMiddleware:
    """Limits the requests of an application. The settings are those of `Gate`.

    It passes requests and responses through as they are, so that streams and context variables
    work. WebSockets are limited when they are opened.
    """

    def __init__(self, app: Application, limiter: Any, **settings: Any) -> None:
        self._app = app
        self._gate = Gate(limiter, **settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        admission = await self._gate.admit_async(head_of(scope))
        if admission.refusal is not None:
            await _refuse(scope, receive, send, admission.refusal)
            return
        scope.setdefault("state", {})[DECISION] = admission.decision
        if not admission.headers:
            await self._app(scope, receive, send)
            return
        added = _encoded(admission.headers)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def head_of(scope: Scope) -> Head:
    """The head of a request of ASGI."""
    headers: list[tuple[bytes, bytes]] = list(scope.get("headers", ()))
    peer = scope.get("client")

    def lines(name: str) -> list[bytes]:
        wanted = name.encode("latin-1")
        return [value for key, value in headers if key.lower() == wanted]

    method = str(scope.get("method", "GET"))
    return Head(method, str(scope["path"]), str(peer[0]) if peer else None, lines, scope)


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": "too many requests"})
            return
        prefix = "websocket.http.response"
    else:
        prefix = "http.response"
    headers = [*_encoded(refusal.headers), (b"content-length", str(len(refusal.body)).encode())]
    body = b"" if scope.get("method") == "HEAD" else refusal.body
    await send({"type": f"{prefix}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{prefix}.body", "body": body})


def _encoded(headers: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
