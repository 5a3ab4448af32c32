"""Samples whose expected answer three models in the run store contradict."""

from __future__ import annotations

import json

from pytest_crucible.cli import main


def test_labels_that_three_models_contradict_are_listed(suite, capsys):
    def check(*options):
        capsys.readouterr()
        main(["data", "check", "questions.jsonl", *options])
        return capsys.readouterr().out

    suite.write_rows(
        "questions.jsonl",
        [
            {"id": f"q{k}", "input": f"is {k} even?", "expected": "yes" if k % 2 == 0 or k == 3 else "no"}
            for k in range(20)
        ],
    )
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )
    tables = {}
    for name, wrong in (("a", 0), ("b", 1), ("c", 2)):
        rows = [
            {"sample_id": f"q{k}", "text": f"I think {'yes' if (k % 2 == 0) != (k == wrong) else 'no'}."}
            for k in range(20)
        ]
        suite.write_rows(f"{name}.jsonl", rows)
        tables[name] = {"backend": "recorded", "path": f"{name}.jsonl"}
    suite.adapters(tables)
    for name in ("a", "b"):
        suite.run(f"--crucible-adapter={name}", "-q")
    before = check()
    suite.run("--crucible-adapter=c", "-q")
    after, document = check(), json.loads(check("--json"))

    assert "label?" not in before
    assert "label?  q3: a, b, c agree on 'no', and 'yes' is expected" in after
    assert [entry["sample"] for entry in document["contradicted"]] == ["q3"]
