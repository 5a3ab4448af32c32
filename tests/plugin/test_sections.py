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


POOR = ("--crucible-adapter=poor", "--compare=v2")
REPORTS = [f"--crucible-report=run.{ending}" for ending in FORMATS]


@pytest.fixture
def flipping(suite):
    """A suite with the section, whose `poor` breaks 14 of the answers that `v2` has right."""
    suite.pytester.makeconftest(CONFTEST)
    return suite


def run_poor(flipping) -> None:
    result = flipping.run(*POOR, *REPORTS)
    (flipping.path / "printed.txt").write_text(result.stdout.str(), encoding="utf-8")


@pytest.fixture
def failed(flipping):
    """The suite after a session in which the claim of the section is missed, with its reports and what it printed."""
    flipping.prepare_once(run_poor)
    return flipping


def files(suite) -> dict[str, str]:
    return {ending: (suite.path / f"run.{ending}").read_text(encoding="utf-8") for ending in FORMATS}


def test_a_section_is_in_every_format(failed):
    printed = pytest.LineMatcher((failed.path / "printed.txt").read_text(encoding="utf-8").splitlines())
    printed.fnmatch_lines(["claim * p (Holm, 2)  verdict", "flips: replies flip to wrong * missed, proven"])
    printed.fnmatch_lines(
        ["kind   broken  repaired", "flips      14         0", "test_sums: 14 answers were right before"]
    )
    for ending, text in files(failed).items():
        assert "replies flip to wrong" in text, ending
        assert "broken" in text, ending
    for ending in ("md", "tex", "html", "ipynb"):
        assert "14 answers were right before" in files(failed)[ending], ending
        assert "Flips of replies" in files(failed)[ending] or ending == "ipynb", ending


def test_a_sections_claim_joins_the_family_and_fails_the_session(failed):
    check_family(json.loads(files(failed)["json"]))


@pytest.mark.slow
def test_on_workers_a_sections_claim_joins_the_family_too(flipping):
    check_family(flipping.json(*POOR, run=flipping.run_n2))


def check_family(document) -> None:
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
    result = flipping.run(*POOR)

    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED *flips: replies flip to wrong* - missed: p *; more broken than repaired"])


def test_a_sections_verdict_is_kept_without_its_plugin(failed, monkeypatch, capsys):
    session = json.loads(files(failed)["json"])
    monkeypatch.chdir(failed.path)
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


def breaking_each(functions: tuple[str, ...], conftest: str) -> str:
    """A conftest with a section for each function, of that name, in which that function raises."""
    classes, _ = conftest.split("\n\ndef pytest_crucible_sections")
    parts = [breaking(function, classes).replace("class Flips", f"class {function.title()}") for function in functions]
    names = ", ".join(f'"{function}": {function.title()}()' for function in functions)
    return "\n".join([*parts, f"\ndef pytest_crucible_sections():\n    return {{{names}}}\n"])


def test_a_section_that_hides_its_claims_is_a_mistake_and_costs_no_other_verdict(flipping):
    flipping.pytester.makeconftest(breaking_each(("compute", "claims"), CONFTEST))
    result = flipping.run("--crucible-adapter=v3", "--compare=v2")

    assert result.ret == 1
    unknown = "its claims, which can fail the session, are unknown"
    for name in ("compute", "claims"):
        result.stdout.fnmatch_lines(
            [
                f"*the section '{name}' raised ZeroDivisionError: division by zero; {unknown}",
                f"FAILED *{name}* - error in the suite: the section '{name}' raised ZeroDivisionError: *",
            ]
        )
    result.stdout.fnmatch_lines(["exact_match >= 0.70 * met*"])


def test_a_section_without_such_claims_shows_its_failure_in_its_place(flipping):
    functions = ("compute", "claims", "view")
    harmless = CONFTEST.replace("class Flips:", "class Flips:\n    decides = False").replace(
        "fails=True", "fails=False"
    )
    flipping.pytester.makeconftest(breaking_each(functions, harmless))
    result = flipping.run("--crucible-adapter=v3", "--compare=v2", *REPORTS)
    detailed = flipping.run("--crucible-adapter=v3", "--compare=v2", "-v")

    assert (result.ret, detailed.ret) == (0, 0)
    result.stdout.no_fnmatch_line("*1 / 0*")
    [experiment] = json.loads(files(flipping)["json"])["experiments"]
    assert "claim" not in [verdict["kind"] for verdict in experiment["verdicts"]]
    for ending in ("md", "tex", "html", "ipynb"):
        assert files(flipping)[ending].count("could not be shown") >= 3, ending
    for name in functions:
        result.stdout.fnmatch_lines(
            [
                f"test_sums: the section '{name}' could not be shown: ZeroDivisionError: division by zero; "
                "no verdict depends on it"
            ]
        )
        detailed.stdout.fnmatch_lines(
            [f"test_sums: the section '{name}' raised ZeroDivisionError*", "*conftest.py*", "*1 / 0*"]
        )
        assert experiment["sections"][name] == {"error": "ZeroDivisionError: division by zero"}


def test_a_claim_that_is_known_decides_although_its_view_raises(flipping):
    flipping.pytester.makeconftest(breaking("view"))
    passed = flipping.run("--crucible-adapter=v3", "--compare=v2")
    failed = flipping.run(*POOR)

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
