"""The CNS3 preset as a suite uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_crucible.cli import main
from pytest_crucible.features.cns3.antagonist import DEFAULT_RULES, use_rules

SUITE = """
import pytest
from pytest_crucible import cns3

DOCUMENTS = {"7": {"title": "Tea", "abstract": ["In adults tea shortened colds."]}}
EXPECTED = {"claim": "Tea shortens colds.", "label": "SUPPORT", "cited": ["7"], "evidence": {"7": [0]}}


def claims():
    return [{"id": str(k), "input": f"{k}?", "expected": EXPECTED, "documents": DOCUMENTS} for k in range(6)]


@pytest.mark.crucible(dataset=claims, metrics=cns3.METRICS)
@pytest.mark.quality_target(*cns3.TARGETS)
async def test_claims(sample, sampler):
    return await sampler.generate(sample.input)
"""
GOOD = (
    "CLAIM[c1]: Tea shortens colds.\nCLAIM[c2] (Document 7): In adults tea shortened colds.\nRELATION: c2 supports c1"
)
WRONG = GOOD.replace("Document 7", "Document 9")


@pytest.fixture
def run_replies(pytester):
    """Run the suite on these replies."""

    def run(*replies: str, rules: str = "", arguments=(), suite: str = SUITE):
        pytester.makepyfile(test_claims=suite)
        rows = [json.dumps({"sample_id": str(k), "text": text}) for k, text in enumerate(replies)]
        (pytester.path / "v2.jsonl").write_text("\n".join(rows))
        (pytester.path / "crucible.toml").write_text(f'[adapters.v2]\nbackend = "recorded"\npath = "v2.jsonl"\n{rules}')
        return pytester.runpytest_inprocess("-p", "no:asyncio", "--crucible-adapter=v2", *arguments)

    run.path = pytester.path
    yield run
    use_rules(DEFAULT_RULES)


def test_targets_that_need_a_model_are_undecided_and_say_what_to_install(run_replies):
    result = run_replies(*[GOOD] * 6)

    result.stdout.fnmatch_lines(
        [
            "schema_compliance >= 0.95*1.000*6*0*met*",
            "citation_accuracy >= 0.95*1.000*6*0*met*",
            "entailment >= 0.50*undecided*",
            "*pytest-crucible[[]nli[]]*",
            "count(high_flags) == 0*0*6*0*met*",
        ]
    )
    assert result.ret == 0


def test_one_invented_document_is_a_high_flag(run_replies):
    result = run_replies(*[GOOD] * 5, WRONG)

    result.stdout.fnmatch_lines(["citation_accuracy >= 0.95*0.833*missed*", "count(high_flags) == 0*1*missed*"])
    assert result.ret == 1


def test_findings_are_listed_by_rule_severity_and_arm_and_exported_with_their_evidence(run_replies, monkeypatch):
    labelled = SUITE.replace('"documents": DOCUMENTS}', '"documents": DOCUMENTS, "gold_flags": GOLD[k]}').replace(
        "def claims", 'GOLD = [[], [], [], ["CITATION_INVALID"], ["CITATION_INVALID"], []]\n\n\ndef claims'
    )
    result = run_replies(
        *[GOOD] * 4, WRONG, WRONG, suite=labelled, arguments=["--crucible-json=out.json", "--crucible-report=out.md"]
    )

    result.stdout.fnmatch_lines(
        [
            "finding * arm * HIGH * MEDIUM * LOW * explained * share of samples * n",
            "CITATION_INVALID * v2 * 2 * 0 * 0 * 0 * 0.333 [[]*[]] * 6",
            "  arm * precision * found * recall * labelled",
            "CITATION_INVALID",
            "  v2 * 0.500 [[]*[]] * 2 * 0.500 [[]*[]] * 2",
        ]
    )
    monkeypatch.chdir(run_replies.path)
    [finding] = json.loads(Path("out.json").read_text())["experiments"][0]["sections"]["findings"]
    page = Path("out.md").read_text()
    assert "Findings of the antagonist" in page
    assert "Findings and gold flags" in page
    assert (finding["name"], finding["severities"]["HIGH"], finding["recall"]["n"]) == ("CITATION_INVALID", 2, 2)
    assert main(["export", "--what", "findings", "-o", "flags.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("flags.jsonl").read_text().splitlines()]
    assert [(row["sample"], row["finding"], row["severity"], row["labelled"]) for row in rows] == [
        ("4", "CITATION_INVALID", "HIGH", True),
        ("5", "CITATION_INVALID", "HIGH", False),
    ]
    assert rows[0]["evidence"] == {"citation_accuracy": 0.0}


def test_the_rules_of_a_project_are_its_own(run_replies):
    """A session that runs within another one does not inherit its rules."""
    rule = '[[antagonist.rules]]\nname = "LOOSE"\nseverity = "HIGH"\nwhen = ["flaws > 0"]\n'
    loose = run_replies(*[GOOD] * 5, WRONG, rules=rule)
    default = run_replies(*[GOOD] * 5, WRONG, arguments=("--crucible-fresh",))

    loose.stdout.fnmatch_lines(["count(high_flags) == 0*0*met*"])
    default.stdout.fnmatch_lines(["count(high_flags) == 0*1*missed*"])


def test_an_invalid_rule_ends_the_session_before_any_request(run_replies):
    result = run_replies(GOOD, rules='[[antagonist.rules]]\nname = "LOOSE"\nseverity = "HIGH"\nwhen = ["vibes > 0"]\n')

    assert result.ret == 4
    result.stderr.fnmatch_lines(["*rule 1 of the antagonist uses the unknown value 'vibes'*"])
