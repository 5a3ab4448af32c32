"""`crucible models watch`: registers and judges each new checkpoint of a training."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from pytest_crucible.commands.options import store_option
from pytest_crucible.features.registry.listing import own_folder
from pytest_crucible.features.registry.log_directory import SERVICE, read_checkpoints, steps_text
from pytest_crucible.features.registry.registration import check_model
from pytest_crucible.features.registry.store import load_registry
from pytest_crucible.local_model.checkpoints import SAMPLER_FILE, TRAINING_FILE
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import RunSummary
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import file_lock
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.outcomes import lost_values
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that a training has written."""

    adapter: str
    """The adapter's URI, as `crucible models register` takes it."""
    state: tuple[tuple[str, int, int], ...] = ()
    """Names, sizes and times of its files: one that is written again is a new checkpoint."""


def list_checkpoints(source: str) -> list[Checkpoint]:
    """Return the checkpoints of a directory or a JSONL file, the oldest first. Raises SpecError if there is neither."""
    path = Path(source)
    if path.is_dir():
        return sorted(_in_directory(path), key=lambda checkpoint: max(time for _, _, time in checkpoint.state))
    if path.is_file():
        return [Checkpoint(row.sampler) for row in read_checkpoints(path) if row.sampler]
    raise SpecError(
        f"{source} does not exist: name a directory with checkpoints, a checkpoints.jsonl, or a run as tinker://RUN"
    )


def _in_directory(folder: Path) -> Iterator[Checkpoint]:
    for path in folder.iterdir():
        files = [path] if path.suffix == ".safetensors" else [path / SAMPLER_FILE, path / TRAINING_FILE]
        try:
            state = tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file())
        # Removed since it was listed.
        except FileNotFoundError:
            continue
        if state:
            yield Checkpoint(f"local:{path.resolve()}", state)


if TYPE_CHECKING:
    from pytest_crucible.adapters.context import AdapterContext

# What pytest ends with where it would end so again: a usage error, and no tests.
WRONG_ARGUMENTS = (4, 5)


@click.command("watch")
@click.argument("source")
@click.option("--model", required=True, metavar="NAME", help="The model that the checkpoints are versions of.")
@click.option("--once", is_flag=True, help="Judge what is there, and end.")
@click.option("--every", default=30.0, type=click.FloatRange(min=0.1), metavar="S", help="Seconds between two looks.")
@store_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def watch_source(source: str, model: str, once: bool, every: float, store: str, arguments: tuple[str, ...]) -> int:
    """Register each new checkpoint of SOURCE, run pytest on it, and promote it to candidate where it meets all verdicts.

    SOURCE is a directory, a cookbook's checkpoints.jsonl, or tinker://RUN. ARGUMENTS after -- are pytest's. Exits 1 with --once
    where a service is gone, or a run broke or lost samples, so that a checkpoint is not judged.
    """
    check_model(model)
    # A path counts from here; pytest's option would count it from its root directory.
    where = store if "://" in store else str(Path(store).resolve())
    opened = RunStore(where)
    watcher = Watcher(opened, where, source, model, arguments)
    try:
        while True:
            is_done = watcher.look()
            if once:
                return 0 if is_done else 1
            time.sleep(every)
    finally:
        opened.close()


@dataclass
class Watcher:
    """Judges checkpoints. The run store shows which ones are judged, so that a watcher may be killed at any time."""

    store: RunStore
    where: str
    source: str
    model: str
    arguments: Sequence[str]
    _done: set[Checkpoint] = field(default_factory=set)

    def look(self) -> bool:
        """Evaluate every checkpoint that has no evaluation yet; return whether each could be evaluated.

        A checkpoint cannot be judged while its service is gone, nor when its run broke or lost samples.
        """
        try:
            checkpoints = self._list()
        except SpecError as error:
            # A source that is not there is wrong; a service that is gone may come back.
            if not self.source.startswith(SERVICE):
                raise
            click.echo(f"crucible models watch: {error}", err=True)
            return False
        # A list: after one that could not be judged the others are judged all the same.
        judged = [self._judge(checkpoint) for checkpoint in checkpoints if checkpoint not in self._done]
        return all(judged)

    def _list(self) -> list[Checkpoint]:
        if not self.source.startswith(SERVICE):
            return list_checkpoints(self.source)
        # Imported here: it imports pytest, whose options name the service.
        from pytest_crucible.session.pytest_project import with_adapters

        return with_adapters(Path.cwd(), self.store, lambda context: list(_of_service(self.source, context)))

    def _judge(self, checkpoint: Checkpoint) -> bool:
        registered = self._register(checkpoint)
        if registered is None:
            return not checkpoint.adapter.startswith(SERVICE)
        version, steps = registered
        tag = self._tag(version)
        # pytest holds the lock too: where the watcher was killed, its run goes on, and the next watcher waits for its end.
        with file_lock(own_folder(self.where) / "watch.lock", _say_waiting) as lock:
            if judging_run(self.store, tag) is None:
                status = self._run_pytest(version, tag, lock)
                # A service that has gone meanwhile ends pytest with a usage error, too: then it cannot be registered either.
                if status in WRONG_ARGUMENTS and not finished_runs(self.store, tag) and self._register(checkpoint):
                    raise SpecError(
                        f"pytest ended with exit status {status} for {version}: correct its arguments or the suite"
                    )
            run = judging_run(self.store, tag)
            if run is None:
                click.echo(f"crucible models watch: {why_not_judged(self.store, tag, version)}", err=True)
                return False
            self._promote(version, steps, run)
        self._done.add(checkpoint)
        return True

    def _register(self, checkpoint: Checkpoint) -> tuple[str, str] | None:
        """Return the version of a checkpoint, and its optimiser steps in words; None where it cannot be read."""
        done = self._crucible("models", "register", checkpoint.adapter, "--model", self.model, "--json")
        if done.returncode == 0:
            document = json.loads(done.stdout)
            return document["version"], steps_text(document["steps"])
        click.echo(f"{checkpoint.adapter} cannot be read and is tried again later: {_last_line(done.stderr)}", err=True)
        return None

    def _promote(self, version: str, steps: str, run: RunSummary) -> None:
        model, _, number = version.rpartition("@")
        state = load_registry(self.store).state.statuses[model, int(number)].state
        if state != "draft" or not run.all_met:
            click.echo(f"{version} ({steps}) is judged by run {run.id}: {_counts(run)}")
            return
        done = self._crucible("models", "promote", run.id, "--to", "candidate", "--model", model)
        click.echo(f"{done.stdout.strip()} ({steps})" if done.returncode == 0 else done.stderr.strip())

    def _run_pytest(self, version: str, tag: str, lock: IO[bytes]) -> int:
        words = [f"--crucible-adapter={version}", f"--crucible-tag={tag}", f"--crucible-store={self.where}"]
        command = [sys.executable, "-m", "pytest", *self.arguments, *words]
        inherited = () if sys.platform == "win32" else (lock.fileno(),)
        return subprocess.run(command, pass_fds=inherited, check=False).returncode

    def _tag(self, version: str) -> str:
        """Return the tag of the version's run with these arguments: other arguments judge it again."""
        digest = hashlib.sha256(json.dumps(list(self.arguments)).encode(errors="surrogateescape")).hexdigest()[:8]
        return f"watch/{version.replace('@', '/')}/{digest}"

    def _crucible(self, *words: str) -> subprocess.CompletedProcess[str]:
        # A process of its own: each loads the project's conftest.py again.
        command = [sys.executable, "-m", "pytest_crucible", *words, "--store", self.where]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def _of_service(source: str, context: AdapterContext) -> Iterator[Checkpoint]:
    """Yield the weights to sample from of a run. Raises SpecError where the service is gone."""
    run = source.removeprefix(SERVICE)
    service = context.tinker().own
    listed = service.within("list checkpoints", lambda: service.rest.list_checkpoints(run))
    for checkpoint in sorted(listed.checkpoints, key=lambda checkpoint: checkpoint.time):
        if checkpoint.checkpoint_id.startswith("sampler_weights/"):
            yield Checkpoint(f"{SERVICE}{run}/{checkpoint.checkpoint_id}")


def _say_waiting() -> None:
    click.echo(
        "crucible models watch: another watcher, or a run that it started, is at work: waiting for its end", err=True
    )


def _counts(run: RunSummary) -> str:
    return ", ".join(f"{n} {state}" for state, n in run.verdicts.items()) or "no verdicts"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no message")


def finished_runs(store: RunStore, tag: str) -> list[RunSummary]:
    """Return the finished runs with a tag, the newest first."""
    return [run for run in list_runs(store, tag=tag) if run.status == "finished"]


def judging_run(store: RunStore, tag: str) -> RunSummary | None:
    """Return the newest finished run with a tag, unless it lost something that the next run may obtain; else None.

    Where two runs in turn lost the same, a third would too: for example a sample on which the test raises.
    """
    runs = finished_runs(store, tag)[:2]
    lost = [lost_values(store, run.id) for run in runs]
    return runs[0] if lost and (not lost[0] or lost[0] in lost[1:]) else None


def why_not_judged(store: RunStore, tag: str, version: str) -> str:
    """Return why the runs of a version do not judge it, as a sentence."""
    runs = finished_runs(store, tag)
    if not runs:
        return f"the run of {version} broke: it is judged again at the next look"
    # Without the metric: a reply may have lost several values.
    replies = {place[:-1] for place in lost_values(store, runs[0].id)}
    return f"run {runs[0].id} of {version} lost {quantity(len(replies), 'reply')}: it is judged again at the next look"
