"""`crucible doctor`: check the run store and the adapters, or whether a run can be reproduced here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from pytest_crucible.adapters.config import read_adapters
from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.runs.reproduce import ReproductionCheck, reproduction_checks
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.schema import FORMAT
from pytest_crucible.store.versions import load_registry, load_versions


@click.command(
    "doctor", short_help="Check the run store and adapters; with RUN, whether that run can be reproduced here."
)
@click.argument("run", default="")
@store_option
@json_option
def command(run: str, store: str, as_json: bool) -> int:
    """Check the run store and adapters; with RUN, whether that run can be reproduced here, and what differs.

    Tests are collected as that run collected them, and no model is called. Exits 1 when something is wrong or differs.
    """
    checks = list(_check_run(store, run) if run else _check_place(store))
    print_result(map(_line, checks), checks, as_json=as_json)
    return int(any(not check.matches for check in checks))


def _check_run(where: str, named: str) -> Iterator[ReproductionCheck]:
    # Imported here: it imports pytest, which the other commands do without.
    from pytest_crucible.session.collect_plans import collect_plans

    with existing_store(where) as opened:
        run = opened.find_run(named)
        facts, plans = opened.run(run), [plan for _, plan, _ in opened.experiments(run)]
    yield from reproduction_checks(facts, plans, Path.cwd(), collect_plans)


def _check_place(where: str) -> Iterator[ReproductionCheck]:
    try:
        with existing_store(where) as opened:
            runs, registry = list_runs(opened), tuple(_check_registry(opened, where))
        cut = sum(run.status != "finished" for run in runs)
        yield ReproductionCheck(
            "run store", True, f"format {FORMAT}, {quantity(len(runs), 'run')}, {cut} of them cut short"
        )
        yield from registry
    except CrucibleError as error:
        yield ReproductionCheck("run store", False, str(error))
    try:
        yield ReproductionCheck(
            "adapters", True, ", ".join(sorted(read_adapters(Path.cwd()))) or "none are configured here"
        )
    except CrucibleError as error:
        yield ReproductionCheck("adapters", False, str(error))


def _check_registry(store: RunStore, where: str) -> Iterator[ReproductionCheck]:
    """Check the registry's log, the versions that it registered, and their weights; a store without a registry passes."""
    registry = load_registry(store, check=False)
    versions = load_versions(store)
    if not (registry.rows or registry.head.number or versions):
        return
    # Imported here: a store without a registry needs no weights.
    from pytest_crucible.commands.registry_options import registry_folder
    from pytest_crucible.registry.audit import registry_problems

    problems = registry_problems(store, registry, versions, registry_folder(where))
    for problem in problems:
        yield ReproductionCheck("registry", False, problem)
    if not problems:
        rows = (
            f"{quantity(len(versions), 'version')}, {quantity(len(registry.rows), 'log row')} that match their hashes"
        )
        yield ReproductionCheck("registry", True, rows)


def _line(check: ReproductionCheck) -> str:
    return f"{'ok     ' if check.matches else 'differs'}  {check.subject}: {check.detail}"
