"""The built-in metrics, datasets, backends, reports, importers and commands, as strings that import nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.datasets.release import Release
    from pytest_crucible.importers.results import Reader
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Run
    from pytest_crucible.sections import Section

# As pytest.hookimpl, but without pytest: the `crucible` program runs without it.
hookimpl = pluggy.HookimplMarker("pytest")
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
    "squad_exact_match": "pytest_crucible.metrics.text:squad_exact_match",
    "squad_f1": "pytest_crucible.metrics.text:squad_f1",
    "numeric_matches": "pytest_crucible.metrics.numbers:numeric_matches",
    "choice_match": "pytest_crucible.metrics.choice:choice_match",
    "choice_match_10": "pytest_crucible.metrics.choice:choice_match_10",
    "expected_score": "pytest_crucible.metrics.choice:expected_score",
    "choice_given": "pytest_crucible.metrics.choice:choice_given",
    "sentence_bleu": "pytest_crucible.metrics.ngram_overlap:sentence_bleu",
    "sentence_chrf": "pytest_crucible.metrics.ngram_overlap:sentence_chrf",
    "rouge1": "pytest_crucible.metrics.ngram_overlap:rouge1",
    "rouge2": "pytest_crucible.metrics.ngram_overlap:rouge2",
    "rouge_l": "pytest_crucible.metrics.ngram_overlap:rouge_l",
    "python_code_bleu": "pytest_crucible.metrics.code_match:python_code_bleu",
    "refusal": "pytest_crucible.metrics.text:refusal",
    "truncated": "pytest_crucible.metrics.text:truncated",
    "humaneval_pass": "pytest_crucible.metrics.code_execution:humaneval_pass",
    "humaneval_outcome": "pytest_crucible.metrics.code_execution:humaneval_outcome",
    **{
        name: f"pytest_crucible.metrics.guards:{name}"
        for name in (
            *("blocked", "caught", "false_alarm", "right_when_flagged"),
            *("flagged", "guard_score", "guard_latency_s", "pii"),
        )
    },
    "latency_s": "pytest_crucible.metrics.usage:latency_s",
    "first_token_s": "pytest_crucible.metrics.usage:first_token_s",
    "cost_usd": "pytest_crucible.metrics.usage:cost_usd",
    "input_tokens": "pytest_crucible.metrics.usage:input_tokens",
    "output_tokens": "pytest_crucible.metrics.usage:output_tokens",
    "total_tokens": "pytest_crucible.metrics.usage:total_tokens",
    **{name: f"pytest_crucible.presets.cns3.named_metrics:{name}" for name in CNS3},
    **{f"thinker.{name}": f"pytest_crucible.presets.cns3.named_metrics:thinker_{name}" for name in THINKER},
}
DATASETS = {
    **dict.fromkeys(("fever", "fever-train"), "pytest_crucible.datasets.benchmarks:fever"),
    **dict.fromkeys(("gsm8k", "gsm8k-train"), "pytest_crucible.datasets.benchmarks:gsm8k"),
    "humaneval": "pytest_crucible.datasets.benchmarks:humaneval",
    **dict.fromkeys(("mmlu", "mmlu-dev"), "pytest_crucible.datasets.benchmarks:mmlu"),
    **dict.fromkeys(("scifact-dev", "scifact-train"), "pytest_crucible.presets.cns3.scifact:release"),
}
"""Name -> the function that returns its release; a part after a colon in the name is passed to that function."""
SCHEMES = {"hf": "pytest_crucible.datasets.benchmarks:hugging_face"}
"""Scheme of a name, as in `hf://ORG/NAME:SPLIT` -> the function that returns the release of each such name."""
# Each needs matplotlib, and is written as SVG or PDF.
FIGURES = ("forest", "estimates", "distributions", "pairs", "latency")
REPORTERS = {
    "bib": "pytest_crucible.report.latex:render_bibtex",
    "csv": "pytest_crucible.runs.observation_reports:csv_report",
    "html": "pytest_crucible.runs.samples:html_report",
    "ipynb": "pytest_crucible.report.notebook:render_notebook",
    "json": "pytest_crucible.report.json:render_json",
    "jsonl": "pytest_crucible.runs.observation_reports:jsonl_report",
    "md": "pytest_crucible.report.markdown:render_markdown",
    "parquet": "pytest_crucible.runs.parquet_report:parquet_report",
    "tex": "pytest_crucible.report.latex:render_latex",
    **{
        f"{name}.{kind}": f"pytest_crucible.runs.figure_reports:{name}_{kind}"
        for name in FIGURES
        for kind in ("svg", "pdf")
    },
}

COMMANDS = {
    # `import` is a word of Python, so its module is `import_`.
    name: f"pytest_crucible.commands.{'import_' if name == 'import' else name.replace('-', '_')}:command"
    for name in (
        "runs",
        "show",
        "compare",
        "fairness",
        "explain",
        "report",
        "trend",
        "plan",
        "promote",
        "gate",
        "register",
        "rollback",
        "retire",
        "models",
        "watch",
        "curve",
        "schedule",
        "adapters",
        "datasets",
        "check",
        "contamination",
        "data-drift",
        "metrics",
        "attacks",
        "guards",
        "threshold",
        "calibrate",
        "export",
        "import",
        "gc",
        "doctor",
        "tinker-server",
        "tinker",
    )
}
"""The commands of the `crucible` program, in the order of its help."""


@hookimpl(trylast=True)
def pytest_crucible_dataset(name: str) -> Release | None:
    return find_release(name)


def pytest_crucible_metrics() -> Mapping[str, str]:
    return METRICS


def pytest_crucible_reporters() -> Mapping[str, str]:
    return REPORTERS


def pytest_crucible_importers() -> Mapping[str, Reader]:
    from pytest_crucible.importers.formats import READERS

    return READERS


def pytest_crucible_commands() -> Mapping[str, str]:
    return COMMANDS


def pytest_crucible_sections() -> Mapping[str, Section | str]:
    from pytest_crucible.runs.report_sections import BUILT_IN

    return BUILT_IN


def find_release(name: str) -> Release | None:
    """Return the built-in dataset with this name; None for an unknown name. Raises DatasetError for an unknown part."""
    from pytest_crucible.records.object_reference import load_object

    family = name.partition(":")[0]
    reference = DATASETS.get(family, SCHEMES.get(family))
    if reference is None:
        return None
    try:
        release: Release = load_object(reference)(name)
    # The dataset has no parts, and the name may be that of a file with a colon.
    except KeyError:
        return None
    return release


def check_dataset_name(name: str) -> None:
    """Raise DatasetError for a missing file whose name is close to that of a dataset."""
    from pytest_crucible.records.errors import DatasetError
    from pytest_crucible.records.suggestions import closest_name

    family, colon, part = name.partition(":")
    near = closest_name(family, DATASETS)
    if near is not None:
        raise DatasetError(
            f"dataset {name!r} does not exist: did you mean {near + colon + part!r}? `crucible datasets` lists them"
        )


def registered_metrics(config: pytest.Config) -> dict[str, Metric | str]:
    """Return all metrics by name. Raises SpecError when two plugins offer one name."""
    return merge_offers(config.hook.pytest_crucible_metrics(config=config), "metric")


def registered_reporters(config: pytest.Config) -> dict[str, Callable[[Run], str | bytes] | str]:
    """Return all report formats by extension."""
    return merge_offers(config.hook.pytest_crucible_reporters(config=config), "report format")


def registered_sections(config: pytest.Config) -> dict[str, Section | str]:
    """Return all sections of reports by name, the built-in ones first. Raises SpecError for a name that is taken."""
    # pluggy calls what was registered last first; the plugin registers its own implementations before any conftest.
    return merge_offers(reversed(config.hook.pytest_crucible_sections(config=config)), "section")


def merge_offers(offers: Iterable[Mapping[str, Any]], what: str) -> dict[str, Any]:
    from pytest_crucible.records.errors import SpecError

    merged: dict[str, Any] = {}
    for offer in offers:
        for name, value in offer.items():
            if name in merged:
                raise SpecError(f"{what} {name!r} is offered by two plugins: rename one")
            merged[name] = value
    return merged
