"""Errors. A denial is a decision and never an error; an error is never a decision."""

from __future__ import annotations


class TollgateError(Exception):
    """The store or the server could not decide, or the call makes no sense.

    `kind` is one of `limit`, `unsupported`, `request`, `unavailable`, `lost` and `store`.
    `is_transient` says whether the same call may succeed later.
    """

    kind: str
    is_transient: bool

    def __init__(self, message: str, kind: str, is_transient: bool) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_transient = is_transient

    def __reduce__(self) -> tuple[type[TollgateError], tuple[str, str, bool]]:
        return type(self), (str(self), self.kind, self.is_transient)


class LimitError(TollgateError, ValueError):
    """A limit is not valid, or this store does not support it."""


class RequestError(TollgateError, ValueError):
    """The call is not valid."""


class StoreError(TollgateError):
    """The store did not answer, or answered with an error.

    With the kind `unavailable` nothing was charged. With the kind `lost` the call may have been
    charged.
    """
