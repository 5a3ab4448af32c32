"""Run the source of a program as a module of its own."""

from __future__ import annotations

import random
import sys
import types

# A program's error text is cut here: it could be megabytes long.
MOST_DETAIL = 1000


def new_module(name: str, seed: int = 0) -> types.ModuleType:
    """Return an empty module, and seed `random`; dataclasses, pickle and typing look names up in sys.modules."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    # The same program must give the same result.
    random.seed(seed)
    return module


def run_source(source: str, module: types.ModuleType) -> None:
    """Execute source code in `module`. Its exceptions propagate."""
    exec(compile(source, "<program>", "exec", dont_inherit=True), module.__dict__)


def outcome_of(error: BaseException) -> dict[str, str]:
    """Return status and detail for the exception that ended a program."""
    if isinstance(error, MemoryError):
        return {"status": "memory", "detail": "MemoryError"}
    if isinstance(error, SystemExit):
        return {"status": "failed", "detail": f"exited before its end (status {text_of(error.code)})"}
    detail = text_of(error)
    name = type(error).__name__
    return {"status": "failed", "detail": f"{name}: {detail}" if detail else name}


def text_of(value: object) -> str:
    try:
        return str(value)[:MOST_DETAIL]
    except BaseException:
        # The program may define an exception whose __str__ raises.
        return ""
