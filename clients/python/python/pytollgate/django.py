# Django has no types of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportDeprecated=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

"""Middleware and a decorator for Django.

    MIDDLEWARE = ["pytollgate.django.RateLimitMiddleware", ...]
    RATELIMIT = {"limiter": "100/minute"}

The settings in `RATELIMIT` are those of `Gate`. A callable may be named by its dotted path.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from ._gate import Admission, Gate
from .keys import Head

_PATHS = ("limiter", "key", "cost", "exempt")


class RateLimitMiddleware:
    """Limits all requests of a project, under WSGI and under ASGI."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._gate = _gate_of_settings()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if self._is_async:
            return self._call_async(request)
        admission = self._gate.admit(head_of(request))
        refused = _refused(request, admission)
        return refused or _described(self._get_response(request), admission)

    async def _call_async(self, request: HttpRequest) -> Any:
        admission = await self._gate.admit_async(head_of(request))
        refused = _refused(request, admission)
        return refused or _described(await self._get_response(request), admission)


def ratelimit(limiter: Any, **gate: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Limits a view. The settings are those of `Gate`.

    The view finds the decision as `request.ratelimit`.
    """
    made = Gate(limiter, **gate)

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(view):

            @wraps(view)
            async def limited_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                admission = await made.admit_async(head_of(request))
                refused = _refused(request, admission)
                return refused or _described(await view(request, *args, **kwargs), admission)

            return limited_async

        @wraps(view)
        def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            admission = made.admit(head_of(request))
            refused = _refused(request, admission)
            return refused or _described(view(request, *args, **kwargs), admission)

        return limited

    return decorate


def head_of(request: HttpRequest) -> Head:
    """The head of a request of Django."""

    def lines(name: str) -> list[bytes]:
        # Django joins the lines of a header with commas, in their order.
        value = request.META.get(f"HTTP_{name.upper().replace('-', '_')}")
        return [] if value is None else [str(value).encode("latin-1", "replace")]

    peer = request.META.get("REMOTE_ADDR") or None
    return Head(request.method or "GET", request.path, peer, lines, request)


def _gate_of_settings() -> Gate:
    given = getattr(settings, "RATELIMIT", None)
    if not isinstance(given, dict) or "limiter" not in given:
        raise ImproperlyConfigured('RATELIMIT must be a dict with a "limiter" such as "100/minute"')
    made: dict[str, Any] = dict(given)
    for name in _PATHS:
        value = made.get(name)
        if isinstance(value, str) and "." in value and "/" not in value:
            made[name] = import_string(value)
    return Gate(made.pop("limiter"), **made)


def _refused(request: HttpRequest, admission: Admission) -> HttpResponse | None:
    request.ratelimit = admission.decision
    refusal = admission.refusal
    if refusal is None:
        return None
    return HttpResponse(refusal.body, status=refusal.status, headers=dict(refusal.headers))


def _described(response: Any, admission: Admission) -> Any:
    for name, value in admission.headers:
        response[name] = value
    return response
