"""Reasoning before an answer is stored and shown, and scored only where the configuration says so."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.plugin.conftest import Suite

SCRIPT = """
    from pytest_crucible import Reply

    def answer(request):
        return f"<think>{request.input} is 0, no</think>{eval(request.input)}"

    def base(request):
        return Reply(text=str(eval(request.input)), reasoning="It is 0, no.")
"""
KEEP = ("-o", "crucible_reasoning=keep")


@pytest.fixture
def thinking(suite: Suite) -> Suite:
    suite.script(SCRIPT)
    return suite


def right(document: dict[str, Any]) -> float:
    value: float = document["experiments"][0]["estimates"][0]["value"]
    return value


def test_the_answer_is_scored(thinking):
    assert right(thinking.json("--crucible-adapter=scripted")) == 1.0


def test_the_answer_is_scored_in_each_documented_form(suite):
    suite.script("""
        from pytest_crucible.records.reasoning_forms import FORMS

        def answer(request):
            form, answer = FORMS[int(request.input.split()[0]) % len(FORMS)], eval(request.input)
            if form.opening == "<|channel|>":
                return f"<|channel|>analysis<|message|>0<|end|><|start|>assistant{form.closing}{answer}<|return|>"
            return f"{form.opening}It is 0, no{form.closing}{form.answer}{answer}{''.join(form.ends)}"
    """)

    assert right(suite.json("--crucible-adapter=scripted")) == 1.0


def test_the_whole_text_is_scored_where_reasoning_is_kept(thinking):
    assert right(thinking.json("--crucible-adapter=scripted", *KEEP)) == 0.0


def test_the_whole_text_is_stored(thinking):
    thinking.run("--crucible-adapter=scripted")

    with closing(sqlite3.connect(thinking.path / ".crucible/crucible.db")) as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM replies ORDER BY position")]
    assert texts[3] == "<think>3 + 3 is 0, no</think>6"


def test_another_setting_measures_the_baseline_again(thinking):
    """Scores of answers and scores of whole replies are never compared."""
    thinking.run("--crucible-adapter=base", "--compare=scripted")
    same = thinking.json("--crucible-adapter=base", "--compare=scripted")
    other = thinking.json("--crucible-adapter=base", "--compare=scripted", *KEEP)

    reused = [document["experiments"][0]["sections"].get("cache") for document in (same, other)]
    assert "scripted" in json.dumps(reused[0])
    assert "reused" not in json.dumps(reused[1]) or not reused[1]["reused"]
    assert {estimate["arm"]: estimate["value"] for estimate in other["experiments"][0]["estimates"]} == {
        "base": 1.0,
        "scripted": 0.0,
    }


def test_a_baseline_that_was_scored_with_its_reasoning_is_measured_again(suite):
    """Its form was not known to the version that stored it."""
    suite.script("""
        def answer(request):
            return str(eval(request.input))

        def base(request):
            return f"<thinking>It is 0</thinking>{eval(request.input)}"
    """)
    both = ("--crucible-adapter=scripted", "--compare=base")

    def is_reused() -> bool:
        return "reused" in json.dumps(suite.json(*both)["experiments"][0]["sections"].get("cache") or {})

    suite.run(*both)
    assert is_reused()
    with closing(sqlite3.connect(suite.path / ".crucible/crucible.db")) as connection:
        connection.execute("UPDATE calls SET think = NULL")
        connection.commit()

    assert not is_reused()


def test_a_stored_run_of_another_setting_is_refused(thinking):
    run = thinking.json("--crucible-adapter=scripted")["run"]["id"]

    thinking.refuses(
        thinking.run("--crucible-adapter=base", f"--compare=run:{run}", *KEEP),
        f"*cannot be compared with: the scoring of reasoning (crucible_reasoning) changed since run {run}; *",
    )


def test_an_invalid_setting_is_a_usage_error(thinking):
    thinking.refuses(
        thinking.run("--crucible-adapter=scripted", "-o", "crucible_reasoning=hide"),
        "crucible_reasoning = 'hide': write one of strip, keep",
    )


def test_reasoning_that_was_cut_is_a_truncated_reply(suite):
    suite.script("""
        from pytest_crucible import Reply

        def answer(request):
            return Reply(text="<think>Let me see", finish="length")
    """)
    losses = suite.json("--crucible-adapter=scripted")["experiments"][0]["sections"]["losses"]

    assert losses["failures"] == {"scripted": {"truncated": 20}}


def test_one_sample_alone_is_scored_alike(thinking):
    result = thinking.run("--crucible-adapter=scripted", "--crucible-sample=q03", "-s")

    assert "exact_match = True" in result.stdout.str()


def test_worst_samples_show_the_length_of_the_reasoning(thinking):
    thinking.run("--crucible-adapter=scripted", "-vv", *KEEP).stdout.fnmatch_lines(["*(reasoning: 14 characters)*"])


def findings(document: dict[str, Any]) -> dict[str, Any]:
    return {finding["check"]: finding for finding in document["experiments"][0]["sections"].get("run_checks", ())}


@pytest.mark.uses("run_checks")
def test_replies_in_an_unknown_form_are_counted_and_shown(suite):
    suite.script("""
        def answer(request):
            return f"It is 0, no{'</deep_think>' if int(request.input.split()[0]) < 5 else ''}{eval(request.input)}"

        def base(request):
            return f"[THINK]It is 0, no[/THINK]{eval(request.input)}"
    """)

    document = suite.json("--crucible-adapter=scripted", "--compare=base")
    result = suite.run("--crucible-adapter=scripted", "--compare=base")

    finding = findings(document)["reasoning"]
    assert finding["cells"] == ["0 of 20 replies, 5 in an unknown form", "20 of 20 replies"]
    assert finding["severity"] == "warn"
    result.stdout.fnmatch_lines(
        ["*5 of 20 replies of scripted have a mark of reasoning in an unknown form, such as </deep_think>*"]
    )


@pytest.mark.uses("run_checks")
def test_replies_without_reasoning_and_replies_that_are_kept_whole_are_no_problem(suite):
    suite.script("""
        def answer(request):
            return str(eval(request.input))

        def base(request):
            return f"It is 0, no</deep_think>{eval(request.input)}"
    """)

    assert "reasoning" not in findings(suite.json("--crucible-adapter=scripted"))
    whole = findings(suite.json("--crucible-adapter=base", *KEEP))["reasoning"]
    assert (whole["problem"], whole["severity"]) == ("", "note")
