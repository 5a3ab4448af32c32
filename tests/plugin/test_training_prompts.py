"""Prompts are compared with those that an arm was trained on: its template, system prompt and end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.plugin.conftest import Suite

pytestmark = pytest.mark.uses("run_checks")

TEST = """
    import pytest

    @pytest.mark.crucible(dataset=[{{"id": f"q{{k:02}}", "input": f"{{k}} + {{k}}", "expected": str(2 * k)}} for k in range(20)],
                          metrics=["exact_match"])
    async def test_sums(sample, sampler):
        return await sampler.generate({prompt})
"""
LABELLED = 'f"Question: {sample.input}\\nAnswer:"'


@pytest.fixture
def trained(suite: Suite) -> Suite:
    """An adapter that was trained on prompts with labels."""
    suite.script("""
        def answer(request):
            return "4"
    """)
    suite.write_rows(
        "train.jsonl", [{"prompt": f"Question: {k} + {k}\nAnswer:", "completion": str(2 * k)} for k in range(30, 70)]
    )
    own = {"backend": "scripted", "script": "scripts:answer", "trained_on": ["train.jsonl"]}
    suite.adapters({"v2": own})
    return suite


def send(suite: Suite, prompt: str) -> dict[str, Any]:
    suite.test(TEST.format(prompt=prompt))
    document = suite.json("--crucible-adapter=v2")
    findings = document["experiments"][0]["sections"].get("run_checks", ())
    return next((finding for finding in findings if finding["check"] == "training prompts"), {})


def test_prompts_that_training_never_saw_are_a_problem(trained):
    finding = send(trained, "sample.input")

    assert finding["cells"] == ["0 of 20 in training"]
    assert finding["severity"] == "warn"
    assert finding["problem"].startswith("0 of 20 prompts sent to v2 have a form that occurs among 40 training rows (")
    trained.run("--crucible-adapter=v2").stdout.fnmatch_lines(
        ["*0 of 20 prompts sent to v2 have a form that occurs among 40*"]
    )


def test_prompts_as_in_training_are_a_quiet_line_also_in_a_stored_run(trained):
    finding = send(trained, LABELLED)

    assert (finding["cells"], finding["problem"]) == (["20 of 20 in training"], "")
    (trained.path / "train.jsonl").unlink()
    document = json.loads(trained.command("show", "--json").stdout.str())
    (again,) = [
        each for each in document["experiments"][0]["sections"]["run_checks"] if each["check"] == "training prompts"
    ]
    assert again["cells"] == ["20 of 20 in training"]


def test_a_system_prompt_that_training_had_not_is_a_problem(trained):
    messages = '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": sample.input}]'

    assert send(trained, messages)["cells"] == ["0 of 20 in training"]


def test_training_rows_that_are_not_prompts_are_unknown(trained):
    trained.write_rows("train.jsonl", [{"claim": "a", "label": "b"}])

    assert send(trained, "sample.input") == {}
