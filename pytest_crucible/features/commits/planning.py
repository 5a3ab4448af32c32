"""The hooks of a session that compares with commits: their functions are checked before a request is sent."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.features import owner_of, refuse_left_out
from pytest_crucible.features.commits import FEATURE, is_commit
from pytest_crucible.features.commits.arms import with_code
from pytest_crucible.features.commits.child_values import is_plain
from pytest_crucible.features.commits.commits import Commits
from pytest_crucible.features.commits.function import CommitFunction
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.experiment import INJECTED, Announcement, ExperimentDraft, ExperimentRun


@dataclass(frozen=True)
class CommitArms:
    """A plugin of pytest. It is registered after those of features, so its hooks come first: they bind what commits take, too."""

    commits: Commits

    def pytest_crucible_plan(self, draft: ExperimentDraft) -> None:
        """Give each arm of a commit the test's function there. Raises SpecError."""
        if not any(is_commit(opened.arm.name) for opened in draft.arms):
            return
        if draft.settings.option("executor"):
            raise SpecError("an arm of a commit cannot be combined with --crucible-executor: leave one of them out")
        # What only lists tests, or runs one sample of the candidate, needs no other code.
        if not draft.config.option.collectonly and draft.settings.sample is None:
            draft.arms = tuple(
                self._with_function(draft, number) if is_commit(opened.arm.name) else opened
                for number, opened in enumerate(draft.arms)
            )

    def _with_function(self, draft: ExperimentDraft, number: int) -> OpenedArm:
        opened = draft.arms[number]
        name = opened.arm.name
        commit = self.commits.open(name)
        test = commit.find_test(draft.item)
        draft.takes = {*draft.takes, *_further_arguments(draft, name, test.takes)}
        draft.functions[number] = CommitFunction(test, name, commit.running)
        return replace(opened, arm=with_code(opened.arm, test.source))

    def pytest_crucible_plan_session(self, collection: ExperimentCollection) -> None:
        """Refuse joined tests: pytest itself calls today's function there."""
        for nodeid, joined in collection.joined.items():
            names = [arm.name for arm in joined.plan.arms if is_commit(arm.name)]
            with collection.gather_errors(nodeid):
                if names:
                    raise SpecError(f"{names[0]} needs a test that is marked crucible, and this is a joined test")

    def pytest_crucible_announce(self, announcement: Announcement) -> None:
        """Show the code of each arm, and what the processes of commits do not get."""
        candidate = announcement.settings.adapter
        for plan in announcement.plans:
            if any(is_commit(arm.name) for arm in plan.arms):
                arms = ((candidate if is_commit(arm.name) else arm.name, arm.name) for arm in plan.arms)
                code = " vs ".join(f"{adapter} at {self.commits.describe(name)}" for adapter, name in arms)
                keys = ", ".join(self.commits.removed_keys)
                announcement.lines[plan.nodeid].append((5, code))
                if self.commits.removed_keys:
                    keys = ", ".join(self.commits.removed_keys)
                    announcement.lines[plan.nodeid].append((6, f"not in the environment of commits: {keys}"))

    def pytest_crucible_manifest(self, collection: ExperimentCollection) -> dict[str, Any]:
        """Record which code was compared."""
        return {FEATURE.name: {**self.commits.shas, "changed_files": len(self.commits.changed_files)}}

    def pytest_crucible_run(self, run: ExperimentRun) -> None:
        """Raise SpecError for a fixture whose value cannot be sent to the process of a commit."""
        for function in run.experiment.functions.values():
            values = run.experiment.fixture_values(run.item, function.takes)
            for name, value in values.items():
                if not (is_plain(value) or isinstance(value, Path)):
                    raise SpecError(
                        f"fixture {name!r} is {type(value).__name__}, which JSON cannot hold, so another commit cannot receive "
                        "it: let it return text, numbers, lists or dicts, or a path"
                    )


def open_commits(collection: ExperimentCollection, shas: dict[str, str]) -> None:
    """Let adapters find the commits of this session, and hooks plan with them."""
    assert collection.context is not None
    commits = Commits(collection.config, collection.context, collection.items, shas)
    collection.context.of_features[FEATURE.name] = commits
    collection.resources.on_close(commits.close)
    collection.config.pluginmanager.register(CommitArms(commits), "crucible-commit-arms")


def _further_arguments(draft: ExperimentDraft, name: str, takes: tuple[str, ...]) -> Iterator[str]:
    """Yield the arguments of a commit's function that features bind, and today's has not. Raises SpecError for others."""
    today = inspect.signature(draft.function).parameters
    for argument in takes:
        if argument in today:
            continue
        owner = owner_of(argument, "fixtures")
        if owner is not None:
            refuse_left_out(f"{argument!r} of {name}", owner, draft.config.pluginmanager.is_blocked)
            yield argument
        elif argument == "score":
            raise SpecError(
                f"{draft.item.originalname} of {name} calls score, and today's does not, so that there is nothing to compare: "
                "let a metric score both"
            )
        elif argument not in (*INJECTED, *draft.item.fixturenames):
            raise SpecError(
                f"{draft.item.originalname} of {name} takes the fixture {argument!r}, and fixtures are today's: "
                f"request it with @pytest.mark.usefixtures({argument!r})"
            )
