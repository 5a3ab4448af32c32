"""The reach of a metric from its declaration to verdicts, reports and stored runs; and a sample that refutes it."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.cli import main

N = 60
SUITE = """
    import pytest
    from pytest_crucible import Sample, metric

    SAMPLES = [Sample(id=f"q{{n:02}}", input=str(n)) for n in range(60)]

    @metric({facts}, version="1")
    def quality(reply, sample):
        return float(reply.text)

    @pytest.mark.crucible(dataset=SAMPLES, metrics=[quality])
    @pytest.mark.ab_compare("quality", {claim})
    async def test_claims(sample, sampler):
        return await sampler.generate(sample.input)
"""
JOINED = """
    import pytest

    @pytest.mark.score_reach(quality=0.25)
    @pytest.mark.ab_compare("quality", alternative="superior")
    @pytest.mark.parametrize("number", range(60), ids=[f"q{n:02}" for n in range(60)])
    def test_claims(crucible, number):
        crucible.score(quality=float(crucible.sampler.generate(str(number)).text))
"""
ARMS = ("--crucible-adapter=v2", "--compare=v1")
BEYOND = (
    "sample 'q17' changed by +0.62, more than the declared reach 0.25 (against v1): nothing is decided by 'quality'"
)


@pytest.fixture
def claims(suite):
    """Recorded replies: v2 is better by 0.04 on average, and by 0.62 on sample q17 of `v2 leaps`."""
    for name in ("v1", "v2", "v2 leaps"):
        rows = [
            {"sample_id": f"q{n:02}", "text": f"{0.3 + 0.01 * (n % 20) + (name != 'v1') * 0.01 * (n % 9):.2f}"}
            for n in range(N)
        ]
        if name == "v2 leaps":
            rows[17]["text"] = f"{0.47 + 0.62:.2f}"
        suite.write_rows(f"answers/{name}.jsonl", rows)
    suite.adapters(
        {name: {"backend": "recorded", "path": f"answers/{name}.jsonl"} for name in ("v1", "v2")}
        | {"leaps": {"backend": "recorded", "path": "answers/v2 leaps.jsonl"}}
    )
    return suite


def document(claims):
    return json.loads((claims.path / "r.json").read_text())["experiments"][0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_reach_proves_what_the_range_cannot(claims, workers):
    for facts, state in (("bounds=(0, 2)", "undecided"), ("bounds=(0, 2), reach=0.25", "met"), ("reach=0.25", "met")):
        claims.test(SUITE.format(facts=facts, claim="alternative='superior'"))
        (claims.run_n2 if workers else claims.run)(*ARMS, "--crucible-report=r.json", "--crucible-fresh")
        claims_document = document(claims)
        (verdict,), (comparison,), (metric,) = (
            claims_document["verdicts"],
            claims_document["comparisons"],
            claims_document["metrics"],
        )

        assert (verdict["state"], verdict["proven"]) == (state, state == "met")
        assert metric["reach"] == (0.25 if "reach" in facts else None)
        assert comparison["beyond_reach"] is None
        assert (comparison["suggested_reach"] is None) == (state == "met")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_beyond_the_reach_is_named_and_nothing_is_decided(claims, workers):
    claims.test(SUITE.format(facts="bounds=(0, 2), reach=0.25", claim="margin=0.02"))
    run = claims.run_n2 if workers else claims.run
    result = run("--crucible-adapter=leaps", "--compare=v1", "--crucible-report=r.json")

    result.stdout.fnmatch_lines(["*quality: leaps vs v1 non-inferior by 0.02*undecided*"])
    claims_document = document(claims)
    (verdict,), (comparison,) = claims_document["verdicts"], claims_document["comparisons"]
    assert BEYOND in verdict["reason"]
    assert comparison["beyond_reach"] == {
        "sample": "q17",
        "change": pytest.approx(0.62),
        "baseline": "v1",
        "reach": 0.25,
        "samples": 1,
    }
    assert comparison["difference"] > 0.04
    assert comparison["pairs"] == N


def test_a_pool_names_the_sample_too_and_suggests_no_reach(claims):
    pool = "-ocrucible_memory=pool"
    claims.test(SUITE.format(facts="bounds=(0, 2), reach=0.25", claim="margin=0.02"))
    for _ in range(2):
        claims.run("--crucible-adapter=leaps", "--compare=v1", pool, "--crucible-report=r.json")
        (verdict,) = document(claims)["verdicts"]
        assert (verdict["state"], BEYOND in verdict["reason"]) == ("undecided", True)

    claims.test(SUITE.format(facts="bounds=(0, 2)", claim="alternative='superior'"))
    claims.run(*ARMS, pool, "--crucible-report=r.json")
    assert [comparison["suggested_reach"] for comparison in document(claims)["comparisons"]] == [None]


def test_a_stored_run_keeps_its_reach(claims, capsys, monkeypatch):
    claims.test(SUITE.format(facts="bounds=(0, 2), reach=0.25", claim="alternative='superior'"))
    claims.run(*ARMS)
    claims.run("--crucible-adapter=leaps", "--compare=v1")
    monkeypatch.chdir(claims.path)
    capsys.readouterr()

    assert main(["show", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["experiments"][0]["metrics"][0]["reach"] == 0.25
    main(["compare", "latest", "latest:v1", "--json", "--metric", "quality", "--margin", "0.02"])
    (verdict,) = json.loads(capsys.readouterr().out)["experiments"][0]["verdicts"]
    assert (verdict["state"], BEYOND in verdict["reason"]) == ("undecided", True)
    assert main(["compare", "latest", "latest:v1", "--reach", "quality=1"]) == 4
    assert (
        "--reach applies to files, and a stored run has the reach that its metrics declared" in capsys.readouterr().err
    )


def test_a_joined_test_declares_the_reach_of_its_scores(claims):
    claims.test(JOINED)
    claims.run(*ARMS, "--crucible-report=r.json")

    assert [verdict["state"] for verdict in document(claims)["verdicts"]] == ["met"]


def test_the_plan_counts_on_the_reach(claims):
    claims.test(SUITE.format(facts="bounds=(0, 2), reach=0.25", claim="margin=0.02"))
    result = claims.run(*ARMS, "-v")

    result.stdout.fnmatch_lines(["*if differences have a standard deviation of 0.062*"])


@pytest.mark.parametrize(
    ("facts", "claim", "sentence"),
    [
        (
            "bounds=(0, 2), reach=3",
            "margin=0.1",
            "metric 'quality' has reach=3, and no two values between 0 and 2 are*",
        ),
        ("reach=-1", "margin=0.1", "metric 'quality' has reach=-1: write a positive number*"),
        (
            "bounds=(0, 2), reach=0.25",
            "margin=0.3",
            "ab_compare('quality') has margin=0.3, and by its declared reach no sample changes by more than 0.25*",
        ),
    ],
)
def test_an_impossible_reach_or_margin_ends_the_session_before_anything_is_sent(claims, facts, claim, sentence):
    claims.test(SUITE.format(facts=facts, claim=claim))
    result = claims.run(*ARMS)

    assert result.ret in (2, 4)
    assert any(sentence.rstrip("*") in line for line in (*result.outlines, *result.errlines))


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("score_reach(0.25)", "@pytest.mark.score_reach takes reach by name: write for example relevance=0.25"),
        ("score_reach(quality=0)", "metric 'quality' has reach=0: write a positive number"),
    ],
)
def test_a_marker_without_sense_is_an_error(claims, marker, sentence):
    claims.test(JOINED.replace("score_reach(quality=0.25)", marker))
    result = claims.run(*ARMS)

    assert result.ret == 4
    assert sentence in "\n".join((*result.outlines, *result.errlines))


def test_results_of_other_harnesses_take_a_reach(suite, capsys, monkeypatch):
    monkeypatch.chdir(suite.path)
    rows = [
        {"question": f"q{n:02}", "model": model, "quality": 0.3 + 0.01 * (n % 20) + (model == "v2") * 0.01 * (n % 9)}
        for model in ("v2", "v1")
        for n in range(N)
    ]
    suite.write_rows("results.jsonl", rows)
    names = ["results.jsonl", "--column", "metrics=quality", "--range", "quality=0:2", "--metric", "quality:higher"]

    def state(*options):
        main(["compare", *names, "--alternative", "superior", "--json", *options])
        return json.loads(capsys.readouterr().out)["experiments"][0]["verdicts"][0]["state"]

    assert (state(), state("--reach", "quality=0.25")) == ("undecided", "met")
    assert main(["import", *names, "--reach", "quality=0.25", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["experiments"][0]["metrics"][0]["reach"] == 0.25
    for option, sentence in (
        ("quality", "--reach='quality' cannot be read: write METRIC=NUMBER, such as quality=0.25"),
        ("quality=-1", "--reach='quality=-1' cannot be read"),
        ("quality=5", "metric 'quality' has --reach=5, and no two values between 0 and 2 are further apart than 2"),
        ("quantity=1", "there is no"),
    ):
        assert main(["compare", *names, "--reach", option]) == 4
        assert sentence in capsys.readouterr().err


@pytest.mark.uses("stages")
def test_looks_need_only_a_reach(claims):
    claims.test(SUITE.format(facts="reach=0.1", claim="margin=0.09"))
    claims.run(*ARMS, "--crucible-stop", "--crucible-report=r.json")

    assert [verdict["state"] for verdict in document(claims)["verdicts"]] == ["met"]
