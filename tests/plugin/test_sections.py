"""A section that a conftest.py adds: in every report format, and with a claim that can fail the session."""

from __future__ import annotations

import json

import pytest

from pytest_crucible.cli import main

CONFTEST = """
from pytest_crucible.sections import Claim, Note, Row, Table, View


class Flips:
    def compute(self, inputs):
        candidate, baseline = (arm.values for arm in inputs.scores["exact_match"])
        return {"broken": int((candidate < baseline).sum()), "repaired": int((candidate > baseline).sum())}

    def claims(self, flips):
        from scipy.stats import binomtest

        total = sum(flips.values())
        p_value = float(binomtest(flips["broken"], total).pvalue) if total else None
        return [Claim(subject="replies flip to wrong", p_value=p_value, fails=True, reason="more broken than repaired")]

    def view(self, flips, claims):
        row = Row(cells=("flips", *map(str, flips.values())))
        table = Table(title="Flips of replies", heads=("kind", "broken", "repaired"), rows=(row,), numbers=("broken", "repaired"))
        note = Note(text=f"{flips['broken']} answers were right before")
        return View(title="Flips", tables=(table,), notes=(note,), document={**flips, "p_adjusted": claims[0].p_adjusted})


def pytest_crucible_sections():
    return {"flips": Flips()}
"""
FORMATS = ("md", "tex", "html", "ipynb", "json")


@pytest.fixture
def flipping(suite):
    """A suite with the section, whose `poor` breaks 14 of the answers that `v2` has right."""
    suite.pytester.makeconftest(CONFTEST)
    return suite


def files(suite) -> dict[str, str]:
    return {ending: (suite.path / f"run.{ending}").read_text(encoding="utf-8") for ending in FORMATS}


def test_a_section_is_in_every_format(flipping):
    reports = [f"--crucible-report=run.{ending}" for ending in FORMATS]
    result = flipping.run("--crucible-adapter=poor", "--compare=v2", *reports)

    result.stdout.fnmatch_lines(["claim * p (Holm, 2)  verdict", "flips: replies flip to wrong * missed, proven"])
    result.stdout.fnmatch_lines(
        ["kind   broken  repaired", "flips      14         0", "test_sums: 14 answers were right before"]
    )
    for ending, text in files(flipping).items():
        assert "replies flip to wrong" in text, ending
        assert "broken" in text, ending
    for ending in ("md", "tex", "html", "ipynb"):
        assert "14 answers were right before" in files(flipping)[ending], ending
        assert "Flips of replies" in files(flipping)[ending] or ending == "ipynb", ending


def test_a_sections_claim_joins_the_family_and_fails_the_session(flipping, run):
    document = flipping.json("--crucible-adapter=poor", "--compare=v2", run=run)
    [experiment] = document["experiments"]
    [pair] = experiment["comparisons"]
    verdict = next(verdict for verdict in experiment["verdicts"] if verdict["kind"] == "claim")

    assert (document["exit_status"], document["run"]["family_size"]) == (1, 2)
    assert (verdict["subject"], verdict["state"]) == ("flips: replies flip to wrong", "missed")
    assert verdict["reason"] == "more broken than repaired"
    assert experiment["sections"]["flips"] == {
        "broken": 14, "repaired": 0, "p_adjusted": pytest.approx(2 * pair["p_value"]),  # Holm: the lesser of two p-values twice
    }  # fmt: skip
    assert pair["p_adjusted"] >= pair["p_value"]


def test_a_claim_alone_fails_the_session(flipping):
    """Beside a margin, which is not in its family: its p-value is not adjusted."""
    flipping.test(
        """
        import pytest

        @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
        @pytest.mark.ab_compare("exact_match", margin=0.99)
        async def test_sums(sample, sampler):
            return await sampler.generate(sample.input)
        """
    )
    failed = flipping.run("--crucible-adapter=poor", "--compare=v2")
    passed = flipping.run("--crucible-adapter=v3", "--compare=v2")

    assert failed.ret == 1
    failed.stdout.fnmatch_lines(["FAILED *flips: replies flip to wrong* - missed: p *; more broken than repaired"])
    assert passed.ret == 0


def test_a_sections_verdict_is_kept_without_its_plugin(flipping, monkeypatch, capsys):
    session = flipping.json("--crucible-adapter=poor", "--compare=v2")
    monkeypatch.chdir(flipping.path)
    capsys.readouterr()
    main(["show", "--json"])
    document = json.loads(capsys.readouterr().out)

    assert document["run"]["family_size"] == 2
    assert [verdict["subject"] for verdict in document["experiments"][0]["verdicts"] if verdict["kind"] == "claim"] == [
        "flips: replies flip to wrong"
    ]
    [then], [now] = (entry["experiments"][0]["comparisons"] for entry in (session, document))
    assert now["detectable"] == then["detectable"]


def breaking(function: str, conftest: str = CONFTEST) -> str:
    """The conftest with a section of which one function raises."""
    return conftest.replace(
        f"def {function}(self, ", f"def {function}(self, *_):\n        1 / 0\n\n    def _{function}(self, "
    )


@pytest.mark.parametrize("function", ["compute", "claims"])
def test_a_section_that_hides_its_claims_is_a_mistake_and_costs_no_other_verdict(flipping, function):
    flipping.pytester.makeconftest(breaking(function))
    result = flipping.run("--crucible-adapter=v3", "--compare=v2")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*the section 'flips' raised ZeroDivisionError: division by zero; its claims, which can fail the session, are unknown",
            "FAILED *flips* - error in the suite: the section 'flips' raised ZeroDivisionError: *",
        ]
    )
    result.stdout.fnmatch_lines(["exact_match >= 0.70 * met*"])


@pytest.mark.parametrize("function", ["compute", "claims", "view"])
def test_a_section_without_such_claims_shows_its_failure_in_its_place(flipping, function):
    harmless = CONFTEST.replace("class Flips:", "class Flips:\n    decides = False").replace(
        "fails=True", "fails=False"
    )
    flipping.pytester.makeconftest(breaking(function, harmless))
    reports = [f"--crucible-report=run.{ending}" for ending in FORMATS]
    result = flipping.run("--crucible-adapter=v3", "--compare=v2", *reports)
    detailed = flipping.run("--crucible-adapter=v3", "--compare=v2", "-v")

    sentence = "the section 'flips' could not be shown: ZeroDivisionError: division by zero; no verdict depends on it"
    assert (result.ret, detailed.ret) == (0, 0)
    result.stdout.fnmatch_lines([f"test_sums: {sentence}"])
    result.stdout.no_fnmatch_line("*1 / 0*")
    detailed.stdout.fnmatch_lines(
        ["test_sums: the section 'flips' raised ZeroDivisionError*", "*conftest.py*", "*1 / 0*"]
    )
    for ending in ("md", "tex", "html", "ipynb"):
        assert "could not be shown" in files(flipping)[ending], ending
    [experiment] = json.loads(files(flipping)["json"])["experiments"]
    assert experiment["sections"]["flips"] == {"error": "ZeroDivisionError: division by zero"}
    assert "claim" not in [verdict["kind"] for verdict in experiment["verdicts"]]


def test_a_claim_that_is_known_decides_although_its_view_raises(flipping):
    flipping.pytester.makeconftest(breaking("view"))
    passed = flipping.run("--crucible-adapter=v3", "--compare=v2")
    failed = flipping.run("--crucible-adapter=poor", "--compare=v2")

    assert (passed.ret, failed.ret) == (0, 1)
    failed.stdout.fnmatch_lines(["FAILED *flips: replies flip to wrong* - missed: *more broken than repaired"])


def test_an_invalid_section_is_refused_before_any_request(flipping):
    flipping.pytester.makeconftest("def pytest_crucible_sections():\n    return {'flips': 7}\n")

    flipping.refuses(
        flipping.run("--crucible-adapter=v2"),
        "section 'flips' is 7, which has no function 'compute': a section has compute(inputs), claims(result) and "
        "view(result, claims)",
    )


def test_an_existing_name_is_refused(flipping):
    flipping.pytester.makeconftest(CONFTEST.replace('"flips": Flips', '"usage": Flips'))

    flipping.refuses(flipping.run("--crucible-adapter=v2"), "section 'usage' is offered by two plugins: rename one")
