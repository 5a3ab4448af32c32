"""Metrics of trajectories that are new to a suite score the replies that earlier runs have stored, by their stored calls."""

from __future__ import annotations

import pytest

from pytest_crucible.store.runs import RunStore

SCRIPT = """
    import json
    from pytest_crucible import Reply

    def answer(request):
        text = request.input[-1]["content"] if not isinstance(request.input, str) else request.input
        if request.input[-1]["role"] == "user" and len(request.input) == 1:
            call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": json.dumps({"sum": text})}}
            other = {"id": "c2", "type": "function", "function": {"name": "find", "arguments": "no JSON"}}
            tools = (call, {**call, "id": "c3"}, *((other,) if "3" in text else ()))
            return Reply(text="", tool_calls=tools, finish="tool_calls", input_tokens=len(text), output_tokens=2)
        return Reply(text="done", input_tokens=7, output_tokens=1)

    def other(request):
        return answer(request)
"""
ADAPTERS = """
[adapters]
v1 = { backend = "scripted", script = "scripts:answer", roles = { helper = "base" } }
v2 = { backend = "scripted", script = "scripts:other", roles = { helper = "base" } }
base = { backend = "scripted", script = "scripts:other" }
"""
SUITE = """
    import json
    import os
    import threading
    import urllib.request
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    import pytest
    from pytest_crucible import agents, metric

    def metrics_of_calls(order):
        return [
            agents.calls, agents.steps, agents.tool_calls, agents.repeated_calls, agents.wall_s,
            agents.role_calls("helper"), agents.tool_called("find"), agents.tool_order(order.split()),
            agents.tool_arguments_valid({{"add": {{"required": ["sum"]}}, "find": {{"type": "object"}}}}),
            {more}
        ]

    def live(known):
        "Return a metric of the suite itself, which scores what is sent alone, with the value of another one."
        facts = replace(known.facts, name=f"live_{{known.name}}", of_calls=False)
        return replace(known, facts=facts, tables=())

    METRICS = [live(each) for each in metrics_of_calls("add add")]
    METRICS += metrics_of_calls(os.environ.get("ORDER", "add add")) if os.environ.get("NEW") else []
    METRICS += [replace(METRICS[0], facts=replace(METRICS[0].facts, name="further"))] if os.environ.get("FURTHER") else []

    def chat(address, *texts):
        messages = [{{"role": ("user", "assistant")[k % 2], "content": text}} for k, text in enumerate(texts)]
        body = json.dumps({{"model": "m", "messages": messages}}).encode()
        request = urllib.request.Request(address.base_url + "/chat/completions", body, {{"content-type": "application/json"}})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    @pytest.mark.crucible("questions.jsonl", metrics=METRICS, epochs=2)
    @pytest.mark.ab_compare("live_find_called")
    def test_agent(sample, endpoint):
        with open("ran.txt", "a") as file:
            file.write(endpoint.model + "\\n")
        chat(endpoint, sample.input)
        chat(endpoint.role("helper"), sample.input)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda text: chat(endpoint, sample.input, text, "further"), "ab"))
        assert sample.id not in {failing}
        if sample.id in {skipped}:
            pytest.skip("not a question for agents")
        return "done"
"""
NAMES = {"calls", "steps", "tool_calls", "repeated_calls", "wall_s", "helper_calls", "find_called", "tool_order"}
NAMES |= {"tool_arguments_valid"}
ARMS = ("--crucible-adapter=v2", "--compare=v1")
KEY = "key-0123456789abcdef0123456789abcdef"


@pytest.fixture
def agents_suite(suite, monkeypatch):
    """A suite of agents in two arms. `write` makes it, `change` sets variables that its metrics depend on."""
    suite.script(SCRIPT)
    (suite.path / "crucible.toml").write_text(ADAPTERS, encoding="utf-8")
    suite.write_rows("questions.jsonl", [{"id": f"q{k}", "input": f"{k} + 1"} for k in range(5)])
    suite.write = lambda more="agents.tokens,", **named: suite.test(
        SUITE.format(more=more, **{"failing": (), "skipped": (), **named})
    )
    suite.change = monkeypatch.setenv
    return suite


def run_agents(suite, *arguments: str) -> set[str]:
    """Run the suite, and return the arms whose agents were run."""
    ran = suite.path / "ran.txt"
    ran.unlink(missing_ok=True)
    suite.result = suite.run(*(arguments or ARMS))
    return set(ran.read_text().split()) if ran.exists() else set()


def stored_values(location: str, arm: str) -> dict[str, dict[tuple[int, int], object]]:
    """Return the values of the latest run in one arm, by metric and unit."""
    store = RunStore(location)
    query = """
        SELECT metric, position, epoch, value, reason FROM observations
        WHERE arm = (SELECT MAX(id) FROM arms WHERE name = :arm)
    """
    values: dict[str, dict[tuple[int, int], object]] = {}
    for metric, position, epoch, *value in store.rows(query, arm=arm):
        values.setdefault(metric, {})[position, epoch] = tuple(value)
    store.close()
    return values


def check_new_values(location: str, names: set[str], units: int) -> None:
    for arm in ("v1", "v2"):
        values = stored_values(location, arm)
        assert set(values) == {*names, *(f"live_{name}" for name in names)}
        for name in names:
            assert values[name] == values[f"live_{name}"], (arm, name)
    assert len(values["calls"]) == units


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_each_metric_has_the_value_that_it_has_of_replies_that_are_sent(agents_suite, workers):
    agents_suite.write()
    assert run_agents(agents_suite, *ARMS, *workers) == {"v1", "v2"}

    agents_suite.change("NEW", "1")
    assert run_agents(agents_suite, *ARMS, *workers) == {"v2"}

    agents_suite.result.stdout.fnmatch_lines(["*v1: 10 of 10 replies reused from run *"])
    check_new_values(".crucible/crucible.db", {*NAMES, "tokens"}, units=10)
    agents_suite.command("verify", "latest").stdout.fnmatch_lines(["*as they were written*"])


@pytest.mark.slow
def test_on_postgresql_too(agents_suite, postgresql):
    agents_suite.write()
    run_agents(agents_suite, *ARMS, f"--crucible-store={postgresql}")

    agents_suite.change("NEW", "1")
    assert run_agents(agents_suite, *ARMS, f"--crucible-store={postgresql}") == {"v2"}

    check_new_values(postgresql, {*NAMES, "tokens"}, units=10)


def test_failed_agents_and_a_resumed_run_are_scored_too_and_skipped_ones_are_not(agents_suite):
    agents_suite.write(more="", failing=("q1", "q3"), skipped=("q4",))
    run_agents(agents_suite)

    agents_suite.change("NEW", "1")
    assert run_agents(agents_suite, *ARMS, "--crucible-resume") == set()

    check_new_values(".crucible/crucible.db", NAMES, units=8)


def test_a_stored_run_is_scored_and_changed_metrics_are_scored_again(agents_suite):
    agents_suite.write()
    agents_suite.change("NEW", "1")
    run_agents(agents_suite, "--crucible-adapter=v1")

    agents_suite.change("ORDER", "add add find")
    assert run_agents(agents_suite, "--crucible-adapter=v2", "--compare=run:latest") == {"v2"}

    values = stored_values(".crucible/crucible.db", "run:latest")["tool_order"]
    assert {position for (position, _), (value, _) in values.items() if value} == {3}


def test_agents_run_again_for_a_metric_that_does_not_follow_from_their_calls(agents_suite):
    agents_suite.write()
    run_agents(agents_suite)

    agents_suite.change("NEW", "1")
    agents_suite.change("FURTHER", "1")
    assert run_agents(agents_suite) == {"v1", "v2"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("trace", "run {run} was recorded with --crucible-trace=off: its calls are unknown"),
        ("format", "run {run} has store format 12, and the tools that replies call are stored from 13 on"),
        ("tokens", "tokens of failed replies is not stored"),
        ("key", "a key is hidden in the tools that a reply calls"),
    ],
    ids=["trace", "format", "tokens", "key"],
)
def test_what_is_not_stored_is_named_and_sent_again(agents_suite, change, why):
    agents_suite.write(failing=("q1",) if change == "tokens" else ())
    if change == "key":
        agents_suite.change("OPENAI_API_KEY", KEY)
        agents_suite.write_rows("questions.jsonl", [{"id": "q0", "input": f"is {KEY} a key?"}])
    run_agents(agents_suite, *ARMS, *(["--crucible-trace=off"] if change == "trace" else []))
    store = RunStore(".crucible/crucible.db")
    run = store.find_run("")
    if change == "format":
        with store.begin() as connection:
            connection.execute("UPDATE runs SET format = 12")
    store.close()

    agents_suite.change("NEW", "1")
    assert run_agents(agents_suite) == {"v1", "v2"}

    sentence = "test_agent: v1: stored replies of run {run} are not used, because the metrics that it did not have *: "
    agents_suite.result.stdout.fnmatch_lines([f"{sentence}{why}".format(run=run)])
    stored_run = agents_suite.run("--crucible-adapter=v2", f"--compare=run:{run}")
    assert stored_run.ret != 0
    text = stored_run.stdout.str() + stored_run.stderr.str()
    assert why.format(run=run) in text
    assert "measure the baseline again with --compare=ADAPTER" in text


def test_tokens_of_several_calls_of_a_sampler_are_not_stored(agents_suite):
    agents_suite.test("""
        import os
        from dataclasses import replace

        import pytest
        from pytest_crucible import agents

        LIVE = replace(agents.calls, facts=replace(agents.calls.facts, name="live_calls", of_calls=False))

        @pytest.mark.crucible("questions.jsonl", metrics=[LIVE, *([agents.tokens] if os.environ.get("NEW") else [])])
        @pytest.mark.ab_compare("live_calls")
        async def test_twice(sample, sampler):
            await sampler.generate([{"role": "user", "content": "first"}])
            return await sampler.generate([{"role": "user", "content": sample.input}])
    """)
    run_agents(agents_suite)

    agents_suite.change("NEW", "1")
    run_agents(agents_suite)

    why = "the tokens of several calls of a sampler are not stored with a reply"
    agents_suite.result.stdout.fnmatch_lines(
        [f"test_twice: v1: stored replies of run * are not used, because *: {why}"]
    )


def test_a_single_sample_shows_its_trajectory(agents_suite):
    agents_suite.write()
    agents_suite.change("NEW", "1")

    result = agents_suite.run("--crucible-adapter=v1", "--crucible-sample=q3")

    result.stdout.fnmatch_lines(["calls = 3.0", "tool_calls = 3.0", "helper_calls = 1.0", "find_called = True"])
    result.stdout.no_fnmatch_line("*= None*")
