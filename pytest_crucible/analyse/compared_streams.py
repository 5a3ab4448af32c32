"""Comparisons of a run larger than memory, from score tables of consecutive samples: see `measure_streams`."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import numpy as np

from pytest_crucible.analyse import conditional
from pytest_crucible.analyse.analysis import ScoreTable
from pytest_crucible.analyse.comparisons import NOTHING, bounded_value, prepare_pair, with_difference, worst_and_best
from pytest_crucible.analyse.measure_streams import ArmCounts, read_difference
from pytest_crucible.analyse.statistics import inapplicable_samples, lost_samples, row_of, scored_samples
from pytest_crucible.measures.row import Difference, End, Prepared
from pytest_crucible.measures.statistic import refusal
from pytest_crucible.measures.streams import PairStream, open_pair, stream_problem
from pytest_crucible.measures.table import comparison_row, contrast_problem
from pytest_crucible.records import Comparison, Contrast, Evidence, MetricFacts
from pytest_crucible.stats.resampling.draws import resolve_for


class ComparedArms:
    """A comparison of two arms on the samples that both have."""

    def __init__(
        self, contrast: Contrast, facts: MetricFacts, candidate: str, number: int, *, clustered: bool, replies: int
    ) -> None:
        """`number` is that of the baseline."""
        self.measure, self.facts, self.candidate, self.number = contrast, facts, candidate, number
        self.streams: dict[End, PairStream] = {}
        self.problem = stream_problem(contrast, facts, clustered=clustered, replies=replies)
        self._arms = (ArmCounts(), ArmCounts())
        self._pairs = self._lost = self._applicable = self._different = 0
        self._different_by_metric: list[int] = []
        self._sizes, self._zeros = [0, 0], [0, 0]
        self._value_problem = self._declared = ""

    def count(self, table: ScoreTable) -> None:
        """Count the pairs of a table."""
        arms = table.arm(self.measure, 0), table.arm(self.measure, self.number)
        (scored, applies), (other_scored, other_applies) = (
            counts.add(self.measure, metrics) for counts, metrics in zip(self._arms, arms, strict=True)
        )
        applicable = applies & other_applies
        self._pairs += int(np.count_nonzero(scored & other_scored))
        self._applicable += int(np.count_nonzero(applicable))
        self._lost += int(np.count_nonzero((lost_samples(arms[0]) | lost_samples(arms[1])) & applicable))
        self._different += conditional.applies_differently(*arms)
        by_metric = (conditional.applies_differently([ours], [theirs]) for ours, theirs in zip(*arms, strict=True))
        self._different_by_metric = [
            before + now for before, now in zip_longest(self._different_by_metric, by_metric, fillvalue=0)
        ]

    def open(self, alpha: float, family_size: int, seed: int) -> None:
        """Open the statistics that take the tables, after all samples were counted."""
        self._monte_carlo = resolve_for(alpha, family_size, seed)
        # Each metric of a measure has its declaration; those of several metrics have no comparison in parts.
        self._declared = conditional.wrong_declaration(self.facts, self._different_by_metric[0], self._arms[0].mixed[0])
        self.problem = self.problem or self._declared or self._pairs_problem()
        if self.problem or not self._pairs:
            return
        self.streams = {"observed": open_pair(self.measure, self.facts)}
        if self._lost:
            self.streams |= {end: open_pair(self.measure, self.facts) for end in ("low", "high")}

    def _pairs_problem(self) -> str:
        measure, row, applies = self.measure, row_of(self.measure), self.facts.applies
        if any(counts.has_unlike_sides for counts in self._arms):
            return conditional.unlike_sides_text(measure)
        is_conditional = applies == "reply" or (applies != "sample" and self._different_by_metric[0] > 0)
        if row.is_mean and not row.is_total and is_conditional:
            return refusal(measure, f"{self.facts.name} applies to other samples in each arm")
        if self._different:
            return conditional.unpaired_text(measure, self._different)
        return next(filter(None, (counts.problem(measure, self.facts) for counts in self._arms)), "")

    def add(self, table: ScoreTable) -> None:
        """Add the pairs of a table to the statistics."""
        arms = table.arm(self.measure, 0), table.arm(self.measure, self.number)
        attributes = replace(table.attributes_of(self.measure), monte_carlo=self._monte_carlo)
        scored = scored_samples(arms[0]) & scored_samples(arms[1])
        applicable = ~inapplicable_samples(arms[0]) & ~inapplicable_samples(arms[1])
        low, high = worst_and_best(self.measure, self.facts)
        ends: dict[End, tuple[End, End]] = {
            "observed": ("observed", "observed"),
            "low": (low, high),
            "high": (high, low),
        }
        for end, stream in self.streams.items():
            if not stream.is_done:
                chosen = scored if end == "observed" else applicable
                pair = prepare_pair(self.measure, arms, attributes, chosen, ends[end])
                stream.add(*pair)
                if end == "observed":
                    self._check(pair)

    def _check(self, pair: tuple[Prepared, Prepared]) -> None:
        for number, arm in enumerate(pair):
            self._sizes[number] += arm.values.size
            self._zeros[number] += int(np.count_nonzero(arm.values <= 0))
            self._value_problem = self._value_problem or arm.problem

    def _invalid(self) -> str:
        """Explain values that cannot be compared, of which those that are not above 0 were counted."""
        if not (any(self._zeros) or self._value_problem):
            return ""
        stand_ins = {}
        for name, size, zeros in zip((self.candidate, self.measure.baseline), self._sizes, self._zeros, strict=True):
            # One byte a value.
            values = np.ones(size, dtype=np.int8)
            values[:zeros] = 0
            stand_ins[name] = Prepared(values=values, problem=self._value_problem)  # type: ignore[arg-type]
        return comparison_row(self.measure, self.facts).check_values(self.measure, stand_ins)

    def result(self, alpha: float, family_size: int, *, plans: bool) -> Comparison:
        """Return the comparison, as `comparisons.compare` does."""
        contrast = self.measure
        undecided = Comparison(
            contrast=contrast,
            candidate=self.candidate,
            pairs=self._pairs,
            lost=self._lost,
            method="none",
            evidence=Evidence(observed=NOTHING, worst=NOTHING, best=NOTHING, method="none"),
            note="" if self._declared else self.problem,
            suite_error=self._declared,
        )
        if self.problem:
            return undecided
        invalid = self._invalid()
        differences: dict[End, Difference | None] = {
            end: None if invalid else read_difference(stream, alpha) for end, stream in self.streams.items()
        }
        observed = differences.get("observed")
        readings = {end: bounded_value(difference) for end, difference in differences.items()}
        first = readings.get("observed", NOTHING)
        result = replace(
            undecided,
            higher_is_better=row_of(contrast).higher_is_better(contrast, self.facts),
            evidence=Evidence(
                observed=first, worst=readings.get("low", first), best=readings.get("high", first), method="none"
            ),
            suite_error=(contrast_problem(contrast, self.facts) if self._pairs else "") or invalid,
        )
        if observed is None:
            return replace(result, method="no pairs", note=invalid or self._no_pairs_text())
        result = with_difference(result, observed, alpha)
        return _with_plans(result, observed, alpha=alpha, family_size=family_size) if plans else result

    def _no_pairs_text(self) -> str:
        if self.measure.slice and not self._applicable:
            return f"{self.measure.metric} applies to no sample of this slice"
        problems = (stream.problem for stream in self.streams.values())
        return self._value_problem or next(filter(None, problems), "no sample was answered by both arms")


def _with_plans(comparison: Comparison, difference: Difference, *, alpha: float, family_size: int) -> Comparison:
    """Return the comparison with what these samples could show, and with those that would decide where moments plan them."""
    # Its power analysis needs most of scipy, which a session without a comparison does not load.
    from pytest_crucible.analyse.next_run import detectable_difference, samples_to_decide

    contrast = comparison.contrast
    by_moments = contrast.alternative == "regression" and contrast.limit is None and not difference.ratio
    needed = None
    if by_moments or difference.discordance is not None:
        needed = samples_to_decide(difference, contrast, alpha=alpha, family_size=family_size)
    level = alpha / family_size if contrast.shares_alpha else alpha
    return replace(comparison, detectable=detectable_difference(difference, level), needed=needed)
