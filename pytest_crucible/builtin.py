"""What the package itself offers through its hooks, named by strings: listing them imports none of them."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_crucible.backends import Backend
    from pytest_crucible.datasets.release import Release
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Adapter, Run

CNS3 = (
    *("schema_compliance", "citation_accuracy", "citation_any", "citation_complete", "citation_precision"),
    *("citation_recall", "citation_exists", "entailment", "entailment_pass", "entailment_overlap", "similarity"),
    *("similarity_pass", "similarity_tfidf", "overall_pass", "chirality", "fisher_rao", "high_flags"),
    *("medium_flags", "beta1", "flaws", "antagonist_findings"),
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
DATASETS = {
    **dict.fromkeys(("fever", "fever-train"), "pytest_crucible.datasets.fever:release"),
    **dict.fromkeys(("gsm8k", "gsm8k-train"), "pytest_crucible.datasets.gsm8k:release"),
    "humaneval": "pytest_crucible.datasets.humaneval:release",
    **dict.fromkeys(("mmlu", "mmlu-dev"), "pytest_crucible.datasets.mmlu:release"),
    **dict.fromkeys(("scifact-dev", "scifact-train"), "pytest_crucible.cns3.data:release"),
}
"""Name -> the function that gives its release; what follows a colon in a name is for that function."""
BACKENDS = ("local", "openai", "recorded", "scripted", "tinker")
FIGURES = ("forest", "estimates", "distributions", "pairs", "latency")
REPORTERS = {
    "bib": "pytest_crucible.report.latex:render_bibtex",
    "csv": "pytest_crucible.exporting:csv_report",
    "html": "pytest_crucible.sampled:html_report",
    "ipynb": "pytest_crucible.report.notebook:render_notebook",
    "json": "pytest_crucible.report.json:render_json",
    "jsonl": "pytest_crucible.exporting:jsonl_report",
    "md": "pytest_crucible.report.markdown:render_markdown",
    "parquet": "pytest_crucible.exporting_parquet:parquet_report",
    "tex": "pytest_crucible.report.latex:render_latex",
    **{f"{name}.{kind}": f"pytest_crucible.figures:{name}_{kind}" for name in FIGURES for kind in ("svg", "pdf")},
}


@pytest.hookimpl(trylast=True)
def pytest_crucible_dataset(name: str) -> Release | None:
    return release(name)


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


def release(name: str) -> Release | None:
    """The dataset of that name; None where it is none of ours. Raises DatasetError for a part that it does not have."""
    family = name.partition(":")[0]
    if family not in DATASETS:
        return None
    try:
        found: Release = load(DATASETS[family])(name)
    except KeyError:  # it has no parts, and a file may have a colon in its name
        return None
    return found


def check_dataset_name(name: str) -> None:
    """A file that is not there may be a dataset whose name is misspelt: then this raises DatasetError."""
    from pytest_crucible.errors import DatasetError

    family, colon, part = name.partition(":")
    near = difflib.get_close_matches(family, DATASETS, n=1)
    if near:
        raise DatasetError(
            f"dataset {name!r} does not exist: did you mean {near[0] + colon + part!r}? `crucible datasets` lists them"
        )


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
