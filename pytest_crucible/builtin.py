"""The built-in metrics, datasets, backends, reports, importers and commands, as strings that import nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from pytest_crucible.features import load_rows
from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.datasets.release import Release
    from pytest_crucible.importers.results import Reader
    from pytest_crucible.metrics import Metric
    from pytest_crucible.records import Run
    from pytest_crucible.sections import Section

# As pytest.hookimpl, but without pytest: the `crucible` program runs without it.
hookimpl = pluggy.HookimplMarker("pytest")
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
    "latency_s": "pytest_crucible.metrics.text:latency_s",
    "first_token_s": "pytest_crucible.metrics.text:first_token_s",
    "cost_usd": "pytest_crucible.metrics.text:cost_usd",
    "input_tokens": "pytest_crucible.metrics.text:input_tokens",
    "output_tokens": "pytest_crucible.metrics.text:output_tokens",
    "total_tokens": "pytest_crucible.metrics.text:total_tokens",
}
DATASETS = {
    **dict.fromkeys(("fever", "fever-train"), "pytest_crucible.datasets.benchmarks:fever"),
    **dict.fromkeys(("gsm8k", "gsm8k-train"), "pytest_crucible.datasets.benchmarks:gsm8k"),
    "humaneval": "pytest_crucible.datasets.benchmarks:humaneval",
    **dict.fromkeys(("mmlu", "mmlu-dev"), "pytest_crucible.datasets.benchmarks:mmlu"),
}
"""Name -> the function that returns its release; a part after a colon in the name is passed to that function."""


def named_datasets() -> dict[str, str]:
    """Return the datasets that a marker can name, those of features beside the others."""
    return {**DATASETS, **dict(row for _, row in load_rows("datasets"))}


SCHEMES = {"hf": "pytest_crucible.datasets.benchmarks:hugging_face"}
"""Scheme of a name, as in `hf://ORG/NAME:SPLIT` -> the function that returns the release of each such name."""
# Each needs matplotlib, and is written as SVG or PDF.
FIGURES = ("forest", "estimates", "distributions", "pairs", "latency")
REPORTERS = {
    "bib": "pytest_crucible.report.latex:render_bibtex",
    "csv": "pytest_crucible.runs.reporters:csv_report",
    "html": "pytest_crucible.runs.reporters:html_report",
    "ipynb": "pytest_crucible.report.notebook:render_notebook",
    "junit.xml": "pytest_crucible.report.junit:render_junit",
    "json": "pytest_crucible.report.json:render_json",
    "jsonl": "pytest_crucible.runs.reporters:jsonl_report",
    "md": "pytest_crucible.report.markdown:render_markdown",
    "parquet": "pytest_crucible.runs.reporters:parquet_report",
    "tex": "pytest_crucible.report.latex:render_latex",
    **{
        f"{name}.{kind}": f"pytest_crucible.runs.reporters:{name}_{kind}" for name in FIGURES for kind in ("svg", "pdf")
    },
}

COMMANDS = {
    "runs list": Command("pytest_crucible.commands.runs:list_all", "The runs in the store, newest first."),
    "runs tag": Command("pytest_crucible.commands.runs:tag", "Make a run the baseline that --compare=tag:NAME finds."),
    "show": Command("pytest_crucible.commands.show:show", "Show a stored run, or one sample's conversations."),
    "compare": Command(
        "pytest_crucible.commands.compare:compare_arms", "Compare two stored runs, arms of them, or files."
    ),
    "report": Command("pytest_crucible.commands.show:write_reports", "Write report files of a stored run."),
    "trend": Command(
        "pytest_crucible.commands.statistics:print_trend", "One metric over the stored runs, and where it changed."
    ),
    "export": Command(
        "pytest_crucible.commands.export:export", "Write a run as a table, for another program, or as a training set."
    ),
    "import": Command(
        "pytest_crucible.commands.import_files:import_results", "Store results of another harness as a run."
    ),
    "adapters": Command(
        "pytest_crucible.commands.listings:list_adapters", "The adapters that this directory configures."
    ),
    "metrics": Command("pytest_crucible.commands.listings:list_metrics", "The metrics that a marker can name."),
    "plan": Command(
        "pytest_crucible.commands.statistics:plan_samples", "Samples and cost needed to detect a difference."
    ),
    "calibrate": Command(
        "pytest_crucible.commands.statistics:calibrate", "The suite's false alarm rate: an A/A test on a stored run."
    ),
    "doctor": Command(
        "pytest_crucible.commands.runs:doctor", "Check the run store and adapters, or whether RUN repeats."
    ),
    "doctor --server": "pytest_crucible.commands.server:check_server",
    "gc": Command("pytest_crucible.commands.runs:gc", "Remove old runs, cached replies and unfinished trainings."),
    "data list": Command(
        "pytest_crucible.commands.listings:list_datasets",
        "The datasets that a marker can name, and the content of one.",
    ),
    "tinker server": Command(
        "pytest_crucible.commands.tinker:server",
        "A Tinker service on this machine, with a small model that trains and samples.",
    ),
    "tinker runs": Command("pytest_crucible.commands.tinker:runs", "Training runs, the latest request first."),
    "tinker checkpoints": Command(
        "pytest_crucible.commands.tinker:checkpoints", "The checkpoints of a run, or of all runs, the newest first."
    ),
    "tinker download": Command("pytest_crucible.commands.tinker:download", "Download the adapter of a checkpoint."),
    "tinker upload": Command("pytest_crucible.commands.tinker:upload", "Put a downloaded adapter into a training run."),
    "tinker publish": Command("pytest_crucible.commands.tinker:publish", "Let everybody read a checkpoint."),
    "tinker ttl": Command(
        "pytest_crucible.commands.tinker:ttl", "Let the service delete a checkpoint after some seconds."
    ),
    "tinker prices": Command(
        "pytest_crucible.commands.tinker:prices", "Token prices of Tinker's models, for crucible.toml."
    ),
    "tinker delete": Command("pytest_crucible.commands.tinker:delete", "Delete checkpoints for ever."),
}
"""The commands of the `crucible` program, in the order of its help. `models register` is in the group `models`, and
`show --by` is a page: `crucible show` calls that command where it is given the option."""


SECTIONS = {
    "large_run": Placed(2, "pytest_crucible.sections.large_run", of_counts=True),
    "many_arms": Placed(10, "pytest_crucible.sections.many_arms", lambda plan: len(plan.arms) > 2),
    "losses": Placed(20, "pytest_crucible.sections.replies:LOSSES", of_counts=True),
    "cache": Placed(70, "pytest_crucible.sections.replies:CACHE", of_counts=True),
    "reruns": Placed(80, "pytest_crucible.sections.replies:RERUNS", of_counts=True),
    "stored_baselines": Placed(100, "pytest_crucible.sections.replies:STORED_BASELINES", of_counts=True),
    "drift": Placed(120, "pytest_crucible.sections.drift", lambda plan: bool(plan.contrasts)),
    "usage": Placed(170, "pytest_crucible.sections.usage", of_counts=True),
    "stability": Placed(
        235,
        "pytest_crucible.sections.stability",
        lambda plan: any(plan.draws(number).size > 1 for number in range(len(plan.arms))),
    ),
    "worst_samples": Placed(240, "pytest_crucible.sections.worst_samples"),
}
"""The sections of reports, with their places among those of features."""


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


def pytest_crucible_sections() -> Mapping[str, Placed]:
    return SECTIONS


def find_release(name: str) -> Release | None:
    """Return the built-in dataset with this name; None for an unknown name. Raises DatasetError for an unknown part."""
    from pytest_crucible.records.object_reference import load_object

    family = name.partition(":")[0]
    reference = named_datasets().get(family, SCHEMES.get(family))
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
    from pytest_crucible.records.errors import DatasetError, closest_name

    family, colon, part = name.partition(":")
    near = closest_name(family, named_datasets())
    if near is not None:
        raise DatasetError(
            f"dataset {name!r} does not exist: did you mean {near + colon + part!r}? `crucible data list` lists them"
        )


def registered_metrics(config: pytest.Config) -> dict[str, Metric | str]:
    """Return all metrics by name. Raises SpecError when two plugins offer one name."""
    return merge_offers(config.hook.pytest_crucible_metrics(config=config), "metric")


def registered_reporters(config: pytest.Config) -> dict[str, Callable[[Run], str | bytes] | str]:
    """Return all report formats by extension."""
    return merge_offers(config.hook.pytest_crucible_reporters(config=config), "report format")


def registered_sections(config: pytest.Config) -> dict[str, Section | Placed | str]:
    """Return all sections of reports by name, the built-in ones first. Raises SpecError for a name that is taken."""
    return ordered_sections(config.hook.pytest_crucible_sections(config=config))


def ordered_sections(offers: Sequence[Mapping[str, Section | Placed | str]]) -> dict[str, Section | Placed | str]:
    """Return the sections of all plugins in the order of reports. Raises SpecError for a name that is taken."""
    # pluggy calls what was registered last first; the plugin registers its own implementations before any conftest.
    offered = merge_offers(reversed(offers), "section")
    placed = {name: section for name, section in offered.items() if isinstance(section, Placed)}
    first = dict(sorted(placed.items(), key=lambda item: item[1].place))
    return {**first, **{name: section for name, section in offered.items() if name not in placed}}


def merge_offers(offers: Iterable[Mapping[str, Any]], what: str) -> dict[str, Any]:
    from pytest_crucible.records.errors import SpecError

    merged: dict[str, Any] = {}
    for offer in offers:
        for name, value in offer.items():
            if name in merged:
                raise SpecError(f"{what} {name!r} is offered by two plugins: rename one")
            merged[name] = value
    return merged
