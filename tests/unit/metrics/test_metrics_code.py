"""The code in replies: which program they mean, and its outcome in the sandbox."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_tables import read_table
from run_sizes import FULL

from pytest_crucible import NotApplicable, Reply, Sample, stats
from pytest_crucible.metrics import code_of, humaneval_outcome, humaneval_pass, humaneval_program, runs
from pytest_crucible.metrics.code_execution import solution
from pytest_crucible.sandbox import Limits, NotAllowed, Sandbox, allow, close_shared, containment, withdraw

PROMPT = 'import math\n\n\ndef double(x: int) -> int:\n    """Twice x.\n    >>> double(2)\n    4\n    """\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-3) == -6"
RIGHT = "def double(x):\n    y = x + x\n    return y\n"
BODY = "    y = x + x\n    return y\n"


FORMS = {row["form"]: row["reply"] for row in read_table("replies/code")}


def passes(prompt: str, reply: str) -> bool:
    """Run the program here: the replies of this module are our own."""
    submission = humaneval_program(prompt, reply, TEST, "double")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(f"{submission.code}\n{submission.tests}", {})
    except BaseException:
        return False
    return True


@pytest.mark.parametrize("form", FORMS)
def test_right_code_is_found_in_each_form(form):
    assert passes(PROMPT, FORMS[form])


@pytest.mark.parametrize("form", FORMS)
def test_wrong_code_stays_wrong_in_each_form(form):
    assert not passes(PROMPT, FORMS[form].replace("x + x", "x").replace("add(x, x)", "x"))


def test_a_prompt_in_words_is_left_out():
    assert passes("Write a function double(x).", FORMS["fence"])


def test_a_reply_truncated_in_its_draft_has_no_program():
    assert not passes(PROMPT, f"<think>\n{FORMS['fence']}")


def test_a_continuation_of_the_prompt_is_kept():
    assert solution(PROMPT, BODY, "double") == PROMPT + BODY


DATA = Path(os.environ.get("CRUCIBLE_DATA", "/nowhere"))
needs_data = pytest.mark.skipif(
    not (DATA / "humaneval").is_dir(), reason="CRUCIBLE_DATA does not name a directory with humaneval/"
)
contained = pytest.mark.skipif(not containment().complete, reason=containment().missing or "it is complete")
PROBLEM = Sample(
    id="double",
    input='def double(x):\n    """Twice x."""\n',
    metadata={"test": "def check(candidate):\n    assert candidate(2) == 4", "entry_point": "double"},
)


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    close_shared()


@pytest.fixture
def allowed() -> Iterator[None]:
    allow()
    yield
    withdraw()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1", "x = 1"),
        ("Here:\n```python\nx = 1\n```\nand\n```\ny = 2\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```bash\nls\n```\n```py\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1", "x = 1"),
        ("```bash\nls", "```bash\nls"),
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
        ("", ""),
    ],
)
def test_the_code_of_a_reply_is_its_first_python_fence_or_the_whole_text(text, code):
    assert code_of(text) == code


@given(st.text(alphabet="`~py\n x->", max_size=200))
def test_the_code_of_a_reply_consists_of_parts_of_its_lines(text):
    assert all(line in text for line in code_of(text).splitlines())


@contained
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("    return 2 * x", "passed"),
        ("def double(x):\n    return x + x", "passed"),
        ("Of course:\n```python\ndef double(x):\n    return x * 2\n```", "passed"),
        ("    return x", "failed"),
        ("", "failed"),
        ("    exit(0)", "failed"),
        ("    import os; os._exit(0)", "failed"),
        ("    return [0] * (1 << 40)", "memory"),
    ],
)
def test_humaneval_runs_the_program_of_a_reply(allowed, text, status):
    assert humaneval_outcome(Reply(text=text), PROBLEM) == status
    assert humaneval_pass(Reply(text=text), PROBLEM) is (status == "passed")


def test_code_is_not_run_without_permission():
    with pytest.raises(NotAllowed):
        humaneval_pass(Reply(text="    return 3 * x"), PROBLEM)


def test_a_sample_without_tests_does_not_apply():
    missing = NotApplicable("the sample has no test and entry_point in its metadata")

    assert humaneval_pass(Reply(text=""), Sample(id="1", input="")) == missing


@contained
def test_runs_makes_a_metric_of_a_user_program(allowed):
    squares = runs(lambda reply, sample: f"assert {reply.text} == 9", name="squares", version="1")

    assert (squares(Reply(text="3 ** 2"), PROBLEM), squares(Reply(text="8"), PROBLEM)) == (True, False)
    assert squares.facts.version != runs(print, name="squares", version="1", limits=Limits(cpu_s=1)).facts.version


# -- the published data ---------------------------------------------------------------------------------------------


def rows(name: str) -> list[dict]:
    with gzip.open(DATA / "humaneval" / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def problems() -> dict[str, dict]:
    return {row["task_id"]: row for row in rows("HumanEval.jsonl.gz")}


def judge(problems: dict[str, dict], replies: list[tuple[str, str]]) -> list[bool]:
    allow()
    with Sandbox() as sandbox:
        programs = [
            humaneval_program(problems[task]["prompt"], text, problems[task]["test"], problems[task]["entry_point"])
            for task, text in replies
        ]
        results = sandbox.run_all(programs, name="program")
    withdraw()
    return [result.passed for result in results]


@pytest.mark.slow
@needs_data
@contained
def test_all_164_canonical_solutions_pass(problems):
    passed = judge(problems, [(task, row["canonical_solution"]) for task, row in problems.items()])

    assert (len(passed), sum(passed)) == (164, 164)


@pytest.mark.slow
@needs_data
@contained
@pytest.mark.parametrize(
    ("solutions", "right"), [("text-davinci-003", 93), ("gpt-4_runB", 140), ("gpt-4_reflexion", 150)]
)
def test_saved_solutions_pass_and_fail_as_recorded(problems, solutions, right):
    saved = rows(f"solutions_{solutions}.jsonl.gz")

    passed = judge(problems, [(row["task_id"], row["code"]) for row in saved])

    assert passed == [row["passed"] for row in saved]
    assert sum(passed) == right


@pytest.mark.slow
@needs_data
@contained
def test_codegen_samples_pass_and_fail_as_recorded_except_one(problems):
    """Recorded is a failure of a right function with an unused import below it, which passes here.

    Each night all ten samples of a problem are run, and each day the first.
    """
    with open(DATA / "paired" / "epochs_humaneval_codegen16b_n100.csv", encoding="utf-8") as file:
        recorded = {row["item_id"]: row for row in csv.DictReader(file)}
    samples = [
        (row["task_id"], k, text)
        for row in rows("codegen16b_first10samples.jsonl.gz")
        for k, text in enumerate(row["samples"] if FULL else row["samples"][:1])
    ]

    passed = judge(problems, [(task, text) for task, _, text in samples])

    other = [
        (task, k)
        for (task, k, _), has_passed in zip(samples, passed, strict=True)
        if has_passed != (recorded[task][f"s{k}"] == "1")
    ]
    assert (len(passed), sum(passed), other) == (*((1640, 348) if FULL else (164, 30)), [("HumanEval/40", 0)])


@needs_data
@pytest.mark.parametrize(("k", "chance"), [(1, 0.2210), (10, 0.5038), (100, 0.7378)])
def test_codegen_pass_at_k_equals_the_published_values(k, chance):
    with open(DATA / "paired" / "epochs_humaneval_codegen16b_n100.csv", encoding="utf-8") as file:
        counted = list(csv.DictReader(file))

    estimate = stats.pass_at_k([int(row["n"]) for row in counted], [int(row["c"]) for row in counted], k)

    assert estimate.mean == pytest.approx(chance, abs=5e-5)
    assert estimate.interval is not None
    assert estimate.interval.low < chance < estimate.interval.high
