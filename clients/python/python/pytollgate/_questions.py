"""Questions to a server, and what its responses mean."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._decided import ServerDecision, decision_of
from ._errors import RequestError, StoreError
from ._http1 import Response
from ._native import Tagged
from ._types import Key


@dataclass(frozen=True)
class Question:
    """One request."""

    operation: str
    limit: str
    #: The key as a server reads it; the same for keys that are equal.
    key: str | tuple[str, ...]
    cost: int
    body: bytes

    @property
    def path(self) -> str:
        return f"/v1/{self.operation}"


def question_of(
    operation: str, limit: str, key: Key, cost: int | None, namespace: str | None
) -> Question:
    text = _key(key)
    fields = _fields(limit, text, cost, namespace)
    body = json.dumps(fields, separators=(",", ":")).encode()
    return Question(operation, limit, text, 1 if cost is None else cost, body)


def items_of(items: Sequence[tuple[str, Key, int]], namespace: str | None) -> Question:
    fields = [_fields(limit, _key(key), cost, namespace) for limit, key, cost in items]
    body = json.dumps({"items": fields}, separators=(",", ":")).encode()
    return Question("all", "", "", sum(cost for _, _, cost in items), body)


def _fields(
    limit: str, key: str | tuple[str, ...], cost: int | None, namespace: str | None
) -> dict[str, Any]:
    fields: dict[str, Any] = {"limit": limit, "key": key}
    if cost is not None:
        if cost < 0:
            raise refused(f"{cost} units: must be at least 0")
        fields["cost"] = cost
    if namespace is not None:
        fields["namespace"] = namespace
    return fields


def _key(key: Key) -> str | tuple[str, ...]:
    if isinstance(key, tuple):
        return tuple(_part(part) for part in key)
    return _part(key)


def _part(key: Key) -> str:
    if isinstance(key, (tuple, Tagged)):
        raise refused(f"key {key!r}: a server takes a text, a number or one list of them")
    try:
        return key.decode() if isinstance(key, bytes) else str(key)
    except UnicodeDecodeError:
        raise refused(f"key {key!r}: a server takes only bytes that are UTF-8") from None


def refused(message: str) -> RequestError:
    return RequestError(message, "request", False)


def answer_of(question: Question, response: Response) -> Any:
    """The answer, or the error that the server reports."""
    try:
        fields: Any = json.loads(response.body)
    except ValueError as error:
        raise StoreError(
            f"the server answered with what is not JSON: {error}", "store", False
        ) from error
    if response.status not in (200, 429) or "title" in fields:
        message = str(fields.get("detail") or fields.get("title") or response.status)
        if response.status >= 500:
            raise StoreError(f"error of the server: {message}", "store", True)
        raise refused(message)
    if question.operation == "usage":
        return int(fields["used"])
    if question.operation == "reset":
        return bool(fields["reset"])
    if question.operation == "all":
        return _together(fields)
    return decision_of(fields, response.headers)


def _together(fields: Any) -> ServerDecision:
    """The decision on several items: the figures are those of the item that denies longest, else of
    the one with the least remaining."""
    answers = [decision_of(one) for one in fields["answers"]]
    wait = {
        id(one): float("inf") if one.retry_after is None else one.retry_after for one in answers
    }
    denying = [one for one in answers if not one.allowed]
    shown = (
        max(denying, key=lambda one: wait[id(one)])
        if denying
        else min(answers, key=lambda one: one.remaining)
    )
    return ServerDecision(
        allowed=bool(fields["allowed"]),
        verdict="allowed" if fields["allowed"] else "denied",
        limit=shown.limit,
        remaining=shown.remaining,
        used=shown.used,
        retry_after=shown.retry_after,
        reset_after=shown.reset_after,
        charged=shown.charged,
        source=shown.source,
        bound=shown.bound,
        name=shown.name,
        outcomes=tuple(answers),
    )
