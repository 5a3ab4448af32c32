"""A model that judges: rubrics, preference in both orders, what is known of the judge, and what becomes of a bad verdict."""

from __future__ import annotations

import re
import textwrap

import pytest

QUESTIONS = [
    {"id": f"q{k}", "input": f"{k} + {k}", "expected": str(2 * k), "rated": "good" if k < 8 else "poor"}
    for k in range(10)
]
TEST = """
import pytest
from pytest_crucible import judges

right = judges.rubric("right", "Is it right?", levels={"poor": 0, "good": 1}, reference=True, human="rated")
better = judges.pairwise("better", "Which is more exact?")

@pytest.mark.crucible(dataset="sums.jsonl", metrics=[right, better])
@pytest.mark.quality_target("right >= 0.5", "better >= 0.2")
async def test_sums(sample, sampler):
    return await sampler.generate(sample.input)
"""
JUDGE = """
import re

def judge(request):
    parts = dict(re.findall(r"<(\\w+)-\\w+>\\n(.*?)\\n</", request.input))
    if "answer" in parts:
        if parts["question"] == "7 + 7":
            return "I cannot say."
        return f"Well.\\nVERDICT: {'good' if parts['answer'] == parts['reference'] else 'poor'}"
    if parts["first"] == parts["second"]:
        return "VERDICT: tie"
    return "VERDICT: first"
"""
SCORERS = '\n[scorers]\njudge = { adapter = "critic" }\n'


@pytest.fixture
def judged(suite):
    """A suite whose answers are right but for two, a judge that reads them, and one that prefers what it reads first."""
    suite.write_rows("sums.jsonl", QUESTIONS)
    answers = [
        {"sample_id": question["id"], "text": question["expected"] if k not in (3, 9) else "?"}
        for k, question in enumerate(QUESTIONS)
    ]
    suite.write_rows("answers/v2.jsonl", answers)
    (suite.path / "critic.py").write_text(JUDGE)
    suite.adapters(
        {
            "v2": {"backend": "recorded", "path": "answers/v2.jsonl"},
            "critic": {"backend": "scripted", "script": "critic:judge"},
        }
    )
    suite.test(TEST, name="test_sums")
    return suite


def configure(suite, table: str = SCORERS) -> None:
    with (suite.path / "crucible.toml").open("a") as file:
        file.write(table)


def test_a_reply_is_judged_by_rubric_and_by_preference(judged):
    configure(judged)
    result = judged.run("--crucible-adapter=v2", "--crucible-json=run.json")

    result.stdout.fnmatch_lines(
        [
            "right >= 0.5*0.7*9*1*met*",
            "better >= 0.2*0.5*10*0*met*",
            "judge:critic        31 *",
            "test_sums: v2: 1 score lost (scorer error)",
            "test_sums: judge of better, v2: same verdict in both orders 0.800 *, 2 moved with the first place, "
            "0 with *p = 0.500*n=10",
            "test_sums: judge of right, v2: as people 0.778 *, kappa 0.357 *, n=9",
            "judge 'critic' is simulated: no model stands behind its verdicts",
        ]
    )
    (experiment,) = judged.json()["experiments"]
    assert [(entry["arm"], entry["sent"]) for entry in experiment["sections"]["usage"] if entry["arm"] != "v2"] == [
        ("judge:critic", 31)  # one verdict was requested twice
    ]
    kinds = {judge["kind"]: judge for judge in experiment["sections"]["judges"]}
    assert (kinds["place"]["towards_first"], kinds["place"]["consistent"]["value"]) == (2, 0.8)
    assert kinds["human"]["raw"]["value"] == pytest.approx(7 / 9)
    assert result.ret == 0


def test_the_conversation_with_the_judge_is_stored_and_shown(judged):
    configure(judged)
    judged.run("--crucible-adapter=v2")
    lines = judged.command("show", "--sample", "q7").outlines

    assert [line.strip() for line in lines if line.startswith("  judge:")] == ["judge:critic"] * 4
    at = lines.index("  judge:critic")
    assert lines[at + 1] == "  user       Is it right?"
    assert "  assistant  I cannot say." in lines[at:]
    assert "             This is your reply. Its last line is not a verdict. Write only that line:" in lines
    assert "  assistant  VERDICT: tie" in lines


def test_an_unreadable_verdict_is_lost_and_not_zero(judged):
    configure(judged)
    result = judged.run("--crucible-adapter=v2", "--crucible-sample=q7")

    result.stdout.fnmatch_lines(
        [
            "right lost: metric 'right' raised NoVerdict: no readable verdict in two replies: the judge's reply ends with *"
        ]
    )


def test_without_a_judge_the_target_is_undecided_and_says_what_to_set(judged):
    result = judged.run("--crucible-adapter=v2")

    result.stdout.fnmatch_lines(
        ["right >= 0.5 *undecided*", '*no judge is configured: set judge = { adapter = "NAME" } in [[]scorers[]] *']
    )
    assert result.ret == 0


def test_an_unknown_judge_is_refused_before_any_request(judged):
    configure(judged, '\n[scorers]\njudge = { adapter = "critc" }\n')

    judged.refuses(
        judged.run("--crucible-adapter=v2"), "*adapter 'critc' is not configured: did you mean 'critic'[?] *"
    )


# -- asked as any adapter is ------------------------------------------------------------------------------------------

PAID = """
from pathlib import Path
from pytest_crucible import Reply

class Model:
    simulated = False

    def __init__(self, name):
        self.identity = f"{name}:1"

    async def generate(self, request):
        with Path("calls.txt").open("a") as file:
            print(request.arm, file=file)
        verdict = "VERDICT: tie" if "<first-" in request.input else "VERDICT: good"
        judged = request.arm.startswith("judge:")
        return Reply(text=verdict if judged else "4", input_tokens=100, output_tokens=10)

def pytest_crucible_backend(adapter):
    return Model(adapter.name) if adapter.backend == "model" else None
"""


@pytest.fixture
def paid(judged):
    """The same suite, of which every answer and verdict is asked of a model that is paid for."""
    judged.pytester.makeconftest(PAID)
    price = {"input": 1.0, "output": 1.0}
    (judged.path / "crucible.toml").write_text(
        "".join(
            f'[adapters.{name}]\nbackend = "model"\nprice = {{ input = {price["input"]}, output = {price["output"]} }}\n'
            for name in ("v2", "v3", "critic")
        )
        + SCORERS
    )
    return judged


def test_cached_judgements_send_no_request(paid):
    paid.run("--crucible-adapter=v2")
    first = [entry for entry in paid.calls() if entry == "judge:critic"]
    paid.forget_calls()
    document = paid.json("--crucible-adapter=v2")

    assert len(first) == 29  # where reply and expected answer are the same text, both orders are one question
    assert paid.calls() == []
    (usage,) = (entry for entry in document["experiments"][0]["sections"]["usage"] if entry["arm"] == "judge:critic")
    assert (usage["sent"], usage["cached"]) == (0, 30)


def test_a_judges_cost_counts_for_the_run(paid):
    result = paid.run("--crucible-adapter=v2", "--crucible-budget=20 requests")

    result.stdout.fnmatch_lines(["budget   20 of 20 requests*"])
    assert len(paid.calls()) == 20
    paid.forget_calls()
    resumed = paid.json("--crucible-adapter=v2", "--crucible-resume")
    assert resumed["experiments"][0]["finished"]
    assert len(paid.calls()) == 10 + 29 - 20


def test_a_baseline_of_another_question_is_refused(paid):
    document = paid.json("--crucible-adapter=v2")
    compared = TEST.replace("@pytest.mark.quality", '@pytest.mark.ab_compare("right")\n@pytest.mark.quality')
    paid.test(compared.replace("Is it right?", "Is it true?"), name="test_sums")
    result = paid.run("--crucible-adapter=v3", f"--compare=run:{document['run']['id']}")

    result.stderr.fnmatch_lines(["ERROR: *cannot be compared with: *metrics* changed since run *"])
    assert result.ret == 4


FLIPPING = """
    import itertools

    turns = itertools.count()

    def judge(request):
        number = next(turns)
        return f"Reason {number}: " + "I have thought about it. " * 4 + "\\nVERDICT: " + ("good" if number % 3 else "poor")
"""
REPEATED = (
    TEST.replace("metrics=[right, better]", "metrics=[right], epochs=2")
    .replace(', "better >= 0.2"', "")
    .replace("return await sampler.generate(sample.input)", "return sample.expected")
)


@pytest.mark.uses("run_checks")
def test_a_judge_that_flips_between_calls_is_shown_before_the_verdicts(judged):
    """Equal replies of the two repeats get different scores (deepeval#3110, hindsight#2050)."""
    (judged.path / "critic.py").write_text(textwrap.dedent(FLIPPING))
    judged.test(REPEATED, name="test_sums")
    configure(judged)
    result = judged.run("--crucible-adapter=v2", "--crucible-json=run.json", "--crucible-concurrency=1")

    result.stdout.fnmatch_lines(
        [
            "judges * of 10 samples differ  verdicts differ",
            "*judge critic gave equal inputs different verdicts on * of 10 samples (* at 95 %): equal replies get different*",
        ]
    )
    report = judged.command("show").outlines
    assert any("gave equal inputs different verdicts" in line for line in report)


@pytest.mark.uses("run_checks")
def test_a_judge_that_repeats_its_verdicts_is_a_quiet_line(judged):
    judged.test(REPEATED, name="test_sums")
    configure(judged)
    quiet = judged.run("--crucible-adapter=v2")
    loud = judged.run("--crucible-adapter=v2", "-v")

    quiet.stdout.no_fnmatch_line("*judges  *")
    loud.stdout.fnmatch_lines(["judges * 0 of 10 samples differ, 1 unreadable*"])


VOTES = (
    TEST.replace('human="rated"', "votes=3")
    .replace("metrics=[right, better]", "metrics=[right]")
    .replace(', "better >= 0.2"', "")
)


def test_each_vote_is_planned_paid_and_cached(paid):
    paid.test(VOTES, name="test_sums")
    result = paid.run("--crucible-adapter=v2")
    verdicts = [call for call in paid.calls() if call == "judge:critic"]
    paid.forget_calls()
    again = paid.run("--crucible-adapter=v2")

    result.stdout.fnmatch_lines(
        [
            "  judge critic: 3 x 10 replies = 30 requests",
            "test_sums: judge of right, v2: all 3 votes equal 1.000 *, 0 tied, n=10",
        ]
    )
    assert (len(verdicts), paid.calls()) == (30, [])
    again.stdout.fnmatch_lines(["test_sums: judge of right, v2: all 3 votes equal 1.000 *, 0 tied, n=10"])


def judge_row(result):
    """The cells of the judge's row: replies, stored, cached, requests, tokens, cost, time."""
    [row] = [re.split(r" {2,}", line.strip()) for line in result.outlines if line.startswith("judge:critic  ")]
    return row[1:]


def test_an_estimate_prices_the_votes(paid):
    paid.test(VOTES, name="test_sums")
    estimate = ("--crucible-adapter=v2", "--crucible-estimate", "--crucible-cache=off")
    unknown = paid.run(*estimate)
    paid.run("--crucible-adapter=v2")
    paid.test(VOTES.replace("votes=3", "votes=5"), name="test_sums")
    result = paid.run(*estimate)

    assert judge_row(unknown)[3:6] == ["30", "unknown", "unknown"]
    assert judge_row(result)[3:6] == ["50", "5,500", "$0.0055"]
    result.stdout.re_match_lines([r"  judge:critic: as judge:critic in run .*, 5 requests a reply instead of 3"])


@pytest.mark.slow
def test_workers_judge_as_one_process_does(paid):
    plain = paid.json("--crucible-adapter=v2")["experiments"][0]
    split = paid.json("--crucible-adapter=v2", run=paid.run_n2)["experiments"][0]

    assert (plain["sections"]["judges"], plain["estimates"]) == (split["sections"]["judges"], split["estimates"])


@pytest.mark.uses("robustness")
def test_labels_of_clean_and_attacked_replies_correct_the_drop(judged):
    """The judge calls every reply good; people call those to mistyped questions poor."""
    labels = {"clean": "good", "case_noise": "poor"}
    rows = [
        {"id": f"q{k}", "input": f"Add {k} to itself", "expected": str(2 * k)}
        | ({"rated": labels if k % 4 else "good"} if k < 12 else {})
        for k in range(30)
    ]
    judged.write_rows("sums.jsonl", rows)
    (judged.path / "critic.py").write_text("def judge(request):\n    return 'VERDICT: good'\n")
    judged.test(
        """
import pytest
from pytest_crucible import judges

right = judges.rubric("right", "Is it right?", levels={"poor": 0, "good": 1}, human="rated")

@pytest.mark.crucible(dataset="sums.jsonl", metrics=[right])
@pytest.mark.robustness("case_noise", strength=0.5)
@pytest.mark.quality_target("right >= 0.5")
def test_sums(sample):
    return sample.input
""",
        name="test_sums",
    )
    configure(judged)
    judged.run("--crucible-json=run.json")
    (experiment,) = judged.json()["experiments"]
    corrected = {entry["attack"]: entry for entry in experiment["sections"]["robustness"]["corrected"]}

    # A plain label is of the reply to the sample as it is.
    assert (corrected[None]["labelled"], corrected[None]["rest"]) == (12, 18)
    assert (corrected["case_noise"]["labelled"], corrected["case_noise"]["judged"]) == (9, 0)
    assert corrected["case_noise"]["value"] == 1
    assert "control" not in corrected
