"""`crucible models`: the versions of registered models, with state and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

import click

from pytest_crucible.commands.options import json_option, print_result, store_option
from pytest_crucible.records.number_format import quantity
from pytest_crucible.records.registry import LogEntry, VersionStatus
from pytest_crucible.registry.transitions import known_model
from pytest_crucible.runs.existing_store import existing_store
from pytest_crucible.store.versions import load_registry

HEADS = ("version", "state", "since", "run", "evidence")
LOG_HEADS = ("row", "at", "by", "version", "change", "run", "why")


@click.command("models", short_help="The versions of registered models, with state and evidence.")
@click.argument("name", default="")
@click.option("--log", "shows_log", is_flag=True, help="Every change of state, the first one first.")
@store_option
@json_option
def command(name: str, shows_log: bool, store: str, as_json: bool) -> None:
    """List the versions of the model NAME, or of all models: state, and the run that is the proof of it."""
    with existing_store(store) as opened:
        # Shown although it is broken: `doctor` says which row.
        registry = load_registry(opened, check=False)
    if name:
        known_model(registry.state, name)
    if shows_log:
        rows = [(k, entry) for k, entry in enumerate(registry.entries, start=1) if name in ("", entry.model)]
        print_result(_log_lines(rows), [{"row": k, **_plain(entry)} for k, entry in rows], as_json=as_json)
        return
    listed = [
        (status, registry.state.proofs.get((status.model, status.number)))
        for status in registry.state.statuses.values()
        if name in ("", status.model)
    ]
    print_result(_lines(listed), [_document(*row) for row in listed], as_json=as_json)


def _lines(rows: Sequence[tuple[VersionStatus, LogEntry | None]]) -> Iterator[str]:
    from tabulate import tabulate

    if not rows:
        yield "no model is registered: `crucible register ADAPTER --model NAME` registers one"
        return
    table = (
        (
            status.name,
            status.state,
            status.entry.at[:10],
            "-" if proof is None else proof.run or "-",
            "; ".join(filter(None, ("" if proof is None else evidence_text(proof), status.entry.why))),
        )
        for status, proof in rows
    )
    yield from tabulate([HEADS, *table], tablefmt="plain", disable_numparse=True).splitlines()


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
    return ", ".join([*parts, *(["by force"] if proof.forced else [])])


def _log_lines(rows: Sequence[tuple[int, LogEntry]]) -> Iterator[str]:
    from tabulate import tabulate

    table = (
        (
            str(k),
            entry.at[:19].replace("T", " "),
            entry.by,
            entry.version,
            _change(entry),
            entry.run or "-",
            _reason(entry),
        )
        for k, entry in rows
    )
    yield from tabulate([LOG_HEADS, *table], tablefmt="plain", disable_numparse=True).splitlines()


def _change(entry: LogEntry) -> str:
    return entry.state if entry.former is None else f"{entry.former} -> {entry.state}"


def _reason(entry: LogEntry) -> str:
    forced = f"by force ({'; '.join(entry.forced)})" if entry.forced else ""
    return ": ".join(part for part in (forced, entry.why) if part)


def _plain(entry: LogEntry) -> dict[str, object]:
    return {field.name: getattr(entry, field.name) for field in fields(entry)}


def _document(status: VersionStatus, proof: LogEntry | None) -> dict[str, object]:
    return {"version": status.name, **_plain(status.entry), "proof": proof}
