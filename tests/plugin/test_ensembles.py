"""An ensemble as one arm: votes of three recorded adapters, compared with a member, alone and on two workers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from run_documents import of_arms

TEST = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.70", "consensus >= 0.50", "exact_match[v1] >= 0.50")
    @pytest.mark.ab_compare("exact_match")
    async def test_sums(sample, sampler):
        return await sampler.generate(sample.input)
"""
RECORDED = {name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2", "v3", "poor")}
TRIO = {"ensemble": ["v1", "v2", "poor"]}
"""12, 16 and 2 of 20 are right; those that are wrong all say something else."""


@pytest.fixture
def trio(suite):
    suite.adapters({**RECORDED, "trio": TRIO})
    suite.test(TEST)
    return suite


def estimates(document):
    return {
        (estimate["metric"], estimate["arm"]): estimate["value"] for estimate in document["experiments"][0]["estimates"]
    }


def test_an_ensemble_is_judged_and_compared_with_a_member_and_members_with_each_other(trio, run):
    result = run("-v", "--crucible-json=run.json", "--crucible-adapter=trio", "--compare=v2")
    document = json.loads((trio.path / "run.json").read_text(encoding="utf-8"))
    [experiment] = document["experiments"]

    assert [(arm["name"], arm["adapter"], arm["members"]) for arm in experiment["arms"]] == [
        ("trio", "ensemble:trio", ["v1", "v2", "poor"]), ("v2", "recorded:v2", []),
    ]  # fmt: skip
    assert estimates(document) == {
        # v1 and v2 agree on 12; on 4 more only v2 is right and v1, listed first, wins the tie of three
        ("exact_match", "trio"): 0.6, ("exact_match", "v2"): 0.8, ("exact_match[v1]", "trio"): 0.6,
        ("exact_match[v2]", "trio"): 0.8, ("exact_match[poor]", "trio"): 0.1,
        ("consensus", "trio"): pytest.approx((2 * 1 + 10 * 2 / 3 + 8 / 3) / 20),
    }  # fmt: skip
    assert {verdict["subject"]: verdict["state"] for verdict in experiment["verdicts"]} == {
        "exact_match >= 0.70": "missed",
        "consensus >= 0.50": "met",
        "exact_match[v1] >= 0.50": "met",
        "exact_match: trio vs v2": "met",
    }
    [pair] = experiment["comparisons"]
    assert (pair["pairs"], pair["difference"]) == (20, pytest.approx(-0.2))
    [diversity] = experiment["sections"]["diversity"]
    assert (diversity["arm"], diversity["metric"], diversity["n"]) == ("trio", "exact_match", 20)
    assert (diversity["best"], diversity["oracle"]["value"], diversity["ensemble"]["value"]) == ("v2", 0.8, 0.6)
    assert {(pair["first"], pair["second"]): pair["disagreement"]["value"] for pair in diversity["pairs"]} == {
        ("v1", "v2"): 0.2, ("v1", "poor"): 0.5, ("v2", "poor"): 0.7,
    }  # fmt: skip
    result.stdout.fnmatch_lines(
        [
            "ensemble  metric       accuracy              best member  accuracy of the best  some member right      n",
            "trio      exact_match  0.600 [[]0.387, 0.781[]]  v2           0.800 [[]0.584, 0.919[]]  "
            "0.800 [[]0.584, 0.919[]]  20",
            "members   ensemble  metric       disagreement *",
            "v1, v2    trio      exact_match  0.200 *",
        ]
    )
    with closing(sqlite3.connect(trio.path / ".crucible" / "crucible.db")) as connection:
        query = "select metric, label from observations where metric like 'answer%' and position in (3, 19) order by 1, position"
        rows = connection.execute(query).fetchall()
    assert rows == [
        ("answer[poor]", "poor gave up on 3"), ("answer[poor]", "poor gave up on 19"), ("answer[v1]", "6"),
        ("answer[v1]", "v1 gave up on 19"), ("answer[v2]", "6"), ("answer[v2]", "v2 gave up on 19"),
    ]  # fmt: skip


def test_an_arm_without_an_ensemble_has_no_members_section(trio):
    trio.test(TEST.replace(', "consensus >= 0.50", "exact_match[v1] >= 0.50"', ""))
    document = trio.json("--crucible-adapter=v2", "--compare=v1")

    assert "diversity" not in document["experiments"][0]["sections"]
    assert {metric for metric, _ in estimates(document)} == {"exact_match"}


def test_an_ensemble_as_the_baseline_is_used_again(trio):
    trio.test(TEST.replace(', "consensus >= 0.50", "exact_match[v1] >= 0.50"', ""))
    trio.run("--crucible-adapter=v3", "--compare=trio")
    document = trio.json("--crucible-adapter=v3", "--compare=trio")

    assert of_arms(document["experiments"][0], "reused")[1]["replies"] == 20
    assert estimates(document)["exact_match[v1]", "trio"] == 0.6
    assert document["experiments"][0]["sections"]["diversity"][0]["best"] == "v2"


def test_another_rule_is_another_ensemble(trio):
    trio.adapters({**RECORDED, "trio": TRIO, "all": {**TRIO, "vote": "unanimous"}})
    document = trio.json("--crucible-adapter=all", "--compare=trio")
    result = estimates(document)

    assert (result["exact_match", "all"], result["exact_match", "trio"]) == (0.1, 0.6)


def test_equal_rules_under_two_names_are_one_checkpoint(trio):
    trio.adapters({**RECORDED, "trio": TRIO, "same": TRIO})

    trio.refuses(
        trio.run("--crucible-adapter=same", "--compare=trio"),
        "adapters 'same' and 'trio' are the same checkpoint (????????????): compare two that differ",
    )


def test_numbers_vote_by_value_and_texts_without_one_do_not_vote(suite):
    replies = {"v1": "no idea", "v2": "I am not sure", "v3": "that is {}.0"}
    for name, text in replies.items():
        suite.write_rows(
            f"answers/{name}.jsonl", [{"sample_id": f"q{k:02}", "text": text.format(2 * k)} for k in range(20)]
        )
    suite.adapters({**RECORDED, "trio": {"ensemble": ["v1", "v2", "v3"], "normalise": "number"}})
    suite.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["final_number_matches"])
        @pytest.mark.quality_target("final_number_matches >= 1.0", "consensus >= 1.0")
        async def test_sums(sample, sampler):
            reply = await sampler.generate(sample.input)
            assert reply.text.startswith("that is ")
            return reply
        """
    )

    suite.run("--crucible-adapter=trio").assert_outcomes(passed=3)


def test_a_sample_without_any_vote_is_wrong_and_not_lost(suite):
    suite.adapters({**RECORDED, "duo": {"ensemble": ["v1", "poor"], "vote": "unanimous"}})
    document = suite.json("--crucible-adapter=duo")
    [experiment] = document["experiments"]

    assert (estimates(document)["exact_match", "duo"], of_arms(experiment, "lost")[0]) == (0.1, {})
    with closing(sqlite3.connect(suite.path / ".crucible" / "crucible.db")) as connection:
        assert connection.execute("select finish, text, count(*) from replies where text = ''").fetchall() == [
            ("divided", "", 18)
        ]
        query = "select distinct reason from observations where metric = 'consensus' and reason is not null"
        assert connection.execute(query).fetchall() == [("the members do not agree enough",)]


def test_a_members_missing_reply_is_lost_in_its_own_scores(suite, run):
    suite.write_rows("answers/v2.jsonl", suite.answers["v2"][:10])
    suite.adapters({**RECORDED, "duo": {"ensemble": ["v1", "v2"], "min_responses": 1}})
    suite.test(TEST.replace('"exact_match[v1] >= 0.50"', '"exact_match[v2] >= 0.50", "exact_match[v2] >= 0.60"'))
    document = suite.json("-W", "ignore", "--crucible-adapter=duo", run=run)
    [experiment] = document["experiments"]

    # all of 10 were right: with the 10 others wrong it is one half, which one of these targets is content with
    assert [
        (verdict["subject"], verdict["state"]) for verdict in experiment["verdicts"] if "[" in verdict["subject"]
    ] == [("exact_match[v2] >= 0.50", "met"), ("exact_match[v2] >= 0.60", "undecided")]
    assert {
        (estimate["n"], estimate["lost"])
        for estimate in experiment["estimates"]
        if estimate["metric"] == "exact_match[v2]"
    } == {(10, 10)}
    assert of_arms(experiment, "lost")[0] == {"member": 10}


def test_members_without_all_replies_are_reported_before_the_run(suite):
    suite.write_rows("answers/v2.jsonl", suite.answers["v2"][:15])
    suite.write_rows("answers/poor.jsonl", suite.answers["poor"][:10])
    suite.adapters({**RECORDED, "trio": TRIO})
    result = suite.run("-W", "default", "--crucible-adapter=trio")

    result.stdout.fnmatch_lines(
        [
            "*member 'v2' of adapter 'trio' lacks replies to 5 of 20 samples (first: q15): there the others answer without it*",
            "*member 'poor' of adapter 'trio' lacks replies to 10 of 20 samples (first: q10): there the others answer without it*",
            "*adapter 'trio' lacks replies to 5 of 20 samples (first: q15): they will be lost*",
            "*test_sums: trio: 5 samples lost (error), 5 scores lost (ensemble member)",
            "    first: 1 of the 3 members of 'trio' answered, and at least 2 must (v2: v2.jsonl has no reply to sample 'q15')",
        ]
    )


def test_one_sample_alone_shows_the_members_replies(trio):
    trio.run("--crucible-adapter=trio", "--crucible-sample=q13").stdout.fnmatch_lines(
        [
            "reply    v1 gave up on 13",
            "exact_match = False",
            "consensus = 0.333*",
            "answer[[]v1[]] = v1 gave up on 13",
            "answer[[]v2[]] = 26",
        ]
    )


# -- scripted members -------------------------------------------------------------------------------------------------

SCRIPTS = """
    from pathlib import Path

    def noted(name, request):
        with Path("calls.txt").open("a") as calls:
            calls.write(f"{name} {request.arm} {request.sample} {request.parameters}\\n")

    def answer(request):
        noted("answer", request)
        return str(2 * int(request.sample[1:]))

    def base(request):
        noted("base", request)
        return "no idea"
"""


def test_members_use_their_own_settings_and_count_for_the_ensembles_arm(suite):
    suite.script(
        SCRIPTS,
        others={
            "scripted": {"backend": "scripted", "script": "scripts:answer", "parameters.temperature": 0.5},
            "both": {"ensemble": ["scripted", "base"], "normalise": "number", "parameters.top_p": 0.9},
        },
    )
    suite.write_rows("questions.jsonl", [{"id": "q04", "input": "4 + 4", "expected": "8"}])

    suite.run("--crucible-adapter=both", "--compare=scripted").assert_outcomes(passed=2, skipped=1)
    assert sorted(suite.calls()) == [
        "answer both q04 {'temperature': 0.5, 'top_p': 0.9}",
        "answer scripted q04 {'temperature': 0.5}",
        "base both q04 {'top_p': 0.9}",
    ]


def test_what_its_members_are_sent_is_shown_of_an_ensemble(suite):
    suite.script(
        SCRIPTS,
        others={
            "warm": {"backend": "scripted", "script": "scripts:answer", "parameters.temperature": 0.5},
            "cold": {"backend": "scripted", "script": "scripts:base", "parameters.temperature": 0},
            "both": {"ensemble": ["warm", "cold"], "normalise": "number"},
        },
    )
    suite.write_rows("questions.jsonl", [{"id": f"q{k}", "input": f"{k} + 4", "expected": "8"} for k in range(4)])

    (experiment,) = suite.json("--crucible-adapter=both")["experiments"]

    (sent,) = [line for line in experiment["sections"]["run_checks"] if line["check"] == "sent"]
    assert "temperature 0.5 and 0" in sent["cells"][0]


def test_an_ensemble_of_a_simulated_member_is_simulated(suite):
    suite.script(SCRIPTS, others={**RECORDED, "mixed": {"ensemble": ["v1", "v2", "scripted"]}})

    suite.run("--crucible-adapter=mixed").stdout.fnmatch_lines(["*exact_match >= 0.70*(simulated)*"])


def test_a_member_is_opened_once_and_closed_once(suite):
    """Also where it is an arm, and a member of two ensembles."""
    suite.pytester.makeconftest(
        """
        import pytest
        from pathlib import Path
        from pytest_crucible import Reply

        class Noting:
            simulated = False

            def __init__(self, name):
                self.identity = self.name = name
                self.note("opened")

            def note(self, what):
                with Path("calls.txt").open("a") as calls:
                    calls.write(f"{what} {self.name}\\n")

            async def generate(self, request):
                return Reply(text="0", latency_s=0.0)

            async def close(self):
                self.note("closed")

        @pytest.hookimpl(optionalhook=True)
        def pytest_crucible_backend(adapter):
            return Noting(adapter.name) if adapter.backend == "noting" else None
        """
    )
    names = ("a", "b", "c")
    suite.adapters(
        {
            **{name: {"backend": "noting"} for name in names},
            "inner": {"ensemble": ["a", "b"]},
            "outer": {"ensemble": ["inner", "b", "c"]},
        }
    )
    suite.run("--crucible-adapter=outer", "--compare=inner", "--compare=a")

    assert sorted(suite.calls()) == [*(f"closed {name}" for name in names), *(f"opened {name}" for name in names)]


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        (
            {"trio": {"ensemble": ["v1", "trio"]}},
            "adapter 'trio' is an ensemble of itself (trio > trio): name other adapters as members",
        ),
        (
            {
                "trio": {"ensemble": ["v1", "duo"]},
                "duo": {"ensemble": ["v2", "pair"]},
                "pair": {"ensemble": ["v1", "duo"]},
            },
            "adapter 'duo' is an ensemble of itself (duo > pair > duo): name other adapters as members",
        ),
        (
            {"trio": {"ensemble": ["v1", "run:abc"]}},
            "ensemble 'trio': adapter 'run:abc' is not configured: known adapters are *",
        ),
        (
            {"trio": {"ensemble": ["v1", "v2"], "backend": "recorded"}},
            "adapter 'trio' in *crucible.toml has backend = 'recorded' and ensemble = [[]...]: write one of them",
        ),
        (
            {"trio": {"ensemble": ["v1", "gone"]}, "gone": {"backend": "recorded", "path": "gone.jsonl"}},
            "recorded replies '*gone.jsonl' do* not exist: give the path of a .jsonl file",
        ),
        (
            {"trio": {"ensemble": ["v1", "again"]}, "again": RECORDED["v1"]},
            "members 'v1' and 'again' of 'trio' are the same checkpoint with the same parameters: *",
        ),
    ],
    ids=["itself", "in a circle below", "stored run", "backend too", "member that cannot be opened", "the same file"],
)
def test_an_invalid_ensemble_is_refused_before_any_request(suite, tables, sentence):
    suite.adapters({**RECORDED, **tables})

    suite.refuses(suite.run("--crucible-adapter=trio"), sentence)
