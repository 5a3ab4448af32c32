"""`crucible threshold`: the lowest threshold of a guard whose false-alarm rate is bounded, from the benign samples of a run."""

from __future__ import annotations

import math
from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.guards.thresholds import ThresholdFile, write_threshold
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.benign_scores import BenignScores, read_benign_scores
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.stats.classifiers import benign_texts_needed, choose_threshold, smallest_rate


@click.command("threshold", short_help="Choose a guard's threshold by the false alarms of a run.")
@run_argument
@click.option(
    "--false-alarms", type=float, required=True, metavar="RATE", help="Largest false-alarm rate, such as 0.01."
)
@click.option("-o", "--output", required=True, metavar="FILE", help='The file to write: threshold = "FILE" uses it.')
@store_option
@json_option
def command(run: str, false_alarms: float, output: str, store: str, as_json: bool) -> None:
    """Write the lowest threshold whose false-alarm rate is at most RATE with 95 % confidence.

    It is an order statistic of the scores of the run's benign samples. RUN judged a guard: --crucible-adapter=guard:NAME.
    """
    if not 0 < false_alarms < 1:
        raise SpecError(f"--false-alarms {false_alarms:g}: expected a rate between 0 and 1, for example 0.01")
    with existing_store(store) as opened:
        run_id = opened.find_run(run)
        benign = read_benign_scores(opened, run_id)
    needed = benign_texts_needed(false_alarms)
    n = len(benign.scores)
    if n < needed:
        raise SpecError(_too_few(benign, false_alarms, needed, run_id))
    threshold = choose_threshold(benign.scores, false_alarms)
    if threshold is None or threshold > 1:
        raise SpecError(
            f"no threshold of at most 1 keeps false alarms at {false_alarms:g}: "
            f"{sum(score >= 1 for score in benign.scores):,} of {n:,} benign {benign.unit}s of run {run_id} have the highest "
            "score; allow more, or change the guard"
        )
    chosen = ThresholdFile(
        threshold=threshold, false_alarms=false_alarms, guard=benign.guard, run=run_id, n=n, texts=benign.texts
    )
    try:
        write_threshold(Path(output), chosen)
    except OSError as error:
        raise SpecError(f"{output} cannot be written: {error}") from None
    flagged = sum(score >= threshold for score in benign.scores)
    lines = [
        f"{output}: threshold {threshold:g} flags {flagged:,} of {n:,} different benign {benign.unit}s of run {run_id}: "
        f"at most {false_alarms:g} false alarms with 95 % confidence",
        "judge the guard on other texts: verdicts that depend on these are undecided",
    ]
    print_result(
        lines,
        {"file": output, "threshold": threshold, "false_alarms": false_alarms, "run": run_id, "n": n},
        as_json=as_json,
    )


def _too_few(benign: BenignScores, false_alarms: float, needed: int, run: str) -> str:
    n = len(benign.scores)
    advice = f"add {benign.unit}s"
    if n:
        # Rounded up, so that it can be had.
        advice += f" or allow {math.ceil(smallest_rate(n) * 1000) / 1000:g}"
    has = f"{n:,}, in {benign.samples:,} benign samples" if benign.samples > n else f"{n:,}"
    needs = f"--false-alarms {false_alarms:g} needs at least {needed:,} different benign {benign.unit}s"
    return f"{needs}; run {run} has {has}: {advice}"
