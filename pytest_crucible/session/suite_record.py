"""Records what pytest collected of a suite: the demands of its experiments, and those that it leaves out, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import pytest
from _pytest.skipping import evaluate_skip_marks, evaluate_xfail_marks

from pytest_crucible.records.model_gates import Demands, SuiteRecord
from pytest_crucible.records.settings import Settings
from pytest_crucible.session.demands import experiment_demands, joined_demands
from pytest_crucible.session.experiment_data import SessionDatasets
from pytest_crucible.session.joined_tests import function_nodeid, group_by_function
from pytest_crucible.session.marks import comparisons, experiment_mark, targets
from pytest_crucible.session.session_demands import session_demands

DESELECTED = "deselected"
NOT_PLANNED = "failed before the run"


def record_suite(
    config: pytest.Config,
    settings: Settings,
    items: Iterable[pytest.Item],
    functions: Mapping[str, Callable[..., Any]],
    data: SessionDatasets,
    left_out: Mapping[str, str],
) -> SuiteRecord:
    """Return the record of the items that are run. `functions` are those of experiments as they were written, by nodeid.

    `left_out` are the experiments and joined tests that are not among them, with the reason.
    """
    tests = [item for item in items if isinstance(item, pytest.Function)]
    judged = [item for item in tests if has_verdicts(item)]
    # Before a feature leaves samples out: another session may keep them.
    experiments = {item.nodeid: item for item in judged if item.nodeid in functions}
    demands: dict[str, Demands] = {
        nodeid: experiment_demands(item, functions[nodeid], data.whole(item, experiment_mark(item))[1], settings)
        for nodeid, item in experiments.items()
    }
    joined = group_by_function(item for item in judged if item.nodeid not in functions)
    demands |= {nodeid: joined_demands(group, settings) for nodeid, group in joined.items()}
    unbelieved = dict(_unbelieved(judged, functions))
    return SuiteRecord(
        settings=session_demands(config, settings),
        experiments=demands,
        without_verdict=tuple(item.nodeid for item in tests if item.nodeid in functions and item.nodeid not in demands),
        left_out={**left_out, **unbelieved},
    )


def has_verdicts(item: pytest.Item) -> bool:
    """Return whether an item has a target, or a comparison that gives a verdict."""
    return bool(targets(item) or any(contrast.decides for contrast in comparisons(item)))


def _unbelieved(items: Iterable[pytest.Function], experiments: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the experiments and joined tests of which an item is skipped or expected to fail."""
    for item in items:
        reason = _skip_reason(item)
        if reason:
            yield item.nodeid if item.nodeid in experiments else function_nodeid(item), reason


def _skip_reason(item: pytest.Item) -> str:
    skipped = evaluate_skip_marks(item)
    if skipped is not None:
        return f"skipped ({skipped.reason})"
    expected = None if item.config.option.runxfail else evaluate_xfail_marks(item)
    return "" if expected is None else f"expected to fail ({expected.reason or 'no reason given'})"
