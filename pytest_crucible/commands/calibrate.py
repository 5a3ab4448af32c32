"""`crucible calibrate`: how often would this suite cry wolf? An A/A self-test on the answers of a stored run."""

from __future__ import annotations

import click

from pytest_crucible.analyse.self_tests import self_tests
from pytest_crucible.commands.answers import given_answers
from pytest_crucible.commands.options import json_option, run_argument, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import SpecError
from pytest_crucible.report.self_test import self_test_lines


@click.command("calibrate", short_help="How often would this suite cry wolf? An A/A self-test on a stored run.")
@run_argument
@store_option
@click.option("--replicates", type=int, default=2000, metavar="N", help="How often the answers are dealt.")
@click.option("--alpha", type=float, metavar="A", show_default="the run's", help="Error rate of the claims.")
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of the dealing.")
@json_option
def command(run: str, store: str, replicates: int, alpha: float | None, seed: int, as_json: bool) -> int:
    """Deal the answers of a stored run to two arms at random, again and again, and count false alarms.

    Repeats of one arm are dealt to two; the answers of two arms are swapped. RUN is the id of a run, or its beginning; without
    one it is the latest. Exits 1 when a comparison cries wolf too often.
    """
    with existing_store(store) as opened:
        run = opened.find_run(run)
        level = opened.run(run)["alpha"] if alpha is None else alpha
        experiments = {
            given.plan.nodeid: self_tests(given, alpha=level, replicates=replicates, seed=seed)
            for given in given_answers(opened, run)
        }
    tried = {nodeid: tests for nodeid, tests in experiments.items() if tests}
    if not tried:
        raise SpecError(
            f"run {run} has neither repeats nor two arms, so nothing can be dealt to two arms: "
            "run it with @pytest.mark.crucible(..., epochs=2) or with --compare"
        )
    say(self_test_lines(run, tried), {"run": run, "experiments": tried}, as_json=as_json)
    return int(any(one.holds is False for tests in tried.values() for one in tests))
