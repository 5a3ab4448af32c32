"""Facts that features add to verdicts and to the run, in every report, and nowhere else."""

from __future__ import annotations

import json
from contextlib import closing
from xml.etree import ElementTree

from pytest_crucible.runs.load_run import load_run
from pytest_crucible.store.runs import RunStore

TEST = """
    import pytest

    @pytest.mark.crucible(dataset=[{"id": f"q{k}", "input": str(k)} for k in range(40)])
    @pytest.mark.ab_compare("right")
    async def test_sums(sample, sampler, score):
        reply = await sampler.generate(sample.input)
        score(right=reply.text == "yes")
"""
ADAPTERS = """
    import pytest
    from pytest_crucible import ScriptedBackend
    from pytest_crucible.records import ReportFact

    def pytest_crucible_backend(adapter):
        # v2 is right on 15 samples of 40, and v1 on 28.
        most = {"v2": 15, "v1": 28}.get(adapter.name)
        if most is not None:
            return ScriptedBackend(lambda request: "yes" if int(request.input) < most else "no", identity=adapter.name)

    def pytest_crucible_run_facts(run):
        print("FACTS")
        return [ReportFact(name="root", text="the root is 9f3c", document="9f3c")]
"""
LINE = "fragility: 5 answers: if v2 were right on 5 more, the arms would not be told apart"
FILES = ("run.json", "run.md", "run.html", "run.tex", "run.ipynb")


def run_suite(suite, *options):
    suite.adapters({"v2": {"backend": "mine"}, "v1": {"backend": "mine"}})
    suite.test(TEST)
    suite.pytester.makeconftest(ADAPTERS)
    return suite.run("--crucible-adapter=v2", "--compare=v1", *options)


def test_every_report_has_the_facts_of_verdicts_and_of_the_run(suite):
    result = run_suite(
        suite,
        "-v",
        "--junitxml=run.xml",
        "--crucible-json=run.json",
        *(f"--crucible-report={name}" for name in FILES[1:]),
    )

    texts = {name: (suite.path / name).read_text() for name in (*FILES, "run.xml")}
    count = LINE.removeprefix("fragility: ").partition(":")[0]
    assert all(count in texts[name] for name in FILES[1:])
    assert all("9f3c" in text for text in texts.values())
    result.stdout.fnmatch_lines([f"*{LINE}", "the root is 9f3c"])
    document = json.loads(texts["run.json"])
    assert document["run"]["root"] == "9f3c"
    flip = {"answers": 5, "is_exact": True, "arm": "v2", "is_better": True, "state": "met", "proven": False}
    [verdict] = document["experiments"][0]["verdicts"]
    assert verdict["fragility"]["change_of_state"] == flip
    properties = {
        each.get("name"): each.get("value") for each in ElementTree.fromstring(texts["run.xml"]).iter("property")
    }
    assert properties["crucible_root"] == "the root is 9f3c"
    assert f"fragility: {properties['crucible_fragility']}" == LINE


def test_a_plain_session_computes_no_facts(suite):
    result = run_suite(suite, "-s")

    result.stdout.no_fnmatch_line("*FACTS*")
    result.stdout.no_fnmatch_line("*fragility*")


def test_a_stored_run_has_the_facts_of_installed_features_where_they_are_asked_for(suite, command):
    run_suite(suite)

    assert "fragility" not in command("show")[1]
    assert LINE in command("show", "-v")[1]
    command("report", "-o", "again.md")
    assert "5 answers" in (suite.path / "again.md").read_text()


def test_facts_that_cannot_be_computed_leave_the_verdicts_as_they_are(suite):
    (suite.path / "broken.py").write_text("def pytest_crucible_verdict_facts(run):\n    raise OSError('no space')\n")
    suite.pytester.syspathinsert()
    result = run_suite(suite, "-p", "broken", "-v")

    result.stdout.fnmatch_lines(["*right: v2 vs v1*FAILED*", "*are missing from this report: OSError: no space"])
    with closing(RunStore(str(suite.path / ".crucible/crucible.db"))) as store:
        run = load_run(store, store.find_run("latest"))
    assert [verdict.state for verdict in run.verdicts] == ["missed"]


def test_without_the_feature_reports_have_no_fragility(suite):
    run_suite(suite, "-p", "no:crucible-provenance", "--crucible-json=run.json")

    [verdict] = json.loads((suite.path / "run.json").read_text())["experiments"][0]["verdicts"]
    assert "fragility" not in verdict
