"""Just enough of HTTP/1.1 to ask a tollgate server. It does no input and output of its own."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from ._errors import RequestError, StoreError


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int
    tls: bool
    prefix: str
    token: str | None

    @staticmethod
    def of(url: str, token: str | None) -> Address:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RequestError(
                f"url {url!r}: must begin with http:// or https://", "request", False
            )
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        return Address(parts.hostname, port, tls, parts.path.rstrip("/"), token)

    def request(self, path: str, body: bytes) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        lines = [
            f"POST {self.prefix}{path} HTTP/1.1",
            f"host: {host}:{self.port}",
            "content-type: application/json",
            f"content-length: {len(body)}",
        ]
        if self.token is not None:
            lines.append(f"authorization: Bearer {self.token}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass(frozen=True)
class Response:
    """A whole response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        return ("connection", "close") not in [(n, v.lower()) for n, v in self.headers]


class Parser:
    """Takes bytes as they come, until the response is whole."""

    def __init__(self) -> None:
        self._data = b""
        self._head: tuple[int, list[tuple[str, str]], int, int] | None = None

    def feed(self, data: bytes) -> Response | None:
        """Returns the response when it is whole. No data means that the connection has ended."""
        if not data:
            raise _lost("the server closed the connection")
        self._data += data
        if self._head is None:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                return None
            self._head = _head(self._data[:end], end + 4)
        status, headers, start, length = self._head
        if len(self._data) < start + length:
            return None
        return Response(status, headers, self._data[start : start + length])


def _head(text: bytes, start: int) -> tuple[int, list[tuple[str, str]], int, int]:
    first, *lines = text.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise _lost(f"{first!r} is not a response of HTTP/1.1")
    headers = [
        (name.strip().lower(), value.strip())
        for name, _, value in (line.partition(":") for line in lines)
    ]
    lengths = [value for name, value in headers if name == "content-length"]
    if len(lengths) != 1 or not lengths[0].isdigit():
        raise _lost("the response has no content-length")
    return int(words[1]), headers, start, int(lengths[0])


def _lost(what: str) -> StoreError:
    return StoreError(f"no answer from the server: {what}", "lost", True)
