"""Decisions of a server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

_HEADERS = ("ratelimit-policy", "ratelimit", "retry-after")


@dataclass(frozen=True)
class ServerDecision:
    """A decision of a tollgate server. It is true if the hit is allowed. Times are seconds.

    It has the figures of `Decision`. `verdict` is `allowed`, `denied`, `shadowed` (would be denied,
    but the rule is in shadow mode), `exempt` or `blocked`; the last two have no figures.
    """

    allowed: bool
    verdict: str
    limit: int = 0
    remaining: int = 0
    used: int = 0
    retry_after: float | None = None
    reset_after: float = 0.0
    charged: int = 0
    source: str = "rule"
    bound: int | None = None
    name: str | None = None
    outcomes: tuple[ServerDecision, ...] = ()
    _headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def headers(self, names: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """The headers that describe this decision to a client, as the server wrote them: all, or
        those of `ratelimit` and `retry-after` that are named."""
        if names is None:
            return list(self._headers)
        wanted = {name.lower() for name in names}
        if "ratelimit" in wanted:
            wanted.add("ratelimit-policy")
        return [(name, value) for name, value in self._headers if name in wanted]

    def problem(self, status: int = 429) -> str:
        """A body for a refused request: `application/problem+json`."""
        refusing = [one for one in self.outcomes or (self,) if not one.allowed]
        return json.dumps(
            {
                "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "title": "Too many requests",
                "status": status,
                "detail": _detail(self.retry_after),
                "violated-policies": [one.name for one in refusing if one.name is not None],
            },
            separators=(",", ":"),
        )

    def __bool__(self) -> bool:
        return self.allowed

    @staticmethod
    def without_server(allowed: bool, cost: int) -> ServerDecision:
        """The decision of a client whose server does not answer."""
        verdict, source = ("allowed", "fail_open") if allowed else ("denied", "fail_closed")
        wait = 0.0 if allowed else 1.0
        return ServerDecision(
            allowed,
            verdict,
            retry_after=wait,
            charged=cost if allowed else 0,
            source=source,
            _headers=() if allowed else (("retry-after", "1"),),
        )

    def repeated(self, elapsed: float) -> ServerDecision:
        """The same denial some seconds later, from memory."""
        wait = None if self.retry_after is None else max(self.retry_after - elapsed, 0.0)
        headers = tuple(
            (name, str(max(ceil(wait or 0), 1)) if name == "retry-after" else value)
            for name, value in self._headers
            # It says when more is left, which was true of another moment.
            if name != "ratelimit"
        )
        return replace(
            self,
            retry_after=wait,
            reset_after=max(self.reset_after - elapsed, 0.0),
            charged=0,
            source="denial_cache",
            _headers=headers,
        )


def decision_of(
    fields: Mapping[str, Any], headers: Sequence[tuple[str, str]] = ()
) -> ServerDecision:
    """A decision from the server's JSON."""
    return ServerDecision(
        allowed=bool(fields["allowed"]),
        verdict=str(fields.get("verdict", "allowed" if fields["allowed"] else "denied")),
        limit=int(fields.get("limit", 0)),
        remaining=int(fields.get("remaining", 0)),
        used=int(fields.get("used", 0)),
        retry_after=_wait(fields),
        reset_after=float(fields.get("reset_after", 0)),
        charged=int(fields.get("charged", 0)),
        source=str(fields.get("source", "rule")),
        bound=fields.get("bound"),
        name=fields.get("name"),
        outcomes=tuple(decision_of(one) for one in fields.get("limits", ())),
        _headers=tuple((name, value) for name, value in headers if name in _HEADERS),
    )


def _wait(fields: Mapping[str, Any]) -> float | None:
    wait = fields.get("retry_after", 0 if fields["allowed"] else None)
    return None if wait is None else float(wait)


def _detail(wait: float | None) -> str:
    if wait is None:
        return "this request costs more than the quota ever allows"
    seconds = max(ceil(wait), 1)
    return f"come back in {seconds} second{'' if seconds == 1 else 's'}"
