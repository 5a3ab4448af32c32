"""`crucible tinker`: a Tinker service on this machine, and training runs and checkpoints of a service."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import STORE_FOLDER, create_store_folder
from pytest_crucible.records.redaction import hider
from pytest_crucible.report.printable import aligned_lines
from pytest_crucible.runs.run_store import find_configuration, project_root

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.service import Service
    from pytest_crucible.backends.tinker.services import TinkerServices

RUN_HEADS = ("run", "base model", "rank", "last request", "newest checkpoint")
CHECKPOINT_HEADS = ("checkpoint", "created", "bytes", "public", "expires")
NEVER = "never"

service_option = click.option(
    "--service",
    type=click.Choice(("local", "hosted")),
    show_default="crucible_tinker of pytest's configuration, else local",
    help="local: .crucible/tinker of this project. hosted: that of TINKER_BASE_URL and TINKER_API_KEY.",
)
limit_option = click.option("--limit", type=click.IntRange(min=1), default=20, metavar="N", help="List the newest N.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
path_argument = click.argument("path")


@click.command("runs")
@limit_option
@service_option
@json_option
def runs(limit: int, service: str | None, as_json: bool) -> None:
    """List training runs, the latest request first."""
    with open_service(service) as opened:
        listed = opened.within("list training runs", lambda: opened.rest.list_training_runs(limit=limit))
    rows = [
        (
            run.training_run_id,
            run.base_model,
            "" if run.lora_rank is None else str(run.lora_rank),
            _time(run.last_request_time),
            _newest(run),
        )
        for run in listed.training_runs
    ]
    _print_table(RUN_HEADS, rows, listed.cursor, "training run", listed.training_runs, as_json=as_json)


@click.command("checkpoints")
@click.argument("run", default="")
@limit_option
@service_option
@json_option
def checkpoints(run: str, limit: int, service: str | None, as_json: bool) -> None:
    """List checkpoints of RUN, or of all runs, the newest first."""
    with open_service(service) as opened:
        rest = opened.rest
        list_them: Callable[[], Any] = (
            (lambda: rest.list_checkpoints(run)) if run else (lambda: rest.list_user_checkpoints(limit=limit))
        )
        listed = opened.within("list checkpoints", list_them)
    rows = [
        (
            checkpoint.tinker_path,
            _time(checkpoint.time),
            "" if checkpoint.size_bytes is None else f"{checkpoint.size_bytes:,}",
            "yes" if checkpoint.public else "no",
            NEVER if checkpoint.expires_at is None else _time(checkpoint.expires_at),
        )
        for checkpoint in listed.checkpoints
    ]
    _print_table(CHECKPOINT_HEADS, rows, listed.cursor, "checkpoint", listed.checkpoints, as_json=as_json)


@click.command("download")
@path_argument
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="A directory, or a .tar file.")
@service_option
@json_option
def download(path: str, output: Path, service: str | None, as_json: bool) -> None:
    """Download the adapter of PATH, tinker://RUN/weights/NAME, as safetensors.

    It is loaded into a new training run of the service and saved as external weights, which are deleted afterwards.
    """
    from pytest_crucible.backends.tinker.archives import download_checkpoint, size_lines

    with open_service(service) as opened:
        sizes = download_checkpoint(opened, path, output)
    print_result([f"wrote {output}", *size_lines(sizes)], {"output": str(output), "files": sizes}, as_json=as_json)


@click.command("publish")
@path_argument
@click.option("--off", is_flag=True, help="Make it private again.")
@yes_option
@service_option
@json_option
def publish(path: str, off: bool, yes: bool, service: str | None, as_json: bool) -> None:
    """Let everybody read the checkpoint PATH."""
    with open_service(service, path) as opened:
        if off:
            opened.within("unpublish", lambda: opened.rest.unpublish_checkpoint_from_tinker_path(path))
        else:
            confirm(f"publish {path}", opened, yes=yes)
            opened.within("publish", lambda: opened.rest.publish_checkpoint_from_tinker_path(path))
    print_result([f"{path} is {'private' if off else 'public'}"], {"path": path, "public": not off}, as_json=as_json)


@click.command("ttl")
@path_argument
@click.argument("seconds")
@yes_option
@service_option
@json_option
def ttl(path: str, seconds: str, yes: bool, service: str | None, as_json: bool) -> None:
    """Let the service delete the checkpoint PATH after SECONDS, from an hour to ten years, or `never`."""
    if seconds != NEVER and not seconds.isdecimal():
        raise SpecError(f"{seconds!r} is not a time to live: expected seconds, from 3600 on, or {NEVER}")
    lasts = None if seconds == NEVER else int(seconds)
    with open_service(service, path) as opened:
        if lasts is not None:
            confirm(f"let {path} be deleted in {lasts:,} seconds", opened, yes=yes)
        opened.within("set the time to live", lambda: opened.rest.set_checkpoint_ttl_from_tinker_path(path, lasts))
    end = "never expires" if lasts is None else f"expires in {lasts:,} seconds"
    print_result([f"{path} {end}"], {"path": path, "ttl_seconds": lasts}, as_json=as_json)


@click.command("delete")
@click.argument("paths", nargs=-1, required=True)
@yes_option
@service_option
@json_option
def delete(paths: Sequence[str], yes: bool, service: str | None, as_json: bool) -> None:
    """Delete the checkpoints PATHS for ever."""
    deleted: list[str] = []
    with open_service(service, *paths) as opened:
        confirm(f"delete {', '.join(paths)}", opened, yes=yes)
        try:
            for path in paths:
                remove = functools.partial(opened.rest.delete_checkpoint_from_tinker_path, path)
                opened.within(f"delete {path}", remove)
                deleted.append(path)
        finally:
            # Also before an error: what is gone is gone.
            if deleted:
                print_result([f"deleted {path}" for path in deleted], {"deleted": deleted}, as_json=as_json)


@click.command("prices")
@click.argument("models", nargs=-1)
@click.option("--from", "source", metavar="FILE|URL", show_default="the list that Tinker publishes")
@json_option
def prices(models: tuple[str, ...], source: str | None, as_json: bool) -> None:
    """Print the token prices of MODELS, or of all, as tables [prices] for crucible.toml.

    With them --crucible-estimate knows what a gate costs before it runs, and a budget can be in dollars.
    """
    from pytest_crucible.backends.tinker.price_list import URL, price_lines, read_price_list

    listed = read_price_list(source or URL)
    if missing := [model for model in models if model not in listed]:
        raise SpecError(f"the price list has no {missing[0]}: it has {', '.join(listed) or 'no model'}")
    chosen = {name: listed[name] for name in models or listed}
    print_result(price_lines(chosen), chosen, as_json=as_json)


@contextmanager
def open_service(name: str | None, *paths: str) -> Iterator[Service]:
    """Print the name of the service and yield the service. Raises SpecError for an invalid path of a checkpoint."""
    from pytest_crucible.backends.tinker.archives import path_parts
    from pytest_crucible.backends.tinker.service import KEY

    for path in paths:
        path_parts(path)
    root = project_root()
    services = project_services(root, service=name or "")
    has_key, folder = bool(os.environ.get(KEY)), root / ".crucible" / "tinker"
    if services.is_local and not folder.is_dir():
        raise SpecError(
            f"{folder} does not exist: no test here has used the local service; --service hosted is the other"
        )
    try:
        service = services.own
        place = folder if services.is_local else service.address.url
        other = f"; {KEY} is set, --service hosted uses it" if services.is_local and has_key else ""
        click.echo(f"{service.name}: {place}{other}", err=True)
        yield service
    finally:
        services.close()


def confirm(action: str, service: Service, *, yes: bool) -> None:
    """Ask the user for confirmation. Raises SpecError without a terminal, and click.Abort after a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise SpecError(f"will not {action} without confirmation: add --yes")
    click.confirm(f"{action[:1].upper()}{action[1:]} of {service.name}?", abort=True, err=True)


def _print_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], cursor: Any, what: str, listed: Sequence[Any], *, as_json: bool
) -> None:
    lines = aligned_lines([heads, *rows]) if rows else [f"no {what}s"]
    if cursor is not None and cursor.total_count > len(rows):
        lines.append(f"{len(rows):,} of {cursor.total_count:,} {what}s: --limit {cursor.total_count} lists all")
    print_result(lines, [item.model_dump(mode="json") for item in listed], as_json=as_json)


def _newest(run: Any) -> str:
    saved = [checkpoint for checkpoint in (run.last_checkpoint, run.last_sampler_checkpoint) if checkpoint is not None]
    return str(max(saved, key=lambda checkpoint: checkpoint.time).checkpoint_id) if saved else ""


def _time(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


# The longest wait for a hosted model, which may have to be loaded first.
WAIT_S = 300.0


def project_services(root: Path, *, service: str = "", secrets: Iterable[str] = ()) -> TinkerServices:
    """Return the services of the project in `root`; nothing is started before it is used.

    `service` is local or hosted, empty for that of the configuration. `secrets` never appear in messages.
    """
    from pytest_crucible.backends.tinker.services import TinkerServices

    configuration = find_configuration(root)[1]
    return TinkerServices(
        root,
        is_local=(service or configuration.get("crucible_tinker")) != "hosted",
        base=configuration.get("crucible_tinker_base") or os.environ.get("CRUCIBLE_TINKER_BASE"),
        seed=0,
        wait_s=WAIT_S,
        hide=Redaction(secrets),
    )


class Redaction:
    """Removes keys from texts: those that are given, and those that a service learns later."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = set(secrets)

    def __call__(self, text: str) -> str:
        return hider(self._secrets)(text)

    def learn(self, *keys: str) -> None:
        """Also redact these keys in all later messages."""
        self._secrets.update(keys)


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
    from pytest_crucible.local_model.server.archive import upload_adapter

    folder = root / ".crucible" / "tinker"
    click.echo(f"{LOCAL}: {folder}", err=True)
    engine = open_engine(services.local_base)
    try:
        uploaded = upload_adapter(archive, folder, engine, name)
    except ValueError as error:
        raise SpecError(str(error)) from None
    sampler_path = str(uploaded.sampler_path)
    print_result(
        [
            f"uploaded {uploaded.path}" if uploaded.is_new else f"{uploaded.path} is there already",
            f"  adapter of {uploaded.base_model}, rank {uploaded.lora.rank}, SHA-256 {uploaded.sha256}",
            "  to train on; its optimizer is a new one, because a download has no state of one",
            f"  to sample from: {sampler_path}",
        ],
        {
            "path": str(uploaded.path),
            "sampler_path": sampler_path,
            "sha256": uploaded.sha256,
            "is_new": uploaded.is_new,
        },
        as_json=as_json,
    )


PATH = click.Path(path_type=Path)
ALL_OF_COOKBOOK = "all"


def _new_key() -> str:
    from pytest_crucible.local_model.server.process import new_key

    return new_key()


@click.command("server")
@click.option("--port", type=int, default=0, help="Port on 127.0.0.1; 0 for a free one.")
@click.option("--directory", type=PATH, default=f"{STORE_FOLDER}/tinker", help="Directory of the checkpoints.")
@click.option("--base", type=PATH, show_default="the one in this package", help="Directory of a base model.")
@click.option("--key", default=_new_key, show_default="a new one", help="API key.")
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
@click.option(
    "--rules",
    type=click.Choice(("local", "hosted")),
    show_default="hosted where CI is set, else local",
    help="hosted: refuse what the hosted service is known to refuse.",
)
@click.option(
    "--prepare",
    type=click.Path(),
    metavar="DIR",
    help="Write tokenizers and small data for offline recipes here; all: for every model of the installed tinker-cookbook.",
)
@json_option
def server(stand_in_losses: tuple[str, ...], prepare: str | None, **options: Any) -> None:
    """A Tinker service on this machine, with a small model that trains and samples on the CPU.

    When it is ready it prints one line, TINKER_BASE_URL=... TINKER_API_KEY=..., as `export` and `env` of a shell take it, and
    runs until Ctrl-C or SIGTERM.
    """
    from pytest_crucible.local_model.server.process import ServerOptions, serve

    if options["directory"].parent.name == STORE_FOLDER:
        create_store_folder(options["directory"].parent)
    if prepare == ALL_OF_COOKBOOK:
        options["stand_ins"] = (*options["stand_ins"], *_name_cookbook_models())
        prepare = str(options["directory"] / "hub")
    environment = {} if prepare is None else _prepare(Path(prepare).resolve(), options["stand_ins"], options["base"])
    losses = dict(map(_read_loss, stand_in_losses))
    try:
        serve(ServerOptions(**options, stand_in_losses=losses, environment=environment))
    except (OSError, OverflowError, ValueError) as error:
        raise SpecError(str(error)) from error


def _name_cookbook_models() -> tuple[str, ...]:
    """Return the models of the installed tinker-cookbook, and print which of its data sets have no stand-in."""
    from pytest_crucible.local_model.server.cookbook_names import read_cookbook_names
    from pytest_crucible.local_model.server.recipe_data import recipe_data

    names = read_cookbook_names()
    missing = sorted(set(names.data_sets) - {data.name for data in recipe_data()})
    click.echo(f"models of tinker-cookbook {names.version}: {len(names.models)}, each with a stand-in here", err=True)
    click.echo(f"its data sets without a stand-in: {', '.join(missing) or 'none'}", err=True)
    return names.models


def _prepare(home: Path, stand_ins: tuple[str, ...], base: Path | None) -> dict[str, str]:
    from pytest_crucible.local_model.server.hub_cache import write_hub_cache  # loads numpy and the model

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
