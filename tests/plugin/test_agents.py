"""Suites whose test functions hand the arm to a client of their own, by the argument `endpoint`."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path

import pytest
from dashboard import dashboard_client

SCRIPT = """
    import json
    from pytest_crucible import BackendError, Reply

    def _last(request):
        return request.input[-1]["content"] if not isinstance(request.input, str) else request.input

    def answer(request):
        text = _last(request)
        if "lose" in text:
            raise BackendError("the server is down")
        if request.parameters.get("tools") and request.input[-1]["role"] == "user":
            call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": json.dumps({"sum": text})}}
            return Reply(text="", tool_calls=(call,), finish="tool_calls", input_tokens=3, output_tokens=2)
        value = str(eval(text)) if text[0].isdigit() else text
        return Reply(text=value, input_tokens=3, output_tokens=2)

    def base(request):
        return Reply(text=f"plan for {_last(request)}", input_tokens=10, output_tokens=1)
"""
CLIENT = """
    import json
    import threading
    import urllib.error
    import urllib.request

    import pytest
    from pytest_crucible import agents

    class Refused(Exception):
        pass

    def post(url, body):
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                refusal = Refused(error.code, error.headers, error.read().decode())
        raise refusal

    def refuse(url, body):
        with pytest.raises(Refused) as refused:
            post(url, body)
        return refused.value.args

    def chat(address, *texts, **more):
        messages = [{"role": ("user", "assistant")[k % 2], "content": text} for k, text in enumerate(texts)]
        return json.loads(post(f"{address.base_url}/chat/completions", {"model": "gpt", "messages": messages, **more}))

    def refuse_chat(address, text):
        return refuse(f"{address.base_url}/chat/completions", {"model": "m", "messages": [{"role": "user", "content": text}]})

    def ask(address, *texts):
        return chat(address, *texts)["choices"][0]["message"]["content"]
"""


@pytest.fixture
def agent(suite):
    """Writes a suite whose function is `body`, and answers it by a script."""
    suite.script(SCRIPT)
    suite.write_rows("questions.jsonl", rows(6))

    def write(body: str, arguments: str = "metrics=['exact_match']", targets: str = "", head: str = "def") -> None:
        test = f"""
    @pytest.mark.crucible("questions.jsonl", {arguments})
    {targets}
    {head} test_sums(sample, endpoint):
{body}
"""
        suite.test(CLIENT + test)

    suite.write_agent = write
    return suite


def rows(count: int) -> list[dict[str, str]]:
    return [{"id": f"q{k}", "input": f"{k} + 1", "expected": str(k + 1)} for k in range(count)]


def lines(body: str) -> str:
    return "".join(f"        {line}\n" for line in body.strip().splitlines())


def read_calls(path: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(path / ".crucible" / "crucible.db") as database:
        query = "SELECT position, number, path, model, role, is_parallel FROM endpoint_calls ORDER BY position, number"
        return list(database.execute(query))


def values(document, metric: str):
    estimates = document["experiments"][0]["estimates"]
    return next(row["value"] for row in estimates if (row["metric"], row["statistic"]) == (metric, "mean"))


def test_every_call_goes_to_the_arm_is_stored_and_scored(agent):
    body = "first = ask(endpoint, sample.input)\nreturn ask(endpoint, sample.input, first, first)"
    metrics = "['exact_match', 'calls', 'tokens', 'steps', 'total_tokens', 'tool_calls', 'wall_s']"
    agent.write_agent(lines(body), f"metrics={metrics}", '@pytest.mark.quality_target("p95(calls) <= 2")')

    document = agent.json("--crucible-adapter=scripted")

    expected = {"exact_match": 1.0, "calls": 2.0, "tokens": 10.0, "steps": 2.0, "total_tokens": 10.0}
    assert {name: values(document, name) for name in expected} == expected
    assert values(document, "tool_calls") == 0.0 < values(document, "wall_s")
    stored = read_calls(agent.path)
    assert stored[:2] == [(0, 1, "/v1/chat/completions", "gpt", "", 0), (0, 2, "/v1/chat/completions", "gpt", "", 0)]
    assert len(stored) == 12
    assert document["experiments"][0]["sections"]["agents"]["calls"][0]["calls"] == 12
    agent.command("show", "latest", "--sample", "q3").stdout.fnmatch_lines(["*call 1*", "*user *", "*call 2*"])


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_may_send_what_is_new_and_name_the_response_before(agent, stream):
    body = f"""
def respond(**body):
    text = post(endpoint.base_url + "/responses", {{"model": "m", "stream": {stream}, **body}})
    return text[text.index('"resp_') + 1:].partition('"')[0]
first = respond(input="1 + 1")
second = respond(input=sample.input, previous_response_id=first)
return sample.expected if second != first else "the same"
"""
    agent.write_agent(lines(body), "metrics=['exact_match']")

    document = agent.json("--crucible-adapter=scripted")

    assert values(document, "exact_match") == 1.0
    text = agent.command("show", "latest", "--sample", "q3").stdout.str()
    assert text.index("1 + 1") < text.index("assistant") < text.index("3 + 1", text.index("assistant"))


@pytest.mark.parametrize(
    ("path", "question", "tool"),
    [
        ("responses", "input", {"type": "web_search", "external_web_access": True}),
        ("messages", "messages", {"type": "web_search_20260209", "name": "web_search"}),
    ],
)
def test_a_tool_of_the_providers_servers_is_left_out_and_named(agent, path, question, tool):
    sent = f"'model': 'm', 'max_tokens': 5, 'tools': [{tool}], '{question}': [{{'role': 'user', 'content': '1 + 1'}}]"
    agent.write_agent(lines(f"return post(endpoint.base_url + '/{path}', {{{sent}}})"), "metrics=['calls']")

    result = agent.run("--crucible-adapter=scripted")

    result.stdout.fnmatch_lines(
        [f"test_sums: arms were not offered {tool['type']}, which only a provider's servers run"]
    )
    assert values(agent.json("--crucible-adapter=scripted"), "calls") == 1.0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
def test_each_dialect_reaches_the_arm_whole_and_in_pieces(agent, path, stream):
    body = f"""
text = post(endpoint.base_url + "/{path}", {{
    "model": "any", "max_tokens": 50, "stream": {stream}, "{"input" if path == "responses" else "messages"}":
    [{{"role": "user", "content": sample.input}}],
}})
assert f'"{{sample.expected}}"' in text, text
return sample.expected
"""
    agent.write_agent(lines(body))

    document = agent.json("--crucible-adapter=scripted")

    assert values(document, "exact_match") == 1.0
    assert {row[2] for row in read_calls(agent.path)} == {f"/v1/{path}"}


def test_models_embeddings_and_other_paths_are_answered_by_what_they_are(agent):
    body = """
with urllib.request.urlopen(endpoint.base_url + "/models") as answer:
    listed = json.loads(answer.read())
assert [model["id"] for model in listed["data"]] == ["scripted"] == [endpoint.model]
assert json.loads(post(endpoint.base_url + "/messages/count_tokens", {"messages": [{"content": "hello"}]}))["input_tokens"] > 0
for path, sentence in {"images": "POST /v1/images: not served here; this endpoint serves chat completions, responses, messages, "
                       "embeddings, models", "embeddings": "the arm scripted makes no embeddings"}.items():
    status, _, text = refuse(f"{endpoint.base_url}/{path}", {"input": "x"})
    assert status == 404 and sentence in text
return ask(endpoint, sample.input)
"""
    agent.write_agent(lines(body))

    assert values(agent.json("--crucible-adapter=scripted"), "exact_match") == 1.0


def test_trajectory_metrics_read_the_tools_that_the_arm_has_called(agent):
    body = """
tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
chat(endpoint, sample.input, tools=[tool])
chat(endpoint, sample.input, tools=[tool])
return sample.expected
"""
    metrics = (
        "['tool_calls', 'repeated_calls', agents.tool_called('add'), agents.tool_called('sub'), agents.tool_order(['add', 'add']), "
        "agents.tool_arguments_valid({'add': {'required': ['sum']}}), "
        "agents.tool_arguments_valid({'add': {'required': ['term']}}, name='strict_arguments')]"
    )
    agent.write_agent(lines(body), f"metrics={metrics}")

    document = agent.json("--crucible-adapter=scripted")

    expected = {
        "tool_calls": 2.0,
        "repeated_calls": 1.0,
        "add_called": 1.0,
        "sub_called": 0.0,
        "tool_order": 1.0,
        "tool_arguments_valid": 1.0,
        "strict_arguments": 0.0,
    }
    assert {name: values(document, name) for name in expected} == expected


ROLES = '\n[adapters.scripted.roles]\nplanner = "base"\ncoder = "scripted"\n'


def add_roles(suite, text: str = ROLES) -> None:
    with (suite.path / "crucible.toml").open("a", encoding="utf-8") as file:
        file.write(text)


def test_a_role_is_a_further_model_whose_calls_are_counted_apart(agent):
    body = """
assert ask(endpoint.role("planner"), sample.input) == f"plan for {sample.input}"
return ask(endpoint.role("coder"), sample.input)
"""
    metrics = "metrics=['exact_match', 'calls', agents.role_calls('planner'), 'tokens']"
    agent.write_agent(lines(body), metrics)
    add_roles(agent)

    document = agent.json("--crucible-adapter=scripted")

    expected = {"exact_match": 1.0, "calls": 1.0, "planner_calls": 1.0, "tokens": 16.0}
    assert {name: values(document, name) for name in expected} == expected
    calls = document["experiments"][0]["sections"]["agents"]["calls"]
    assert [(row["role"], row["calls"]) for row in calls] == [("", 6), ("planner", 6)]
    agent.command("show", "latest", "--sample", "q3").stdout.fnmatch_lines(
        ["  call 1, role:planner", "  user *3 + 1", "  assistant *plan for 3 + 1", "  call 2*", "  user *3 + 1"]
    )


@pytest.mark.uses("view")
def test_the_page_of_a_sample_has_the_prompt_of_the_arm_and_that_of_a_role(agent):
    agent.write_agent(
        lines("plan = ask(endpoint.role('planner'), 'Plan!')\nask(endpoint, sample.input)\nassert 0, 'lost'")
    )
    add_roles(agent)
    agent.run("--crucible-adapter=scripted")

    with dashboard_client(".crucible/crucible.db") as client:
        page = client.get("/runs/latest/samples/1/3").text

    prompt, replies = page.split(">Replies<", 1)
    assert "3 + 1" in prompt
    assert "Plan!" not in prompt
    assert (
        replies.index("call 1, role:planner") < replies.index("Plan!") < replies.index("call 2") < replies.index(">4<")
    )
    assert "scored: nothing was returned" in replies


def test_an_unknown_role_ends_the_experiment_with_the_nearest_name(agent):
    agent.write_agent(lines('return ask(endpoint.role("planer"), sample.input)'))
    add_roles(agent)

    result = agent.run("--crucible-adapter=scripted")

    result.stdout.fnmatch_lines(["role 'planer' of scripted: did you mean 'planner'?"])
    assert result.ret == 1


def test_arms_have_the_same_roles_or_nothing_is_sent(agent):
    agent.write_agent(lines("return ask(endpoint, sample.input)"), targets='@pytest.mark.ab_compare("exact_match")')
    add_roles(agent)

    result = agent.run("--crucible-adapter=scripted", "--compare=base")

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*adapter 'base' has no role 'coder', which another arm has: add it*"])


def test_an_agent_that_never_ends_is_a_failure_of_the_arm_with_its_trajectory(agent):
    body = "for k in range(99):\n    ask(endpoint, f'{k} + 1')"
    agent.write_agent(lines(body), "metrics=['calls'], max_calls=3")

    document = agent.json("--crucible-adapter=scripted")

    assert values(document, "calls") == 3.0
    report = agent.command("show", "latest", "--sample", "q0")
    report.stdout.fnmatch_lines(["*failed (assertion; the agent had not ended after 3 calls (max_calls)*", "*call 3*"])


@pytest.mark.parametrize("value", ["0", "'3'", "True", "2.5"])
def test_max_calls_is_a_whole_number(agent, value):
    agent.write_agent(lines("return '1'"), f"metrics=['calls'], max_calls={value}")

    result = agent.run("--crucible-adapter=scripted")

    assert result.ret == 4
    result.stderr.fnmatch_lines([f"*max_calls={value}: write a whole number of at least 1"])


def test_an_exception_after_the_first_call_is_the_arms_failure_and_before_it_the_suites(agent):
    agent.write_agent(
        lines("if sample.id != 'q0':\n    ask(endpoint, sample.input)\nraise KeyError('no plan')"),
        "metrics=['exact_match']",
    )

    agent.run("--crucible-adapter=scripted").stdout.fnmatch_lines(["test_sums: scripted: 5 samples failed (assertion)"])

    agent.command("show", "latest", "--sample", "q0").stdout.fnmatch_lines(["*lost (error; KeyError: 'no plan')*"])
    agent.command("show", "latest", "--sample", "q1").stdout.fnmatch_lines(
        ["*failed (assertion; KeyError: 'no plan')*"]
    )


def test_a_lost_reply_loses_the_sample_whatever_the_agent_makes_of_it(agent):
    body = """
for _ in range(3):
    status, headers, _ = refuse_chat(endpoint, "lose it")
    assert (status, headers["x-should-retry"]) == (401, "false")
return sample.expected
"""
    agent.write_agent(lines(body), "metrics=['exact_match', 'calls']")

    document = agent.json("--crucible-adapter=scripted")

    assert document["experiments"][0]["estimates"][0]["lost"] == 6
    agent.command("show", "latest", "--sample", "q0").stdout.fnmatch_lines(["*lost (error; the server is down*"])
    # The second and third request of an agent are not passed on.
    assert len(read_calls(agent.path)) == 6


def test_a_function_that_returns_nothing_has_the_arms_last_reply(agent):
    agent.write_agent(lines("ask(endpoint, sample.input)"))

    assert values(agent.json("--crucible-adapter=scripted"), "exact_match") == 1.0


def test_a_recorded_arm_has_no_second_reply(suite):
    test = (
        CLIENT
        + """
    @pytest.mark.crucible("questions.jsonl", metrics=["exact_match"])
    def test_sums(sample, endpoint):
        return ask(endpoint, sample.input, ask(endpoint, sample.input), "sure?")
    """
    )
    suite.test(test)

    result = suite.run("--crucible-adapter=v1")

    result.stdout.fnmatch_lines(
        [
            "endpoint: the arm v1 is recorded and has no reply to call 2 of sample q*; use an adapter that calls a model",
        ]
    )
    assert result.ret == 1


def test_an_address_is_valid_while_its_sample_runs(agent):
    body = """
kept = getattr(pytest, "kept", None)
pytest.kept = endpoint
if kept is not None:
    assert "belongs to a sample that has ended" in refuse_chat(kept, "1 + 1")[2]
return ask(endpoint, sample.input)
"""
    agent.write_agent(lines(body))

    result = agent.run("--crucible-adapter=scripted", "--crucible-concurrency=1")

    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["test_sums: 5 requests came to the endpoint after the end of their sample, and got no reply: *"]
    )
    assert len(read_calls(agent.path)) == 6


@pytest.mark.slow
def test_an_async_function_that_calls_a_blocking_client_gets_a_sentence(agent):
    agent.write_agent(lines("return ask(endpoint, sample.input)"), head="async def")

    result = agent.run("--crucible-adapter=scripted")

    result.stdout.fnmatch_lines(
        ["async def test_sums calls its agent without await, *: write def test_sums, or await *"]
    )
    assert result.ret == 1


PARALLEL = """
texts = [f"{sample.input} + {k}00000" for k in range(4)]
replies = {}
threads = [threading.Thread(target=lambda text=text: replies.update({text: ask(endpoint, text)})) for text in texts]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert replies == {text: str(eval(text)) for text in texts}
return sample.expected
"""


@pytest.mark.parametrize("workers", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_calls_of_threads_stay_with_their_sample(agent, workers):
    agent.write_rows("questions.jsonl", rows(40))
    agent.write_agent(lines(PARALLEL), "metrics=['exact_match', 'calls']")

    document = agent.json("--crucible-adapter=scripted", *workers)

    assert (values(document, "exact_match"), values(document, "calls")) == (1.0, 4.0)
    with sqlite3.connect(agent.path / ".crucible" / "crucible.db") as database:
        assert database.execute("SELECT COUNT(*) FROM endpoint_calls").fetchone() == (160,)
        assert database.execute("SELECT COUNT(*) FROM calls").fetchone() == (160,)


def test_an_arm_whose_endpoint_is_not_asked_is_named(agent):
    agent.write_agent(lines("return sample.expected"))

    agent.run("--crucible-adapter=scripted").stdout.fnmatch_lines(
        ["test_sums: scripted's endpoint received no call: point *"]
    )


def test_the_estimate_counts_the_calls_that_a_sample_would_send(agent):
    agent.write_agent(lines("return ask(endpoint, sample.input)"))

    result = agent.run("--crucible-adapter=scripted", "--crucible-estimate")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["*6*"])


def test_endpoint_belongs_to_experiments(suite):
    suite.test("def test_plain(endpoint): pass")

    suite.run().stdout.fnmatch_lines(["*fixture 'endpoint' belongs to experiments*"])


CROSSING = (
    """
    import asyncio
    import sys
"""
    + CLIENT
    + '''
    BY_PROCESS = """
    import json, sys, urllib.request
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": sys.argv[2]}]}).encode()
    request = urllib.request.Request(sys.argv[1] + "/chat/completions", body, {"content-type": "application/json"})
    print(json.loads(urllib.request.urlopen(request).read())["choices"][0]["message"]["content"], end="")
    """

    async def by_process(endpoint, text):
        code = "\\n".join(line.strip() for line in BY_PROCESS.splitlines())
        return (await endpoint.run([sys.executable, "-S", "-c", code, endpoint.base_url, text])).output

    async def by_task(endpoint, text):
        host, _, path = endpoint.base_url.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]})
        reader, writer = await asyncio.open_connection(name, int(port))
        head = f"POST /{path}/chat/completions HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\nContent-Length: {len(body)}"
        writer.write(f"{head}\\r\\n\\r\\n{body}".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return json.loads(answer.partition(b"\\r\\n\\r\\n")[2])["choices"][0]["message"]["content"]

    async def by_thread(endpoint, text):
        return await asyncio.to_thread(ask, endpoint, text)

    @pytest.mark.crucible("questions.jsonl", metrics=["exact_match", "calls"])
    async def test_sums(sample, endpoint):
        number = int(sample.id.removeprefix("q"))
        send = by_process if number % 10 == 0 else by_task if number % 2 else by_thread
        replies = await asyncio.gather(*(send(endpoint, f"{sample.id} turn {turn}") for turn in range(3)))
        assert replies == [f"{sample.id} turn {turn}" for turn in range(3)]
        return sample.id
'''
)


@pytest.mark.slow
def test_of_a_thousand_units_no_call_is_stored_at_another_one(suite):
    """The agents run 64 at a time, with threads, tasks and processes."""
    suite.script(SCRIPT.replace("str(eval(text)) if text[0].isdigit() else text", "text"))
    suite.write_rows("questions.jsonl", [{"id": f"q{k}", "input": "x", "expected": f"q{k}"} for k in range(1000)])
    suite.test(CROSSING)

    document = suite.json("--crucible-adapter=scripted", "--crucible-concurrency=64", "--crucible-cache=off")

    assert (values(document, "exact_match"), values(document, "calls")) == (1.0, 3.0)
    with sqlite3.connect(suite.path / ".crucible" / "crucible.db") as database:
        query = """
            SELECT sample_id, COALESCE(calls.text, texts.body) FROM calls LEFT JOIN texts ON texts.id = calls.text_id
            JOIN samples ON samples.position = calls.position
        """
        stored = list(database.execute(query))
    assert len(stored) == 3000
    assert all(text.startswith(f"{name} turn") for name, text in stored)


def test_what_a_failed_agent_has_spent_counts(agent):
    body = (
        "answer = ask(endpoint, sample.input)\nif sample.id < 'q3':\n    raise KeyError('lost the plot')\nreturn answer"
    )
    target = '@pytest.mark.quality_target("per_success(total_tokens, exact_match) <= 20")'
    agent.write_agent(
        lines(body), "metrics=['exact_match', 'tokens', 'total_tokens', 'input_tokens', 'output_tokens']", target
    )

    document = agent.json("--crucible-adapter=scripted")

    expected = {"tokens": 5.0, "total_tokens": 5.0, "input_tokens": 3.0, "output_tokens": 2.0}
    assert {name: values(document, name) for name in expected} == expected
    agent.command("show", "latest").stdout.fnmatch_lines(
        ["per_success(total_tokens, exact_match) <= 20  10 [[]5, inf]*6     0  met*"]
    )


STOPS = "message = chat(endpoint, sample.input, tools=TOOLS)['choices'][0]['message']\nreturn message['tool_calls'][0]['id']"
SCHEMA = "{'type': 'function', 'function': {'name': 'add', 'description': 'Adds. ' * 99}}"


@pytest.fixture
def stopping(agent):
    """An agent that stops after a tool call: no later call sends it again."""
    metrics = "['tool_calls', agents.tool_called('add'), agents.tool_arguments_valid({'add': {'required': ['sum']}})]"
    agent.write_agent(lines(f"TOOLS = [{SCHEMA}]\n{STOPS}"), f"metrics={metrics}")
    return agent


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_tools_of_the_last_reply_are_shown_traced_and_exported(stopping, workers):
    document = stopping.json("--crucible-adapter=scripted", *workers)

    assert [values(document, name) for name in ("tool_calls", "add_called", "tool_arguments_valid")] == [1.0, 1.0, 1.0]
    called = '*tool call  add({"sum": "3 + 1"})'
    stopping.command("show", "latest", "--sample", "q3").stdout.fnmatch_lines(
        ["*call 1 (tools=[[]add]*)", "*user*", called]
    )
    stopping.command("trace", "latest", "q3").stdout.fnmatch_lines([called])
    stopping.command("verify", "latest").stdout.fnmatch_lines(["*as they were written*"])
    stopping.command("export", "--what", "inspect", "-o", "logs")
    [log] = (stopping.path / "logs").glob("*.eval")
    with zipfile.ZipFile(log) as archive:
        question, reply, scored = json.loads(archive.read("samples/q3_epoch_1.json"))["messages"]
    assert (question["role"], question["content"]) == ("user", "3 + 1")
    assert [(call["function"], call["arguments"]) for call in reply["tool_calls"]] == [("add", {"sum": "3 + 1"})]
    assert scored["content"] == "c1"


ANSWERED = {
    "chat/completions": """
call = post_to("chat/completions", messages=[QUESTION], tools=TOOLS)["choices"][0]["message"]
result = {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": sample.expected}
post_to("chat/completions", messages=[QUESTION, call, result], tools=TOOLS)
""",
    "responses": """
[call] = post_to("responses", input=[QUESTION], tools=TOOLS)["output"]
result = {"type": "function_call_output", "call_id": call["call_id"], "output": sample.expected}
post_to("responses", input=[QUESTION, call, result], tools=TOOLS)
""",
    "messages": """
content = post_to("messages", messages=[QUESTION], tools=TOOLS, max_tokens=9)["content"]
result = {"type": "tool_result", "tool_use_id": content[0]["id"], "content": sample.expected}
turns = [QUESTION, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
post_to("messages", messages=turns, tools=TOOLS, max_tokens=9)
""",
}
TOOL_FORMS = {
    "chat/completions": "{'type': 'function', 'function': {'name': 'add'}}",
    "responses": "{'type': 'function', 'name': 'add', 'parameters': {'type': 'object'}}",
    "messages": "{'name': 'add', 'input_schema': {'type': 'object'}}",
}


@pytest.mark.parametrize("path", ANSWERED)
def test_the_result_of_a_tool_stands_under_its_name(agent, path):
    head = f"""
QUESTION = {{"role": "user", "content": sample.input}}
TOOLS = [{TOOL_FORMS[path]}]
def post_to(path, **body):
    return json.loads(post(f"{{endpoint.base_url}}/{{path}}", {{"model": "m", **body}}))
"""
    agent.write_agent(lines(f"{head}{ANSWERED[path]}return 'done'"))
    agent.json("--crucible-adapter=scripted")

    agent.command("show", "latest", "--sample", "q3").stdout.fnmatch_lines(
        ['*tool call  add({"sum": "3 + 1"})', "*call 2*", "*tool add   4", "*assistant  4"]
    )
    agent.command("trace", "latest", "q3").stdout.fnmatch_lines(["*tool add*4*"])
    agent.command("export", "--what", "inspect", "-o", "logs")
    [log] = (agent.path / "logs").glob("*.eval")
    with zipfile.ZipFile(log) as archive:
        messages = json.loads(archive.read("samples/q3_epoch_1.json"))["messages"]
    assert [message["function"] for message in messages if message["role"] == "tool"] == ["add"]
    with dashboard_client(".crucible/crucible.db") as client:
        _, replies = client.get("/runs/latest/samples/1/3").text.split(">Replies<", 1)
    assert replies.index(">tool call<") < replies.index("call 2") < replies.index(">tool add<")


# Scripted models are not cached.
CACHED = """
    import scripts

    class Model:
        identity, simulated = "a model", False

        async def generate(self, request):
            return scripts.answer(request)

    def pytest_crucible_backend(adapter):
        return Model() if adapter.backend == "model" else None
"""


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--crucible-cache=only", "*v2: 6 of 6 replies from the reply cache*"),
        ("--crucible-resume", "*v2: 6 of 6 replies reused from run*"),
    ],
    ids=["cached", "resumed"],
)
def test_the_cache_and_a_reused_arm_give_tools_back(stopping, option, sentence):
    stopping.pytester.makeconftest(CACHED)
    stopping.adapters({"v2": {"backend": "model"}})
    first = stopping.json("--crucible-adapter=v2")
    (stopping.path / "run.json").unlink()
    results = []

    again = stopping.json(
        "--crucible-adapter=v2", option, run=lambda *arguments: results.append(stopping.run(*arguments))
    )

    results[0].stdout.fnmatch_lines([sentence])
    assert [values(each, "add_called") for each in (first, again)] == [1.0, 1.0]
    stopping.command("show", "latest", "--sample", "q3").stdout.fnmatch_lines(['*tool call  add({"sum": "3 + 1"})'])


def test_without_texts_no_tools_are_stored(stopping):
    # Of calls that are not stored it is not said that there were none.
    stopping.run("--crucible-adapter=scripted", "--crucible-trace=off").stdout.no_fnmatch_line("*received no call*")

    output = stopping.command("show", "latest", "--sample", "q3").stdout.str()
    assert "(not recorded)" in output
    assert '"sum"' not in output
