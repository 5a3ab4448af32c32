"""`crucible view`: serves the dashboard of a run store."""

from __future__ import annotations

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
        from pytest_crucible.features.view.server import make_server, open_socket
        from pytest_crucible.features.view.site import Site
    except ImportError as error:
        raise SpecError("crucible view needs the extra 'ui': pip install \"pytest-crucible[ui]\"") from error
    with open_for_reading(store, "view") as opened, open_socket(host, port) as listening:
        number = listening.getsockname()[1]
        site = Site(opened, port=number)
        path = site.addresses.run(opened.find_run(run)) if run else site.addresses.runs()
        click.echo(f"http://{host}:{number}{path}?token={site.token}")
        if not no_browser:
            click.launch(f"http://{host}:{number}{path}?token={site.token}")
        make_server(site).run(sockets=[listening])
