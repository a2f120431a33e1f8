"""One FastAPI application with each limiter. Every limiter counts in memory."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def _without() -> Any:
    return _app([])


def _middleware() -> Any:
    from pytollgate.asgi import RateLimitMiddleware

    app = _app([])
    app.add_middleware(RateLimitMiddleware, limiter="1000000000/second")
    return app


def _dependency() -> Any:
    from fastapi import Depends

    from pytollgate.fastapi import RateLimit

    return _app([Depends(RateLimit("1000000000/second"))])


def _slowapi() -> Any:
    from fastapi import FastAPI, Request
    from slowapi import Limiter
    from slowapi.util import get_remote_address

    app = FastAPI()
    app.state.limiter = limiter = Limiter(key_func=get_remote_address)

    @app.get("/")
    @limiter.limit("1000000000/second")
    async def index(request: Request) -> dict[str, str]:
        return {"hello": "world"}

    return app


def _fastapi_limiter() -> Any:
    from fastapi import Depends
    from fastapi_limiter.depends import RateLimiter
    from pyrate_limiter import Duration, Limiter, Rate

    limiter = Limiter(Rate(1_000_000_000, Duration.SECOND))
    return _app([Depends(RateLimiter(limiter))])


def _app(dependencies: list[Any]) -> Any:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/", dependencies=dependencies)
    async def index() -> dict[str, str]:
        return {"hello": "world"}

    return app


APPS = {
    "without a limiter": _without,
    "pytollgate, middleware": _middleware,
    "pytollgate, dependency": _dependency,
    "slowapi": _slowapi,
    "fastapi-limiter": _fastapi_limiter,
}


def start(name: str) -> tuple[subprocess.Popen[bytes], int]:
    """Starts one application in a process of its own."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    process = subprocess.Popen([sys.executable, str(Path(__file__)), name, str(port)])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process, port
        except OSError:
            assert process.poll() is None, f"{name} ended"
            time.sleep(0.05)


if __name__ == "__main__":
    import uvicorn

    made = APPS[sys.argv[1]]()
    uvicorn.run(made, port=int(sys.argv[2]), log_level="error", access_log=False)
