"""Invalid ensembles: one sentence, exit status 4, and no request."""

from __future__ import annotations

import pytest

RECORDED = {name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")}
MISTAKES = {
    "itself": (
        {"trio": {"ensemble": ["v1", "trio"]}},
        "adapter 'trio' is an ensemble of itself (trio > trio): name other adapters as members",
    ),
    "in a circle": (
        {"trio": {"ensemble": ["v1", "duo"]}, "duo": {"ensemble": ["v2", "trio"]}},
        "adapter 'trio' is an ensemble of itself (trio > duo > trio): name other adapters as members",
    ),
    "in a circle below": (
        {"trio": {"ensemble": ["v1", "one"]}, "one": {"ensemble": ["v2", "two"]}, "two": {"ensemble": ["v1", "one"]}},
        "adapter 'one' is an ensemble of itself (one > two > one): name other adapters as members",
    ),
    "unknown member": (
        {"trio": {"ensemble": ["v1", "v22"]}},
        "ensemble 'trio': adapter 'v22' is not configured: did you mean 'v2'? known adapters are trio, v1, v2",
    ),
    "stored run": (
        {"trio": {"ensemble": ["v1", "run:abc"]}},
        "ensemble 'trio': adapter 'run:abc' is not configured: known adapters are trio, v1, v2",
    ),
    "one member": (
        {"trio": {"ensemble": ["v1"]}},
        "adapter 'trio' has ensemble = ['v1']: write the names of at least 2 adapters, such as ensemble = [[]\"v1\", \"v2\"[]]",
    ),
    "backend too": (
        {"trio": {"ensemble": ["v1", "v2"], "backend": "recorded"}},
        "adapter 'trio' in *crucible.toml has backend = 'recorded' and ensemble = [[]...]: write one of them",
    ),
    "member that cannot be opened": (
        {"trio": {"ensemble": ["v1", "gone"]}, "gone": {"backend": "recorded", "path": "gone.jsonl"}},
        "recorded replies '*gone.jsonl' do* not exist: give the path of a .jsonl file",
    ),
    "weights": (
        {"trio": {"ensemble": ["v1", "v2"], "vote": "weighted", "weights": [0, 0]}},
        "adapter 'trio' has weights that sum to 0: write at least one above 0",
    ),
    "the same file": (
        {"trio": {"ensemble": ["v1", "again"]}, "again": RECORDED["v1"]},
        "members 'v1' and 'again' of 'trio' are the same checkpoint with the same parameters: *",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_ensembles(suite, mistake):
    tables, sentence = MISTAKES[mistake]
    suite.adapters({**RECORDED, **tables})

    suite.refuses(suite.run("--crucible-adapter=trio"), sentence.replace("= ['v1']", "= [[]'v1'[]]"))


def test_ensembles_on_two_workers(suite):
    tables, sentence = MISTAKES["itself"]
    suite.adapters({**RECORDED, **tables})

    suite.refuses(suite.run_n2("--crucible-adapter=trio"), sentence)


def test_a_target_on_a_consensus_that_one_model_has_not(suite):
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.quality_target("consensus >= 0.5")
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )

    suite.refuses(
        suite.run("--crucible-adapter=v1"),
        "test_sums.py::test_sums: target 'consensus >= 0.5' names metric 'consensus': this experiment has exact_match",
    )


def test_members_that_say_no_confidence_stop_the_experiment(suite):
    suite.adapters({**RECORDED, "duo": {"ensemble": ["v1", "v2"], "vote": "weighted"}})
    result = suite.run("--crucible-adapter=duo")

    assert result.ret == 1
    result.stdout.fnmatch_lines(["*member 'v1' answers without log-probabilities*"])


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"cost_usd": "0.1"}, "line 1 of *v1.jsonl has cost_usd '0.1': write US dollars as a number, or leave it out"),
        (
            {"logprobs": [-0.1, "b"]},
            "line 1 of *v1.jsonl has logprobs [[]-0.1, 'b'[]]: write a list of numbers, one a token, *",
        ),
    ],
)
def test_recorded_texts_that_are_not_numbers_are_reported(suite, row, sentence):
    suite.write_rows("answers/v1.jsonl", [{"sample_id": "q00", "text": "0", **row}])

    suite.refuses(suite.run("--crucible-adapter=v1"), sentence)
