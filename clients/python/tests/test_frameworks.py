"""The frameworks, with their own test clients and under real servers."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from conftest import Server, free_port, start_redis
from pytollgate import AsyncLimiter, Client, ClientAddress, Limiter, RequestError, keys
from pytollgate.asgi import DECISION, RateLimitMiddleware

HERE = Path(__file__).parent


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
    await send({"type": "http.response.body", "body": b"hel", "more_body": True})
    await send({"type": "http.response.body", "body": b"lo"})


def ask(app: Any, path: str = "/", **scope: Any) -> tuple[int, dict[str, str], bytes]:
    """One request to an application of ASGI."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    whole: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [],
        "client": ("192.0.2.1", 1),
        **scope,
    }
    asyncio.run(app(whole, receive, send))
    if sent[0]["type"] == "websocket.close":
        return sent[0]["code"], {}, b""
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(one["body"] for one in sent[1:])


def test_asgi_passes_streams_and_refuses_with_all_headers() -> None:
    app = RateLimitMiddleware(_hello, "1/minute name=api")
    status, headers, body = ask(app)
    assert (status, body, headers["x-own"]) == (200, b"hello", "1")
    assert headers["ratelimit-policy"] == '"api";q=1;w=60'
    status, headers, body = ask(app)
    assert status == 429 and body.startswith(b"too many requests: come back in ")
    assert headers["cache-control"] == "no-store" and int(headers["retry-after"]) in (59, 60)
    assert int(headers["content-length"]) == len(body)
    assert ask(app, method="HEAD")[2] == b""
    assert ask(app, client=("192.0.2.2", 1))[0] == 200
    assert ask(app, type="websocket")[0] == 1008


def test_clients_behind_a_proxy_cannot_choose_their_address() -> None:
    def app(address: ClientAddress | None) -> Any:
        return RateLimitMiddleware(_hello, "1/minute", key=keys.client(address))

    def of(address: str) -> list[tuple[bytes, bytes]]:
        return [(b"x-forwarded-for", b"6.6.6.6"), (b"X-Forwarded-For", address.encode())]

    behind = app(ClientAddress(behind=["192.0.2.0/24"]))
    assert ask(behind, headers=of("203.0.113.7"))[0] == 200
    assert ask(behind, headers=of("203.0.113.7, 192.0.2.9"))[0] == 429
    assert ask(behind, headers=of("203.0.113.8"))[0] == 200
    direct = app(None)
    assert [ask(direct, headers=of(f"203.0.113.{i}"))[0] for i in range(2)] == [200, 429]
    network = app(None)
    assert [ask(network, client=(f"2001:db8::{i}", 1))[0] for i in (1, 2)] == [200, 429]


def test_request_without_a_key_is_never_let_through_unseen() -> None:
    shared = RateLimitMiddleware(_hello, "1/minute")
    assert [ask(shared, client=None)[0] for _ in range(2)] == [200, 429]
    refusing = RateLimitMiddleware(_hello, "9/minute", on_missing=400, key=keys.api_key())
    assert ask(refusing)[0] == 400
    assert ask(refusing, headers=[(b"x-api-key", b"a")])[0] == 200
    twice = [(b"x-api-key", b"a"), (b"x-api-key", b"b")]
    assert ask(refusing, headers=twice)[0] == 400


def test_key_functions() -> None:
    def head(*headers: tuple[str, str]) -> keys.Head:
        def lines(name: str) -> list[bytes]:
            return [value.encode() for key, value in headers if key == name]

        return keys.Head("GET", "/a", "192.0.2.1", lines, None)

    assert keys.client()(head()) == "192.0.2.1"
    assert (keys.path(head()), keys.method(head()), keys.everyone(head())) == (
        "/a",
        "GET",
        "everyone",
    )
    assert keys.header("X-User")(head(("x-user", "7"))) == "7"
    assert keys.bearer(head(("authorization", "Bearer secret"))) != "secret"
    assert keys.bearer(head(("authorization", "Bearer "))) is None
    assert keys.bearer(head(("authorization", "Basic secret"))) is None
    assert keys.both(keys.path, keys.method)(head()) == ("/a", "GET")
    assert keys.both(keys.path, keys.bearer)(head()) is None
    both = keys.either(keys.header("x-user"), keys.client())
    assert both(head(("x-user", "192.0.2.1"))) != both(head()), "a user never is an address"


def test_settings_of_a_gate() -> None:
    shadow = RateLimitMiddleware(_hello, "1/minute", shadow=True)
    assert [ask(shadow)[0] for _ in range(3)] == [200] * 3
    exempt = RateLimitMiddleware(_hello, "1/minute", exempt=lambda head: head.path == "/health")
    assert [ask(exempt, "/health")[0] for _ in range(3)] == [200] * 3
    cost = RateLimitMiddleware(_hello, "10/minute", cost=lambda head: len(head.path))
    assert ask(cost, "/12345678")[0] == 200 and ask(cost, "/12")[0] == 429
    problem = RateLimitMiddleware(_hello, "1/minute", cost=2, problem_json=True)
    _, headers, body = ask(problem)
    assert headers["content-type"] == "application/problem+json" and b"quota-exceeded" in body
    plain = RateLimitMiddleware(_hello, "9/minute", headers=["x-ratelimit"])
    assert ask(plain)[1]["x-ratelimit-limit"] == "9"
    with pytest.raises(RequestError, match='headers "server"'):
        RateLimitMiddleware(_hello, "9/minute", headers=["server"])
    with pytest.raises(RequestError, match="a client has many limits"):
        RateLimitMiddleware(_hello, Client("http://127.0.0.1:1"))
    waiting = RateLimitMiddleware(_hello, Client("http://127.0.0.1:1").limiter("1/minute"))
    with pytest.raises(RequestError, match="would block the event loop"):
        ask(waiting)


def test_store_that_does_not_answer_is_503() -> None:
    limiter = AsyncLimiter("1/minute", store=f"redis://127.0.0.1:{free_port()}/", deadline=0.05)
    assert ask(RateLimitMiddleware(_hello, limiter))[0] == 503
    dead = AsyncLimiter(
        "1/minute", store=f"redis://127.0.0.1:{free_port()}/", deadline=0.05, on_failure="open"
    )
    assert ask(RateLimitMiddleware(_hello, dead))[0] == 200


def test_fastapi() -> None:
    from fastapi import Depends, FastAPI
    from fastapi.testclient import TestClient
    from pytollgate.fastapi import RateLimit

    app = FastAPI()
    limit = RateLimit("2/minute name=search", key=keys.everyone)

    @app.get("/search")
    def search(decision: Any = Depends(limit)) -> dict[str, int]:  # pyright: ignore
        return {"remaining": decision.remaining}

    with TestClient(app) as client:
        first = client.get("/search")
        assert first.json() == {"remaining": 1}
        assert first.headers["ratelimit-policy"] == '"search";q=2;w=60'
        assert client.get("/search").status_code == 200
        refused = client.get("/search")
        assert refused.status_code == 429 and "retry-after" in refused.headers
        assert refused.json()["detail"].startswith("too many requests")
        assert "parameters" not in client.get("/openapi.json").json()["paths"]["/search"]["get"]

    whole = FastAPI()
    whole.add_middleware(RateLimitMiddleware, limiter="1/minute", key=keys.everyone)

    @whole.get("/")
    def index() -> str:  # pyright: ignore[reportUnusedFunction]
        return "hello"

    with TestClient(whole) as client:
        assert [client.get(path).status_code for path in ("/", "/", "/nowhere")] == [200, 429, 429]


def test_flask() -> None:
    import flask
    from pytollgate.flask import RateLimit

    app = flask.Flask("app")
    limit = RateLimit(app, "5/minute")

    @app.get("/")
    def index() -> str:  # pyright: ignore[reportUnusedFunction]
        return str(flask.g.ratelimit.remaining)

    @app.get("/login")
    @limit.route("1/minute name=login")
    def login() -> str:  # pyright: ignore[reportUnusedFunction]
        return "in"

    client = app.test_client()
    first = client.get("/")
    assert first.text == "4" and "ratelimit" in first.headers
    assert client.get("/login").headers["ratelimit-policy"] == '"login";q=1;w=60'
    refused = client.get("/login")
    assert refused.status_code == 429 and "retry-after" in refused.headers
    assert client.get("/").status_code == 200
    assert [client.get("/nowhere").status_code for _ in range(2)] == [404, 429]
    made_elsewhere = flask.Flask("other")
    RateLimit(None, "1/minute").init_app(made_elsewhere)
    assert [made_elsewhere.test_client().get("/").status_code for _ in range(2)] == [404, 429]


def test_django() -> None:
    import django
    from django.conf import settings

    settings.configure(
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["*"],
        MIDDLEWARE=["pytollgate.django.RateLimitMiddleware"],
        RATELIMIT={
            "limiter": "3/minute name=all",
            "key": "pytollgate.keys.everyone",
        },
    )
    django.setup()
    from django.core.exceptions import ImproperlyConfigured
    from django.http import HttpRequest, HttpResponse
    from django.test import AsyncClient as DjangoAsyncClient
    from django.test import Client as DjangoClient
    from django.test import override_settings
    from django.urls import path
    from pytollgate.django import ratelimit

    def index(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(request.ratelimit.remaining))

    @ratelimit("1/minute name=login")
    def login(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(request.ratelimit.name))

    @ratelimit("1/minute")
    async def later(request: HttpRequest) -> HttpResponse:
        return HttpResponse("later")

    globals()["urlpatterns"] = [path("", index), path("login", login), path("later", later)]

    client = DjangoClient()
    first = client.get("/")
    assert (first.content, first["ratelimit-policy"]) == (b"2", '"all";q=3;w=60')
    assert client.get("/login").content == b"login"
    assert client.get("/login").status_code == 429
    refused = client.get("/")
    assert refused.status_code == 429 and "retry-after" in refused

    async def ask_async() -> list[int]:
        client = DjangoAsyncClient()
        return [(await client.get("/later")).status_code for _ in range(2)]

    with override_settings(RATELIMIT={"limiter": Limiter("9/minute")}):
        assert asyncio.run(ask_async()) == [200, 429]
    with override_settings(RATELIMIT={}), pytest.raises(ImproperlyConfigured, match="100/minute"):
        DjangoClient().get("/")


def status_of(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_gunicorn_prefork_admits_exactly_the_limit(redis_url: str) -> None:
    port = free_port()
    env = {"APPS_STORE": redis_url, "PYTHONPATH": str(HERE)}
    os.environ.update(env)
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "4", "--bind"]
    server = Server(*command, f"127.0.0.1:{port}", "apps:flask_app()", port=port)
    answers: list[tuple[int, str]] = []

    def work() -> None:
        answers.extend(status_of(f"http://127.0.0.1:{port}/") for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.process.terminate()
    server.process.wait()
    assert Counter(status for status, _ in answers) == {200: 100, 429: 60}
    assert len({worker for status, worker in answers if status == 200}) > 1


@pytest.mark.parametrize(("rule", "status"), [("error", 503), ("open", 200), ("closed", 429)])
def test_uvicorn_with_a_stopped_redis_decides_by_the_rule(rule: str, status: int) -> None:
    redis, port = start_redis(), free_port()
    env = {"APPS_STORE": f"redis://127.0.0.1:{redis.port}/", "APPS_RULE": rule}
    os.environ.update(env, PYTHONPATH=str(HERE))
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--factory",
        "apps:asgi_app",
        "--log-level",
        "error",
    ]
    server = Server(*command, "--port", str(port), port=port)
    url = f"http://127.0.0.1:{port}/"
    assert status_of(url)[0] == 200
    redis.process.send_signal(19)  # SIGSTOP
    assert status_of(url)[0] == status
    server.process.terminate()
    server.process.wait()
    redis.stop()


def test_handlers_find_the_decision() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["state"][DECISION])
        await _hello(scope, receive, send)

    ask(RateLimitMiddleware(app, "9/minute"))
    assert seen[0].remaining == 8
    assert time.time() > seen[0].now - 60
