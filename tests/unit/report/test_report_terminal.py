"""The summary, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.records import CachedReplies, Note, ReusedReplies, Row, SectionOutcome, Table, View
from pytest_crucible.report.terminal import summary
from pytest_crucible.sections.worst_samples import WorstSample


def lines(run, *, verbosity=0, width=120) -> list[str]:
    return [part for line in summary(run, verbosity=verbosity, width=width) for part in line.text.split("\n")]


TABLES = [
    "target             estimate [95 % interval]    n  lost  verdict",
    "exact >= 0.80      0.810 [0.750, 0.858]      200     0  met",
    "    unproven: one-sided bound 0.76 < target 0.80; proof needs about n=12,000 at this estimate (80 % power)",
    "p95(seconds) <= 2  1.250 [1.100, inf]        198     2  met, proven",
    "",
    "comparison       difference [95 % interval]    n  lost      p  verdict",
    "exact: v2 vs v1  -0.035 [-0.087, +0.016]     198     2  0.180  missed, proven",
    "    a regression is proven",
    "",
    "test_sums: v2: 2 samples lost (error)",
    "test_sums: v2: 4 samples failed (3 timeout, 1 truncation)",
]


ESTIMATES = [
    "metric  statistic  arm  estimate                n  lost  method",
    "exact   mean       v2   0.810 [0.750, 0.858]  200     0  wilson",
    "exact   mean       v1   0.845 [0.788, 0.889]  200     0  wilson",
]


def test_the_usual_summary(run):
    assert lines(run()) == TABLES


def test_a_quiet_summary_has_only_what_is_not_met(run):
    """A verdict is never told without its estimate, interval and n, however short the report."""
    assert lines(run(), verbosity=-1) == [
        "test_math.py::test_sums::exact: v2 vs v1: missed: "
        "-0.035 [-0.087, +0.016] n=198, p 0.180; a regression is proven"
    ]


def test_a_quiet_summary_shows_what_stands_before_the_verdicts_once(run):
    whole = run()
    (analysis,) = whole.experiments
    (verdict, *_) = whole.verdicts
    notes = tuple(
        Note(text=text, verbosity=level) for text, level in (("a", 0), ("b", 0), ("c", 1), (verdict.reason, 0))
    )

    def quiet(nodeids, *, is_first):
        outcome = SectionOutcome(view=View(title="Measured", notes=notes, is_first=is_first))
        experiments = tuple(
            replace(analysis, sections={"x": outcome}, plan=replace(analysis.plan, nodeid=nodeid)) for nodeid in nodeids
        )
        return lines(replace(whole, experiments=experiments, verdicts=(verdict,)), verbosity=-1)

    assert quiet([verdict.nodeid], is_first=True)[0] == f"{verdict.nodeid}: a; b"
    assert quiet([verdict.nodeid, "x", "y"], is_first=True)[0] == f"{verdict.nodeid} and 2 others: a; b"
    assert not any("a; b" in line for line in quiet([verdict.nodeid], is_first=False))


def test_a_quiet_summary_shows_unproven_comparisons(run):
    *_, compared = run().verdicts
    reason = "no regression is proven (differences down to -0.087 cannot be excluded)"
    unproven = replace(compared, state="met", proven=False, reason=reason)

    assert lines(run(verdicts=(unproven,)), verbosity=-1) == [
        f"test_math.py::test_sums::exact: v2 vs v1: met: -0.035 [-0.087, +0.016] n=198, p 0.180; {reason}"
    ]


def test_a_quiet_summary_marks_errors_in_the_suite(run):
    met, *_ = run().verdicts
    mistaken = replace(met, subject="typo >= 1", state="undecided", reason="no number", suite_error=True)

    assert lines(run(verdicts=(met, mistaken)), verbosity=-1) == [
        "test_math.py::test_sums::typo >= 1: error in the suite: no number"
    ]


def test_a_verbose_summary_adds_methods_and_the_run_store(run):
    assert lines(run(), verbosity=1) == [
        *TABLES,
        *ESTIMATES,
        "test_sums: exact: v2 vs v1: exact unconditional, p 0.180, conditional p 0.229",
        "run a1b2c3, seed 7, in .crucible/crucible.db",
    ]


def test_a_verbose_summary_names_the_test_of_alike_arms_and_the_bounds(run, analysis):
    [exact] = analysis().comparisons
    evidence = replace(exact.evidence, method="gaffke")
    flipped = replace(
        exact, method="sign flips", p_value=2e-5, proof_p=0.31, p_exact=None, arrangements=50_000, evidence=evidence
    )
    few = replace(flipped, p_value=0.25, arrangements=1_024, is_exact=True, proof_p=None)

    tests = [lines(run(analysis(comparisons=(record,))), verbosity=1)[-2] for record in (flipped, few)]

    assert tests == [
        "test_sums: exact: v2 vs v1: alike by sign flips (random 50,000 arrangements), p 2e-05; bounds by gaffke, p 0.310",
        "test_sums: exact: v2 vs v1: alike by sign flips (all 1,024 arrangements), p 0.250",
    ]


def test_the_worst_of_many_experiments_are_shown_and_the_rest_counted(run, analysis, plan):
    """A hundred, of which two are not met."""
    names = [f"test_math.py::test_{k:03}" for k in range(100)]
    of = {name: analysis(plan=plan(nodeid=name)) for name in names}
    (met, *_) = run().verdicts
    states = {names[40]: "undecided", names[70]: "missed"}
    verdicts = tuple(
        replace(record, nodeid=name, state=states.get(name, record.state) if record.subject == met.subject else "met")
        for name in names
        for record in run().verdicts
    )
    many = replace(run(), experiments=tuple(of.values()), verdicts=verdicts)
    printed = lines(many)
    names_in_order = list(dict.fromkeys(line for line in printed if line.startswith("test_math.py::")))

    assert names_in_order == [names[70], names[40], *names[:10]]
    assert printed[-1] == "88 experiments more: 88 met; -v shows all of them"
    assert sum(line.startswith("test_math.py::") for line in lines(many, verbosity=1)) >= 100


def test_a_very_verbose_summary_adds_the_worst_samples(run):
    assert lines(run(), verbosity=2) == [
        *lines(run(), verbosity=1),
        "test_math.py::test_sums  sums-0007: exact = 0, baseline 1",
        "    The answer is 4.",
    ]


def test_a_narrow_terminal_puts_subjects_on_their_own_line(run):
    assert lines(run(), width=60)[:9] == [
        "target",
        "  estimate [95 % interval]    n  lost  verdict",
        "exact >= 0.80",
        "  0.810 [0.750, 0.858]      200     0  met",
        "    unproven: one-sided bound 0.76 < target 0.80; proof needs about n=12,000 at this estimate (80 % power)",
        "p95(seconds) <= 2",
        "  1.250 [1.100, inf]        198     2  met, proven",
        "",
        "comparison",
    ]


def test_several_experiments_stand_under_their_names(run, analysis, plan):
    two = run(analysis(), analysis(plan(nodeid="test_math.py::test_products")))

    output = lines(two)
    assert output[1] == "test_math.py::test_sums"
    assert output.count("test_math.py::test_products") == 2
    assert "p (Holm, 2)" in "\n".join(output)


def test_estimates_and_methods_name_their_experiment_where_there_are_several(run, analysis, plan):
    two = run(analysis(worst=()), analysis(plan(nodeid="test_math.py::test_products"), worst=()))

    assert lines(two, verbosity=1)[len(lines(two)) :] == [
        "experiment     metric  statistic  arm  estimate                n  lost  method",
        "test_sums      exact   mean       v2   0.810 [0.750, 0.858]  200     0  wilson",
        "test_sums      exact   mean       v1   0.845 [0.788, 0.889]  200     0  wilson",
        "test_products  exact   mean       v2   0.810 [0.750, 0.858]  200     0  wilson",
        "test_products  exact   mean       v1   0.845 [0.788, 0.889]  200     0  wilson",
        "test_sums: exact: v2 vs v1: exact unconditional, p 0.180, conditional p 0.229",
        "test_products: exact: v2 vs v1: exact unconditional, p 0.180, conditional p 0.229",
        "run a1b2c3, seed 7, in .crucible/crucible.db",
    ]


def test_p_values_of_margins_are_not_called_adjusted(run, analysis):
    compared = analysis().comparisons[0]
    margin = replace(compared.contrast, margin=0.05, alternative="non-inferior")
    verdict = replace(run().verdicts[2], subject=margin.subject("v2"))
    record = run(analysis(comparisons=(replace(compared, contrast=margin),)), verdicts=(*run().verdicts[:2], verdict))

    assert "Holm" not in "\n".join(lines(replace(record, family_size=2)))


def test_unanswered_comparisons_share_alpha(run):
    """An experiment that could not begin is not in the tables."""
    assert "p (Holm, 3)" in "\n".join(lines(run(family_size=3)))


def without_verdicts(analysis, plan, name="test_sums", **facts):
    asking = plan(nodeid=f"test_math.py::{name}", targets=(), contrasts=())
    whole = {"lost": {"v2": {}, "v1": {}}, "failures": {"v2": {}, "v1": {}}, **facts}
    return analysis(asking, targets=(), comparisons=(), **whole)


def test_an_experiment_without_verdicts_shows_its_estimates(run, analysis, plan):
    assert lines(run(without_verdicts(analysis, plan), verdicts=())) == [*ESTIMATES, ""]


def test_an_experiment_without_verdicts_is_named_beside_others(run, analysis, plan):
    output = lines(run(analysis(), without_verdicts(analysis, plan, "test_plain")))

    assert [line for line in output if line.startswith(("experiment ", "test_plain "))] == [
        "experiment  metric  statistic  arm  estimate                n  lost  method",
        "test_plain  exact   mean       v2   0.810 [0.750, 0.858]  200     0  wilson",
        "test_plain  exact   mean       v1   0.845 [0.788, 0.889]  200     0  wilson",
    ]


def test_a_run_that_measured_nothing_has_no_tables(run, analysis, plan):
    assert lines(run(without_verdicts(analysis, plan, estimates=()))) == []


def test_colours_repeat_the_words(run):
    marked = {line.text.strip().split("  ")[0]: line.markup for line in summary(run(), verbosity=0, width=120)}

    assert marked["exact >= 0.80"] == {"green": True}
    assert marked["exact: v2 vs v1"] == {"red": True, "bold": True}
    assert marked["a regression is proven"] == {}


def test_scripted_replies_are_marked_as_simulated(run, analysis, plan):
    arms = tuple(replace(arm, simulated=arm.role == "candidate") for arm in plan().arms)
    output = lines(run(analysis(plan(arms=arms))))

    assert output[1].endswith("met (simulated)")
    assert output[3].endswith("met, proven (simulated)")


CACHED = CachedReplies(replies=1150, requests=1200, since="2026-07-01T08:00:00+00:00")
REMARKS = {
    "not run": ({"lost": {"v2": {"error": 3, "not_run": 1010}}}, "v2: 1,013 samples lost (3 error, 1,010 not run)"),
    "scorer": ({"lost": {"v2": {"scorer": 1}}}, "v2: 1 score lost (scorer error)"),
    "deselected": ({"lost": {"v2": {"deselected": 4}}}, "v2: 4 samples lost (deselected)"),
    "stored": (
        {"reused": {"v1": ReusedReplies(run="f00", replies=1150)}},
        "v1: 1,150 of 1,200 replies reused from run f00; --crucible-fresh calls the model again",
    ),
    # --crucible-fresh would not call the model for these again.
    "resumed": (
        {"reused": {"v2": ReusedReplies(run="f00", replies=12)}},
        "v2: 12 of 1,200 replies reused from run f00",
    ),
    "cached": (
        {"from_cache": {"v1": CACHED}},
        "v1: 1,150 of 1,200 replies from the reply cache (since 2026-07-01), with their original latency and cost"
        "; --crucible-cache=refresh calls the model again",
    ),
}


@pytest.mark.parametrize(("facts", "remark"), REMARKS.values(), ids=REMARKS)
def test_losses_and_replies_of_other_runs_are_counted_and_named(run, analysis, plan, facts, remark):
    assert f"test_sums: {remark}" in lines(run(analysis(plan(repeats=6), **facts)))


def test_a_named_stored_run_needs_no_remark(run, analysis, plan):
    v2, v1 = plan().arms
    named = plan(arms=(v2, replace(v1, stored_run="f00")))

    assert lines(run(analysis(named, reused={"v1": ReusedReplies(run="f00", replies=200)}))) == TABLES


def test_inapplicable_samples_are_counted(run, analysis, plan):
    plain = analysis().estimates[0]
    estimates = (
        replace(plain, inapplicable=1200, unconditional=0.1234),
        replace(plain, inapplicable=3),
        replace(plain, inapplicable=200, unconditional=0.0, n=0, value=None, interval=None),
    )
    output = lines(run(analysis(plan(planned=1500, selected=1500), estimates=estimates)))

    counted = (
        "1,200 of 1,500 samples; with them at the worst value its mean is 0.123",
        "3 of 1,500 samples",
        "200 of 1,500 samples",
    )
    assert {f"test_sums: exact of v2 does not apply to {text}" for text in counted} <= set(output)


def test_notes_are_printed(run, analysis):
    noted = replace(analysis().comparisons[0], note="only 10 clusters")

    assert "test_sums: only 10 clusters" in lines(run(analysis(comparisons=(noted,))))


def test_a_note_equal_to_the_reason_of_the_verdict_is_not_repeated(run, analysis):
    noted = replace(analysis().comparisons[0], note="no pairs", p_value=None, p_adjusted=None)
    session = run(analysis(comparisons=(noted,)))
    printed = tuple(replace(record, reason="no pairs") for record in session.verdicts)

    assert "test_sums: no pairs" not in lines(replace(session, verdicts=printed))


def test_the_first_lost_sample_shows_its_error(run, analysis):
    """A scorer that breaks must say so where its losses are counted."""
    broken = analysis(lost={"v2": {"scorer": 3}}, first_lost={"v2": {"scorer": "metric 'm' raised KeyError: 'x'"}})

    output = lines(run(broken))

    assert (
        output[output.index("test_sums: v2: 3 scores lost (scorer error)") + 1]
        == "    first: metric 'm' raised KeyError: 'x'"
    )


HOSTILE = [
    "\x1b[2J\x1b[31mPASSED\x1b[0m",
    "\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
    "line\rover\x08\x08it\x7f",
    "\x9b31m C1, \u202e reversed \u2028 separated \x85 next \x00 nul \ud800 half",
    "\x1b[1A" * 250_000,
    "x" * 1_000_000,
    "\n" * 1_000_000,
]


@pytest.mark.parametrize(
    "text", HOSTILE, ids=["colour", "link", "overwrite", "controls", "1 MB", "1 MB word", "1 MB lines"]
)
def test_control_characters_of_a_reply_are_escaped(run, analysis, text):
    """Nothing that moves a cursor, and not more than a screen."""
    worst = WorstSample(metric="exact", value=0.0, baseline_value=None, sample=text[:50], reply=text)
    ordinary = lines(run(analysis(worst=())), verbosity=2)
    output = lines(run(analysis(worst=(worst,))), verbosity=2)[len(ordinary) :]

    assert all(char.isprintable() for line in output for char in line)
    assert len(output) <= 2 + 12 + text[:50].count("\n")
    assert sum(map(len, output)) <= 1500


@pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "a\x85b", "a\x0bb", "a\r\nb"])
def test_a_name_with_line_breaks_is_one_row_of_a_table(run, analysis, name):
    """A sample's id may be any text, and a table has a line for each row."""
    table = Table(
        title="t", heads=("slice", "samples"), rows=(Row(cells=(name, name)), Row(cells=("c", "d"))), verbosity=1
    )
    outcome = SectionOutcome(result=None, claims=(), view=View(title="t", tables=(table,)))

    wide, narrow = (lines(run(analysis(sections={"t": outcome})), verbosity=1, width=width) for width in (120, 10))

    head = next(at for at, line in enumerate(wide) if line.startswith("slice "))
    assert wide[head + 2].split() == ["c", "d"]
    assert all(char.isprintable() for line in (*wide, *narrow) for char in line)


def test_hostile_characters_are_shown_as_escapes(run, analysis):
    worst = WorstSample(metric="exact", value=0.0, baseline_value=None, sample="q", reply="\x1b[31mred\ttab\nnext")

    assert lines(run(analysis(worst=(worst,))), verbosity=2)[-2:] == ["    \\x1b[31mred tab", "    next"]


def test_an_interval_beside_an_adjusted_p_is_marked_as_unadjusted(run):
    """[-0.069, -0.003] excludes 0 where the adjusted p of 0.062 proves nothing."""
    several, alone = ("\n".join(lines(run(family_size=size))) for size in (3, 1))

    assert "difference [95 % interval, unadjusted]" in several
    assert "unadjusted" not in alone
