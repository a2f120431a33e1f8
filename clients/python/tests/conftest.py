"""Real servers for the tests: processes on free ports of the loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def skip(why: str) -> None:
    """Skips a test where its server is missing. In CI that is a failure."""
    if os.environ.get("TOLLGATE_NO_SKIP"):
        pytest.fail(why)
    pytest.skip(why)


class Server:
    """A process that listens on a port of the loopback."""

    def __init__(self, *command: str, port: int) -> None:
        self.port = port
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, f"{command[0]} ended: {self.process.returncode}"
                assert time.monotonic() < end, f"{command[0]} does not listen"
                time.sleep(0.005)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def start_redis() -> Server:
    if shutil.which("redis-server") is None:
        skip("redis-server is not installed")
    port = free_port()
    args = ["--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    return Server("redis-server", *args, port=port)


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    server = start_redis()
    yield f"redis://127.0.0.1:{server.port}/"
    server.stop()


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """`cargo xtask test` starts the server."""
    url = os.environ.get("POSTGRES_URL")
    if url is None:
        skip("POSTGRES_URL does not name a PostgreSQL server")
    return str(url)


def program() -> str:
    """The server `tollgate`."""
    found = os.environ.get("TOLLGATE_BIN") or shutil.which("tollgate")
    if found is None:
        skip("TOLLGATE_BIN does not name the program tollgate")
    return str(found)


RULES = """
[store]
url = "memory:"
[limits]
api = "1000/day"
login = "5/minute sliding-window; 20/day"
strict = "1/day name=strict"
[limits.open]
limit = "1/day"
exempt = ["monitor"]
"""


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "tollgate.toml"
        ports = f'[server]\nhttp = "127.0.0.1:{port}"\ngrpc = "off"\nresp = "off"\nadmin = "off"\n'
        config.write_text(RULES + ports)
        server = Server(program(), "serve", "--config", str(config), port=port)
        yield f"http://127.0.0.1:{port}"
        server.stop()


_keys = count()


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"{os.getpid()}-{next(_keys)}"


def python(code: str, *args: str) -> str:
    """Runs code in a Python of its own and returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the counts in the form that `cargo xtask test` adds up."""
    counted = {name: len(reports) for name, reports in terminalreporter.stats.items()}
    failed = counted.get("failed", 0) + counted.get("error", 0)
    passed, skipped = counted.get("passed", 0), counted.get("skipped", 0)
    verdict = "FAILED" if failed else "ok"
    line = f"test result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored"
    terminalreporter.write_line(line)
