"""`crucible gate`: freeze what a run has to show before a version of a model is promoted, and show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

import click
from tabulate import tabulate

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.commands.registry_options import gate_line, project_root, user_name, utc_time
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.model_gates import GateChange, GateEntry
from pytest_crucible.registry.model_gate import (
    RULES,
    FrozenGate,
    GateRequest,
    freeze_gate,
    gate_changes,
    rules_of,
    short_value,
)
from pytest_crucible.registry.promote import collect_suite
from pytest_crucible.registry.rules import read_registry_settings
from pytest_crucible.registry.versions import check_model
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.versions import load_registry


@click.group("gate", short_help="What a run has to show before a version of a model is promoted.")
def command() -> None:
    """Freeze and show the gate of a model: the experiments, datasets, targets and comparisons that each promotion asks for.

    Each command takes --json.
    """


@command.command("freeze")
@click.argument("model")
@click.argument("suite", nargs=-1)
@click.option(
    "--env", "variables", multiple=True, metavar="NAME", help="Pass this variable to the suite; may be repeated."
)
@click.option("--why", default="", metavar="TEXT", help="The reason, for the log; needed to change a gate.")
@store_option
@json_option
def freeze(model: str, suite: tuple[str, ...], variables: tuple[str, ...], why: str, store: str, as_json: bool) -> None:
    """Freeze SUITE as the gate of MODEL: files, folders or tests, as pytest takes them.

    Without SUITE it is that of the present gate, else everything that pytest collects without arguments. Nothing is sent.
    """
    check_model(model)
    option = next((word for word in suite if word.startswith("-")), None)
    if option is not None:
        raise SpecError(f"{option!r} is an option of pytest: name files, folders or tests only")
    root = project_root()
    request = GateRequest(
        model=model,
        suite=suite,
        variables=variables,
        collect=partial(collect_suite, root=root),
        rules=rules_of(read_registry_settings(root)),
        at=utc_time().isoformat(timespec="milliseconds"),
        by=user_name(),
        why=why,
    )
    opened = RunStore(store)
    try:
        frozen = freeze_gate(opened, request)
    finally:
        opened.close()
    print_result(_frozen_lines(frozen), frozen, as_json=as_json)


@command.command("show")
@click.argument("model")
@store_option
@json_option
def show(model: str, store: str, as_json: bool) -> None:
    """Show the gate of MODEL, and how it has changed: the old and the new gate side by side, with the reason."""
    with existing_store(store) as opened:
        gates = load_registry(opened).gates(model)
    if not gates:
        raise SpecError(f"{model} has no gate: freeze one with `crucible gate freeze {model} SUITE`")
    print_result(_shown_lines(gates), gates, as_json=as_json)


def _frozen_lines(frozen: FrozenGate) -> Iterator[str]:
    if not frozen.is_new:
        yield f"{gate_line(frozen.entry)}, as before"
        return
    yield gate_line(frozen.entry)
    yield from _change_lines(frozen.entry, frozen.changes) if frozen.changes else _demand_lines(frozen.entry)


def _shown_lines(gates: Sequence[GateEntry]) -> Iterator[str]:
    yield gate_line(gates[-1])
    yield from _demand_lines(gates[-1])
    for old, new in pairwise(gates):
        yield ""
        yield f"{new.name}, {new.at[:10]}, by {new.by}: {new.why}"
        yield from _change_lines(new, gate_changes(old.gate, new.gate))


def _demand_lines(entry: GateEntry) -> Iterator[str]:
    gate = entry.gate
    rows = [(name, short_value(value)) for name, value in sorted(gate.settings.items())]
    rows += [(f"{RULES} {name}", value) for name, value in sorted(gate.rules.items())]
    for nodeid, demands in sorted(gate.experiments.items()):
        rows += [(nodeid, ""), *((f"  {name}", short_value(value)) for name, value in sorted(demands.items()))]
    # A leading blank marks the demands of an experiment.
    yield from tabulate(rows, tablefmt="plain", disable_numparse=True, preserve_whitespace=True).splitlines()


def _change_lines(entry: GateEntry, changes: Sequence[GateChange]) -> Iterator[str]:
    heads = ("demand", f"gate {entry.number - 1}", f"gate {entry.number}")
    rows = [(change.text, short_value(change.old), short_value(change.new)) for change in changes]
    yield from tabulate([heads, *rows], tablefmt="plain", disable_numparse=True).splitlines()
