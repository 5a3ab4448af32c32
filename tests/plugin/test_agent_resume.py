"""A session of agents that is killed: a resumed one keeps the finished units, with their calls, and runs the others again."""

from __future__ import annotations

import json
import time

import pytest

from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

SAMPLES, TURNS = 12, 3
SCRIPT = f"""
    import json
    from pytest_crucible import Reply

    def answer(request):
        turn = sum(message["role"] == "assistant" for message in request.input)
        question = request.input[0]["content"]
        if turn == {TURNS}:
            return Reply(text=f"Done: {{question}}", input_tokens=1, output_tokens=1)
        function = {{"name": "look", "arguments": json.dumps({{"question": question, "turn": turn}})}}
        return Reply(text="", tool_calls=({{"id": f"c{{turn}}", "type": "function", "function": function}},))

    base = answer
"""
SUITE = """
    import json
    import time
    import urllib.request

    import pytest

    def chat(endpoint, messages):
        body = json.dumps({"model": "m", "messages": messages}).encode()
        request = urllib.request.Request(endpoint.base_url + "/chat/completions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)["choices"][0]["message"]

    def note(text):
        with open("ran.txt", "a") as file:
            file.write(text + "\\n")

    @pytest.mark.crucible("questions.jsonl", metrics=["calls", "tool_calls"])
    def test_agent(sample, endpoint):
        note(f"begin {sample.id}")
        messages = [{"role": "user", "content": sample.input}]
        while (message := chat(endpoint, messages)).get("tool_calls"):
            time.sleep(0.1)
            result = f"found for {sample.input} " + "x" * 300
            messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": result}]
        note(f"end {sample.id}")
        return message["content"]
"""


def question(position: int) -> str:
    return f"Where is the parcel {position:03}?"


def check_units(store: RunStore, run: str) -> int:
    """Check that each stored unit has its own calls, all of them, and return how many there are."""
    [(key, plan, _)] = store.all_experiments(run)
    units = 0
    for position in range(SAMPLES):
        for conversation in load_conversations(store, key, plan, position):
            units += 1
            assert conversation.reply == f"Done: {question(position)}"
            assert conversation.scores == {"calls": TURNS + 1.0, "tool_calls": float(TURNS)}
            assert len(conversation.calls) == TURNS + 1
            for turn, call in enumerate(conversation.calls):
                assert len(call.messages) == 1 + 2 * turn
                texts = json.dumps([call.messages, call.tool_calls])
                assert texts.count("parcel") == texts.count(question(position)) > 0
                assert len(call.tool_calls) == (turn < TURNS)
    query = """
        SELECT position, COUNT(*) FROM endpoint_calls JOIN arms ON arms.id = endpoint_calls.arm
        WHERE arms.experiment = :key GROUP BY position
    """
    assert sorted(count for _, count in store.rows(query, key=key)) == [TURNS + 1] * units
    return units


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_finished_units_stay_with_their_calls_and_begun_ones_start_again(suite, workers):
    suite.script(SCRIPT)
    suite.write_rows("questions.jsonl", [{"id": f"q{k}", "input": question(k)} for k in range(SAMPLES)])
    suite.test(SUITE)
    ran = suite.path / "ran.txt"
    session = suite.popen("--crucible-adapter=scripted", "--crucible-concurrency=3", start_new_session=True)
    while not ran.exists() or ran.read_text().count("end") < SAMPLES // 2:
        assert session.poll() is None
        time.sleep(0.02)
    # Rows are durable within a second; units that end in the meantime are stored or not.
    time.sleep(0.5)
    session.kill()
    session.wait()

    store = RunStore(".crucible/crucible.db")
    [killed] = [run.id for run in list_runs(store)]
    stored = check_units(store, killed)
    assert stored > 0
    ran.unlink()
    result = suite.run("--crucible-adapter=scripted", "--crucible-resume", *workers)

    assert result.ret == 0
    resumed = store.find_run("")
    assert check_units(store, resumed) == SAMPLES
    store.close()
    assert (ran.read_text().count("begin") if ran.exists() else 0) == SAMPLES - stored
    lines = suite.command("show", "latest", "--sample", "q0").stdout
    lines.fnmatch_lines([f"  call 1 (paid by run {killed})", '*tool call  look({"question": *000*', "*call 2*"])
    suite.command("trace", "latest", "q0").stdout.fnmatch_lines(['*tool call  look({"question": *000*'])
    for run in (killed, resumed):
        suite.command("verify", run).stdout.fnmatch_lines(["*as they were written*"])
