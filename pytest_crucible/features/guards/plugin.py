"""The hooks of guards."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.features.guards.redaction import FindingsRedactor, RunRedaction
    from pytest_crucible.records import Adapter, Measure
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import ExperimentDraft

_METRICS = (
    *("blocked", "caught", "false_alarm", "right_when_flagged"),
    *("flagged", "guard_score", "guard_latency_s", "pii"),
)


def pytest_crucible_metrics() -> dict[str, str]:
    return {name: f"pytest_crucible.features.guards.metrics:{name}" for name in _METRICS}


def pytest_crucible_sections() -> dict[str, Placed]:
    return {
        "detection": Placed(190, "pytest_crucible.features.guards.section", lambda plan: plan.may_have("guard_score"))
    }


def pytest_crucible_commands() -> dict[str, str]:
    home = "pytest_crucible.features.guards.commands"
    return {
        "guards list": Command(f"{home}:list_all", "The guards that this directory configures."),
        "guards try": Command(f"{home}:try_one", "What a guard decides on a text."),
        "guards train": Command(f"{home}:train", 'Fit a guard of kind "linear" to labelled texts.'),
        "guards threshold": Command(
            f"{home}:find_threshold", "Choose a guard's threshold by the false alarms of a run."
        ),
    }


def pytest_configure_node(node: Any) -> None:
    """Pass to a worker of pytest-xdist what makes equal values of a run have equal hashes and placeholders."""
    from pytest_crucible.features.guards.redaction import PASSED, pass_redaction

    node.workerinput[PASSED] = pass_redaction(node.config)


def pytest_crucible_redactor(config: pytest.Config) -> FindingsRedactor | None:
    """Return the function that redacts the findings of the guard of --crucible-redact; None without the option."""
    from pytest_crucible.session.settings import read_settings

    name = read_settings(config).option("redact")
    if not name:
        return None
    from pytest_crucible.features.guards.project_guards import Guards
    from pytest_crucible.features.guards.redaction import session_redactor

    guards = Guards(config.rootpath, redaction=partial(_run_redaction, config))
    return session_redactor(config, name, guards.redactor)


def pytest_crucible_plan_begin(collection: ExperimentCollection) -> None:
    """Let guards around adapters redact as the other processes of the run do."""
    from pytest_crucible.features.guards.project_guards import REDACTION

    if collection.context is not None:
        collection.context.of_features[REDACTION] = partial(_run_redaction, collection.config)


def _run_redaction(config: pytest.Config) -> RunRedaction:
    from pytest_crucible.features.guards.redaction import run_redaction

    return run_redaction(config)


def pytest_crucible_plan(draft: ExperimentDraft) -> None:
    """Check that targets about attacks have attacks; exclude the samples that chose the threshold of a guard."""
    if draft.sends_requests and any(opened.arm.adapter.partition(":")[0] == "guard" for opened in draft.arms):
        _check_classes(draft)
    if any(opened.adapter is not None and _has_guard(opened.adapter) for opened in draft.arms):
        _exclude_used(draft)


def _has_guard(adapter: Adapter) -> bool:
    return adapter.backend == "guard" or "guard" in adapter.settings


def _check_classes(draft: ExperimentDraft) -> None:
    """Raise SpecError for a target or a comparison about a class that no sample has."""
    from pytest_crucible.features.guards.metrics import check_classes
    from pytest_crucible.session.marks import comparisons, targets

    measures: list[tuple[str, Measure]] = [(repr(target.text), target) for target in targets(draft.item)]
    measures += [(f"ab_compare({contrast.expression!r})", contrast) for contrast in comparisons(draft.item)]
    check_classes(measures, draft.samples)


def _exclude_used(draft: ExperimentDraft) -> None:
    """Exclude the samples whose texts chose the threshold of a guard: on them the guard looks better than it is."""
    from pytest_crucible.features.guards.normalise import find_used
    from pytest_crucible.features.guards.project_guards import Guards
    from pytest_crucible.features.guards.protections import input_text
    from pytest_crucible.records import Exclusion

    guards = Guards(draft.config.rootpath)
    adapters = [opened.adapter for opened in draft.arms if opened.adapter is not None]
    chosen = [threshold for adapter in adapters for threshold in guards.thresholds_around(adapter)]
    texts = [(sample.id, input_text(sample.input)) for sample in draft.samples] if chosen else []
    used = {f"chose the threshold of {threshold.guard}": find_used(threshold, texts) for threshold in chosen}
    draft.exclusions += [Exclusion(reason=reason, sample_ids=ids) for reason, ids in used.items() if ids]


def pytest_crucible_prepare(collection: ExperimentCollection) -> None:
    """Find what is to be redacted in all samples, before anything of them is stored."""
    redactor = pytest_crucible_redactor(collection.config)
    if redactor is not None:
        redactor.learn_samples(collection.experiments.values())
