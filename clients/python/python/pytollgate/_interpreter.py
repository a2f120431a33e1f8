"""Refuses subinterpreters: the counters and connections of this package belong to the process."""

from __future__ import annotations

from importlib import import_module


def refuse_subinterpreter() -> None:
    """Raises `ImportError` in any interpreter but the first one of the process."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters = import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "pytollgate does not run in subinterpreters, because its counters and connections "
                "belong to the process: use threads or processes"
            )
        return
