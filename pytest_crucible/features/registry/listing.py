"""`crucible models list`: the versions of registered models, with state and evidence; what commands on models share."""

from __future__ import annotations

import datetime
import getpass
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.features.registry.records import GateEntry, LogEntry
from pytest_crucible.features.registry.rules import Note, known_model
from pytest_crucible.features.registry.store import PRODUCTION, load_registry, load_versions
from pytest_crucible.features.registry.version_names import registry_folder
from pytest_crucible.records.settings import DEFAULT_ALPHA
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.runs.run_store import existing_store, find_configuration, project_root
from pytest_crucible.stats.number_format import quantity, with_interval

if TYPE_CHECKING:
    from pytest_crucible.features.registry.evidence import Ranking

HEADS = ("version", "state", "since", "run", "evidence")
LOG_HEADS = ("row", "at", "by", "version", "change", "run", "gate", "why")


@click.command("list")
@click.argument("name", default="")
@click.option("--log", "shows_log", is_flag=True, help="Every change of state, the first one first.")
@click.option(
    "--rank", "metric", default="", metavar="METRIC", help="Rank versions that one test measured on the same samples."
)
@store_option
@json_option
def list_models(name: str, shows_log: bool, metric: str, store: str, as_json: bool) -> None:
    """List the versions of the model NAME, or of all models: state, and the run that is the proof of it.

    --rank METRIC ranks them by the latest run of each; the ranks in brackets are those that remain possible.
    """
    with existing_store(store, reader="crucible models") as opened:
        # Shown although it is broken: `doctor` says which row.
        registry = load_registry(opened, check=False)
        if name:
            known_model(registry.state, name)
        if metric:
            # Imported here: a list alone needs no statistics.
            from pytest_crucible.features.registry.evidence import rank_versions

            versions = [version for version in load_versions(opened) if name in ("", version.model)]
            rankings = rank_versions(opened, versions, metric, alpha=project_alpha())
            print_result((line for ranking in rankings for line in _rank_lines(ranking)), rankings, as_json=as_json)
            return
    if shows_log:
        rows = [(k, entry) for k, entry in enumerate(registry.log, start=1) if name in ("", entry.model)]
        table = [(str(k), entry.at[:19].replace("T", " "), entry.by, *_cells(entry)) for k, entry in rows]
        print_result(
            aligned_lines([LOG_HEADS, *table]), [{"row": k, **_plain(entry)} for k, entry in rows], as_json=as_json
        )
        return
    listed = [
        (status, registry.state.proofs.get((status.model, status.number)))
        for status in registry.state.statuses.values()
        if name in ("", status.model)
    ]
    documents = [{"version": status.version, **_plain(status), "proof": proof} for status, proof in listed]
    print_result(_lines(listed), documents, as_json=as_json)


def _rank_lines(ranking: Ranking) -> Iterator[str]:
    table = ranking.table
    level = f"{table.level * 100:g} %"
    yield f"{ranking.nodeid}: {quantity(ranking.samples, 'sample')}"
    heads = (f"version by {table.metric}", f"estimate [{level}]", "n", "lost", "rank [possible]")
    rows = [
        (
            result.arm,
            with_interval(result.value, result.interval),
            f"{result.n:,}",
            f"{result.lost:,}",
            "-" if result.ranks is None else f"{result.rank or '-'} [{result.ranks[0]}, {result.ranks[1]}]",
        )
        for result in sorted(table.arms, key=lambda result: math.inf if result.rank is None else result.rank)
    ]
    yield from aligned_lines([heads, *rows])
    yield f"No ranks: {table.reason}." if table.reason else f"All ranks hold together ({level})."


def _lines(rows: Sequence[tuple[LogEntry, LogEntry | None]]) -> Iterator[str]:
    if not rows:
        yield "no model is registered: `crucible models register ADAPTER --model NAME` registers one"
        return
    table = (
        (
            status.version,
            status.state,
            status.at[:10],
            "-" if proof is None else proof.run or "-",
            "; ".join(filter(None, ("" if proof is None else evidence_text(proof), _why_text(status)))),
        )
        for status, proof in rows
    )
    yield from aligned_lines([HEADS, *table])


def _why_text(status: LogEntry) -> str:
    """Return the reason of a version's state. That of a rollback is about the version that it withdrew."""
    return "" if status.action == "roll back" and status.state == PRODUCTION else status.why


def evidence_text(proof: LogEntry) -> str:
    """Return the proof of a promotion in a line: `3 of 3 verdicts met, 2 proven, 240 samples, against claims@2`."""
    verdicts = proof.evidence["verdicts"]
    met = [verdict for verdict in verdicts if verdict["state"] == "met"]
    parts = [
        f"{len(met)} of {quantity(len(verdicts), 'verdict')} met",
        f"{sum(verdict['proven'] for verdict in met)} proven",
        quantity(proof.evidence["samples"], "sample"),
    ]
    if proof.evidence["production"]:
        parts.append(f"against {proof.evidence['production']}")
    if proof.evidence.get("gate"):
        parts.append(f"gate {proof.evidence['gate']}")
    return ", ".join([*parts, *(["by force"] if proof.forced else [])])


def _cells(entry: LogEntry | GateEntry) -> tuple[str, ...]:
    if isinstance(entry, GateEntry):
        former = "" if entry.number == 1 else f"gate {entry.number - 1} -> "
        return entry.model, f"{former}gate {entry.number}", "-", str(entry.number), entry.why
    change = entry.state if entry.former is None else f"{entry.former} -> {entry.state}"
    if is_withdrawal(entry):
        change = "retired -> withdrawn"
    forced = f"by force ({'; '.join(entry.forced)})" if entry.forced else ""
    reason = ": ".join(filter(None, (forced, entry.why)))
    return entry.version, change, entry.run or "-", str(entry.evidence.get("gate") or "-"), reason


def _plain(entry: LogEntry | GateEntry) -> dict[str, object]:
    return {field.name: getattr(entry, field.name) for field in fields(entry)}


why_option = click.option("--why", required=True, metavar="TEXT", help="The reason, for the log.")


def own_folder(store: str) -> Path:
    """Return the folder with the copied weights of a run store of this project."""
    return registry_folder(project_root(), store)


def project_alpha() -> float:
    """Return crucible_alpha of pytest's configuration."""
    return float(find_configuration(Path.cwd())[1].get("crucible_alpha") or DEFAULT_ALPHA)


def utc_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def log_note(why: str) -> Note:
    """Return time, user and reason of a change, for the log."""
    return Note(at=utc_time().isoformat(timespec="milliseconds"), by=user_name(), why=why)


def user_name() -> str:
    """Return the user of the operating system, for the log; empty where it has none."""
    try:
        return getpass.getuser()
    # A container may run as a number without a name.
    except (KeyError, OSError):
        return ""


def gate_line(entry: GateEntry) -> str:
    """Return a gate in a line: `gate 1 of claims: 2 experiments of tests/evals`."""
    suite = " ".join(entry.gate.suite) or "all that pytest collects"
    return f"{entry.name}: {quantity(len(entry.gate.experiments), 'experiment')} of {suite}"


def is_withdrawal(entry: LogEntry) -> bool:
    """Return whether an entry keeps a version, which a promotion had retired, from being restored by a rollback."""
    return entry.action == "retire" and entry.former == "retired"


def entry_line(entry: LogEntry | GateEntry) -> str:
    """Return what happened to a version, `claims@4 is in production, was a draft`, or which gate was frozen."""
    if isinstance(entry, GateEntry):
        return gate_line(entry)
    if is_withdrawal(entry):
        return f"{entry.version} was retired by a promotion; from now on no rollback restores it"
    place, former = ("in production" if state == PRODUCTION else state for state in (entry.state, entry.former))
    return f"{entry.version} is {place}{f', was {former}' if former else ''}"
