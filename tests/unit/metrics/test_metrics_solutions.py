"""The forms that models write right code in: each of them is found, and hostile text costs linear time."""

from __future__ import annotations

import contextlib
import io
import time

import pytest

from pytest_crucible.metrics import code_of, humaneval_program
from pytest_crucible.metrics.code_execution import solution
from pytest_crucible.metrics.code_match import split_blocks

PROMPT = 'import math\n\n\ndef double(x: int) -> int:\n    """Twice x.\n    >>> double(2)\n    4\n    """\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-3) == -6"
RIGHT = "def double(x):\n    y = x + x\n    return y\n"
WRONG = "def double(x):\n    return x\n"
BODY = "    y = x + x\n    return y\n"


def fenced(code: str, info: str = "python", fence: str = "```") -> str:
    return f"{fence}{info}\n{code}{fence}\n"


def indented(text: str, by: str) -> str:
    return "".join(by + line for line in text.splitlines(keepends=True))


FORMS = {
    "continuation": BODY,
    "function": RIGHT,
    "fence": fenced(RIGHT),
    "bare fence": fenced(RIGHT, ""),
    "fence with title": fenced(RIGHT, 'python title="double.py"'),
    "fence with attributes": fenced(RIGHT, "{.python .numberLines}"),
    "fence in capitals": fenced(RIGHT, "Python"),
    "fence marked as text": fenced(RIGHT, "text"),
    "never closed": "Sure:\n```python\n" + RIGHT,
    "closed on the last line": "Sure:\n```python\n" + RIGHT.rstrip() + "```",
    "tildes": fenced(RIGHT, fence="~~~"),
    "four backticks": fenced(RIGHT, fence="````"),
    "backticks inside": fenced('def double(x):\n    """\n```\n    """\n    return x + x\n', fence="````"),
    "Windows line ends": fenced(RIGHT).replace("\n", "\r\n"),
    "draft": f"<think>\nPerhaps\n{fenced(WRONG)}</think>\n{fenced(RIGHT)}",
    "draft opened by the template": f"{fenced(WRONG)}</think>\n{fenced(RIGHT)}",
    "install first": f"{fenced('pip install numpy' + chr(10), '')}Then:\n{fenced(RIGHT)}",
    "sketch first": f"{fenced('def double(x):' + chr(10) + '    ...' + chr(10))}Now:\n{fenced(RIGHT)}",
    "broken sketch last": f"{fenced(RIGHT)}In short:\n{fenced('def double(x): <twice x>' + chr(10))}",
    "corrected": f"{fenced(WRONG)}Wait, that is wrong.\n{fenced(RIGHT)}",
    "usage first": f"You will call it so:\n{fenced('print(double(2))' + chr(10))}{fenced(RIGHT)}",
    "usage last": f"{fenced(RIGHT)}Usage:\n{fenced('from solution import double' + chr(10) + 'double(2)' + chr(10))}",
    "usage fenced, function not": f"{RIGHT}\nUsage:\n{fenced('double(2)' + chr(10))}",
    "list item": f"1. Write it:\n\n   - ```python\n{indented(RIGHT, '     ')}     ```\n2. Done.\n",
    "indented fence": f"1. Write it:\n{indented(fenced(RIGHT), '    ')}",
    "quotation": indented(fenced(RIGHT), "> "),
    "fenced body": fenced(BODY),
    "fenced body without indentation": fenced("y = x + x\nreturn y\n"),
    "stripped body": BODY.strip(),
    "body of two spaces": "  y = x + x\n  return y\n",
    "all indented": indented(RIGHT, "    "),
    "indented in its fence": fenced(indented(RIGHT, "  ")),
    "prose around": f"Here is the function:\n\n{RIGHT}\nIt adds x to itself.\n",
    "interactive": fenced(">>> def double(x):\n...     return x + x\n", "pycon"),
    "helper in another block": f"{fenced('def add(a, b):' + chr(10) + '    return a + b' + chr(10))}"
    f"{fenced('def double(x):' + chr(10) + '    return add(x, x)' + chr(10))}",
    "lambda": fenced("double = lambda x: x + x\n"),
    "code span before": f"```double``` adds:\n{fenced(RIGHT)}",
    "prompt repeated": fenced(PROMPT + BODY),
}

HOSTILE = (
    *(
        "`",
        "```",
        "```\n",
        "~~~ \n",
        " ",
        "\t",
        "> ",
        "- ",
        "1. ",
        "\n",
        "(",
        "-",
        "[{",
        "@",
        "@\n",
        "x=\n",
        '"""',
        "<think>",
    ),
    *("def double(", "def double(x):\n", "double =", "```\ndef double(x):\n", "```python\ndef double(x): pass\n```\n"),
)


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
    assert passes("Write a function double(x).", fenced(RIGHT))


def test_a_reply_cut_in_its_draft_has_no_answer():
    assert not passes(PROMPT, f"<think>\n{fenced(RIGHT)}")


def test_what_continues_the_prompt_is_not_touched():
    assert solution(PROMPT, BODY, "double") == PROMPT + BODY


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_costs_linear_time(hostile):
    def cost(size: int) -> float:
        text = hostile * (size // len(hostile)) + "x"
        start = time.process_time()
        code_of(text), split_blocks(text), solution(PROMPT, text, "double")
        return time.process_time() - start

    # Sixteen times the time for four times the text would be quadratic. A busy machine may disturb one try.
    assert any(cost(100_000) < 8 * cost(25_000) + 0.05 for _ in range(3))
