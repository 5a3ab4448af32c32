"""Tools with a journal: what an agent called is stored, and both arms meet the same world."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from pytest_crucible.features.agents.sample_views import sample_views
from pytest_crucible.records import Conversation, Unit
from pytest_crucible.store.runs import RunStore

SCRIPT = """
def answer(request):
    return "v1 " + text_of(request)

def base(request):
    return "v2 " + text_of(request)

def text_of(request):
    return request.input if isinstance(request.input, str) else request.input[-1]["content"]
"""


def journal(suite: Any) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as connection:
        connection.row_factory = sqlite3.Row
        query = "SELECT * FROM agent_tools ORDER BY position, epoch, arm, number"
        return [dict(row) for row in connection.execute(query)]


def run_pair(suite: Any, source: str, *arguments: str) -> pytest.RunResult:
    suite.script(SCRIPT)
    suite.test(source)
    return suite.run("--crucible-adapter=scripted", "--crucible-compare=base", *arguments)


def test_a_tool_is_recorded_with_its_arguments_and_its_result(suite):
    run_pair(
        suite,
        """
        import pytest

        def look_up(order: int, *, deep=False):
            "Return an order."
            if order > 1:
                raise KeyError(order)
            return {"order": order, "tags": {"new"}}

        @pytest.mark.crucible("questions.jsonl", limit=1, metrics=["exact_match"])
        def test_agent(sample, sampler, endpoint):
            tool = endpoint.tool(look_up)
            assert tool.__name__ == "look_up" and tool.__doc__ == "Return an order."
            assert tool(1) == {"order": 1, "tags": {"new"}}
            with pytest.raises(KeyError):
                tool(order=2, deep=True)
            with pytest.raises(TypeError):
                tool()
            endpoint.tool_result("<page>")
            todo = ["eat"]
            assert endpoint.tool("pop")(lambda items: items.pop())(todo) == "eat"
            return sampler.generate(sample.input)
        """,
    ).assert_outcomes(passed=1)

    rows = journal(suite)[:4]
    assert [row["name"] for row in rows] == ["look_up", "look_up", "look_up", ""]
    assert json.loads(rows[0]["arguments"]) == {"order": 1, "deep": False}
    assert json.loads(rows[0]["result"]) == {"order": 1, "tags": "{'new'}"}
    assert json.loads(rows[1]["arguments"]) == {"order": 2, "deep": True}
    assert rows[1]["error"] == "KeyError: 2"
    assert "TypeError" in rows[2]["error"]
    assert json.loads(rows[3]["result"]) == "<page>"
    assert json.loads(journal(suite)[4]["arguments"]) == {"items": ["eat"]}
    assert not any(row["is_replayed"] for row in rows)


REPLAYED = """
    import asyncio, random
    import pytest

    runs = []

    async def search(query):
        runs.append(query)
        await asyncio.sleep(random.random() / 50)
        if query == "bad":
            raise ValueError("no result")
        return [random.random()]

    @pytest.mark.crucible("questions.jsonl", limit=4, epochs=2, metrics=["exact_match"])
    @pytest.mark.ab_compare("exact_match")
    async def test_agent(sample, sampler, endpoint):
        tool = endpoint.tool("web_search", replay=True)(search)
        first, again = await tool("a"), await tool("a")
        assert first != again
        first.append("changed")
        with pytest.raises(ValueError, match="no result"):
            await tool("bad")
        reply = await sampler.generate(sample.input)
        await tool(reply.text)
        return reply

    def test_runs():
        assert len(runs) == 4 * (1 + 1 + 1 + 2)
"""


def test_both_arms_and_all_repeats_meet_the_world_that_the_first_has_recorded(suite):
    assert "test_runs" not in run_pair(suite, REPLAYED).stdout.str()

    by_call: dict[tuple[int, str, int], set[str]] = {}
    counts: dict[tuple[Any, ...], int] = {}
    for row in journal(suite):
        unit = (row["position"], row["epoch"], row["arm"], row["arguments"])
        counts[unit] = counts.get(unit, 0) + 1
        by_call.setdefault((row["position"], row["arguments"], counts[unit]), set()).add(str(row["result"]))
    assert all(len(results) == 1 for results in by_call.values())
    assert len(journal(suite)) == 4 * 2 * 2 * 4


def test_what_cannot_be_recognised_or_copied_is_not_replayed(suite):
    result = run_pair(
        suite,
        """
        import threading
        import pytest

        @pytest.mark.crucible("questions.jsonl", limit=1, metrics=["exact_match"])
        def test_agent(sample, sampler, endpoint):
            with pytest.raises(Exception, match="an argument that JSON has no form for"):
                endpoint.tool(print, replay=True)(object())
            lock = endpoint.tool("lock", replay=True)(lambda: threading.Lock())
            with pytest.raises(Exception, match="returned lock, which cannot be copied"):
                lock()
            return sampler.generate(sample.input)
        """,
    )

    result.assert_outcomes(passed=1)
    assert "failed" not in result.stdout.str()


def test_the_journal_has_no_keys(suite):
    run_pair(
        suite,
        """
        import pytest

        @pytest.mark.crucible("questions.jsonl", limit=1, metrics=["exact_match"])
        def test_agent(sample, sampler, endpoint):
            endpoint.tool_result("sk-" + "a1b2c3d4" * 5)
            return sampler.generate(sample.input)
        """,
    )

    assert all("hidden" in row["result"] and "a1b2" not in row["result"] for row in journal(suite))


def test_programs_and_tools_are_on_the_page_of_the_sample(suite):
    suite.script(SCRIPT)
    suite.test(
        """
        import pytest

        @pytest.mark.crucible("questions.jsonl", limit=1, metrics=["exact_match"])
        async def test_agent(sample, sampler, endpoint):
            endpoint.tool("refund")(lambda order: "refunded")(order=7)
            result = await endpoint.run(["sh", "-c", "echo from the program; exit 3"])
            return await sampler.generate(sample.input)
        """
    )
    suite.run("--crucible-adapter=scripted").assert_outcomes(passed=1)

    with closing(RunStore(str(suite.path / ".crucible" / "crucible.db"))) as store:
        ((key, plan, _),) = store.all_experiments(store.find_run("latest"))
        conversation = Conversation(
            unit=Unit(0, 0, 0, 0), arm="scripted", state="scored", detail="", reply="", calls=(), scores={}
        )
        tools, programs = sample_views(store, key, plan, 0, [conversation])
    assert tools.title == "Tools: scripted, reply 1"
    assert tools.tables[0].rows[0].cells[:3] == ("refund", '{"order": 7}', "refunded")
    assert programs.tables[0].rows[0].cells[:4] == ("sh -c echo from the program; exit 3", "3", "from the program", "-")


def test_an_attack_on_the_result_of_a_tool_is_in_the_journal(suite):
    suite.script(SCRIPT)
    suite.test(
        """
        import pytest

        @pytest.mark.crucible("questions.jsonl", limit=2, metrics=["exact_match"])
        @pytest.mark.robustness("homoglyph")
        async def test_agent(sample, sampler, endpoint, perturb):
            page = endpoint.tool_result(perturb("The weather of tomorrow is cold and cloudy in the whole country"))
            return await sampler.generate(page)
        """
    )
    suite.run("--crucible-adapter=scripted")

    results = {json.loads(row["result"]) for row in journal(suite)}
    assert "The weather of tomorrow is cold and cloudy in the whole country" in results
    assert len(results) > 1
