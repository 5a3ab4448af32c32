"""The hooks of CNS3: its metrics, datasets, findings, and the rules of the antagonist."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.records import Conversation, Plan, View
    from pytest_crucible.session.collect import ExperimentCollection

_STRICT = (
    *("schema_compliance", "citation_accuracy", "citation_any", "citation_complete", "citation_precision"),
    *("citation_recall", "citation_exists", "entailment", "entailment_pass", "entailment_overlap", "similarity"),
    *("similarity_pass", "similarity_tfidf", "overall_pass", "chirality", "fisher_rao", "high_flags"),
    *("medium_flags", "beta1", "flaws", "antagonist_findings"),
)
THINKER = (
    *("schema_compliance", "citation_accuracy", "entailment", "entailment_pass", "similarity", "similarity_pass"),
    *("paraphrase_accepted", "overall_pass", "evidence_overlap", "polarity_conflict", "beta1"),
)
DATASETS = tuple((name, "pytest_crucible.features.cns3.scifact:release") for name in ("scifact-dev", "scifact-train"))
"""Datasets that a marker can name, with the function that returns the release of each."""
EXPORTS = (("findings", "pytest_crucible.features.cns3.antagonist_section:findings"),)
"""Tables of `crucible export`, with the function of a run store and a run that returns each."""


def pytest_crucible_metrics() -> dict[str, str]:
    home = "pytest_crucible.features.cns3.named_metrics"
    return {
        **{name: f"{home}:{name}" for name in _STRICT},
        **{f"thinker.{name}": f"{home}:thinker_{name}" for name in THINKER},
    }


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"findings": Placed(250, "pytest_crucible.features.cns3.antagonist_section", _has_findings)}


def _has_findings(plan: Plan) -> bool:
    return plan.may_have("antagonist_findings")


def pytest_crucible_sample_views(plan: Plan, conversations: Sequence[Conversation]) -> Iterable[View]:
    """Return the claims, relations and flags of replies of an experiment with metrics of CNS3."""
    if not plan.may_have(*_STRICT, *(f"thinker.{name}" for name in THINKER)):
        return ()
    from pytest_crucible.features.cns3.sample_views import sample_views

    return sample_views(conversations)


def pytest_crucible_plan_begin(collection: ExperimentCollection) -> None:
    """Use the rules of the project's table `[antagonist]` until the session ends. Raises SpecError."""
    collection.resources.on_close(use_rules_of(collection.config.rootpath))


def pytest_crucible_session_demands(config: pytest.Config) -> dict[str, str]:
    """Return the rules of the antagonist."""
    from pytest_crucible.adapters.config import describe_table

    return {"[antagonist]": describe_table(config.rootpath, "antagonist")}


def use_rules_of(root: Path) -> Callable[[], object]:
    """Use the rules of the table `[antagonist]`; return a function that restores the former settings. Raises SpecError."""
    from pytest_crucible.adapters.config_tables import read_table
    from pytest_crucible.records.errors import SpecError

    table = read_table(root, "antagonist")
    if not table and "pytest_crucible.features.cns3.antagonist" not in sys.modules:
        return lambda: None
    from pytest_crucible.features.cns3.antagonist import DEFAULT_RULES, read_rules, use_rules

    if not table:
        # A session that runs within another one must not inherit its rules.
        return use_rules(DEFAULT_RULES)
    if set(table) != {"rules"} or not isinstance(table["rules"], list):
        raise SpecError("[antagonist] has rules and nothing else: write one table a rule, as in [[antagonist.rules]]")
    return use_rules(read_rules(table["rules"]))
