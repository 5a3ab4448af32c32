"""`crucible runs`: what is in the run store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.records import RunListed
from pytest_crucible.store.history import listed_runs


@click.command("runs", short_help="The runs in the store, newest first.")
@store_option
@click.option("--tag", default="", metavar="NAME", help="Those that have this tag.")
@click.option("--suite", default="", metavar="TEXT", help="Those with an experiment whose name has this text in it.")
@click.option("--adapter", default="", metavar="NAME", help="Those that asked this adapter.")
@click.option("--limit", type=click.IntRange(min=0), default=20, metavar="N", help="The most that are told; 0 for all.")
@json_option
def command(store: str, tag: str, suite: str, adapter: str, limit: int, as_json: bool) -> None:
    """The runs in the store, newest first: when, of what, with what verdicts, and their tags."""
    with existing_store(store) as opened:
        found = listed_runs(opened, tag=tag, suite=suite, adapter=adapter, limit=limit)
    say(_lines(found), found, as_json=as_json)


def _lines(found: Sequence[RunListed]) -> Iterator[str]:
    from tabulate import tabulate

    if not found:
        yield "no such run"
        return
    heads = ("run", "started", "commit", "arms", "experiments", "verdicts", "tags")
    yield from tabulate([heads, *map(_row, found)], tablefmt="plain", disable_numparse=True).splitlines()


def _row(one: RunListed) -> tuple[str, ...]:
    first, *rest = one.experiments or ("",)
    more = f" and {len(rest)} more" if rest else ""
    return (
        one.id,
        one.started[:19].replace("T", " "),
        (one.commit or "-")[:8] + ("+" if one.dirty else ""),
        " vs ".join(one.arms),
        first.partition("::")[2] + more,
        verdict_counts(one),
        " ".join(one.tags),
    )


def verdict_counts(one: RunListed) -> str:
    """`2 met, 1 missed`, and whether the run came to its end."""
    told = [f"{n} {state}" for state, n in sorted(one.verdicts.items())]
    ended = [] if one.status == "finished" else [one.status]
    return ", ".join([*told, *ended]) or "none"
