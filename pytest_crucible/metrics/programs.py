"""Metrics that run what a model wrote, in the sandbox. Nothing runs until the user allows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample
from pytest_crucible.sandbox import Limits, Result, SandboxBroken, require, shared

Program = Callable[[Reply, Sample], str | NotApplicable]
MODULE = "program"
"""The program's `__name__`: what stands below `if __name__ == "__main__"` is not run, as in the official evaluation."""
DEFAULT = Limits()
NO_TESTS = NotApplicable("the sample has no test and entry_point in its metadata")
_FENCE = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n", re.MULTILINE)
_PYTHON = {"", "python", "py", "python3"}


def code_of(text: str) -> str:
    """The code in a reply: its first block in a fence that says Python or nothing, else the whole text.

    A fence that is never closed runs to the end.

    >>> code_of("Sure:\\n```python\\nx = 1\\n```\\nDone.")
    'x = 1\\n'
    """
    opening = 0
    while found := _FENCE.search(text, opening):
        closing = re.compile(r"^[ \t]*```[ \t]*$", re.MULTILINE).search(text, found.end())
        end = closing.start() if closing else len(text)
        if found[1].lower() in _PYTHON:
            return text[found.end() : end]
        opening = closing.end() if closing else len(text)
    return text


def humaneval_program(prompt: str, reply: str, test: str, entry_point: str) -> str:
    """The program that HumanEval judges a reply by: it ends without an error when all tests pass.

    A reply that defines the function stands below the prompt, whose imports and other functions it may use; any other
    continues it, as a base model does. Stop sequences belong to the request: nothing is cut off here.
    """
    code = code_of(reply)
    whole = re.search(rf"^(async[ \t]+)?def[ \t]+{re.escape(entry_point)}\b", code, re.MULTILINE)
    function = f"{prompt}\n    pass\n\n{code}" if whole else prompt + code
    return f"{function}\n{test}\ncheck({entry_point})\n"


def runs(program: Program, *, name: str, version: str, limits: Limits = DEFAULT) -> Metric:
    """A metric that is true when the program made of a reply runs to its end in the sandbox.

    Programs that fail, crash, or use up a limit are false. A machine that cannot keep a program in, or a user who has not
    allowed running any, makes the sample lost for this metric and not wrong.
    """

    @metric(name=name, kind="binary", version=f"{version}:{limits}")
    def passed(reply: Reply, sample: Sample) -> bool | NotApplicable:
        made = program(reply, sample)
        return made if isinstance(made, NotApplicable) else outcome(made, limits).passed

    passed.function.__doc__ = f"The program made of the reply runs to its end, in the sandbox ({name})."
    return passed


def outcome(program: str, limits: Limits = DEFAULT) -> Result:
    """Run a program, or remember how it went. Raises NotAllowed, and SandboxBroken where it could not be run."""
    require()  # also of what is remembered
    result = _run(program, limits)
    if result.status == "refused":
        raise SandboxBroken(f"the program was not run: {result.detail}")
    return result


def _humaneval(reply: Reply, sample: Sample) -> str | NotApplicable:
    test, entry_point = (sample.metadata.get(name) for name in ("test", "entry_point"))
    if not (isinstance(test, str) and isinstance(entry_point, str)):
        return NO_TESTS
    return humaneval_program(str(sample.metadata.get("prompt", sample.input)), reply.text, test, entry_point)


@metric(kind="binary", version="1")
def humaneval_pass(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The reply passes the tests of a HumanEval problem: it is run in the sandbox, which must be allowed."""
    program = _humaneval(reply, sample)
    return program if isinstance(program, NotApplicable) else outcome(program).passed


@metric(kind="text", version="1")
def humaneval_outcome(reply: Reply, sample: Sample) -> str | NotApplicable:
    """What became of the reply's program: passed, failed, timeout, memory or killed."""
    program = _humaneval(reply, sample)
    return program if isinstance(program, NotApplicable) else outcome(program).status


@lru_cache(maxsize=256)
def _run(program: str, limits: Limits) -> Result:
    return shared().run(program, limits=limits, name=MODULE)
