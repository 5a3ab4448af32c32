"""`crucible tinker`: training runs and checkpoints of a Tinker service."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tabulate import tabulate

from pytest_crucible.commands.options import json_option, print_result
from pytest_crucible.commands.registry_options import project_root
from pytest_crucible.commands.tinker_service import project_services
from pytest_crucible.commands.tinker_upload import upload
from pytest_crucible.records.errors import SpecError

if TYPE_CHECKING:
    from pytest_crucible.backends.tinker.service import Service

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


@click.group("tinker", short_help="Training runs and checkpoints of a Tinker service.")
def command() -> None:
    """List, download, upload, publish and delete training runs and checkpoints of a Tinker service.

    Each command names the service on standard error, and takes --json.
    """


command.add_command(upload)


@command.command("runs")
@limit_option
@service_option
@json_option
def list_runs(limit: int, service: str | None, as_json: bool) -> None:
    """List training runs, the latest request first."""
    with open_service(service) as opened:
        listed = opened.within("list training runs", lambda: opened.rest.list_training_runs(limit=limit))
    rows = [
        (run.training_run_id, run.base_model, run.lora_rank, _time(run.last_request_time), _newest(run))
        for run in listed.training_runs
    ]
    _print_table(RUN_HEADS, rows, listed.cursor, "training run", listed.training_runs, as_json=as_json)


@command.command("checkpoints")
@click.argument("run", default="")
@limit_option
@service_option
@json_option
def list_checkpoints(run: str, limit: int, service: str | None, as_json: bool) -> None:
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
            _size(checkpoint.size_bytes),
            "yes" if checkpoint.public else "no",
            _expiry(checkpoint.expires_at),
        )
        for checkpoint in listed.checkpoints
    ]
    _print_table(CHECKPOINT_HEADS, rows, listed.cursor, "checkpoint", listed.checkpoints, as_json=as_json)


@command.command("download")
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


@command.command("publish")
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


@command.command("ttl")
@path_argument
@click.argument("seconds")
@yes_option
@service_option
@json_option
def set_time_to_live(path: str, seconds: str, yes: bool, service: str | None, as_json: bool) -> None:
    """Let the service delete the checkpoint PATH after SECONDS, from an hour to ten years, or `never`."""
    lasts = None if seconds == NEVER else _whole(seconds)
    with open_service(service, path) as opened:
        if lasts is not None:
            confirm(f"let {path} be deleted in {lasts:,} seconds", opened, yes=yes)
        opened.within("set the time to live", lambda: opened.rest.set_checkpoint_ttl_from_tinker_path(path, lasts))
    end = "never expires" if lasts is None else f"expires in {lasts:,} seconds"
    print_result([f"{path} {end}"], {"path": path, "ttl_seconds": lasts}, as_json=as_json)


@command.command("delete")
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


@contextmanager
def open_service(name: str | None, *paths: str) -> Iterator[Service]:
    """Print the name of the service and yield the service. Raises SpecError for an invalid path of a checkpoint."""
    from pytest_crucible.backends.tinker.address import KEY
    from pytest_crucible.backends.tinker.archives import path_parts

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
    heads: Sequence[str], rows: Sequence[Sequence[Any]], cursor: Any, what: str, listed: Sequence[Any], *, as_json: bool
) -> None:
    lines = tabulate([heads, *rows], tablefmt="plain", disable_numparse=True).splitlines() if rows else [f"no {what}s"]
    if cursor is not None and cursor.total_count > len(rows):
        lines.append(f"{len(rows):,} of {cursor.total_count:,} {what}s: --limit {cursor.total_count} lists all")
    print_result(lines, [item.model_dump(mode="json") for item in listed], as_json=as_json)


def _newest(run: Any) -> str:
    saved = [checkpoint for checkpoint in (run.last_checkpoint, run.last_sampler_checkpoint) if checkpoint is not None]
    return str(max(saved, key=lambda checkpoint: checkpoint.time).checkpoint_id) if saved else ""


def _time(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def _expiry(time: Any) -> str:
    return NEVER if time is None else _time(time)


def _size(size: int | None) -> str:
    return "" if size is None else f"{size:,}"


def _whole(seconds: str) -> int:
    if not seconds.isdecimal():
        raise SpecError(f"{seconds!r} is not a time to live: expected seconds, from 3600 on, or {NEVER}")
    return int(seconds)
