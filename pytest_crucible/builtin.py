"""What the package itself offers through its hooks, named by strings: listing them imports none of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Adapter, Run

CNS3 = (
    *("schema_compliance", "citation_accuracy", "citation_any", "citation_complete", "citation_precision"),
    *("citation_recall", "citation_exists", "entailment", "entailment_pass", "entailment_overlap", "similarity"),
    *("similarity_pass", "similarity_tfidf", "overall_pass", "chirality", "fisher_rao", "high_flags"),
    *("medium_flags", "beta1", "flaws"),
)
THINKER = (
    *("schema_compliance", "citation_accuracy", "entailment", "entailment_pass", "similarity", "similarity_pass"),
    *("paraphrase_accepted", "overall_pass", "evidence_overlap", "polarity_conflict", "beta1"),
)
METRICS = {
    "exact_match": "pytest_crucible.metrics.text:exact_match",
    "contains_expected": "pytest_crucible.metrics.text:contains_expected",
    "final_number_matches": "pytest_crucible.metrics.numbers:final_number_matches",
    "squad_exact_match": "pytest_crucible.metrics.squad:squad_exact_match",
    "squad_f1": "pytest_crucible.metrics.squad:squad_f1",
    "numeric_matches": "pytest_crucible.metrics.quantities:numeric_matches",
    "choice_match": "pytest_crucible.metrics.choice:choice_match",
    "choice_match_10": "pytest_crucible.metrics.choice:choice_match_10",
    "choice_given": "pytest_crucible.metrics.choice:choice_given",
    "sentence_bleu": "pytest_crucible.metrics.overlaps:sentence_bleu",
    "sentence_chrf": "pytest_crucible.metrics.overlaps:sentence_chrf",
    "rouge1": "pytest_crucible.metrics.overlaps:rouge1",
    "rouge2": "pytest_crucible.metrics.overlaps:rouge2",
    "rouge_l": "pytest_crucible.metrics.overlaps:rouge_l",
    "python_code_bleu": "pytest_crucible.metrics.code_match:python_code_bleu",
    "refusal": "pytest_crucible.metrics.conduct:refusal",
    "truncated": "pytest_crucible.metrics.conduct:truncated",
    "humaneval_pass": "pytest_crucible.metrics.programs:humaneval_pass",
    "humaneval_outcome": "pytest_crucible.metrics.programs:humaneval_outcome",
    "latency_s": "pytest_crucible.metrics.usage:latency_s",
    "first_token_s": "pytest_crucible.metrics.usage:first_token_s",
    "cost_usd": "pytest_crucible.metrics.usage:cost_usd",
    "input_tokens": "pytest_crucible.metrics.usage:input_tokens",
    "output_tokens": "pytest_crucible.metrics.usage:output_tokens",
    "total_tokens": "pytest_crucible.metrics.usage:total_tokens",
    **{name: f"pytest_crucible.cns3.named:{name}" for name in CNS3},
    **{f"thinker.{name}": f"pytest_crucible.cns3.named:thinker_{name}" for name in THINKER},
}
DATASETS = {"scifact-dev": "pytest_crucible.cns3.data:scifact", "scifact-train": "pytest_crucible.cns3.data:scifact"}
BACKENDS = ("local", "openai", "recorded", "scripted", "tinker")
REPORTERS = {
    "csv": "pytest_crucible.exporting:csv_report",
    "json": "pytest_crucible.report.json:render_json",
    "jsonl": "pytest_crucible.exporting:jsonl_report",
    "parquet": "pytest_crucible.exporting_parquet:parquet_report",
}


@pytest.hookimpl(trylast=True)
def pytest_crucible_dataset(name: str) -> Iterable[Mapping[str, Any]] | None:
    if name in DATASETS:
        scifact: Callable[[str], Iterable[Mapping[str, Any]]] = load(DATASETS[name])
        return scifact(name)
    return None


def pytest_crucible_metrics() -> Mapping[str, str]:
    return METRICS


@pytest.hookimpl(trylast=True)
def pytest_crucible_backend(config: pytest.Config, adapter: Adapter) -> Backend | None:
    if adapter.backend == "tinker":
        from pytest_crucible.tinkering.adapters import open_tinker

        return open_tinker(config, adapter)
    from pytest_crucible.backends.opening import BUILT_IN

    opener = BUILT_IN.get(adapter.backend)
    return opener(adapter, config.rootpath) if opener else None


def pytest_crucible_reporters() -> Mapping[str, str]:
    return REPORTERS


def named_metrics(config: pytest.Config) -> dict[str, Metric | str]:
    """All metrics by name. Raises SpecError when two plugins offer one name."""
    return _merged(config.hook.pytest_crucible_metrics(config=config), "metric")


def reporters(config: pytest.Config) -> dict[str, Callable[[Run], str | bytes] | str]:
    """All report formats by extension."""
    return _merged(config.hook.pytest_crucible_reporters(config=config), "report format")


def load(given: Any) -> Any:
    """What a "module:attribute" string names; anything else as it is."""
    if not isinstance(given, str):
        return given
    module, _, attribute = given.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _merged(offers: Iterable[Mapping[str, Any]], what: str) -> dict[str, Any]:
    from pytest_crucible.errors import SpecError

    found: dict[str, Any] = {}
    for offer in offers:
        for name, value in offer.items():
            if name in found:
                raise SpecError(f"{what} {name!r} is offered by two plugins: rename one")
            found[name] = value
    return found
