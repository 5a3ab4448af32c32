"""Writes one run's pages and the texts of its samples as files for a static server: all at once, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from markupsafe import Markup

from pytest_crucible.features.view.addresses import Addresses
from pytest_crucible.features.view.application import ASSETS
from pytest_crucible.features.view.pages.run import planned_experiments
from pytest_crucible.features.view.requests_of_run import render_requests
from pytest_crucible.features.view.run_results import render_everything, render_trainings
from pytest_crucible.features.view.sample_texts import prompt_text, shown_text
from pytest_crucible.features.view.site import Site
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import ArmReply, Plan
from pytest_crucible.records.datasets import question_text
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.report.conversations import score_text
from pytest_crucible.report.html import HERE as REPORT_ASSETS
from pytest_crucible.report.html import excerpt_line
from pytest_crucible.report.printable import printable
from pytest_crucible.store.conversations import load_exchanges
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import samples

LIST = "export.json"
"""Names the files of an export, which another export of this folder replaces."""
STYLES = {"assets/report/page.css": REPORT_ASSETS / "page.css", "assets/view.css": ASSETS / "view.css"}


@dataclass(frozen=True, slots=True)
class ExportedFiles:
    """The files of an export, counted."""

    files: int
    size: int
    """Bytes."""


def export_run(store: RunStore, run: str, folder: Path) -> ExportedFiles:
    """Write the pages of a run into a folder, which is replaced as a whole. Raises SpecError where it has other files."""
    if store.run(run)["status"] == "running":
        raise SpecError(f"run {run} has not finished: export it when it has, because files do not follow it")
    # A folder behind a link is replaced, and not the link.
    folder = Path(os.path.realpath(folder))
    _check_folder(folder)
    try:
        return _export(store, run, folder)
    except OSError as error:
        raise SpecError(
            f"--export {folder} cannot be written ({error.strerror or error}): name another folder"
        ) from None


def _export(store: RunStore, run: str, folder: Path) -> ExportedFiles:
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        # mkdtemp makes it private.
        draft.chmod(0o755)
        names = sorted(_write_pages(store, run, draft))
        _write(draft / LIST, json.dumps({"run": run, "files": names}, indent=1) + "\n")
        written = ExportedFiles(len(names) + 1, sum((draft / name).stat().st_size for name in (*names, LIST)))
        _replace(folder, draft)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return written


def _check_folder(folder: Path) -> None:
    """Raise SpecError for a folder with a file that no export wrote."""
    if folder.exists() and not folder.is_dir():
        raise SpecError(f"--export {folder} is a file: name a new or an empty folder")
    exported = _exported_names(folder)
    files = (
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()
    )
    # The first one: the folder may be a home directory.
    other = next((name for name in files if name not in exported), None)
    if other is not None:
        raise SpecError(f"--export {folder} has other files, such as {other!r:.120}: name a new or an empty folder")


def _exported_names(folder: Path) -> set[str]:
    try:
        return {LIST, *json.loads((folder / LIST).read_text(encoding="utf-8"))["files"]}
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def _replace(folder: Path, draft: Path) -> None:
    """Put the draft in the place of a folder, which is empty, an earlier export, or not there."""
    old = draft.with_name(f"{draft.name}.old")
    if folder.exists():
        os.rename(folder, old)
    os.rename(draft, folder)
    shutil.rmtree(old, ignore_errors=True)


def _write_pages(store: RunStore, run: str, folder: Path) -> Iterator[str]:
    """Write all files, and yield their names."""
    for name, style in STYLES.items():
        _write(folder / name, style.read_text(encoding="utf-8"))
        yield name
    site = Site(store, addresses=StaticAddresses())
    facts = {
        "run_id": run,
        "facts": store.run(run),
        "unfinished": False,
        "experiments": planned_experiments(store, run),
    }
    # The page of the run is the first one.
    parts = {
        "index": ("run", render_everything),
        "requests": ("requests", render_requests),
        "training": ("training", render_trainings),
    }
    for name, (template, render) in parts.items():
        text = site.render(f"{template}.html.j2", part=Markup(render(site, run)), **facts)
        _write(folder / f"{name}.html", text)
        yield f"{name}.html"
    yield from _write_samples(site, run, folder)


def _write_samples(site: Site, run: str, folder: Path) -> Iterator[str]:
    experiments = [
        (number, key, plan, _parts(site.store, plan))
        for number, (key, plan, _) in enumerate(site.store.all_experiments(run), start=1)
    ]
    _write(folder / "samples.html", site.render("export_samples.html.j2", run_id=run, listed=experiments))
    yield "samples.html"
    template = replace(site, addresses=StaticAddresses(root="../../")).templates.get_template(
        "export_samples_file.html.j2"
    )
    for number, key, plan, parts in experiments:
        for part, places in enumerate(parts, start=1):
            name = StaticAddresses().samples_file(number, part)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            values = {"number": number, "plan": plan, "part": part, "parts": len(parts), "places": places}
            samples = read_samples(site.store, key, plan, places)
            # Written as it is rendered: a thousand replies may have megabytes each.
            template.stream(run_id=run, samples=samples, **values).dump(str(folder / name), "utf-8")
            yield name


def _parts(store: RunStore, plan: Plan) -> list[range]:
    """Return the positions of the samples of each file."""
    size = store.scalar("SELECT COUNT(*) FROM samples WHERE dataset = :dataset", dataset=plan.dataset_sha256)
    return [range(start, min(start + SAMPLES_A_FILE, size)) for start in range(0, size, SAMPLES_A_FILE)]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


SAMPLES_A_FILE = 1_000


@dataclass(frozen=True, slots=True)
class StaticAddresses(Addresses):
    """Addresses from a page some folders below the first. Pages that need a server have an empty one."""

    is_static: ClassVar[bool] = True
    root: str = ""
    """The way up to the first page, such as `../../`."""

    def runs(self, **state: str | int) -> str:
        return ""

    def run(self, run: str) -> str:
        return f"{self.root}index.html"

    def events(self, run: str = "") -> str:
        return ""

    def results(self, run: str) -> str:
        return ""

    def explanations(self, run: str) -> str:
        return ""

    def samples(self, run: str, **state: str | int) -> str:
        """Return the list of files of samples, or its part on an experiment; empty for a list with a filter."""
        if state.keys() - {"experiment"}:
            return ""
        part = f"#experiment-{state['experiment']}" if state else ""
        return f"{self.root}samples.html{part}"

    def samples_file(self, experiment: int, number: int) -> str:
        """Return a file of samples. Files of an experiment are numbered from 1."""
        return f"{self.root}samples/{experiment}/{number}.html"

    def sample(self, run: str, experiment: int, position: int, **state: str | int) -> str:
        return f"{self.samples_file(experiment, position // SAMPLES_A_FILE + 1)}#sample-{position}"

    def requests(self, run: str, part: str = "") -> str:
        return "" if part else f"{self.root}requests.html"

    def training(self, run: str, part: str = "") -> str:
        return "" if part else f"{self.root}training.html"

    def labels(self, run: str, **state: str | int) -> str:
        return ""

    def comparisons(self, **state: str | int) -> str:
        return ""

    def compare(self, candidate: str, baseline: str, part: str = "") -> str:
        return ""

    def trends(self) -> str:
        return ""

    def trend(self, metric: str, part: str = "", **state: str | int) -> str:
        return ""

    def asset(self, name: str) -> str:
        return f"{self.root}assets/{name}"


_PART = 25
"""Samples whose texts are in memory together: a reply may have megabytes."""


@dataclass(frozen=True, slots=True)
class ArmTexts:
    """The replies of an arm to a sample."""

    name: str
    replies: Sequence[tuple[str, str]]
    """State and text of each repeat."""
    scores: Sequence[tuple[str, str]]
    """Metric and score of the first one."""


@dataclass(frozen=True, slots=True)
class SampleTexts:
    """A sample as a file has it."""

    position: int
    id: str
    group: str
    excerpt: str
    input: str
    expected: str
    arms: Sequence[ArmTexts]


def read_samples(store: RunStore, key: int, plan: Plan, positions: range) -> Iterator[SampleTexts]:
    """Yield the samples at some positions of an experiment, in that order."""
    for start in range(positions.start, positions.stop, _PART):
        part = list(positions[start - positions.start :][:_PART])
        of_samples, scores = samples(store, plan.dataset_sha256, part), _scores(store, key, plan, part)
        for exchange in load_exchanges(store, key, plan, part):
            sample = of_samples[exchange.position]
            arms = zip(plan.arms, exchange.replies, strict=True)
            yield SampleTexts(
                position=exchange.position,
                id=sample.id,
                group=sample.group or "",
                excerpt=excerpt_line(question_text(sample.input)),
                input=prompt_text(sample.input),
                expected="" if sample.expected is None else shown_text(sample.expected),
                arms=[
                    ArmTexts(arm.name, [_reply(reply) for reply in replies], scores[number, exchange.position])
                    for number, (arm, replies) in enumerate(arms)
                ],
            )


def _reply(reply: ArmReply) -> tuple[str, str]:
    state = "" if reply.state == "answered" else ": ".join(filter(None, (reply.state, reply.detail)))
    return printable(state), shown_text(fold_reasoning(reply.text))


def _scores(
    store: RunStore, key: int, plan: Plan, positions: Sequence[int]
) -> Mapping[tuple[int, int], list[tuple[str, str]]]:
    """Return metric and score of each arm's first reply, by the number of the arm and the position."""
    columns = {
        "observations": "metric, value, is_bool, label",
        "lost": "metric, NULL, NULL, 'lost: ' || reason",
    }
    scores: dict[tuple[int, int], list[tuple[str, str]]] = defaultdict(list)
    for table, values in columns.items():
        query = f"""
            SELECT arms.number, position, {values} FROM {table} JOIN arms ON arms.id = {table}.arm
            WHERE arms.experiment = :experiment AND arms.number < :arms AND {table}.epoch = 0
                AND position BETWEEN :first AND :last AND metric <> ''
            ORDER BY arms.number, position, metric
        """
        rows = store.rows(query, experiment=key, arms=len(plan.arms), first=positions[0], last=positions[-1])
        for number, position, metric, value, is_bool, label in rows:
            score = label if label is not None else bool(value) if is_bool and value is not None else value
            scores[number, position].append((metric, printable(score_text(score))))
    return scores
