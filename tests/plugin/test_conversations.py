"""Stored calls, and how `crucible show RUN --sample ID` prints it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from pytest_crucible.commands import show
from tests.plugin.conftest import Suite

BACKEND = """
    from pytest_crucible import Reply, ScriptedBackend


    def script(request):
        if not isinstance(request.input, str):
            return Reply(text=f"turn {len(request.input)}", reasoning="Let me think.")
        return Reply(text=f"<think>{request.input}?</think>{eval(request.input)}")


    def pytest_crucible_backend(adapter):
        if adapter.backend == "talking":
            return ScriptedBackend(script, identity=adapter.name)
"""
TALK = """
    import asyncio, pytest

    @pytest.mark.crucible(dataset="questions.jsonl", epochs=2)
    async def test_talk(sample, sampler, score):
        messages = [{"role": "user", "content": f"What is {sample.input}?"}]
        first = await sampler.generate(messages)
        messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "Sure?"}]
        second = await sampler.generate(messages, temperature=0.5)
        score(turns=2)
        return second
"""


@pytest.fixture
def talking(suite: Suite) -> Suite:
    suite.pytester.makeconftest(BACKEND)
    suite.adapters({name: {"backend": "talking"} for name in ("v2", "v1")})
    return suite


def calls(suite: Suite) -> list[dict[str, Any]]:
    """The calls of the latest run, in the order of their key."""
    with closing(sqlite3.connect(suite.path / ".crucible/crucible.db")) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT arms.number AS arm_number, calls.*, messages.body FROM calls JOIN arms ON arms.id = calls.arm "
            "LEFT JOIN messages ON messages.id = calls.messages "
            "WHERE arms.experiment = (SELECT max(id) FROM experiments) ORDER BY 1, position, epoch, call, member"
        ).fetchall()
    return [dict(row) for row in rows]


def without_keys(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls without the arm's key and the run that sent them: equal for every kind of run."""
    return [{name: value for name, value in row.items() if name not in ("arm", "paid_by")} for row in rows]


def show_sample(suite: Suite, *arguments: str) -> str:
    return "\n".join(suite.command("show", *arguments).outlines)


def test_the_conversation_of_each_arm_is_printed_turn_by_turn(talking):
    talking.test(TALK, name="test_talk")
    talking.run("test_talk.py", "--crucible-adapter=v2")

    assert show_sample(talking, "--sample", "q03").splitlines()[:12] == [
        "test_talk.py::test_talk, sample q03",
        "  expected   6",
        "",
        "v2, repeat 1: answered (turns = 2)",
        "  call 1",
        "  user       What is 3 + 3?",
        "  reasoning  (13 characters; --reasoning prints them)",
        "  assistant  turn 1",
        "  call 2 (temperature=0.5)",
        "  user       Sure?",
        "  reasoning  (13 characters; --reasoning prints them)",
        "  assistant  turn 3",
    ]
    assert "  reasoning  Let me think." in show_sample(talking, "--sample", "q03", "--reasoning").splitlines()


def test_messages_of_one_form_are_stored_once(talking):
    talking.test(TALK, name="test_talk")
    talking.run("test_talk.py", "--crucible-adapter=v2")
    rows = calls(talking)

    assert len(rows) == 20 * 2 * 2
    assert len({row["messages"] for row in rows}) == 2
    assert {(row["call"], row["request"], row["text"]) for row in rows} == {(1, 1, "turn 1"), (2, 1, None)}


def test_a_prompt_that_is_the_sample_itself_is_not_stored_again(talking):
    talking.run("--crucible-adapter=v2")
    [row, *_] = calls(talking)

    assert (row["messages"], row["text"], row["is_scored"], row["paid_by"]) == (None, None, 1, None)
    assert show_sample(talking, "--sample", "q00").splitlines()[-3:] == [
        "  user       0 + 0",
        "  reasoning  (6 characters; --reasoning prints them)",
        "  assistant  0",
    ]


def test_a_think_block_is_stored_as_part_of_the_text(talking):
    talking.run("--crucible-adapter=v2", "--crucible-json=report.json")

    with closing(sqlite3.connect(talking.path / ".crucible/crucible.db")) as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM replies ORDER BY position")]
    assert texts[3] == "<think>3 + 3?</think>6"


@pytest.mark.parametrize("options", [["-n4"], ["--crucible-resume"]])
def test_calls_have_the_same_numbers_in_every_kind_of_run(talking, options):
    talking.test(TALK, name="test_talk")
    talking.run("test_talk.py", "--crucible-adapter=v2", "--crucible-fresh")
    plain = calls(talking)
    talking.run("test_talk.py", "--crucible-adapter=v2", *options)
    again = calls(talking)

    assert without_keys(again) == without_keys(plain)


def test_copied_replies_name_the_run_that_sent_the_requests(talking):
    talking.run("--crucible-adapter=v2", "--compare=v1")
    talking.run("--crucible-adapter=v2", "--compare=v1")
    with closing(sqlite3.connect(talking.path / ".crucible/crucible.db")) as connection:
        first = connection.execute("SELECT run FROM experiments ORDER BY id").fetchone()[0]
    paid = {(row["arm_number"], row["paid_by"]) for row in calls(talking)}

    assert paid == {(0, None), (1, first)}
    assert f"  call 1 (paid by run {first})" in show_sample(talking, "--sample", "q00").splitlines()


def test_a_sample_that_no_experiment_has_is_named_with_the_first_one(talking):
    talking.run("--crucible-adapter=v2")
    result = talking.command("show", "--sample", "x")

    assert result.ret == 4
    assert result.errlines[-1].endswith("has no sample 'x': the first of its 20 samples is 'q00'")


def test_a_call_without_a_reply_has_its_error(talking):
    talking.test(
        """
        import pytest
        from pytest_crucible import BackendError

        @pytest.mark.crucible(dataset="questions.jsonl")
        async def test_sums(sample, sampler):
            await sampler.generate(sample.input + (" +" if sample.id == "q01" else ""))
        """,
        name="test_sums",
    )
    talking.run("--crucible-adapter=v2")
    lines = show_sample(talking, "--sample", "q01").splitlines()

    assert lines[-2:] == ["  user       1 + 1 +", "  no reply   SyntaxError: invalid syntax (<string>, line 1)"]


def test_the_command_is_documented_by_its_own_help():
    assert {option.name for option in show.show.params} >= {"sample", "reasoning"}
