"""Two small benchmarks, offline, in the form of tau-bench and in that of SWE-bench.

A simulated user, tools on a database, the state compared; and a repository, an agent that patches it, tests that it must not see.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
from fork_server import INTERPRETER

from pytest_crucible.sandbox.program_profile import missing_parts

SHOP_SCRIPT = '''
import json
from pytest_crucible import Reply

def messages(request):
    return request.input

def answer(request):
    """An agent that looks an order up before it refunds it, and refunds no order that is not delivered."""
    return act(request, checks=True)

def base(request):
    """An agent that refunds whatever is asked."""
    return act(request, checks=False)

def act(request, checks):
    said = [message for message in request.input if message["role"] in ("user", "tool")]
    last = said[-1]
    if last["role"] == "user" and last["content"].startswith("refund order "):
        order = int(last["content"].split()[-1])
        return call("look_up" if checks else "refund", order=order)
    if last["role"] == "tool" and checks and "state" in last["content"]:
        state = json.loads(last["content"])
        return call("refund", order=state["id"]) if state["state"] == "delivered" else Reply(text="Not possible. Done")
    return Reply(text="Done")

def call(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return Reply(text="", finish="tool_calls", tool_calls=({"id": "c1", "type": "function", "function": function},))

def customer(request):
    """A simulated user, who says once what is wanted, and then thanks."""
    turns = [message for message in request.input if message["role"] == "assistant"]
    return request.input[0]["content"] if not turns else "thanks"
'''
SHOP_ADAPTERS = """
[adapters.careful]
backend = "scripted"
script = "scripts:answer"
roles = {user = "customer"}

[adapters.eager]
backend = "scripted"
script = "scripts:base"
roles = {user = "customer"}

[adapters.customer]
backend = "scripted"
script = "scripts:customer"
"""
SHOP_TEST = """
import asyncio, json, sqlite3, urllib.request
from contextlib import closing

import pytest
from pytest_crucible import agents

ORDERS = [(1, "delivered"), (2, "open"), (3, "delivered"), (4, "open")]
TASKS = [
    {
        "id": f"order-{order}",
        "input": f"refund order {order}",
        "expected": [[each, "refunded" if each == order and state == "delivered" else state] for each, state in ORDERS],
    }
    for order, _ in ORDERS
]

def make_shop(workspace, sample):
    with closing(sqlite3.connect(workspace / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
        connection.executemany("INSERT INTO orders VALUES (?, ?)", ORDERS)

def make_tools(database):
    def look_up(order: int):
        with closing(sqlite3.connect(database)) as connection:
            row = connection.execute("SELECT id, state FROM orders WHERE id = ?", (order,)).fetchone()
        return dict(zip(("id", "state"), row))

    def refund(order: int):
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE orders SET state = 'refunded' WHERE id = ?", (order,))
        return "refunded"

    return [look_up, refund]

def chat(base_url, messages):
    body = json.dumps({"model": "any", "messages": messages}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())["choices"][0]["message"]

SOLVED = agents.rows("shop.db", "SELECT * FROM orders ORDER BY id", name="solved")

@pytest.mark.crucible(TASKS, metrics=[SOLVED, "calls", "tool_calls"], epochs=2)
@pytest.mark.environment(setup=make_shop)
@pytest.mark.quality_target("pass^2(solved) >= 0.3")
@pytest.mark.ab_compare("solved")
def test_support(sample, endpoint, workspace):
    tools = {tool.__name__: endpoint.tool(tool) for tool in make_tools(workspace / "shop.db")}
    user = [{"role": "system", "content": sample.input}]
    agent = [{"role": "system", "content": "You are the support of a shop."}]
    for turn in range(4):
        said = chat(endpoint.role("user").base_url, user)["content"]
        agent.append({"role": "user", "content": said})
        reply = chat(endpoint.base_url, agent)
        while reply.get("tool_calls"):
            agent.append(reply)
            for call in reply["tool_calls"]:
                result = tools[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
                agent.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
            reply = chat(endpoint.base_url, agent)
        agent.append(reply)
        user.append({"role": "assistant", "content": said})
        if reply["content"].endswith("Done"):
            return reply["content"]
"""


def query(suite: Any, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as connection:
        return connection.execute(statement).fetchall()


def scores(suite: Any, metric: str) -> dict[str, list[float]]:
    rows = query(
        suite,
        "SELECT arms.name, value FROM observations JOIN arms ON arms.id = observations.arm "
        f"WHERE metric = '{metric}' ORDER BY arms.name, position, epoch",
    )
    return {arm: [value for name, value in rows if name == arm] for arm in {name for name, _ in rows}}


def test_support_agents_are_judged_by_the_state_of_the_shop(suite):
    suite.pytester.makepyfile(scripts=SHOP_SCRIPT, test_sums=SHOP_TEST)
    (suite.path / "crucible.toml").write_text(SHOP_ADAPTERS)
    result = suite.run("--crucible-adapter=careful", "--crucible-compare=eager")

    result.stdout.fnmatch_lines(["*pass^2(solved) >= 0.3*"])
    assert scores(suite, "solved") == {"careful": [1.0] * 8, "eager": [1.0, 1.0, 0.0, 0.0] * 2}
    assert scores(suite, "tool_calls")["eager"] == [1.0] * 8
    tools = query(suite, "SELECT name, COUNT(*) FROM agent_tools GROUP BY name ORDER BY name")
    assert tools == [("look_up", 8), ("refund", 4 + 8)]


FIX_SCRIPT = '''
def answer(request):
    """A model that has read the issue: it writes the file as it should be."""
    return "calc.py\\n" + FIXED[request.input[-1]["content"].partition(":")[0]]

def base(request):
    return "calc.py\\nraise SystemExit"

FIXED = {
    "add": "def add(a, b):\\n    return a + b\\n\\ndef half(a):\\n    return a // 2\\n",
    "half": "def add(a, b):\\n    return a - b\\n\\ndef half(a):\\n    return a / 2\\n",
}
'''
FIX_AGENT = """
import json, os, pathlib, subprocess, sys, urllib.request

issue = sys.argv[1]
source = pathlib.Path("calc.py").read_text()
body = json.dumps({"model": "any", "messages": [{"role": "system", "content": source}, {"role": "user", "content": issue}]})
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions", body.encode(), {"content-type": "application/json"}
)
with urllib.request.urlopen(request, timeout=60) as response:
    text = json.loads(response.read())["choices"][0]["message"]["content"]
name, _, contents = text.partition("\\n")
pathlib.Path(name).write_text(contents)
print(subprocess.run(["git", "diff"], capture_output=True, text=True, check=True).stdout)
"""
FIX_TEST = f'''
from pathlib import Path

import pytest
from pytest_crucible import agents

HERE = Path(__file__).parent
ISSUES = [dict(id="add", input="add: add(1, 2) is -1"), dict(id="half", input="half: half(1) is 0")]
SETUP = ["sh", "-c", "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm first"]

def check(name):
    command = f"{INTERPRETER} -m pytest -q -p no:cacheprovider -p no:crucible -k {{name}}"
    return agents.tests_pass(command, files=HERE / "hidden", name=f"{{name}}_passes")

@pytest.mark.ab_compare("add_passes")
@pytest.mark.crucible(ISSUES, metrics=[check("add"), check("half")])
@pytest.mark.environment(files="repo", setup=SETUP)
async def test_fix(sample, endpoint, workspace):
    result = await endpoint.run([{INTERPRETER!r}, str(HERE / "agent.py"), sample.input], cwd=workspace, sandbox=True, timeout_s=120)
    assert result.exit_status == 0, result.errors
    return result.output
'''


@pytest.mark.skipif(bool(missing_parts()), reason=missing_parts())
def test_patches_are_judged_by_tests_that_the_agent_does_not_see(suite):
    (suite.path / "repo").mkdir()
    (suite.path / "repo" / "calc.py").write_text(
        "def add(a, b):\n    return a - b\n\ndef half(a):\n    return a // 2\n"
    )
    (suite.path / "hidden").mkdir()
    (suite.path / "hidden" / "test_calc.py").write_text(
        "from calc import add, half\n\ndef test_add():\n    assert add(1, 2) == 3\n\ndef test_half():\n    assert half(1) == 0.5\n"
    )
    suite.script(FIX_SCRIPT)
    suite.pytester.makepyfile(agent=FIX_AGENT, test_sums=FIX_TEST)
    result = suite.run("--crucible-adapter=scripted", "--crucible-compare=base", "--crucible-run-code", "test_sums.py")

    assert result.parseoutcomes()["passed"] >= 1
    assert scores(suite, "add_passes") == {"scripted": [1.0, 0.0], "base": [0.0, 0.0]}
    assert scores(suite, "half_passes") == {"scripted": [0.0, 1.0], "base": [0.0, 0.0]}
    patches = [text for (text,) in query(suite, "SELECT output FROM agent_programs ORDER BY arm, position")]
    assert all("diff --git a/calc.py b/calc.py" in patch for patch in patches)
