"""Training sets in `crucible export`: its options, and what it prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pytest_crucible.exports.files import FurtherExport
from pytest_crucible.features.training.set_rows import FORMATS, TASKS, Shape
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore

ADVERSARIAL = "adversarial"
_SHARE = click.FloatRange(0, 1, max_open=True)
OPTIONS = (
    click.option("--format", "file_format", type=click.Choice(FORMATS), help="Format of a training set (trl)."),
    click.option("--of", "arm", metavar="ARM", help="The arm whose replies become rows (the candidate)."),
    click.option(
        "--on", metavar="METRIC", help="The metric that decides which replies passed, such as 'score >= 0.5'."
    ),
    click.option(
        "--gap", type=click.FloatRange(min=0), help="The least difference of a chosen and a rejected score (0)."
    ),
    click.option("--holdout", type=_SHARE, metavar="S", help="Write this share of the groups to a second file (0)."),
    click.option(
        "--replay",
        type=(_SHARE, click.Path(path_type=Path)),
        metavar="SHARE FILE",
        help="Mix in this share of old rows.",
    ),
    click.option("--seed", type=int, metavar="N", help="Draws the holdout and the old rows (0)."),
    click.option(
        "--allow-gate-samples", is_flag=True, default=None, help="Also use samples that verdicts depend on; recorded."
    ),
)


def export_training_set(
    runs: tuple[str, ...], store: str, output: Path | None, what: Any, chosen: Mapping[str, Any]
) -> tuple[list[str], Mapping[str, Any]]:
    """Write a training set, unless no file is named; return the lines to print and the JSON document."""
    # The import loads the readers of datasets, which tables do not need.
    from pytest_crucible.features.training.sets import (
        TrainingSetRequest,
        make_training_set,
        set_facts,
        write_training_set,
    )

    shape = Shape(
        task="sft" if what == ADVERSARIAL else what,
        format=chosen.get("file_format", "trl"),
        holdout=chosen.get("holdout", 0.0),
        replay=chosen.get("replay", (0.0, None))[0],
        seed=chosen.get("seed", 0),
    )
    with existing_store(store, reader="crucible export") as opened:
        request = TrainingSetRequest(
            runs=_find_runs(opened, runs),
            shape=shape,
            attacked=what == ADVERSARIAL,
            replay_file=chosen.get("replay", (0.0, None))[1],
            **{name: chosen[name] for name in ("arm", "on", "gap", "allow_gate_samples") if name in chosen},
        )
        sourced = make_training_set(opened, request)
        files = write_training_set(opened, sourced, request, output) if output is not None else []
        facts = set_facts(sourced, request)
    counts = {str(path): rows for path, rows in files}
    document = {**facts, "rows": len(sourced.training_set.lines), "holdout_rows": len(sourced.training_set.holdout)}
    return _lines(facts, document, counts), {**document, "files": counts}


def _find_runs(store: RunStore, named: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of the runs, each once, the oldest first: the order of the names changes nothing."""
    run_ids = {store.find_run(name) for name in named or ("",)}
    return tuple(sorted(run_ids, key=lambda run: (store.run(run)["started"], run)))


def _lines(facts: Mapping[str, Any], counts: Mapping[str, Any], files: Mapping[str, int]) -> list[str]:
    """Return the lines to print: the number of rows, their file, and why other replies are missing."""
    runs, replies = quantity(len(facts["runs"]), "run"), f"{facts['replies']:,} replies"
    rows = counts["rows"] + counts["holdout_rows"]
    lines = [f"{quantity(rows, 'row')} of --what {facts['what']} from {replies} of {runs}"]
    lines += [f"  {quantity(count, 'row')} written to {path} ({facts['format']})" for path, count in files.items()]
    if facts["replay"]:
        lines.append(f"  {quantity(facts['replay']['rows'], 'row')} of them from {facts['replay']['file']}")
    lines += [f"  {count:,} left out: {reason}" for reason, count in facts["left_out"].items()]
    return lines if files else [*lines, "nothing is written: add -o FILE"]


EXPORTS = (
    FurtherExport(
        names=(*TASKS, ADVERSARIAL), noun="training set", tasks=TASKS, options=OPTIONS, write=export_training_set
    ),
)
