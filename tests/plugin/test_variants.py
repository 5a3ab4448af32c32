"""Variants of samples in real sessions: twins are sent beside the samples, stored, resumed, reused and judged by name."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from pytest_crucible.cli import main

DATASET = """
    from pytest_crucible import NoTwin, Sample, Twin

    def rows():
        for k in range(20):
            she = NoTwin("no pronoun") if k % 10 == 9 else Twin(input=f"she {k}")
            upper = Twin(input=f"UPPER {k}", expected="LOUD")
            yield Sample(id=f"q{k}", input=f"he {k}", expected="right", variants={"she": she{more}, "upper": upper})
"""
TEST = """
    import pytest
    from data import rows

    @pytest.mark.crucible(dataset=rows, metrics=["exact_match"])
    @pytest.mark.quality_target("exact_match >= 0.9")
    @pytest.mark.quality_target("exact_match[she] >= 0.5")
    @pytest.mark.quality_target("exact_match[upper] >= 0.9")
    @pytest.mark.ab_compare("exact_match[she]")
    async def test_it(sample, sampler):
        return await sampler.generate(sample.input)
"""
CONFTEST = """
    import pytest_crucible as crucible

    class Model:
        simulated = False

        def __init__(self, name, wrong):
            self.identity, self.name, self.wrong = name, name, wrong

        async def generate(self, request):
            with open("calls.txt", "a") as file:
                print(self.name, request.sample, request.repeat, request.input, file=file)
            word, number = request.input.split()
            if word == "UPPER":
                return crucible.Reply(text="LOUD")
            return crucible.Reply(text="wrong" if word == "she" and int(number) < self.wrong else "right")

    def pytest_crucible_backend(adapter):
        return Model(adapter.name, adapter.options["wrong"]) if adapter.backend == "model" else None
"""
V2 = "--crucible-adapter=v2"
BOTH = (V2, "--compare=v1")


@pytest.fixture
def twins(suite):
    suite.pytester.makeconftest(CONFTEST)
    suite.adapters({name: {"backend": "model", "wrong": wrong} for name, wrong in (("v2", 12), ("v1", 0))})
    write_data(suite)
    suite.test(TEST)
    return suite


def write_data(suite, more=""):
    suite.test(DATASET.replace("{more}", more), name="data")


def calls(suite):
    """Return the calls since the last time, by arm and first word of the prompt."""
    path = suite.path / "calls.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    path.write_text("")
    return Counter((line.split()[0], line.split()[3]) for line in lines)


def estimate(document, metric):
    estimates = document["experiments"][0]["estimates"]
    return next(estimate for estimate in estimates if (estimate["metric"], estimate["arm"]) == (metric, "v2"))


ALL_CALLS = {(arm, word): n for arm in ("v2", "v1") for word, n in (("he", 20), ("she", 18), ("UPPER", 20))}


def test_twins_are_sent_judged_and_compared(twins, run):
    result = run("--crucible-json=run.json", *BOTH)

    assert calls(twins) == ALL_CALLS
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED test_sums.py::test_it::exact_match[[]she] >= 0.5 - missed*"])
    document = json.loads((twins.path / "run.json").read_text())
    assert estimate(document, "exact_match")["value"] == 1.0
    on_twins = estimate(document, "exact_match[she]")
    assert (on_twins["value"], on_twins["n"], on_twins["inapplicable"]) == (pytest.approx(7 / 18), 18, 2)
    assert estimate(document, "exact_match[upper]")["value"] == 1.0
    comparison = document["experiments"][0]["comparisons"][0]
    assert (comparison["metric"], comparison["pairs"]) == ("exact_match[she]", 18)
    assert comparison["difference"] == pytest.approx(-11 / 18)


@pytest.mark.uses("stages")
def test_the_plan_and_an_estimate_count_twins(twins):
    result = twins.run(*BOTH, "--crucible-estimate")

    assert not calls(twins)
    text = " ".join(result.stdout.str().split())
    assert "20 samples, as they are and in 2 variants x 2 arms = 116 replies" in text
    assert "all requests 116" in text


def test_a_new_variant_leaves_stored_replies_in_use(twins):
    twins.run(*BOTH, "--crucible-cache=off")
    calls(twins)
    write_data(twins, more=', "they": Twin(input=f"they {k}")')

    twins.run(*BOTH, "--crucible-cache=off")
    assert calls(twins) == {**{key: n for key, n in ALL_CALLS.items() if key[0] == "v2"}, **they("v2", "v1")}

    twins.run(*BOTH, "--crucible-cache=off", "--crucible-resume")
    assert not calls(twins)


def test_a_stored_run_is_reused_by_the_names_of_its_variants(twins):
    """The later run has its variants in another order, and one that the stored run lacks."""
    twins.run(V2, "--crucible-cache=off", "--crucible-tag=old")
    calls(twins)
    write_data(twins, more=', "they": Twin(input=f"they {k}")')

    document = twins.json(V2, "--compare=run:tag:old", "--crucible-cache=off")

    assert set(calls(twins)) == {("v2", word) for word in ("he", "she", "UPPER", "they")}
    comparison = document["experiments"][0]["comparisons"][0]
    assert (comparison["difference"], comparison["pairs"]) == (0.0, 18)


def they(*arms):
    return {(arm, "they"): 20 for arm in arms}


def test_a_reply_to_a_twin_is_a_draw_of_its_own_and_is_cached(twins):
    """The control of an experiment is a twin with the sample's own input: it never reads the cached reply to the sample."""
    write_data(twins, more=', "control": Twin(input=f"he {k}")')
    twins.run(V2)
    assert calls(twins)["v2", "he"] == 40

    twins.run(V2)
    assert not calls(twins)


def test_a_budget_covers_twins(twins):
    result = twins.run(V2, "--crucible-budget=30 requests")

    assert sum(calls(twins).values()) == 30
    assert "undecided" in result.stdout.str()


def test_programs_show_and_export_twins(twins, monkeypatch, capsys):
    twins.run(V2)
    monkeypatch.chdir(twins.path)
    capsys.readouterr()

    assert main(["show", "--sample", "q0"]) == 0
    output = capsys.readouterr().out
    assert "v2, she: answered (exact_match = False)" in output
    assert "user       she 0" in output

    assert main(["export", "--what", "observations", "-o", "rows.csv"]) == 0
    lines = (twins.path / "rows.csv").read_text().splitlines()
    assert lines[0].split(",")[6] == "variant"
    assert Counter(line.split(",")[6] for line in lines[1:]) == {"": 20, "she": 18, "upper": 20}


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (("exact_match[she] >= 0.5", "exact_match[shy] >= 0.5"), "*did you mean 'exact_match?she?'?*"),
        (("exact_match[she] >= 0.5", "exact_math[she] >= 0.5"), "*'exact_math?she?'*"),
    ],
)
def test_an_unknown_variant_is_an_error_before_any_request(twins, edit, sentence):
    twins.test(TEST.replace(*edit))

    result = twins.run(V2)

    assert result.ret == 4
    result.stderr.fnmatch_lines([sentence])
    assert not calls(twins)


def test_recorded_replies_do_not_cover_variants(twins):
    twins.adapters({"v2": {"backend": "recorded", "path": "answers/v1.jsonl"}})

    result = twins.run(V2)

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*recorded answers have no replies to variants of the samples: use a model*"])
