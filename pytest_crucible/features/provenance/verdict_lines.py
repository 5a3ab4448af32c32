"""Fragility and influence of a verdict as one line each, for `crucible why` and the reports."""

from __future__ import annotations

from pytest_crucible.analyse.statistics import row_of
from pytest_crucible.features.provenance.verdict_facts import Flip, Influence, LostFlip, VerdictFacts
from pytest_crucible.measures.values import numeric
from pytest_crucible.records import Contrast
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.stats.number_format import quantity

FIRST = 3
"""Names that a line shows; of the others it shows the number."""


def fragility_text(facts: VerdictFacts) -> str:
    """Return `6 answers: if v2 were right on 6 more, the arms would not be told apart`."""
    fragility, verdict = facts.fragility, facts.verdict
    lost = _lost_text(fragility.lost, facts.lost or 0) if fragility.counts_lost else ""
    if fragility.undefined:
        return "; ".join(filter(None, (f"not defined: {fragility.undefined}", lost)))
    flips = dict.fromkeys(filter(None, (fragility.change, fragility.change_of_state)))
    texts = [_flip_text(flip, facts) for flip in flips]
    goal = f"change that it is {verdict.state}" if texts else "change it"
    if fragility.change_of_state is None and fragility.is_exact:
        texts.append(f"no answers of one arm that turn one way {goal}")
    elif fragility.change_of_state is None:
        texts.append(f"no answers of one arm were found that {goal}")
    return "; ".join(filter(None, (*texts, lost)))


def influence_text(influence: Influence, *, is_of_pairs: bool) -> str:
    """Return `q17, q88, q203 and 37 more`; of groups with how much the estimate changes without each."""
    if influence.undefined:
        return f"not defined: {influence.undefined}"
    if not influence.names:
        if is_of_pairs:
            return f"none: no {influence.unit} differs on the side of the estimate"
        return f"none: leaving out one {influence.unit} never brings the estimate nearer to its limit"
    further = len(influence.names) - FIRST
    text = f"{_first_names(influence)}{f' and {further:,} more' if further > 0 else ''}"
    alone = influence.decides_alone
    if not alone:
        return text
    first, *others = (printable(name, AN_ID) for name in alone)
    any_other = f" or any of {len(others):,} others" if len(others) > 1 else "".join(f" or {name}" for name in others)
    return f"{text}; without {first}{any_other} alone the state would be another one"


def _first_names(influence: Influence) -> str:
    names = [printable(name, AN_ID) for name in influence.names[:FIRST]]
    if influence.unit == "sample":
        return ", ".join(names)
    names = [f"{name} ({change:+.3g} without it)" for name, change in zip(names, influence.changes, strict=False)]
    groups = [size > 1 for size in influence.sizes[:FIRST]]
    if all(groups):
        return f"{'groups' if len(names) > 1 else 'group'} {', '.join(names)}"
    # Of groups of one sample and of more, the latter are told apart.
    return ", ".join(f"group {name}" if is_group else name for name, is_group in zip(names, groups, strict=True))


def _flip_text(flip: Flip, facts: VerdictFacts) -> str:
    count = quantity(flip.answers, "answer")
    return f"{'' if flip.is_exact else 'at most '}{count}: if {_turned_text(flip, facts)}, {_outcome_text(flip, facts)}"


def _turned_text(flip: Flip, facts: VerdictFacts) -> str:
    """Return `v2 were right on 6 more`, of scores `6 answers of v2 had the best score`."""
    arm, count = printable(flip.arm, AN_ID), f"{flip.answers:,}"
    measure, metric = facts.measure, facts.metric
    assert measure is not None, "a fragility is of a measure"
    assert metric is not None, "a fragility is of a metric"
    if measure.inner_relation is not None:
        verb = "fulfilled" if flip.is_better == row_of(measure).higher_is_better(measure, metric) else "did not fulfil"
        condition = f"{measure.metric} {measure.inner_relation} {measure.inner_value:g}"
        return f"{count} more {'answer' if flip.answers == 1 else 'answers'} of {arm} {verb} {condition}"
    if numeric(metric.kind) == "binary":
        return f"{arm} were {'right' if flip.is_better else 'wrong'} on {count} more"
    return f"{quantity(flip.answers, 'answer')} of {arm} had the {'best' if flip.is_better else 'worst'} score"


def _outcome_text(flip: Flip, facts: VerdictFacts) -> str:
    verdict = facts.verdict
    if flip.state == verdict.state:
        return "it would be proven" if flip.proven else "it would not be proven"
    is_gate = isinstance(facts.measure, Contrast) and facts.measure.alternative == "regression"
    # With lost samples it may be undecided while the scored ones still differ.
    if is_gate and (verdict.state, flip.state, flip.proven) == ("missed", "met", False):
        return "the arms would not be told apart"
    return f"it would be {flip.state}"


def _lost_text(lost: LostFlip | None, total: int) -> str:
    if lost is None:
        return f"however the {quantity(total, 'lost sample')} turned out, it would be the same" if total else ""
    at_most = "" if lost.is_exact else "at most "
    word = "well" if lost.is_better else "badly"
    proven = ", proven" if lost.proven else ", not proven"
    they = "it" if lost.samples == 1 else "they"
    head = f"{at_most}{lost.samples:,} of the {quantity(lost.of, 'lost sample')}"
    return f"{head}: if {they} turned out {word} for the candidate, it would be {lost.state}{proven}"
