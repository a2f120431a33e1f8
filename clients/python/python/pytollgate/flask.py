"""An extension for Flask.

limit = RateLimit(app, "100/minute")

@app.post("/login")
@limit.route("5/minute")
def login(): ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from flask import Flask, Response, current_app, g, request

from ._gate import Admission, Gate
from .keys import Head

_View = TypeVar("_View", bound=Callable[..., Any])


class RateLimit:
    """Limits all requests of an application, and some routes further. The settings are those of
    `Gate`; without a limiter only routes are limited.

    Handlers find the decision of their innermost limit as `g.ratelimit`.
    """

    def __init__(self, app: Flask | None = None, limiter: Any = None, **settings: Any) -> None:
        self._gate = None if limiter is None else Gate(limiter, **settings)
        self._settings = settings
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Limits an application that was made elsewhere."""
        app.before_request(self._before)
        app.after_request(_describe)

    def _before(self) -> Response | None:
        return None if self._gate is None else _decide(self._gate)

    def route(self, limiter: Any, **settings: Any) -> Callable[[_View], _View]:
        """Limits a view, with the settings of the extension where it has none of its own."""
        gate = Gate(limiter, **{**self._settings, **settings})

        def decorate(view: _View) -> _View:
            @wraps(view)
            def limited(*args: Any, **kwargs: Any) -> Any:
                refused = _decide(gate)
                return refused or current_app.ensure_sync(view)(*args, **kwargs)

            return limited  # type: ignore[return-value]

        return decorate


def _decide(gate: Gate) -> Response | None:
    admission: Admission = gate.admit(_head())
    g.ratelimit = admission.decision
    g.ratelimit_headers = admission.headers
    refusal = admission.refusal
    if refusal is None:
        return None
    return Response(refusal.body, refusal.status, refusal.headers)


def _describe(response: Response) -> Response:
    for name, value in g.get("ratelimit_headers", ()):
        response.headers[name] = value
    return response


def _head() -> Head:
    def lines(name: str) -> list[bytes]:
        return [value.encode("latin-1", "replace") for value in request.headers.getlist(name)]

    peer: Any = request.environ.get("REMOTE_ADDR") or None
    return Head(request.method, request.path, peer, lines, request)
