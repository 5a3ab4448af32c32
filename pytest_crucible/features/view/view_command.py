"""`crucible view`: serves the dashboard of a run store."""

from __future__ import annotations

import contextlib

import click

from pytest_crucible.commands.options import run_argument, store_option
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.run_store import open_for_reading

PORT = 8765


@click.command("view")
@run_argument
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, metavar="PORT", help="Port; 0: any free one.")
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
def view(run: str, store: str, host: str, port: int, no_browser: bool) -> None:
    """Show runs in a browser: verdicts, samples, time lines, and the progress of a run that has not finished.

    RUN is a run's id, the beginning of one, `latest` or `tag:NAME`; without it, the list of all runs is shown. Serves until
    Ctrl-C, and only reads the store.
    """
    try:
        from pytest_crucible.features.view.hosts import Hosts, is_loopback
        from pytest_crucible.features.view.open_browser import browser_page, has_screen
        from pytest_crucible.features.view.server import end_process, open_socket, origins, serve
        from pytest_crucible.features.view.site import Site
    except ImportError as error:
        raise SpecError("crucible view needs the extra 'ui': pip install \"pytest-crucible[ui]\"") from error
    if not is_loopback(host):
        click.echo(_EXPOSED.format(host=host), err=True)
    with (
        open_for_reading(store, "view") as opened,
        open_socket(host, port) as listening,
        contextlib.ExitStack() as stack,
    ):
        site = Site(opened, hosts=Hosts(host))
        path = site.addresses.run(site.find_run(run)) if run else site.addresses.runs()
        links = [f"{origin}{path}?token={site.token}" for origin in origins(listening)]
        click.echo("\n".join(links))
        if not no_browser and has_screen():
            stack.enter_context(browser_page(links[0]))
        serve(site, listening)
    end_process()


_EXPOSED = (
    "--host {host}: the connection is not encrypted and others on the network can read it; use an SSH tunnel instead"
)
