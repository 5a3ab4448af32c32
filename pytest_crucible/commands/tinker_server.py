"""`crucible tinker-server`: a Tinker service on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pytest_crucible.commands.options import json_option
from pytest_crucible.local_model.server.process import ServerOptions, new_key, serve
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.private_files import STORE_FOLDER, create_store_folder

PATH = click.Path(path_type=Path)


@click.command(
    "tinker-server", short_help="A Tinker service on this machine, with a small model that trains and samples."
)
@click.option("--port", type=int, default=0, help="Port on 127.0.0.1; 0 for a free one.")
@click.option("--directory", type=PATH, default=f"{STORE_FOLDER}/tinker", help="Directory of the checkpoints.")
@click.option("--base", type=PATH, show_default="the one in this package", help="Directory of a base model.")
@click.option("--key", default=new_key, show_default="a new one", help="API key.")
@click.option("--ready-file", type=PATH, help="Write URL, key and process id here as JSON when ready.")
@click.option("--with-parent", is_flag=True, help="Stop when standard input is closed or the parent process ends.")
@click.option(
    "--as", "stand_ins", metavar="NAME", multiple=True, help="Answer under this model's name, too, as its stand-in."
)
@click.option(
    "--stand-in",
    "stand_in_losses",
    metavar="LOSS=OTHER",
    multiple=True,
    help="Compute another loss where this one is requested: stable_reinforce=importance_sampling.",
)
@click.option("--prepare", type=PATH, metavar="DIR", help="Write tokenizers and small data for offline recipes here.")
@json_option
def command(stand_in_losses: tuple[str, ...], prepare: Path | None, **options: Any) -> None:
    """A Tinker service on this machine, with a small model that trains and samples on the CPU.

    When it is ready it prints one line, TINKER_BASE_URL=... TINKER_API_KEY=..., as `export` and `env` of a shell take it, and
    runs until Ctrl-C or SIGTERM.
    """
    if options["directory"].parent.name == STORE_FOLDER:
        create_store_folder(options["directory"].parent)
    environment = {} if prepare is None else _prepare(prepare.resolve(), options["stand_ins"], options["base"])
    losses = dict(map(_read_loss, stand_in_losses))
    try:
        serve(ServerOptions(**options, stand_in_losses=losses, environment=environment))
    except (OSError, OverflowError, ValueError) as error:
        raise SpecError(str(error)) from error


def _prepare(home: Path, stand_ins: tuple[str, ...], base: Path | None) -> dict[str, str]:
    from pytest_crucible.cookbook.hub_cache import write_hub_cache  # loads numpy and the model

    try:
        return write_hub_cache(home, stand_ins, base)
    except (OSError, ValueError) as error:
        raise SpecError(f"--prepare {home}: {error}") from None


def _read_loss(text: str) -> tuple[str, str]:
    """Return both losses of `--stand-in LOSS=OTHER`. Raises SpecError for anything but a missing loss and one that is here."""
    # They load numpy, which the help page does not need.
    from pytest_crucible.local_model.losses import LOSSES, UNPUBLISHED

    name, _, other = text.partition("=")
    if name not in UNPUBLISHED or other not in LOSSES:
        raise SpecError(
            f"--stand-in {text!r}: expected LOSS=OTHER with LOSS one of {', '.join(UNPUBLISHED)} "
            f"and OTHER one of {', '.join(LOSSES)}"
        )
    return name, other
