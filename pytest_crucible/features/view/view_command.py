"""`crucible view`: serves the dashboard of a run store."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_crucible.commands.options import run_argument, store_option
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.run_store import open_for_reading

if TYPE_CHECKING:
    from pytest_crucible.features.view.labelling import Labelling
    from pytest_crucible.features.view.site import Site
    from pytest_crucible.store.runs import RunStore

PORT = 8765


@click.command("view")
@run_argument
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="PORT", help="Port; 0: any free one.")
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--export", type=click.Path(path_type=Path), metavar="DIR", help="Write one run's pages as files, and serve none."
)
@click.option("--labels", type=click.Path(path_type=Path), metavar="FILE", help="Label replies into this CSV file.")
@click.option("--label-names", metavar="NAMES", help="Labels, for example 'yes no skip'.  [default: good poor skip]")
@click.option("--labeler", default="", metavar="NAME", help="Whose labels; names a column.  [default: your login name]")
@click.option(
    "--label-first", type=click.Choice(["random", "disagreements"]), help="Which replies first.  [default: random]"
)
def view(
    run: str,
    store: str,
    host: str,
    port: int,
    no_browser: bool,
    export: Path | None,
    labels: Path | None,
    **of_labels: Any,
) -> None:
    """Show runs in a browser: verdicts, samples, time lines, and the progress of a run that has not finished.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`; without it, the list of all runs is shown. Serves until
    Ctrl-C, and only reads the store.
    """
    try:
        # What needs all of the extra.
        import pytest_crucible.features.view.server.server  # noqa: F401
    except ImportError as error:
        raise SpecError("crucible view needs the extra 'ui': pip install \"pytest-crucible[ui]\"") from error
    if export is None:
        _serve(store, run, host, port, labels, of_labels, opens_browser=not no_browser)
    elif labels is None:
        _export(store, run, export)
    else:
        raise SpecError("--export serves no page, and --labels needs one: give one of them")


def _serve(
    store: str,
    run: str,
    host: str,
    port: int,
    labels: Path | None,
    of_labels: Mapping[str, Any],
    *,
    opens_browser: bool,
) -> None:
    from pytest_crucible.features.view.server.hosts import Hosts, is_loopback
    from pytest_crucible.features.view.server.open_browser import browser_page, has_screen
    from pytest_crucible.features.view.server.server import end_process, open_socket, origins, serve, until_interrupted
    from pytest_crucible.features.view.site import Site, find_run

    if not is_loopback(host):
        click.echo(_EXPOSED.format(host=host), err=True)
    with (
        open_for_reading(store, "view") as opened,
        open_socket(host, port) as listening,
        until_interrupted(),
        contextlib.ExitStack() as stack,
    ):
        run = find_run(opened, run) if run else ""
        site = Site(opened, hosts=Hosts(host), labelling=_open_labelling(opened, run, labels, of_labels))
        path = _start_path(site, run)
        links = [f"{origin}{path}?token={site.token}" for origin in origins(listening)]
        click.echo("\n".join(links))
        if opens_browser and has_screen():
            stack.enter_context(browser_page(links[0]))
        serve(site, listening)
    end_process()


def _export(store: str, run: str, folder: Path) -> None:
    from pytest_crucible.features.view.run_files import export_run
    from pytest_crucible.features.view.site import find_run

    with open_for_reading(store, "view") as opened:
        full = find_run(opened, run)
        click.echo(_EXPORTING.format(run=full), err=True)
        written = export_run(opened, full, folder)
    click.echo(f"wrote {written.files:,} files ({written.size / 1e6:,.1f} MB): open {folder / 'index.html'}")


def _start_path(site: Site, run: str) -> str:
    if site.labelling is not None:
        return site.addresses.labels(site.labelling.run)
    return site.addresses.run(run) if run else site.addresses.runs()


def _open_labelling(store: RunStore, run: str, file: Path | None, options: Mapping[str, Any]) -> Labelling | None:
    """Return the labels page of a run; None without --labels, whose options are then errors."""
    chosen = {name: value for name, value in options.items() if value}
    if file is None:
        if chosen:
            raise SpecError(f"--{next(iter(chosen)).replace('_', '-')} needs --labels FILE")
        return None
    from pytest_crucible.features.view.labelling import open_labelling

    return open_labelling(store, store.find_run(run), file, **chosen)


_EXPOSED = (
    "--host {host}: the connection is not encrypted and others on the network can read it; use an SSH tunnel instead"
)
_EXPORTING = (
    "exporting run {run}: its verdicts are decided again with other answers, which takes minutes for one on few samples"
)
