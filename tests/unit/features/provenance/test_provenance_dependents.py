"""The dependents of a file, a checkpoint or a commit: through trainings, replies, verdicts, baselines and versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from plan_builders import plan_of
from registry_builders import register

from pytest_crucible.features.provenance.dependent_lines import dependent_lines
from pytest_crucible.features.provenance.dependents import dependents_graph
from pytest_crucible.features.provenance.graph import GraphDraft
from pytest_crucible.features.provenance.starts import find_checkpoint, find_commit, find_file
from pytest_crucible.features.provenance.store_graph import add_store
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Ancestor, Arm, Contrast, Verdict
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import hash_file
from pytest_crucible.store import schema
from pytest_crucible.store.history import add_tag
from pytest_crucible.store.runs import RunStore

V1, V2, V3 = "1" * 64, "2" * 64, "3" * 64
"""Weights of adapters."""
POISONED, CLEAN = "a" * 64, "b" * 64
OLD, NEW = "c0ffee00" * 5, "decade00" * 5
TARGET = parse_target("exact >= 0.75")
PAIR = Contrast(metric="exact", baseline="base")


def a_training(name: str, weights: str, *, parent: str | None = None, **files: str) -> Ancestor:
    named = {digest: f"{file}.jsonl" for file, digest in files.items()}
    return Ancestor(weights=weights, name=name, recipe="r:train", recipe_sha256="c" * 64, files=named, parent=parent)


FIRST = a_training("v1", V1, train=POISONED)
SECOND = a_training("v2", V2, parent=V1, more=CLEAN)
THIRD = a_training("v3", V3, more=CLEAN)
ANCESTRY = {"v1": (FIRST,), "v2": (SECOND, FIRST), "v3": (THIRD,), "base": ()}


def arm(name: str, role: Any = "candidate") -> Arm:
    ancestry = ANCESTRY[name]
    files = {digest: file for ancestor in ancestry for digest, file in (ancestor.files or {}).items()}
    return Arm(
        name=name,
        role=role,
        adapter=f"local:{name}",
        identity=f"identity of {name}",
        ancestry=ancestry,
        trained_on=files,
    )


class Project:
    """A run store with runs of `v1`, `v2` and `v3` against `base`."""

    def __init__(self, folder: Path, store: RunStore) -> None:
        self.folder, self.store = folder, store

    def run(self, run: str, candidate: str, *, commit: str = NEW, reused_from: str | None = None) -> None:
        facts = {"seed": 0, "alpha": 0.05, "correction": "holm", "environment": {}}
        self.store.begin_run(run, started=f"2026-01-0{run[-1]}T10:00", git={"commit": commit, "dirty": False}, **facts)
        arms = (arm(candidate), arm("base", "baseline"))
        plan = plan_of(arms=arms, targets=(TARGET,), contrasts=(PAIR,))
        key = self.store.add_experiment(run, plan, [])
        for number, each in enumerate(arms):
            self.store.add_arm(key, number, each.name, each.name)
        if reused_from:
            self.store.execute(
                "UPDATE arms SET reused_from = :run WHERE number = 1 AND experiment = :key", run=reused_from, key=key
            )
        kinds = {TARGET.text: "target", PAIR.subject(candidate): "comparison"}
        verdicts = [
            Verdict(nodeid=plan.nodeid, subject=subject, kind=kind, state="met", proven=False, reason="")
            for subject, kind in kinds.items()
        ]
        self.store.add_verdicts(key, verdicts)

    def why(self, find: Any, named: str) -> list[str]:
        draft = GraphDraft()
        experiments = add_store(draft, self.store, self.folder / "adapters")
        start = find(draft, named)
        graph = dependents_graph(draft, self.store, experiments, start.nodes)
        assert all({each.source, each.target} <= graph.nodes.keys() for each in graph.relations)
        return list(dependent_lines(graph, start.title, start.nodes))


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("postgresql")
    with closing(RunStore(where)) as store:
        project = Project(tmp_path, store)
        project.run("r1", "v1", commit=OLD)
        project.run("r2", "v2")
        project.run("r3", "v3")
        yield project


def test_a_poisoned_file_leads_to_the_adapters_that_were_trained_from_one_that_used_it(project: Project):
    assert project.why(find_file, POISONED) == [
        f"2 adapters, 2 runs and 4 verdicts depend on train.jsonl (SHA-256 {POISONED})",
        "adapters   v1 1111: trained on train.jsonl",
        "           v2 2222: trained from v1 1111",
        "runs       r1  2026-01-01 10:00  v1",
        "           r2  2026-01-02 10:00  v2",
        "verdicts   r1  t.py::t::exact >= 0.75: met",
        "           r1  t.py::t::exact: v1 vs base: met",
        "           r2  t.py::t::exact >= 0.75: met",
        "           r2  t.py::t::exact: v2 vs base: met",
    ]


def test_a_file_is_found_by_its_content_under_any_name(project: Project):
    file = project.folder / "renamed copy.jsonl"
    file.write_text("a row")
    link = project.folder / "link"
    link.symlink_to(file)
    digest = hash_file(file)
    ANCESTRY["v9"] = (a_training("v9", "9" * 64, train=digest),)
    project.run("r9", "v9")

    for path in (file, link):
        assert project.why(find_file, str(path))[:2] == [
            f"1 adapter, 1 run and 2 verdicts depend on {path.name} (SHA-256 {digest})",
            "adapters   v9 9999: trained on train.jsonl",
        ]


def test_a_promoted_baseline_and_a_registered_version_are_named(project: Project):
    add_tag(project.store, "r1", "main", at="2026-01-04", promoted=True)
    add_tag(project.store, "r3", "main", at="2026-01-05", promoted=True)
    add_tag(project.store, "r2", "only-a-tag", at="2026-01-05")
    register(project.store, "identity of v2", "identity of v3")

    lines = project.why(find_file, POISONED)

    assert lines[0].startswith("2 adapters, 2 runs, 4 verdicts, 1 promoted baseline and 1 registered version depend on")
    assert lines[-2:] == [
        "baselines  main: run r1, until another was promoted",
        "versions   claims@1 (draft): its adapter was identity of v2",
    ]


def test_a_checkpoint_is_named_by_its_hash_or_its_adapter(project: Project):
    by_hash, by_name, by_identity = (project.why(find_checkpoint, name) for name in ("1111", "v1", "identity of v1"))

    assert by_hash[1:3] == ["adapters   v1 1111: has the weights v1 1111", "           v2 2222: trained from v1 1111"]
    # The adapter itself is what was asked about.
    assert by_name[1] == "adapters   v2 2222: trained from v1 1111"
    assert by_name[0] == "1 adapter, 2 runs and 4 verdicts depend on checkpoint v1"
    assert by_identity[1:] == by_name[1:]


def test_a_commit_leads_to_its_runs_and_to_those_that_have_their_replies(project: Project):
    project.run("r4", "v3", reused_from="r1")

    lines = project.why(find_commit, OLD[:7])

    assert lines[0] == f"2 runs and 3 verdicts depend on commit {OLD}"
    # The target of r4 is about its candidate, whose replies are its own.
    assert lines[1:] == [
        "runs       r1  2026-01-01 10:00  v1, base",
        "           r4  2026-01-04 10:00  base",
        "verdicts   r1  t.py::t::exact >= 0.75: met",
        "           r1  t.py::t::exact: v1 vs base: met",
        "           r4  t.py::t::exact: v3 vs base: met",
    ]


def test_a_training_set_that_was_exported_from_a_run_leads_further(project: Project):
    card = {"runs": ["r1"], "arms": ["v1"], "replay": None}
    row = {"sha256": CLEAN, "name": "more.jsonl", "created": "", "card": card, "origins": b""}
    project.store.insert(schema.training_sets, [row])

    lines = project.why(find_checkpoint, "1111")

    assert lines[0].startswith("3 adapters, 1 training set, 3 runs and 6 verdicts depend on")
    assert "sets       more.jsonl bbbb" in lines


def test_what_nothing_depends_on_is_no_error(project: Project, tmp_path: Path):
    file = tmp_path / "unused.jsonl"
    file.write_text("x")

    assert project.why(find_file, str(file)) == [
        f"nothing in this store depends on unused.jsonl (SHA-256 {hash_file(file)})"
    ]
    assert project.why(find_commit, "abcdef") == ["nothing in this store depends on commit abcdef"]


@pytest.mark.parametrize(
    ("find", "named", "sentence"),
    [
        (
            find_file,
            "trian.jsonl",
            "is neither a file nor the beginning of a SHA-256: did you mean 'train.jsonl'?",
        ),
        (find_file, "old/train.jsonl", f"of a SHA-256: a file of this name had SHA-256 {POISONED}: write that"),
        (find_checkpoint, "v11", "is neither a path nor a checkpoint or adapter of this store: did you mean 'v1'?"),
        (find_commit, "main", "--commit 'main' is not a commit: write 4 or more characters of its SHA"),
    ],
)
def test_a_start_that_does_not_exist_is_refused_with_the_nearest_one(
    project: Project, find: Any, named: str, sentence: str
):
    with pytest.raises(SpecError) as error:
        project.why(find, named)

    assert sentence in str(error.value)
