"""Asking again: what may be asked again, how often, after how long, and what is said when nothing helped."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence

import pytest
import virtual_time
from asking import adapter, request
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import in_virtual_time

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.retried import FIRST_S, LONGEST_S, RETRIES, Retried, read_retries
from pytest_crucible.records import Event, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError

Answer = str | Exception


class Script:
    """Says one thing after the other, the last one for ever, and remembers when it was asked."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []

    def __call__(self, request: Request) -> str:
        self.asked.append(asyncio.get_running_loop().time())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def busy(kind: str = "429", after: float | None = None) -> Retryable:
    return Retryable("too much is asked", kind=kind, retry_after_s=after)


def send(*answers: Answer, retries: int = RETRIES) -> tuple[Script, list[Event], str | BaseException]:
    """Return the result of one request: the script, the events, and the reply's text or the error."""
    script, events = Script(answers), []
    backend = Retried(ScriptedBackend(script, identity="script"), events.append, retries=retries)
    try:
        reply = virtual_time.run(backend.generate(request()))
    except BaseException as error:
        return script, events, error
    return script, events, reply.text


def test_successful_request_is_sent_once():
    script, events, came = send("4")

    assert (len(script.asked), events, came) == (1, [], "4")


@given(st.integers(0, 8), st.integers(0, 8))
def test_retryable_failures_are_retried(failures, retries):
    script, events, came = send(*[busy()] * failures, "4", retries=retries)

    assert len(script.asked) == min(failures, retries) + 1
    assert len(events) == min(failures, retries)
    assert (came == "4") == (failures <= retries)


@pytest.mark.parametrize("error", [BackendError("no such sample"), Refused("bad key"), ValueError("a mistake")])
def test_other_errors_are_not_retried(error):
    script, events, came = send(error)

    assert (len(script.asked), events, came) == (1, [], error)


def test_other_error_after_a_retryable_one_is_raised():
    script, _, came = send(busy(), Refused("bad key"))

    assert len(script.asked) == 2
    assert isinstance(came, Refused)


def test_pauses_grow_exponentially():
    waits = []
    for _ in range(200):
        script, _, _ = send(busy(), retries=7)
        waits.append([after - before for before, after in zip(script.asked, script.asked[1:], strict=False)])

    for number, many in enumerate(zip(*waits, strict=True)):
        longest = min(LONGEST_S, FIRST_S * 2**number)
        assert 0 <= min(many) < 0.1 * longest
        assert 0.9 * longest < max(many) <= longest


def test_retry_after_is_respected():
    script, _, came = send(busy(after=20.0), "4")

    assert 20.0 <= script.asked[1] <= 21.0
    assert came == "4"


def test_retry_event_has_kind_and_wait():
    _, events, _ = send(busy("503"), busy("timeout"), "4")

    assert [(event.name, event.facts["kind"], event.facts["attempt"]) for event in events] == [
        ("request.retry", "503", 1),
        ("request.retry", "timeout", 2),
    ]
    assert [event.facts["wait_s"] >= 0 for event in events] == [True, True]
    assert {(event.experiment, event.arm, event.sample) for event in events} == {("test_sums.py::test_sums", "v2", "a")}


@pytest.mark.parametrize(
    ("answers", "retries", "sentence"),
    [
        (
            [*[busy()] * 4, busy("timeout"), Retryable("it hung up", kind="connection")],
            RETRIES,
            r"lost after 6 attempts in \d+ s: 429 x 4, timeout x 1, connection x 1; the last: it hung up",
        ),
        ([busy()], 0, "lost after 1 attempt in 0 s: 429 x 1; the last: too much is asked"),
    ],
)
def test_lost_request_counts_failures_by_kind(answers, retries, sentence):
    _, _, error = send(*answers, retries=retries)

    assert type(error) is BackendError
    assert re.fullmatch(sentence, str(error))


def test_very_long_pause_stops_the_experiment():
    script, _, came = send(busy(after=86_400.0))

    assert len(script.asked) == 1
    assert isinstance(came, Refused)
    assert str(came) == (
        "too much is asked: the server asks for a pause of 24 hours; resume with --crucible-resume after it"
    )


@in_virtual_time
async def test_pause_can_be_cancelled():
    script = Script([busy(after=60.0)])
    backend = Retried(ScriptedBackend(script, identity="script"), lambda event: None)
    task = asyncio.create_task(backend.generate(request()))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_global_random_state_is_untouched():
    random.seed(5)
    expected = random.random()
    random.seed(5)

    send(busy(), busy(), "4")

    assert random.random() == expected


@pytest.mark.parametrize("wrong", [-1, 2.5, "3", True, None, [3]])
def test_invalid_retries_are_refused(wrong):
    with pytest.raises(SpecError, match=f"adapter 'v2' has retries = {re.escape(repr(wrong))}: expected the number"):
        read_retries(adapter(retries=wrong))


def test_retries_setting_is_read():
    counts: list[Callable[[], int] | int] = [read_retries(adapter()), read_retries(adapter(retries=0))]

    assert counts == [RETRIES, 0]
