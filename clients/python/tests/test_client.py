"""Clients of a real tollgate server."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Server, free_port, program, python
from pytollgate import AsyncClient, Client, RequestError, ServerDecision, StoreError


class Both:
    """The calls of a client; those of `AsyncClient` are run to their end."""

    def __init__(self, kind: str, url: str, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.client: Any = (Client if kind == "sync" else AsyncClient)(url, **settings)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            result = getattr(self.client, name)(*args)
            return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

        return call


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(kind: str, server_url: str) -> Iterator[Both]:
    both = Both(kind, server_url, deadline=5.0)
    yield both
    both.close()
    both.loop.close()


def test_every_operation_of_the_server(client: Both, key: str) -> None:
    hit: ServerDecision = client.hit("api", key, 3)
    assert hit and (hit.limit, hit.used, hit.remaining, hit.charged) == (1000, 3, 997, 3)
    assert (hit.name, hit.source, hit.bound, hit.verdict) == ("api", "store", 0, "allowed")
    assert client.peek("api", key).used == 3
    assert client.take("api", key, 5).charged == 5
    assert client.charge("api", key, 2).used == 10
    assert client.refund("api", key, 4).used == 6
    assert client.set("api", key, 9).used == 9
    assert client.usage("api", key) == 9
    assert client.reset("api", key) is True
    assert client.reset("api", key) is False
    assert client.hit("7/hour", (key, 7, b"x")).remaining == 6


def test_denial_has_the_headers_of_the_server(client: Both, key: str) -> None:
    denied = client.hit("login", key, 6)
    assert not denied and denied.retry_after is None
    assert [one.allowed for one in denied.outcomes] == [False, True]
    assert dict(denied.headers())["ratelimit"] == '"login";r=5;t=1'
    assert client.hit("strict", key)
    again = client.hit("strict", key)
    assert set(dict(again.headers())) == {"ratelimit-policy", "ratelimit", "retry-after"}
    assert list(dict(again.headers(["retry-after"]))) == ["retry-after"]
    assert '"violated-policies":["strict"]' in again.problem()


def test_all_or_nothing(client: Both, key: str) -> None:
    denied = client.hit_all([("9/hour", key, 1), ("2/hour", key, 3)])
    assert not denied and denied.retry_after is None
    assert client.usage("9/hour", key) == 0
    assert client.hit_all([("9/hour", key, 1), ("2/hour", key, 2)])
    assert client.usage("9/hour", key) == 1


def test_mistakes_are_errors_and_never_decisions(kind: str, server_url: str, key: str) -> None:
    client = Both(kind, server_url, on_failure="open", deadline=5.0)
    with pytest.raises(RequestError, match='limit "nobody": there is no rule of that name'):
        client.hit("nobody", key)
    with pytest.raises(RequestError, match="expected a unit of time"):
        client.hit("10/fortnight", key)
    with pytest.raises(RequestError, match="must be at least 0"):
        client.hit("api", key, -1)
    with pytest.raises(RequestError, match="only bytes that are UTF-8"):
        client.hit("api", b"\xff")
    with pytest.raises(RequestError, match="must begin with http"):
        Client("redis://127.0.0.1")
    with pytest.raises(RequestError, match="must be error, open or closed"):
        Client(server_url, on_failure="shrug")


def test_exempt_keys_pass_without_figures(client: Both) -> None:
    exempt = client.hit("open", "monitor")
    assert exempt and exempt.verdict == "exempt" and exempt.limit == 0


def test_denials_are_remembered_and_forgotten(kind: str, server_url: str, key: str) -> None:
    client, other = Both(kind, server_url, deadline=5.0), Client(server_url, deadline=5.0)
    assert client.hit("2/hour", key, 2)
    denied = client.hit("2/hour", key)
    assert denied.source == "store"
    repeated = client.hit("2/hour", key)
    assert repeated.source == "denial_cache" and not repeated
    assert repeated.retry_after <= denied.retry_after
    assert "retry-after" in dict(repeated.headers())
    assert client.hit("2/hour", key, 0).source == "store", "a smaller cost may fit"
    assert not client.hit("2/hour", key)
    assert client.reset("2/hour", key), "the client's own calls end a remembered denial"
    assert client.hit("2/hour", key)
    # Whatever another client gives back is seen when the denial is forgotten.
    assert client.hit("2/hour", key) and not client.hit("2/hour", key)
    assert other.reset("2/hour", key)
    assert client.hit("2/hour", key).source == "denial_cache"


@pytest.mark.parametrize(
    "limit", ["1/hour elastic-window", "1/hour fixed-window charge-denied", "strict"]
)
def test_denials_that_may_count_are_never_repeated(client: Both, key: str, limit: str) -> None:
    client.hit(limit, key)
    assert [client.hit(limit, key).source for _ in range(3)] == ["store"] * 3


def test_denials_of_rules_are_remembered_on_request(kind: str, server_url: str, key: str) -> None:
    client = Both(kind, server_url, deadline=5.0, remember_rules=True)
    client.hit("strict", key)
    assert [client.hit("strict", key).source for _ in range(2)] == ["store", "denial_cache"]


def test_missing_server_decides_by_the_rule_for_failures(kind: str, key: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    client = Both(kind, url)
    for _ in range(3):
        with pytest.raises(StoreError, match="server not available") as error:
            client.hit("1/hour", key)
        assert (error.value.kind, error.value.is_transient) == ("unavailable", True)
    with pytest.raises(StoreError, match="failed 3 times; the next try is in"):
        client.hit("1/hour", key)
    allowed = Both(kind, url, on_failure="open").hit("1/hour", key, 2)
    assert allowed and (allowed.source, allowed.charged) == ("fail_open", 2)
    denied = Both(kind, url, on_failure="closed").hit("1/hour", key)
    assert not denied and denied.source == "fail_closed" and denied.retry_after == 1.0
    # Only decisions have a rule.
    with pytest.raises(StoreError):
        Both(kind, url, on_failure="open").reset("1/hour", key)


def test_silent_server_is_given_up_at_the_deadline(kind: str, key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Both(kind, f"http://127.0.0.1:{listener.getsockname()[1]}", deadline=0.05)
        with pytest.raises(StoreError) as error:
            client.hit("1/hour", key)
        assert error.value.kind == "lost"


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
    ],
)
def test_broken_response_is_an_error(kind: str, key: str, response: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            connection.recv(9999)
            connection.sendall(response)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        client = Both(kind, f"http://127.0.0.1:{listener.getsockname()[1]}", deadline=5.0)
        with pytest.raises(StoreError) as error:
            client.hit("1/hour", key)
        assert error.value.kind == "lost"
        client.loop.close()
        thread.join()


def test_connection_that_the_server_closed_is_replaced(kind: str, key: str) -> None:
    port = free_port()
    args = ["serve", "--http", f"127.0.0.1:{port}", "--grpc", "off", "--resp", "off"]
    args += ["--admin", "off"]
    server = Server(program(), *args, port=port)
    client = Both(kind, f"http://127.0.0.1:{port}", deadline=5.0)
    assert client.hit("9/hour", key)
    server.stop()
    server = Server(program(), *args, port=port)
    assert client.hit("9/hour", key)
    client.close()
    server.stop()


def test_threads_admit_exactly_the_limit(server_url: str, key: str) -> None:
    admitted: list[int] = []
    client = Client(server_url, deadline=10.0)

    def work() -> None:
        admitted.append(sum(bool(client.hit("50/hour", key)) for _ in range(20)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 50


def test_tasks_admit_exactly_the_limit(server_url: str, key: str) -> None:
    async def main() -> int:
        async with AsyncClient(server_url, deadline=10.0) as client:
            limiter = client.limiter("50/hour")
            return sum(map(bool, await asyncio.gather(*[limiter.hit(key) for _ in range(120)])))

    assert asyncio.run(main()) == 50


def test_fork_does_not_share_connections(server_url: str, key: str) -> None:
    code = """
import os, sys
from pytollgate import Client
client = Client(sys.argv[1], deadline=10.0)
assert client.hit("9999/hour", sys.argv[2])
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(client.hit("9999/hour", sys.argv[2]) for _ in range(50)) else 1)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
print(client.usage("9999/hour", sys.argv[2]))
"""
    assert int(python(code, server_url, key)) in range(150, 152)
