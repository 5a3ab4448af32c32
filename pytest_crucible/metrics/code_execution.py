"""Metrics that run a model's code in the sandbox: the program that a reply is meant to be, and its outcome.

Nothing runs until the user allows it.
"""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from pytest_crucible.metrics.code_match import PYTHON, Block, answer_of, split_blocks
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.records import Reply, Sample
from pytest_crucible.sandbox import Limits, Result, SandboxBroken, Submission, require, shared

# Characters of source that are parsed; longer programs are run as they are.
LONGEST = 100_000
# Blocks that are tried: each is parsed below the whole prompt.
MOST_BLOCKS = 8
# Filters of warnings belong to the process, so only one thread may change them.
_parsing = threading.Lock()
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_STARTS_CODE = re.compile(r"(?:async[ \t]|def[ \t]|class[ \t]|import[ \t]|from[ \t]|@|[A-Za-z_]\w{0,80}[ \t]{0,8}=)")


def solution(prompt: str, reply: str, function: str) -> str:
    """Return the program in which a reply defines `function`.

    The last block of the reply that defines the function completely counts: earlier ones are sketches. It is put below the
    prompt, whose imports and other functions it may use. Code that does not define the function continues the prompt.
    """
    answer = answer_of(reply)
    blocks, prose = split_blocks(answer)
    programs = _programs(prompt, answer, blocks, prose, function)
    first = next(programs)
    return next((program for program in (first, *programs) if _defines(program, function)), first)


def _programs(prompt: str, answer: str, blocks: Sequence[Block], prose: str, function: str) -> Iterator[str]:
    """Yield the programs that a reply may mean, the likeliest first."""
    defining = [block for block in blocks if _mentions(textwrap.dedent(block.code), function)]
    for block in defining[: -MOST_BLOCKS - 1 : -1]:
        code = textwrap.dedent(block.code)
        yield from _below(prompt, _helpers(blocks, block) + code)
    words = textwrap.dedent(prose)
    if not defining and blocks and _mentions(words, function):
        yield from _below(prompt, _code_lines(words))
    if not defining:
        python = [block.code for block in blocks if block.language in PYTHON]
        for code in python[:MOST_BLOCKS] or [answer]:
            yield from _bare_programs(prompt, code, function)
    yield from _below(prompt, _code_lines(words))


def _bare_programs(prompt: str, code: str, function: str) -> Iterator[str]:
    """Yield the programs of code that defines the function, perhaps all of it indented, or continues the prompt."""
    dedented = textwrap.dedent(code)
    if _mentions(code, function):
        yield from _below(prompt, code)
    elif _mentions(dedented, function) and _defines(dedented, function):
        yield from _below(prompt, dedented)
    else:
        yield from _continue_prompt(prompt, code)


def _mentions(code: str, function: str) -> bool:
    """Return True if a line begins the definition of the function."""
    name = re.escape(function)
    return re.search(rf"^(?:(?:async[ \t]+)?def[ \t]+{name}\b|{name}[ \t]*=)", code, re.MULTILINE) is not None


def _below(prompt: str, code: str) -> Iterator[str]:
    yield f"{prompt}\n    pass\n\n{code}"
    # A prompt in words is not Python.
    yield code


def _continue_prompt(prompt: str, code: str) -> Iterator[str]:
    """Yield the prompt continued by a body: unchanged, indented again, and with the first line's lost indentation restored."""
    yield prompt + code
    beginning = prompt if prompt.endswith("\n") else f"{prompt}\n"
    last = (prompt.rstrip().splitlines() or [""])[-1]
    indentation = last[: len(last) - len(last.lstrip())]
    indentation = f"{indentation}    " if last.endswith(":") else indentation or "    "
    yield beginning + textwrap.indent(textwrap.dedent(code), indentation)
    yield beginning + indentation + code.lstrip()


def _defines(program: str, function: str) -> bool:
    """Return True if the program can be parsed and defines the function with a body that is more than a stub."""
    statements = tree.body if (tree := _parse(program)) is not None else []
    definitions = [node for node in statements if function in _bound_names(node)]
    # A body without its indentation can be parsed, too: its return is then outside every function.
    is_body = any(isinstance(node, ast.Return) for node in statements)
    return bool(definitions) and not _is_stub(definitions[-1]) and not is_body


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _is_stub(node: ast.stmt) -> bool:
    """Return True for a body of nothing but a docstring, `pass`, `...` or `raise NotImplementedError`."""
    body = node.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else [node]
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or (isinstance(line, ast.Raise) and line.exc is not None and "NotImplementedError" in ast.dump(line.exc))
        for line in body
    )


def _helpers(blocks: Sequence[Block], chosen: Block) -> str:
    """Return the imports and definitions of other blocks that the chosen block uses: some replies are split."""
    tree = _parse(textwrap.dedent(chosen.code))
    if tree is None:
        return ""
    own, used = {name for node in tree.body for name in _bound_names(node)}, _used_names(tree)
    helpers: list[str] = []
    # From the last to the first: a helper may use names defined before it.
    for block in reversed([block for block in blocks if block is not chosen and block.language in PYTHON]):
        other = _parse(textwrap.dedent(block.code))
        for node in reversed([node for node in (other.body if other else []) if isinstance(node, _DEFINITIONS)]):
            names = set(_bound_names(node))
            if names & used and not names & own:
                own, used = own | names, used | _used_names(node)
                helpers.append(f"{ast.unparse(node)}\n")
    return "".join(reversed(helpers))


def _used_names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _code_lines(text: str) -> str:
    """Return the top-level imports, definitions and assignments of a text that is partly prose."""
    parts: list[list[str]] = []
    for line in text.splitlines(keepends=True):
        begins = not line[0].isspace() and line[0] not in ")]}#" and not (parts and parts[-1][-1].startswith("@"))
        if begins or not parts:
            parts.append([])
        parts[-1].append(line)
    code = ("".join(part) for part in parts if _STARTS_CODE.match(part[0]))
    return "".join(part for part in code if _parse(part) is not None)


def _parse(source: str) -> ast.Module | None:
    if len(source) > LONGEST:
        return None
    try:
        with _parsing, warnings.catch_warnings():
            # Python warns of invalid escapes in a model's strings, which the user cannot mend.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


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
        setup=setup if _parse(setup := f"{prompt}\n    pass\n") is not None else "",
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
