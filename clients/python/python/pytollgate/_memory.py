"""What a client remembers: denials, and failures of its server."""

from __future__ import annotations

import re
from time import monotonic
from typing import Any

from ._decided import ServerDecision
from ._questions import Question

#: The longest time for which a denial is remembered: another client may give units back.
LONGEST = 2.0

#: Failures in a row after which a server is left alone.
FAILURES = 3

#: The first and the longest pause, in seconds.
PAUSES = (0.1, 5.0)

_TEXT = re.compile(r"\s*\d")
_ATTEMPTS = re.compile(r"elastic|charge.denied", re.IGNORECASE)


class Denials:
    """Denials that are repeated without asking.

    A denial of a limit that counts every attempt is never remembered. The text of a limit says
    whether it does; the name of a rule does not.
    """

    def __init__(self, most: int, of_rules: bool) -> None:
        self._most = most
        self._of_rules = of_rules
        self._known: dict[tuple[str, Any], tuple[float, float, int, ServerDecision]] = {}

    def recall(self, question: Question) -> ServerDecision | None:
        known = self._known.get((question.limit, question.key))
        if known is None:
            return None
        now = monotonic()
        since, until, cost, denial = known
        if now < until and question.cost >= cost:
            return denial.repeated(now - since)
        return None

    def learn(self, question: Question, answer: object) -> None:
        self.forget(question)
        if (
            question.operation == "hit"
            and isinstance(answer, ServerDecision)
            and answer.verdict == "denied"
            and answer.source == "store"
            and answer.retry_after is not None
            and self._may_be_repeated(question.limit)
            and self._most > 0
        ):
            while len(self._known) >= self._most:
                self._known.pop(next(iter(self._known)), None)
            now = monotonic()
            until = now + min(answer.retry_after, LONGEST)
            self._known[question.limit, question.key] = (now, until, question.cost, answer)

    def forget(self, question: Question) -> None:
        if question.operation == "all":
            self._known.clear()
        else:
            self._known.pop((question.limit, question.key), None)

    def _may_be_repeated(self, limit: str) -> bool:
        if _TEXT.match(limit):
            return _ATTEMPTS.search(limit) is None
        return self._of_rules


class Breaker:
    """Leaves a server alone that failed several times in a row."""

    def __init__(self) -> None:
        self.failures = 0
        self._until = 0.0

    def pause(self) -> float:
        """Seconds for which the server is left alone."""
        return self._until - monotonic() if self.failures >= FAILURES else 0.0

    def failed(self) -> None:
        self.failures += 1
        if self.failures >= FAILURES:
            first, longest = PAUSES
            pause = first * 2.0 ** min(self.failures - FAILURES, 10)
            self._until = monotonic() + min(pause, longest)

    def succeeded(self) -> None:
        self.failures = 0
