"""Variants of an experiment's samples, and the terms that name them: `exact_match[she]`, `exact_match.drop[homoglyph]`.

A term is a metric of its own in the analysis. Its values are the metric's on the twins of that variant, or a view of them
and of the values on the original samples.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    UNCHANGED,
    Arm,
    MetricFacts,
    NoTwin,
    PlannedVariant,
    Sample,
    Twin,
    Variant,
    VariantGroup,
    VariantTerm,
)
from pytest_crucible.records.datasets import SAME_ANSWER
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.measures import VIEWS, term_facts, view_problem

_TERM = re.compile(r"(?P<metric>[^\[\]]+)\[(?P<variant>[^\[\]]+)\]")


@dataclass(frozen=True, slots=True)
class VariantNames:
    """Names that the terms of an experiment may use."""

    variants: Sequence[str] = ()
    groups: Mapping[str, VariantGroup] = field(default_factory=dict)
    metrics: Mapping[str, MetricFacts] = field(default_factory=dict)
    """Metrics that only variants have."""
    not_run: Mapping[str, str] = field(default_factory=dict)
    """Variants that are declared and not run, with the reason."""
    not_declared: Container[str] = ()
    """Names of variants that a marker could add to the experiment."""
    marker: str = ""
    """The marker that adds them."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Terms of a metric that only one variant has, which therefore needs no brackets."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What a metric needs that the experiment does not have."""

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.groups, *self.variants, *self.not_run)))

    def reason_not_run(self, name: str) -> str:
        """Return why the variant that a term names is not run; empty if it is run, and for other names."""
        match = _TERM.fullmatch(self.aliases.get(name, name))
        return "" if match is None else self.not_run.get(match["variant"], "")

    def problem(self, name: str) -> str:
        """Return why nothing that a term names is run; empty for other names."""
        match = _TERM.fullmatch(name)
        if match is None or match["variant"] in self.known:
            return ""
        variant = match["variant"]
        attack = re.sub(r" [-+.\d]+$", "", variant)
        if attack in self.not_declared:
            strengths = [
                names_of_variants for names_of_variants in self.known if names_of_variants.startswith(f"{attack} ")
            ]
            if strengths:
                return f"{name}: {attack} is run as {', '.join(strengths)}; write one of these"
            return f"{name}: {attack} is not run; add it to {self.marker}"
        if variant == "worst" and self.variants and self.marker:
            return f"{name}: no attack is run; add some to {self.marker}"
        return ""


def variant_terms(
    names: Iterable[str], metrics: Mapping[str, MetricFacts], names_of_variants: VariantNames, *, open_metrics: bool
) -> tuple[VariantTerm, ...]:
    """Return the terms among the names of metrics that targets and comparisons use.

    With `open_metrics` the test scores by itself, and a metric that is not among `metrics` may be one of these. Raises
    SpecError for a view that a metric cannot have.
    """
    terms = (read_term(name, metrics, names_of_variants, open_metrics=open_metrics) for name in dict.fromkeys(names))
    return tuple(term for term in terms if term is not None)


def read_term(
    name: str, metrics: Mapping[str, MetricFacts], names_of_variants: VariantNames, *, open_metrics: bool
) -> VariantTerm | None:
    """Return a name as a term; None for a metric's own name, and for one that names no variant."""
    match = _TERM.fullmatch(names_of_variants.aliases.get(name, name))
    if (
        match is None
        or name in metrics
        or match["variant"] not in (*names_of_variants.groups, *names_of_variants.variants)
    ):
        return None
    metric, view = split_view(match["metric"], metrics)
    if metric in names_of_variants.metrics and view:
        raise SpecError(
            f"{name}: {metric} is scored on variants only, so it has no {view}: write {metric}[{match['variant']}]"
        )
    if metric not in metrics and metric not in names_of_variants.metrics and not open_metrics:
        return None
    facts = names_of_variants.metrics.get(metric) or metrics.get(metric, MetricFacts(name=metric))
    problem = view_problem(view, facts)
    if problem:
        raise SpecError(f"{name}: {problem}")
    group = names_of_variants.groups.get(match["variant"])
    draws = 1 if group is None or group.is_worst else len(group.variants)
    of_term = term_facts(name, view, facts, draws)
    return VariantTerm(facts=of_term, metric=metric, view=view, variant=match["variant"], group=group)


def term_hint(name: str, metrics: Iterable[str], names_of_variants: VariantNames) -> str:
    """Return a hint for a term that names an unknown metric, view or variant; empty for other names, and without a close one."""
    match = _TERM.fullmatch(name)
    if match is None or not names_of_variants.known:
        return ""
    views = [f".{view}" for view in VIEWS if view]
    every = [*metrics, *names_of_variants.metrics]
    base = match["metric"].partition(".")[0]
    if base in names_of_variants.hints and base not in every:
        return names_of_variants.hints[base]
    bases = [*every, *(f"{base}{view}" for base in every for view in views)]
    candidates = [f"{base}[{variant}]" for base in bases for variant in names_of_variants.known]
    return suggest(name, candidates, otherwise="")


def term_metric(name: str) -> str:
    """Return the metric of a term; a name that is not a term is a metric.

    >>> term_metric("passed.drop[she]")
    'passed'
    """
    match = _TERM.fullmatch(name)
    return name if match is None else split_view(match["metric"], {})[0]


def split_view(term: str, metrics: Mapping[str, MetricFacts]) -> tuple[str, str]:
    """Return a metric and its view, which is empty if the term has none.

    >>> split_view("a.drop", {}), split_view("a.drop", {"a.drop": MetricFacts(name="a.drop")})
    (('a', 'drop'), ('a.drop', ''))
    """
    metric, _, view = term.rpartition(".")
    return (metric, view) if metric and view in VIEWS and term not in metrics else (term, "")


SAME_ANSWER_FACTS = MetricFacts(name=SAME_ANSWER, kind="binary", low=0.0, high=1.0, version="1")
"""The metric that replies to all twins have."""


def own_names(variants: Sequence[Variant]) -> VariantNames:
    """Return the names that terms may use of the variants that the samples have themselves."""
    facts = {SAME_ANSWER: SAME_ANSWER_FACTS} if variants else {}
    return VariantNames([variant.name for variant in variants], metrics=facts)


def sample_variants(samples: Sequence[Sample]) -> tuple[Variant, ...]:
    """Return the variants of the samples' own, in the order in which their names first occur."""
    twins: dict[str, dict[str, Twin | NoTwin]] = {}
    for sample in samples:
        for name, twin in sample.variants.items():
            twins.setdefault(name, {})[sample.id] = twin
    return tuple(Variant(name=name, twins=of_samples) for name, of_samples in twins.items())


def plan_variant(variant: Variant, samples: Sequence[Sample]) -> PlannedVariant:
    """Return the record of a variant on these samples. Raises SpecError if it applies to none of them."""
    digest, reasons = hashlib.sha256(json.dumps([variant.name, variant.key]).encode()), Counter[str]()
    for sample in samples:
        twin = variant.twin(sample.id)
        if isinstance(twin, NoTwin):
            reasons[twin.reason] += 1
        digest.update(json.dumps(_content(sample, twin), sort_keys=True, default=repr).encode())
    if reasons.total() == len(samples):
        raise SpecError(
            f"variant {variant.name!r} applies to none of {len(samples)} samples "
            f"({reasons.most_common(1)[0][0]}): remove it"
        )
    return PlannedVariant(
        name=variant.name, sha256=digest.hexdigest(), samples=len(samples) - reasons.total(), reasons=dict(reasons)
    )


def plan_variants(variants: Iterable[Variant], samples: Sequence[Sample]) -> tuple[PlannedVariant, ...]:
    """Return the records of variants, in their order. Raises SpecError for a name that cannot be written or occurs twice."""
    planned: dict[str, PlannedVariant] = {}
    for variant in variants:
        check_name(variant.name)
        if variant.name in planned:
            raise SpecError(f"variant {variant.name!r} is there twice: give each variant a name of its own")
        planned[variant.name] = plan_variant(variant, samples)
    return tuple(planned.values())


def check_name(name: str) -> None:
    """Raise SpecError for a name of a variant that a target cannot write in brackets.

    >>> check_name("homoglyph 0.1")
    """
    if not isinstance(name, str) or not name.strip() or name != name.strip() or set(name) & set("[]\n"):
        raise SpecError(f"a variant has the name {name!r}: write a word, such as 'she'")


def check_members(names: Iterable[str], arms: Iterable[Arm], what: str = "a variant") -> None:
    """Raise SpecError for a variant with the name of an arm's member: `metric[name]` could be either."""
    variants = set(names)
    for arm in arms:
        for member in arm.members:
            if member in variants:
                raise SpecError(f"{member!r} is {what} and a member of {arm.name!r}: rename the member")


def twin_sample(sample: Sample, twin: Twin) -> Sample:
    """Return the sample as a variant sends it."""
    expected = sample.expected if twin.expected is UNCHANGED else twin.expected
    return replace(sample, input=twin.input, expected=expected, variants={})


def _content(sample: Sample, twin: Twin | NoTwin) -> tuple[Any, ...]:
    """Return everything that is stored of a twin, but its facts."""
    if isinstance(twin, NoTwin):
        return (sample.id, twin.reason)
    own = twin_sample(sample, twin)
    return (sample.id, own.input, own.expected)
