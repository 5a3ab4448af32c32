"""`crucible tinker upload`: a downloaded adapter becomes a checkpoint of the project's local service."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.commands.registry_options import project_root
from pytest_crucible.commands.tinker_service import project_services
from pytest_crucible.records.errors import SpecError


@click.command("upload")
@click.argument("archive", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="Name of the checkpoint; by default that of ARCHIVE.")
@click.option("--service", type=click.Choice(("local", "hosted")), help="Only the local service takes uploads.")
@json_option
def upload(archive: Path, name: str | None, service: str | None, as_json: bool) -> None:
    """Put a downloaded adapter, a directory or a .tar file, into the local service as a checkpoint.

    It can be sampled from and trained on, with a new optimizer. The same file always has the same path.
    """
    root = project_root()
    services = project_services(root, service=service or "")
    if not services.is_local:
        raise SpecError(
            "the hosted service takes no adapter from this command: --service local is the local one. For the hosted one, "
            "SDK 0.39 has an experimental call, RestClient.external_weights_upload_start"
        )
    from pytest_crucible.backends.local import open_engine
    from pytest_crucible.backends.tinker.service import LOCAL
    from pytest_crucible.local_model.server.uploads import upload_adapter

    folder = root / ".crucible" / "tinker"
    click.echo(f"{LOCAL}: {folder}", err=True)
    engine = open_engine(services.local_base)
    try:
        uploaded = upload_adapter(archive, folder, engine, name)
    except ValueError as error:
        raise SpecError(str(error)) from None
    print_result(
        [
            f"uploaded {uploaded.path}" if uploaded.is_new else f"{uploaded.path} is there already",
            f"  adapter of {uploaded.base_model}, rank {uploaded.lora.rank}, SHA-256 {uploaded.sha256}",
            "  to sample from and to train on; its optimizer is a new one, because a download has no state of one",
        ],
        {"path": str(uploaded.path), "sha256": uploaded.sha256, "is_new": uploaded.is_new},
        as_json=as_json,
    )
