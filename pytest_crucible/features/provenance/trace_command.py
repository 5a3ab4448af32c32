"""`crucible trace`: what happened to a sample, on one line of time."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, print_result, run_argument, store_option
from pytest_crucible.commands.show import LONGEST_LINE
from pytest_crucible.features.provenance.exports.files import (
    check_timeline_file,
    timeline_file_options,
    write_timelines,
)
from pytest_crucible.features.provenance.load_timeline import load_timelines
from pytest_crucible.features.provenance.trace_lines import TextLayout, trace_lines
from pytest_crucible.report.printable import printable
from pytest_crucible.runs.run_store import existing_store
from pytest_crucible.stats.number_format import quantity


@click.command("trace")
@run_argument
@click.argument("sample")
@click.option("--arm", metavar="NAME", help="Only this arm.")
@click.option("-v", "is_whole", is_flag=True, help="Show prompts and replies whole.")
@timeline_file_options
@store_option
@json_option
def print_trace(
    run: str,
    sample: str,
    arm: str | None,
    is_whole: bool,
    output: Path | None,
    style: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Follow SAMPLE through RUN: its calls with prompts and replies, requests, waits, retries, votes, decisions and scores.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`. What a model says of itself stands behind `says:`.
    """
    check_timeline_file(output, style)
    with existing_store(store) as opened:
        timelines = load_timelines(opened, run, sample, arm=arm)
    if output is not None:
        write_timelines(timelines, output, style)
        steps = sum(len(timeline.steps) for timeline in timelines)
        lines = [f"{quantity(steps, 'step')} of {quantity(len(timelines), 'timeline')} written to {output}"]
        print_result(lines, {"file": str(output), "steps": steps}, as_json=as_json)
        return
    layout = TextLayout(shutil.get_terminal_size().columns, is_whole)
    lines = (printable(line, LONGEST_LINE) for line in trace_lines(timelines, layout))
    print_result(lines, {"run": timelines[0].run, "sample": sample, "timelines": timelines}, as_json=as_json)
