"""`crucible tinker-server`: a Tinker service on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import json_option
from pytest_crucible.local_model.server.command import ServerOptions, new_key, serve

PATH = click.Path(path_type=Path)


@click.command(
    "tinker-server", short_help="A Tinker service on this machine, with a small model that trains and samples."
)
@click.option("--port", type=int, default=0, help="Port on 127.0.0.1; 0 for a free one.")
@click.option("--directory", type=PATH, default=".crucible/tinker", help="Directory of the checkpoints.")
@click.option("--base", type=PATH, show_default="the one in this package", help="Directory of a base model.")
@click.option("--key", default=new_key, show_default="a new one", help="API key.")
@click.option("--ready-file", type=PATH, help="Write URL, key and process id here as JSON when ready.")
@click.option("--with-parent", is_flag=True, help="Stop when standard input is closed or the parent process ends.")
@json_option
def command(**options: Any) -> None:
    """A Tinker service on this machine, with a small model that trains and samples on the CPU.

    When it is ready it prints one line, TINKER_BASE_URL=... TINKER_API_KEY=..., as `export` and `env` of a shell take it, and
    runs until Ctrl-C or SIGTERM.
    """
    serve(ServerOptions(**options))
