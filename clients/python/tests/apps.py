"""Applications for the tests of servers that fork or run under an event loop of their own."""

from __future__ import annotations

import os
from typing import Any

from pytollgate import AsyncLimiter, Store
from pytollgate.asgi import RateLimitMiddleware
from pytollgate.flask import RateLimit

URL = os.environ.get("APPS_STORE", "memory:")


def flask_app() -> Any:
    import flask

    app = flask.Flask(__name__)
    # Made before the fork: gunicorn --preload.
    store = Store(URL, deadline=10.0)
    RateLimit(app, "100/hour", store=store, key=lambda head: "one")
    app.get("/")(lambda: f"{os.getpid()}")
    return app


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def asgi_app() -> Any:
    limiter = AsyncLimiter(
        "100/hour", store=Store(URL, deadline=0.3), on_failure=os.environ.get("APPS_RULE", "error")
    )
    return RateLimitMiddleware(_hello, limiter)
