"""Conversations of agents: the tools of each reply, and each long text once; in an SQLite file and in PostgreSQL."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from plan_builders import plan_of

from pytest_crucible.features.provenance.verify import verify_run
from pytest_crucible.records import Draws, ModelCall, Outcome, Reply, Sample, StoredCall, Unit
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store import part_moves, parts, schema
from pytest_crucible.store.calls import load_calls
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.forms import load_forms
from pytest_crucible.store.part_moves import move_rows
from pytest_crucible.store.parts import ResultsFolder
from pytest_crucible.store.prune import clear, find_prunable, redact_again, remove_messages
from pytest_crucible.store.reused_outcomes import copy_outcomes
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.sent_calls import load_sent
from pytest_crucible.store.texts import pack_form, unpack_form

SAMPLE = Sample(id="q0", input="Repair it.", metadata={"repository": "left-pad"})
PLAN = plan_of("v2")
FACTS = {"started": "2026-01-01T00:00:00+00:00", "seed": 1, "alpha": 0.05, "correction": "holm", "environment": {}}
TOOLS = {"tools": [{"type": "function", "function": {"name": "read", "description": "Reads a file. " * 40}}]}


@pytest.fixture
def store(location: str) -> Iterator[RunStore]:
    opened = RunStore(location)
    yield opened
    opened.close()


def begin(store: RunStore, run: str) -> tuple[int, int]:
    store.begin_run(run, **FACTS)
    experiment = store.add_experiment(run, PLAN, [SAMPLE])
    return experiment, store.add_arm(experiment, 0, "v2", "same")


def file_text(number: int) -> str:
    return f"line of file {number}\n" * 200


def tool_call(number: int, text: str = "") -> dict[str, Any]:
    arguments = json.dumps({"path": f"src/{number}.py", "text": text})
    return {"id": f"call-{number}", "type": "function", "function": {"name": "read", "arguments": arguments}}


def agent_calls(count: int, text: str = "") -> list[ModelCall]:
    """Return the calls of an agent that reads a file after each reply but the last, and then stops."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": SAMPLE.input}]
    calls = []
    for number in range(count):
        reply = Reply(text=f"I read {number}.", tool_calls=(tool_call(number, text),), finish="tool_calls")
        call = ModelCall(json.dumps(messages), True, 1, TOOLS, "", reply, settings=canonical(TOOLS))
        calls.append(call)
        messages += [
            {"role": "assistant", "content": reply.text, "tool_calls": list(reply.tool_calls)},
            {"role": "tool", "tool_call_id": f"call-{number}", "content": file_text(number)},
        ]
    return calls


def write(store: RunStore, arm: int, calls: Sequence[ModelCall], **options: Any) -> None:
    writer = store.writer(**options)
    outcome = Outcome(Unit(0, 0, 0, 0), reply=calls[-1].reply, sample=SAMPLE, calls=list(calls))
    writer.add(outcome, arm, [], [])
    writer.close()


def load(store: RunStore, experiment: int) -> Sequence[StoredCall]:
    [talk] = load_conversations(store, experiment, PLAN, 0)
    return talk.calls


def assert_loaded(store: RunStore, experiment: int, calls: Sequence[ModelCall]) -> None:
    loaded = load(store, experiment)
    assert [call.messages for call in loaded] == [json.loads(call.text) for call in calls]
    assert [call.tool_calls for call in loaded] == [call.reply and call.reply.tool_calls for call in calls]
    assert [call.parameters for call in loaded] == [call.parameters for call in calls]
    assert all(call.is_recorded for call in loaded)


def collect(store: RunStore, *, keep_runs: int) -> None:
    at = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    clear(store, find_prunable(store, at=at, keep_runs=keep_runs, keep_days=1, cache_days=None))


def count_texts_with(store: RunStore, text: str) -> int:
    """Return in how many forms a text is."""
    return sum(text in unpack_form(body) for body in store.scalars("SELECT body FROM messages"))


def test_tools_of_each_reply_are_stored_of_the_last_as_well(store):
    experiment, arm = begin(store, "run0")
    calls = agent_calls(3)
    write(store, arm, calls)

    assert_loaded(store, experiment, calls)
    assert load(store, experiment)[-1].tool_calls == (tool_call(2),)


def test_tools_of_members_roles_and_replies_without_a_text_are_stored(store):
    experiment, arm = begin(store, "run0")
    member = Reply(text="", tool_calls=(tool_call(1),))
    own = Reply(text="", tool_calls=(tool_call(2),), members={"m1": member})
    role = Reply(text="", tool_calls=(tool_call(3),))
    write(
        store,
        arm,
        [
            ModelCall("why?", False, 1, None, "", own),
            ModelCall("plan", False, 1, None, "", role, judge="role:planner"),
            ModelCall("again", False, 1, None, "", None, error="down"),
        ],
    )

    assert [(call.member, call.tool_calls) for call in load(store, experiment)] == [
        ("", (tool_call(2),)),
        ("m1", (tool_call(1),)),
        ("role:planner", (tool_call(3),)),
        ("", ()),
    ]


def test_each_result_of_a_tool_is_stored_once_in_all_calls_units_and_runs(store):
    written = "written by the model " * 40
    for run in ("run0", "run1"):
        _, arm = begin(store, run)
        write(store, arm, agent_calls(5, written))

    assert [count_texts_with(store, f"line of file {number}\\n") for number in range(5)] == [1, 1, 1, 1, 0]
    # The arguments of each call, in its reply and in the messages after it.
    assert [count_texts_with(store, f"src/{number}.py") for number in range(5)] == [1, 1, 1, 1, 1]
    assert sum("Reads a file" in body for body in store.scalars("SELECT body FROM texts")) == 1
    assert list(store.scalars("SELECT COUNT(parameters) FROM calls")) == [0]


def test_parameters_apart_are_those_that_were_sent(store):
    experiment, arm = begin(store, "run0")
    short = {"temperature": 0.5}
    calls = [*agent_calls(1), ModelCall("why?", False, 1, short, "", Reply(text="4"), settings=canonical(short))]
    write(store, arm, calls)

    [sent] = load_sent(store, arm, "{}").values()
    assert sent.settings == (canonical(TOOLS), canonical(short))
    columns = load_calls(store, experiment, 0, Draws())
    assert [json.loads(text) for text in columns.parameters] == [TOOLS, short]


def test_texts_stay_while_another_run_has_them_and_go_with_the_last(store):
    calls = agent_calls(3)
    experiments = []
    for number, run in enumerate(("run0", "run1")):
        experiment, arm = begin(store, run)
        store.execute(
            "UPDATE runs SET started = :at WHERE id = :run", at=f"2026-01-0{number + 1}T00:00:00+00:00", run=run
        )
        store.end_run(run, finished="later", status="finished")
        experiments.append(experiment)
        write(store, arm, calls)

    collect(store, keep_runs=1)
    assert_loaded(store, experiments[1], calls)

    collect(store, keep_runs=0)
    for table in ("messages", "texts", "calls", "conversation_texts"):
        assert store.scalar(f"SELECT COUNT(*) FROM {table}") == 0


def test_a_copied_arm_has_the_texts_of_its_own(store):
    calls = agent_calls(3)
    _, source = begin(store, "run0")
    write(store, source, calls)
    experiment, target = begin(store, "run1")
    copy_outcomes(store, source, target, source_run="run0", draws=Draws())

    for table in ("calls", "conversation_texts"):
        store.execute(f"DELETE FROM {table} WHERE arm = :arm", arm=source)
    collect(store, keep_runs=2)
    assert_loaded(store, experiment, calls)


def test_arguments_and_results_are_redacted_when_written_and_again(location):
    store = RunStore(location, lambda text: text.replace("Bob", "(name)"))
    experiment, arm = begin(store, "run0")
    write(store, arm, agent_calls(3, "of Ann " * 60 + "and Bob"))
    assert not count_texts_with(store, "Bob")

    redact_again(store, "run0", lambda text: text.replace("Ann", "(name)").replace("file 1", "(file)"))

    assert not count_texts_with(store, "Ann") + count_texts_with(store, "file 1")
    hidden = tool_call(2, "of (name) " * 60 + "and (name)")
    assert load(store, experiment)[-1].tool_calls == (hidden,)
    assert load(store, experiment)[2].messages[-1]["content"] == "line of (file)\n" * 200
    assert load(store, experiment)[2].messages[-3]["content"] == file_text(0)
    verification = verify_run(store, "run0")
    assert verification is not None
    assert verification.is_intact
    collect(store, keep_runs=1)
    assert load(store, experiment)[-1].is_recorded
    store.close()


def test_without_texts_neither_tools_nor_what_they_returned_are_stored(store):
    experiment, arm = begin(store, "run0")
    write(store, arm, agent_calls(3), stores_texts=False)

    assert [(call.tool_calls, call.is_recorded) for call in load(store, experiment)] == [((), False)] * 3
    assert store.scalar("SELECT COUNT(*) FROM messages") == store.scalar("SELECT COUNT(*) FROM conversation_texts") == 0


def test_a_changed_or_removed_text_of_a_conversation_is_named_by_verify(store):
    _, arm = begin(store, "run0")
    write(store, arm, agent_calls(3))
    assert verify_run(store, "run0").is_intact
    key = store.scalar("SELECT MIN(message) FROM conversation_texts")

    store.execute("DELETE FROM messages WHERE id = :key", key=key)

    edits = verify_run(store, "run0").edits
    assert {edit.table for edit in edits} == {"messages"}


def test_a_removed_row_that_keeps_a_text_is_named_by_verify(store):
    _, arm = begin(store, "run0")
    write(store, arm, agent_calls(2))

    store.execute("DELETE FROM conversation_texts")

    assert {(edit.table, edit.edit) for edit in verify_run(store, "run0").edits} == {("conversation_texts", "removed")}


def test_conversations_in_parts_are_read_as_they_were(store, tmp_path):
    calls = agent_calls(3)
    experiment, arm = begin(store, "run0")
    write(store, arm, calls)

    move_rows(store, ResultsFolder(str(tmp_path / "parts")), "run0")
    collect(store, keep_runs=1)

    assert store.scalar("SELECT COUNT(*) FROM messages WHERE id = 0") == 0
    assert_loaded(store, experiment, calls)
    assert verify_run(store, "run0").is_intact


def test_parts_of_an_earlier_format_are_read_and_restored(store, tmp_path, monkeypatch):
    experiment, arm = begin(store, "run0")
    write(store, arm, [ModelCall("why?", False, 1, None, "", Reply(text="4"))])
    results = ResultsFolder(str(tmp_path / "parts"))
    later = schema.later_columns(schema.calls, 11)
    write_whole = parts.write_part

    def write_old(results: ResultsFolder, run: str, table: Any, rows: Any) -> Any:
        return write_whole(results, run, table, rows.drop_columns([*later]) if table is schema.calls else rows)

    monkeypatch.setattr(part_moves, "write_part", write_old)
    move_rows(store, results, "run0")
    experiment2, arm2 = begin(store, "run1")
    write(store, arm2, agent_calls(2))
    monkeypatch.undo()
    move_rows(store, results, "run1")

    assert [call.messages for call in load(store, experiment)] == ["why?"]
    assert_loaded(store, experiment2, agent_calls(2))
    assert store.scalar("SELECT COUNT(*) FROM calls") == 3
    with store.begin() as connection:
        part_moves.restore_rows(connection, "run0")
    assert [call.messages for call in load(store, experiment)] == ["why?"]


def test_a_run_of_an_earlier_format_has_no_tools_and_all_messages(store, location):
    experiment, arm = begin(store, "run0")
    write(store, arm, [ModelCall("why?", False, 1, None, "", Reply(text="4"))])
    for table, column in [addition for addition in schema.ADDED[-1] if isinstance(addition, tuple)]:
        store.execute(f"ALTER TABLE {table.name} DROP COLUMN {column}")
    store.execute("DROP TABLE conversation_texts")
    store.execute("UPDATE store_format SET version = 12")

    again = RunStore(location)
    [call] = load(again, experiment)
    verification = verify_run(again, "run0")
    again.close()

    assert (call.messages, call.tool_calls, call.is_recorded) == ("why?", (), True)
    assert verification is not None
    assert verification.is_intact


def make_forms_whole(store: RunStore, run: str) -> None:
    """Store the conversations of a run, the only one, as formats before 13 had them."""
    with store.begin() as connection:
        keys = connection.scalars("SELECT messages FROM calls WHERE messages IS NOT NULL")
        forms = load_forms(connection.execute, keys)
        connection.execute("DELETE FROM messages")
        connection.insert(schema.messages, [{"id": key, "body": pack_form(form)} for key, form in forms.items()])
        connection.execute("DELETE FROM conversation_texts")
        connection.execute("UPDATE calls SET tool_calls = NULL")
        connection.execute("UPDATE runs SET format = 12 WHERE id = :run", run=run)


def test_a_restored_conversation_of_an_earlier_format_stays_when_an_equal_one_is_removed(store, tmp_path):
    calls = agent_calls(3)
    experiment, arm = begin(store, "run0")
    write(store, arm, calls)
    make_forms_whole(store, "run0")
    move_rows(store, ResultsFolder(str(tmp_path / "parts")), "run0")
    store.execute("DELETE FROM messages")
    _, arm1 = begin(store, "run1")
    write(store, arm1, calls)

    with store.begin() as connection:
        part_moves.restore_rows(connection, "run0")
        for table in (schema.calls, schema.conversation_texts):
            connection.execute(f"DELETE FROM {table.name} WHERE arm = :arm", arm=arm1)
        remove_messages(connection)

    assert [call.messages for call in load(store, experiment)] == [json.loads(call.text) for call in calls]
