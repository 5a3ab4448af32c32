"""`crucible calibrate`: how often would this suite cry wolf? An A/A self-test on the answers of a stored run."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_crucible.analyse.analysis import Given
from pytest_crucible.analyse.self_tests import self_tests
from pytest_crucible.cli_store import add_run_and_store, existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Plan
from pytest_crucible.report.self_test import self_test_lines
from pytest_crucible.store.answers import group_names, load_answers
from pytest_crucible.store.runs import RunStore


def add_command(commands: Any) -> None:
    """Enter the command with its options."""
    parser = commands.add_parser(
        "calibrate",
        help="how often would this suite cry wolf? (A/A self-test on a stored run)",
        description="Deal the answers of a stored run to two arms at random, again and again, and count false alarms. "
        "Repeats of one arm are dealt to two; the answers of two arms are swapped.",
    )
    add_run_and_store(parser)
    parser.add_argument("--replicates", type=int, default=2000, metavar="N", help="default: 2000")
    parser.add_argument("--alpha", type=float, metavar="A", help="error rate of the claims (default: the run's)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    parser.set_defaults(run_command=calibrate)


def calibrate(given: argparse.Namespace) -> int:
    """Print the self-test; 1 when a comparison cries wolf too often, otherwise 0. Raises CrucibleError."""
    store = existing_store(given.store)
    try:
        run = store.find_run(given.run)
        alpha = store.run(run)["alpha"] if given.alpha is None else given.alpha
        experiments = {
            plan.nodeid: self_tests(_given(store, key, plan), alpha=alpha, replicates=given.replicates, seed=given.seed)
            for key, plan, _ in store.experiments(run)
            if store.has_arms(key)
        }
    finally:
        store.close()
    tried = {nodeid: tests for nodeid, tests in experiments.items() if tests}
    if not tried:
        raise SpecError(
            f"run {run} has neither repeats nor two arms, so nothing can be dealt to two arms: "
            "run it with @pytest.mark.crucible(..., epochs=2) or with --compare"
        )
    print("\n".join(self_test_lines(run, tried)))
    return int(any(one.holds is False for tests in tried.values() for one in tests))


def _given(store: RunStore, key: int, plan: Plan) -> Given:
    return Given(
        plan=plan,
        answers=tuple(load_answers(store, key, number) for number in range(len(plan.arms))),
        groups=group_names(store, plan.dataset_sha256),
        finished=True,
        known_kinds=store.known_kinds(plan, key + 1),
    )
