"""How answers read: one line, one sentence in plain English, one small table for notebooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING

from pytest_crucible.numerals import number, p_equals, p_value, ratio, ratio_with_interval, with_interval

if TYPE_CHECKING:
    from pytest_crucible.records import Interval
    from pytest_crucible.stats.answers import Comparison, Effect, Estimate, Significance

Rows = Iterable[tuple[str, str]]


def log_ratio(value: float | None) -> float | None:
    """The logarithm; -inf at 0."""
    if value is None:
        return None
    return math.log(value) if value > 0 else -math.inf


def line_of_effect(one: Effect) -> str:
    shown = ratio_with_interval if "ratio" in one.name else with_interval
    return f"{one.name} {shown(one.value, one.interval)}"


def line_of_estimate(one: Estimate) -> str:
    return f"{with_interval(one.estimate, one.interval)} n={one.n:,}{_groups(one.clusters)} ({one.method})"


def of_estimate(one: Estimate) -> str:
    what = "rate" if one.kind == "binary" else "mean"
    if one.estimate is None:
        return f"There are no values, so the {what} is unknown."
    shown = f"The {what} of {one.n:,} sample{'s' * (one.n != 1)}{_in_groups(one.clusters)} is {number(one.estimate, one.interval)}"
    if one.interval is None:
        return f"{shown}; no interval can be given ({one.note})."
    return f"{shown}, with a {one.interval.level * 100:g} % interval {_ends(one.interval)}."


def rows_of_estimate(one: Estimate) -> Rows:
    yield "estimate", with_interval(one.estimate, one.interval)
    yield "n", f"{one.n:,}{_groups(one.clusters)}"
    yield "method", one.method
    yield from (("assumes", text) for text in one.assumptions)
    yield from _notes(one.note)


def line_of_significance(one: Significance) -> str:
    """`estimate [interval], statistic 2.1, dof 39, p = 0.042, n=40 (paired t)`, with what the test gives of it."""
    parts = [with_interval(one.estimate, one.interval)] if one.estimate is not None else []
    if one.statistic is not None:
        parts.append(f"statistic {number(one.statistic)}")
    parts += [f"dof {', '.join(f'{dof:.4g}' for dof in one.dof)}"] if one.dof else []
    parts += [] if one.p_value is None else [f"{p_equals(one.p_value)}"]
    parts += [f"n={' + '.join(f'{n:,}' for n in one.n)}"] if one.n else []
    return f"{', '.join(parts) or one.note} ({one.method})"


def line_of_comparison(one: Comparison) -> str:
    what = "treatment - control" if one.estimand == "difference" else "treatment / control"
    p = "" if one.p_value is None else f", {p_equals(one.p_value)}"
    size = f", {one.effect}" if one.effect is not None and one.effect.value is not None else ""
    return f"{what}: {_answer(one)}, {_count(one)}{p}{size} ({one.method})"


def of_comparison(one: Comparison) -> str:
    """Estimate, interval and n, then what follows from them and what does not."""
    if one.estimate is None:
        return f"The arms cannot be compared: {one.note or 'there are no values'}."
    shown = f"On {_count(one)} the treatment's {_mean(one)} is {_by_how_much(one)}"
    if one.interval is None:
        shown += f"; no interval can be given ({one.note}){_p_in_words(one)}"
    else:
        ends = _ends(one.interval, ratio if one.estimand == "ratio" else number)
        shown += f" ({one.interval.level * 100:g} % interval {ends}{_p_in_words(one)})"
    conclusion = "" if one.p_value is None else f": {_conclusion(one)}"
    return f"{shown}{conclusion}.{_margin(one)}"


def rows_of_comparison(one: Comparison) -> Rows:
    yield one.estimand, _answer(one)
    yield "treatment, control", f"{number(one.treatment, one.interval)}, {number(one.control, one.interval)}"
    yield "p", f"{p_value(one.p_value)} ({one.alternative})"
    yield from (("effect", str(effect)) for effect in (one.effect, *one.effects) if effect is not None)
    yield "n", _count(one)
    yield "method", one.method
    yield from _rows_of_margin(one)
    yield from (("assumes", text) for text in one.assumptions)
    for other in one.sensitivity:
        yield other.method, f"{with_interval(other.estimate, other.interval)}, p {p_value(other.p_value)}"
    yield from _notes(one.note)


def _rows_of_margin(one: Comparison) -> Rows:
    if one.bounds is None or one.margin is None:
        return
    sign = one.estimand == "difference"
    ends = ", ".join(
        number(end, one.interval, sign=True) if sign else ratio(end, one.interval)
        for end in (one.bounds.low, one.bounds.high)
    )
    shown = f"[{ends}]" if one.bounds.low is not None else f"none: {one.bounds.note}"
    yield f"one-sided bounds, margin {one.margin:g}", f"{shown} ({one.bounds.method})"
    states = {True: "yes", False: "no", None: "undecided"}
    yield "not worse, equivalent", f"{states[one.non_inferior]}, {states[one.equivalent]} ({one.direction} is better)"


def table(title: str, rows: Rows, sentence: str) -> str:
    """HTML for a notebook: a caption, a row for each fact, and the sentence beneath."""
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows)
    return f"<table><caption>{escape(title)}</caption><tbody>{body}</tbody></table><p>{escape(sentence)}</p>"


def _answer(one: Comparison) -> str:
    if one.estimand == "ratio":
        return ratio_with_interval(one.estimate, one.interval)
    return with_interval(one.estimate, one.interval, sign=True)


def _mean(one: Comparison) -> str:
    if one.estimand == "ratio":
        return "geometric mean"
    return "rate" if one.kind == "binary" else "mean"


def _by_how_much(one: Comparison) -> str:
    assert one.estimate is not None
    if one.estimand == "ratio":
        return f"{ratio(one.estimate, one.interval)} times the control's"
    if not one.estimate:
        return "the same as the control's"
    order = "higher" if one.estimate > 0 else "lower"
    return f"{number(abs(one.estimate), one.interval)} {order} than the control's"


def _conclusion(one: Comparison) -> str:
    """What may be said at alpha. Never that there is no difference: only that none was shown."""
    assert one.estimate is not None
    if not one.significant:
        return "which of the two is higher is not shown" if one.alternative == "two-sided" else _not_shown(one)
    order = "higher" if one.estimate > one.no_difference else "lower"
    return f"the treatment is {order}, at an error rate of {one.alpha * 100:g} %"


def _not_shown(one: Comparison) -> str:
    return f"that the treatment is {'higher' if one.alternative == 'greater' else 'lower'} is not shown"


def _margin(one: Comparison) -> str:
    if one.margin is None:
        return ""
    claim = _claim_of_ratio(one, one.margin) if one.estimand == "ratio" else _claim_of_difference(one, one.margin)
    return f" {claim} ({one.direction} is better)."


def _claim_of_difference(one: Comparison, margin: float) -> str:
    return {
        True: f"It is not worse by {margin:g} or more",
        False: f"It is worse by more than {margin:g}",
        None: f"Whether it is worse by {margin:g} is undecided",
    }[one.non_inferior]


def _claim_of_ratio(one: Comparison, margin: float) -> str:
    """The limit itself: a share of the control's and a share of the treatment's are not the same."""
    limit = 1 + margin if one.direction == "lower" else 1 / (1 + margin)
    better, worse = ("below", "above") if one.direction == "lower" else ("above", "below")
    return {
        True: f"It is {better} {limit:.4g} times the control's",
        False: f"It is {worse} {limit:.4g} times the control's",
        None: f"Whether it is {worse} {limit:.4g} times the control's is undecided",
    }[one.non_inferior]


def _p_in_words(one: Comparison) -> str:
    return "" if one.p_value is None else f", {p_equals(one.p_value)}"


def _ends(interval: Interval, show: Callable[[float, Interval], str] = number) -> str:
    low, high = (show(end, interval) for end in (interval.low, interval.high))
    if math.isinf(interval.low):
        return f"up to {high}"
    return f"from {low} upwards" if math.isinf(interval.high) else f"from {low} to {high}"


def _count(one: Comparison) -> str:
    if one.paired:
        return f"{one.n_treatment:,} pair{'s' * (one.n_treatment != 1)}{_in_groups(one.clusters)}"
    return f"{one.n_treatment:,} + {one.n_control:,} samples{_in_groups(one.clusters)}"


def _in_groups(clusters: int | None) -> str:
    return "" if clusters is None else f" in {clusters:,} cluster{'s' * (clusters != 1)}"


def _groups(clusters: int | None) -> str:
    return "" if clusters is None else f" clusters={clusters:,}"


def _notes(note: str) -> Rows:
    if note:
        yield "note", note
