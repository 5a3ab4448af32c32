"""`crucible calibrate`: what a user sees who asks how often the suite would cry wolf."""

from __future__ import annotations

import json

import pytest

REPEATED = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"], epochs=4)
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
WAVERING = """
    def answer(request):
        number = int(request.sample[1:])
        return str(2 * number) if (7 * number + request.repeat * 3) % 5 > 1 else "?"
"""


def test_the_answers_of_two_arms_are_swapped(suite, crucible):
    suite.run("--crucible-adapter=v2", "--compare=v1")

    status, out, err = crucible("calibrate", "--replicates=300")

    assert (status, err) == (0, "")
    assert "300 replicates with seed 0, alpha 0.05" in out
    assert "test_sums.py::test_sums" in out
    row = next(line for line in out.splitlines() if line.startswith("exact_match"))
    assert "v2 and v1, swapped" in row
    assert "exact unconditional" in row
    assert "keeps its error rate" in out


def test_repeats_of_one_arm_are_dealt_to_two(suite, crucible):
    suite.script(WAVERING)
    suite.test(REPEATED)
    suite.run("--crucible-adapter=scripted")

    status, out, _ = crucible("calibrate", "--replicates=200", "--alpha=0.1", "--seed=3")

    assert status == 0
    assert "scripted, 4 repeats" in out
    assert "seed 3, alpha 0.1" in out


def test_the_same_seed_prints_the_same(suite, crucible):
    suite.run("--crucible-adapter=v2", "--compare=v1")

    assert crucible("calibrate", "--replicates=100") == crucible("calibrate", "--replicates=100")


def test_a_run_is_found_by_the_beginning_of_its_id(suite, crucible):
    document = suite.json("--crucible-adapter=v2", "--compare=v1")

    status, out, _ = crucible("calibrate", document["run"]["id"][:6], "--replicates=50")

    assert status == 0
    assert document["run"]["id"] in out


def test_groups_that_are_too_few_are_said_to_be(suite, crucible):
    rows = [json.loads(line) for line in (suite.path / "questions.jsonl").read_text().splitlines()]
    suite.write_rows("questions.jsonl", [row | {"group": f"g{k % 3}"} for k, row in enumerate(rows)])
    suite.run("--crucible-adapter=v2", "--compare=v1")

    status, out, _ = crucible("calibrate", "--replicates=50")

    assert status == 0
    assert "too few samples or groups for an answer" in out
    assert "No comparison could be tried." in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nonsense"], "has no run that begins with 'nonsense'"),
        (["--store=elsewhere.db"], "no run store at 'elsewhere.db' in "),
        (["--replicates=0"], "replicates must be at least 1, not 0"),
        (["--alpha=2"], "alpha must lie between 0 and 1, not 2"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(suite, crucible, arguments, sentence):
    suite.run("--crucible-adapter=v2", "--compare=v1")

    status, out, err = crucible("calibrate", *arguments)

    assert (status, out) == (4, "")
    assert err.startswith("crucible calibrate: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert not (suite.path / "elsewhere.db").exists()


def test_one_arm_without_repeats_has_nothing_to_deal(suite, crucible):
    suite.run("--crucible-adapter=v2")

    status, _, err = crucible("calibrate")

    assert status == 4
    assert "neither repeats nor two arms" in err


def test_the_same_for_programs(suite, crucible):
    document = suite.json("--crucible-adapter=v2", "--compare=v1")

    _, out, _ = crucible("calibrate", "--replicates=50", "--json")

    output = json.loads(out)
    assert output["run"] == document["run"]["id"]
    (tests,) = output["experiments"].values()
    assert {"metric", "dealt", "rate", "interval", "holds"} <= set(tests[0])
