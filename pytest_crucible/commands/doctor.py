"""`crucible doctor`: is all well here, and can a run be repeated here?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.errors import CrucibleError
from pytest_crucible.numerals import counted
from pytest_crucible.plan.adapters import read_adapters
from pytest_crucible.repeating import Finding, repeatable
from pytest_crucible.store.history import listed_runs
from pytest_crucible.store.schema import FORMAT


@click.command("doctor", short_help="Is all well here? With a run: can it be repeated here, and what differs?")
@click.argument("run", default="")
@store_option
@json_option
def command(run: str, store: str, as_json: bool) -> int:
    """Is the run store whole, and are the adapters readable? With RUN: can that run be repeated here, and what differs?

    Tests are collected as that run had them, nothing is asked. Exits 1 when something is wrong, or would be another run.
    """
    found = list(_of_run(store, run) if run else _of_place(store))
    say(map(_line, found), found, as_json=as_json)
    return int(any(not one.fits for one in found))


def _of_run(where: str, named: str) -> Iterator[Finding]:
    with existing_store(where) as opened:
        run = opened.find_run(named)
        facts, plans = opened.run(run), [plan for _, plan, _ in opened.experiments(run)]
    yield from repeatable(facts, plans, Path.cwd())


def _of_place(where: str) -> Iterator[Finding]:
    try:
        with existing_store(where) as opened:
            runs = listed_runs(opened)
        cut = sum(one.status != "finished" for one in runs)
        yield Finding("run store", True, f"format {FORMAT}, {counted(len(runs), 'run')}, {cut} of them cut short")
    except CrucibleError as error:
        yield Finding("run store", False, str(error))
    try:
        yield Finding("adapters", True, ", ".join(sorted(read_adapters(Path.cwd()))) or "none are configured here")
    except CrucibleError as error:
        yield Finding("adapters", False, str(error))


def _line(one: Finding) -> str:
    return f"{'ok     ' if one.fits else 'differs'}  {one.what}: {one.said}"
