"""CNS3: claim extraction with citations, and metrics that measure what their names promise.

`METRICS` and `TARGETS` go into the markers:

    @pytest.mark.crucible(dataset="scifact-dev", metrics=cns3.METRICS)
    @pytest.mark.quality_target(*cns3.TARGETS)

Metrics are given by name, so that importing this package imports nothing else.
"""

from __future__ import annotations

from typing import Literal

from pytest_crucible.features.row import Feature

FEATURE = Feature(
    "cns3",
    tables={
        "datasets": "pytest_crucible.features.cns3.plugin:DATASETS",
        "exports": "pytest_crucible.features.cns3.plugin:EXPORTS",
    },
)

Policy = Literal["strict", "thinker-compat"]

METRICS = (
    "schema_compliance",
    "citation_accuracy",
    "citation_precision",
    "citation_recall",
    "entailment",
    "entailment_pass",
    "similarity",
    "similarity_pass",
    "overall_pass",
    "chirality",
    "high_flags",
    "antagonist_findings",
)
TARGETS = (
    "schema_compliance >= 0.95",
    "citation_accuracy >= 0.95",
    "entailment >= 0.50",
    "overall_pass >= 0.45",
    "entailment_pass >= 0.45",
    "similarity_pass >= 0.35",
    "count(high_flags) == 0",
    "chirality < 0.55",
)
TRAINING_TARGETS = ("loss_reduction >= 0.95", "convergence_steps < 500")
_THINKER = (
    "schema_compliance",
    "citation_accuracy",
    "entailment",
    "entailment_pass",
    "similarity",
    "similarity_pass",
    "overall_pass",
)


def metrics(policy: Policy = "strict") -> tuple[str, ...]:
    """Return the names of the metrics under a policy. Raises SpecError for an unknown policy.

    >>> metrics("thinker-compat")[0]
    'thinker.schema_compliance'
    """
    return METRICS if _is_strict(policy) else tuple(f"thinker.{name}" for name in _THINKER)


def targets(policy: Policy = "strict") -> tuple[str, ...]:
    """Return the quality targets under a policy: the same values, on that policy's metrics.

    >>> targets("thinker-compat")[2]
    'thinker.entailment >= 0.50'
    """
    if _is_strict(policy):
        return TARGETS
    return tuple(f"thinker.{target}" for target in TARGETS if target.split()[0] in _THINKER)


def _is_strict(policy: str) -> bool:
    if policy not in ("strict", "thinker-compat"):
        from pytest_crucible.records.errors import SpecError

        raise SpecError(f"CNS3 has no policy {policy!r}: write 'strict' or 'thinker-compat'")
    return policy == "strict"
