"""Key functions: what a request is limited by.

A key function takes a `Head` and returns a key, or `None` if the request has none. Clients write
what they like into their headers: a limit by a header is a way around itself unless something
before it has checked that header.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._native import ClientAddress
from ._types import Key


@dataclass(frozen=True)
class Head:
    """The head of a request, the same for every framework."""

    method: str
    path: str
    #: The address of the other end of the connection, if it is known.
    peer: str | None
    #: The lines of a header, by its name in lower case.
    lines: Callable[[str], list[bytes]]
    #: What the framework calls a request: a scope of ASGI, or a request of Django or Flask.
    request: Any

    def header(self, name: str) -> str | None:
        """The only value of a header; `None` if it is missing or comes twice."""
        lines = self.lines(name.lower())
        return lines[0].decode("latin-1") if len(lines) == 1 else None


KeyBy = Callable[[Head], "Key | None"]


def client(address: ClientAddress | None = None) -> KeyBy:
    """The client's address. By default that is the peer of the connection; behind a proxy pass
    `ClientAddress(behind=[..])`, or all clients share the proxy's address."""
    found_by = address or ClientAddress()

    def key(head: Head) -> Key | None:
        name = found_by.header
        return found_by.find(head.peer, head.lines(name) if name else [])

    return key


def everyone(_: Head) -> Key | None:
    """One bucket for all requests."""
    return "everyone"


def path(head: Head) -> Key | None:
    """The path. A client can make up paths without end; each is a bucket of its own."""
    return head.path


def method(head: Head) -> Key | None:
    """The method."""
    return head.method


def header(name: str) -> KeyBy:
    """The value of a header that a proxy of yours overwrites."""
    return lambda head: head.header(name)


def api_key(name: str = "x-api-key") -> KeyBy:
    """The digest of an API key, behind something that refuses unknown keys."""

    def key(head: Head) -> Key | None:
        value = head.header(name)
        return None if value is None else _digest(value)

    return key


def bearer(head: Head) -> Key | None:
    """The digest of a bearer token, behind something that refuses unknown tokens."""
    scheme, _, token = (head.header("authorization") or "").partition(" ")
    token = token.strip()
    return _digest(token) if scheme.lower() == "bearer" and token else None


def both(one: KeyBy, other: KeyBy) -> KeyBy:
    """A bucket for each pair of keys; no key if one of them is missing."""

    def key(head: Head) -> Key | None:
        first, second = one(head), other(head)
        return None if first is None or second is None else (first, second)

    return key


def either(one: KeyBy, other: KeyBy) -> KeyBy:
    """The first key, or else the second one. The two kinds never share a bucket."""

    def key(head: Head) -> Key | None:
        first = one(head)
        if first is not None:
            return ("1", first)
        second = other(head)
        return None if second is None else ("2", second)

    return key


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("latin-1", "replace")).hexdigest()
