"""`crucible promote`: make a run the baseline that later ones are compared with."""

from __future__ import annotations

import click

from pytest_crucible.commands.options import json_option, say, store_option
from pytest_crucible.commands.runs import verdict_counts
from pytest_crucible.commands.stores import existing_store
from pytest_crucible.environment import now
from pytest_crucible.errors import SpecError
from pytest_crucible.records import RunListed
from pytest_crucible.store.history import add_tag, check_tag, listed_runs


@click.command("promote", short_help="Make a run the baseline that later ones are compared with.")
@click.argument("run")
@click.option("--as", "name", required=True, metavar="NAME", help="What --compare=tag:NAME is to find.")
@click.option("--force", is_flag=True, help="Although its verdicts are not all met; that is written down.")
@store_option
@json_option
def command(run: str, name: str, force: bool, store: str, as_json: bool) -> None:
    """Make RUN the baseline NAME: --compare=tag:NAME then compares with its answers.

    A run that is not finished, or has a verdict that is not met, is refused, unless it is forced.
    """
    check_tag(name)
    with existing_store(store) as opened:
        full = opened.find_run(run)
        (one,) = (found for found in listed_runs(opened) if found.id == full)
        if not (one.all_met or force):
            raise SpecError(f"run {full} is no baseline, {_why(one)}: --force promotes it all the same")
        add_tag(opened, full, name, at=now(), promoted=True, forced=not one.all_met)
    forced = "" if one.all_met else f", by force ({_why(one)})"
    document = {"run": full, "tag": name, "forced": not one.all_met}
    say([f"run {full} is now {name}{forced}: compare with --compare=tag:{name}"], document, as_json=as_json)


def _why(one: RunListed) -> str:
    if one.status != "finished":
        return f"it is {one.status}, not finished"
    return f"its verdicts are {verdict_counts(one)}" if one.verdicts else "it has no verdicts"
