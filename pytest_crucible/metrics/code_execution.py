"""Metrics that run a model's code in the sandbox. Nothing runs until the user allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.solutions import is_python, solution
from pytest_crucible.records import Reply, Sample
from pytest_crucible.sandbox import Limits, Result, SandboxBroken, Submission, require, shared

Program = Callable[[Reply, Sample], str | Submission | NotApplicable]
# The program's `__name__`: as in the official evaluation, code below `if __name__ == "__main__"` does not run.
MODULE = "program"
DEFAULT = Limits()
NO_TESTS = NotApplicable("the sample has no test and entry_point in its metadata")


def humaneval_program(prompt: str, reply: str, test: str, entry_point: str) -> Submission:
    """Return the code that HumanEval runs for a reply, with the tests that call its function from another process.

    The block of the reply that defines the function is put below the prompt, whose imports and other functions it may use; any
    other reply continues the prompt, as a base model does. Nothing is cut off here: stop sequences belong to the request.
    """
    return Submission(
        code=solution(prompt, reply, entry_point),
        tests=f"{test}\ncheck({entry_point})\n",
        functions=(entry_point,),
        # Some tests use the prompt's other functions. A prompt in words has none.
        setup=setup if is_python(setup := f"{prompt}\n    pass\n") else "",
    )


def runs(program: Program, *, name: str, version: str, limits: Limits = DEFAULT) -> Metric:
    """Return a metric that is true if the program made of a reply runs to its end in the sandbox.

    Programs that fail, crash or exceed a limit are false. If the machine cannot contain a program or is too busy to run it, or the
    user has not allowed running any, the sample is lost for this metric, not wrong.
    """

    @metric(name=name, kind="binary", version=f"{version}:{limits}")
    def runs_to_end(reply: Reply, sample: Sample) -> bool | NotApplicable:
        code = program(reply, sample)
        return code if isinstance(code, NotApplicable) else run_program(code, limits).passed

    runs_to_end.function.__doc__ = f"The program made of the reply runs to its end, in the sandbox ({name})."
    return runs_to_end


def run_program(program: str | Submission, limits: Limits = DEFAULT) -> Result:
    """Run a program, or return its cached result. Raises NotAllowed, and SandboxBroken if it could not be run."""
    require()  # consent is needed for cached results as well
    return _run(program, limits)


def _humaneval(reply: Reply, sample: Sample) -> Submission | NotApplicable:
    test, entry_point = (sample.metadata.get(name) for name in ("test", "entry_point"))
    if not (isinstance(test, str) and isinstance(entry_point, str)):
        return NO_TESTS
    return humaneval_program(str(sample.metadata.get("prompt", sample.input)), reply.text, test, entry_point)


@metric(kind="binary", version="3")
def humaneval_pass(reply: Reply, sample: Sample) -> bool | NotApplicable:
    """The reply passes the tests of a HumanEval problem, run in the sandbox, which must be allowed."""
    program = _humaneval(reply, sample)
    return program if isinstance(program, NotApplicable) else run_program(program).passed


@metric(kind="text", version="1")
def humaneval_seed(reply: Reply, sample: Sample) -> str | NotApplicable:
    """The seed of `random` in the tests of a HumanEval problem: recorded with `humaneval_pass`, to run them again."""
    program = _humaneval(reply, sample)
    return program if isinstance(program, NotApplicable) else str(program.seed)


humaneval_pass = replace(humaneval_pass, beside=(humaneval_seed,))


@metric(kind="text", version="3")
def humaneval_outcome(reply: Reply, sample: Sample) -> str | NotApplicable:
    """The outcome of the reply's program: passed, failed, timeout, memory or killed."""
    program = _humaneval(reply, sample)
    return program if isinstance(program, NotApplicable) else run_program(program).status


# Arms and repeats often give the same program.
@lru_cache(maxsize=256)
def _run(program: str | Submission, limits: Limits) -> Result:
    result = shared().run(program, limits=limits, name=MODULE)
    # Raised here, because what is raised is not cached: the next try may find the machine less busy.
    if result.status in ("refused", "starved"):
        raise SandboxBroken(f"the program was not {'run' if result.status == 'refused' else 'judged'}: {result.detail}")
    return result
