"""The examples in docstrings, stubs and the README run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import pytollgate

PACKAGE = Path(str(pytollgate.__file__)).parent
MODULES = [f"pytollgate.{one.name}" for one in pkgutil.iter_modules([str(PACKAGE)])]


@pytest.mark.parametrize("name", ["pytollgate", *MODULES])
def test_examples_of_a_module(name: str) -> None:
    if name == "pytollgate.django":
        return  # doctest looks into Django's settings, which need a project.
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_examples_of_the_stubs() -> None:
    names = {name: getattr(pytollgate, name) for name in pytollgate.__all__}
    results = doctest.testfile(
        str(PACKAGE / "_native.pyi"), module_relative=False, globs=names, encoding="utf-8"
    )
    assert results.failed == 0 and results.attempted >= 5


def test_package_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_native.pyi").exists()


def test_every_native_name_is_in_the_stubs() -> None:
    from pytollgate import _native  # pyright: ignore[reportPrivateUsage]

    stubs = (PACKAGE / "_native.pyi").read_text()
    for name in dir(_native):
        if name.startswith("__"):
            continue
        assert f"class {name}" in stubs or f"def {name}" in stubs, name
        for method in (
            vars(getattr(_native, name)) if isinstance(getattr(_native, name), type) else ()
        ):
            if not method.startswith("__"):
                assert f"def {method}(" in stubs, f"{name}.{method}"


def test_wheel_works_without_a_framework() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(["django", "fastapi", "flask", "starlette"]))
import pytollgate, pytollgate.asgi, pytollgate.keys
print(bool(pytollgate.Limiter("1/hour").hit("a")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "True", done.stderr


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["guides/python.md", "clients/python/README.md"])
def test_examples_of_a_guide(name: str) -> None:
    blocks = [
        block.split("\n```", 1)[0] for block in (ROOT / name).read_text().split("```python\n")[1:]
    ]
    assert blocks
    for block in blocks:
        # Servers that the examples name need not be there.
        lines = [line for line in block.splitlines() if not line.startswith("decision = client.")]
        exec(compile("\n".join(lines), name, "exec"), {"__name__": "example"})


def test_guide_maps_the_limits_of_the_package_limits() -> None:
    guide = (ROOT / "guides/python.md").read_text().split("## Coming from limits")[1]
    texts = re.findall(r'`"(\d[^"]*)"', guide) + re.findall(r'Limiter\("([^"]*)"\)', guide)
    assert len(texts) >= 6
    for text in texts:
        assert pytollgate.Limiter(text).hit("a")
