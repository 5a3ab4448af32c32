"""`crucible calibrate`: the false alarm rate of a suite, from an A/A test on the answers of a stored run."""

from __future__ import annotations

import click

from pytest_crucible.analyse.aa_tests import aa_tests
from pytest_crucible.commands.load import stored_inputs
from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.aa_report import self_test_lines
from pytest_crucible.runs.run_store import existing_store


@click.command("calibrate", short_help="The suite's false alarm rate: an A/A test on a stored run.")
@run_argument
@store_option
@click.option("--replicates", type=int, default=2000, metavar="N", help="Number of random splits.")
@click.option("--alpha", type=float, metavar="A", show_default="the run's", help="Error rate of the claims.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the random splits.")
@json_option
def command(run: str, store: str, replicates: int, alpha: float | None, seed: int, as_json: bool) -> int:
    """Split the answers of a stored run into two arms at random, many times, and count false alarms.

    Repeats of one arm are split between two arms; the answers of two arms are swapped. RUN is a run's id, or its beginning;
    by default the latest. Exits 1 when a comparison raises too many false alarms.
    """
    with existing_store(store) as opened:
        run = opened.find_run(run)
        level = opened.run(run)["alpha"] if alpha is None else alpha
        experiments = {
            inputs.plan.nodeid: aa_tests(inputs, alpha=level, replicates=replicates, seed=seed)
            for inputs in stored_inputs(opened, run)
        }
    # An experiment with one arm and one repeat has nothing to split.
    tried = {nodeid: tests for nodeid, tests in experiments.items() if tests}
    if not tried:
        raise SpecError(
            f"run {run} has neither repeats nor two arms, so its replies cannot be split into two arms: "
            "run it with @pytest.mark.crucible(..., epochs=2) or with --compare"
        )
    print_result(self_test_lines(run, tried), {"run": run, "experiments": tried}, as_json=as_json)
    return int(any(test.holds is False for tests in tried.values() for test in tests))
