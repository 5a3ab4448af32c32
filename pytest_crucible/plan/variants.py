"""Variants of an experiment's samples before the run: collected from the samples, hashed, and named by targets."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.plan.variant_terms import VariantNames
from pytest_crucible.records import UNCHANGED, Arm, MetricFacts, NoTwin, PlannedVariant, Sample, Twin, Variant
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.variants import SAME_ANSWER

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
