"""A session that runs one shard: it sends a part of the samples, and leaves verdicts and reports to `crucible merge`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_crucible.adapters.feature_rows import find_pending
from pytest_crucible.features.scale.shard import Shard, parse_shard
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import SpecError, StoreError
from pytest_crucible.runs.provenance import utc_now
from pytest_crucible.session.items import group_by_function, unique_ids
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.database import from_json
from pytest_crucible.store.decisions import add_decision
from pytest_crucible.store.events import lost_replies

if TYPE_CHECKING:
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.experiment import Announcement, ExperimentRun
    from pytest_crucible.session.session import CrucibleSession
    from pytest_crucible.session.state import SessionState
    from pytest_crucible.store.runs import RunStore

EXPECTED_FAILURES = "expected failures"
"""The subject of a decision: the markers `xfail` of the run's tests, which its merged run needs."""
_MOST_LOST = 5
"""Reasons of lost replies that are shown."""


def open_shard(session: CrucibleSession, text: str) -> None:
    """Let a session run one shard, in a run store of its own."""
    shard, resources = parse_shard(text), session.resources
    resources.parts = shard.of
    # The configured store is that of whole runs: a job of CI takes one file along.
    resources.location = session.config.getoption("crucible_store") or shard.file
    session.config.pluginmanager.register(ShardSession(session, shard), "crucible-shard")


class ShardSession:
    """A plugin: the hooks of a session that runs one shard."""

    def __init__(self, session: CrucibleSession, shard: Shard) -> None:
        self._session, self._shard = session, shard
        self._positions: dict[str, list[int]] = {}
        self._has_run = False

    # After the session has planned them: a shard without any has the plan all the same.
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Deselect the items of joined tests whose samples other shards have."""
        joined = [item for items in group_by_function(session.items).values() for item in items]
        others = {item for item in joined if not self._own([item])}
        session.items[:] = [item for item in session.items if item not in others]
        if others:
            session.config.hook.pytest_deselected(items=list(others))

    def _own(self, items: Sequence[pytest.Item]) -> list[int]:
        """Return the positions of the samples of some items that the shard has."""
        return self._shard.positions([Sample(id=name, input="") for name in unique_ids(items)])

    def pytest_crucible_plan_session(self, collection: ExperimentCollection) -> None:
        """Refuse what looks at a run as a whole, and a store that other runs are in. Divide the samples."""
        with collection.gather_errors():
            self._check_arms(collection)
            if collection.spends:
                _check_store(self._session.resources.store, self._shard)
        for nodeid, experiment in collection.experiments.items():
            self._positions[nodeid] = self._shard.positions(experiment.dataset.samples)
        for nodeid, items in group_by_function(collection.items).items():
            self._positions[nodeid] = self._own(items)

    def _check_arms(self, collection: ExperimentCollection) -> None:
        swept = [opened.arm.name for opened in collection.opened_arms if opened.competitors]
        trained = [pending.adapter for pending in find_pending(collection.opened_arms)]
        for what, names in (("sweep", swept), ("training", trained)):
            if names:
                raise SpecError(f"--crucible-shard cannot be combined with the {what} of {names[0]!r}: remove one")

    def pytest_crucible_announce(self, announcement: Announcement) -> None:
        for plan in announcement.plans:
            if plan.nodeid in self._positions:
                sent = f"{len(self._positions[plan.nodeid]):,} of these samples"
                announcement.lines[plan.nodeid].append((0, f"shard {self._shard}: {sent} are sent, no verdicts"))

    def pytest_crucible_prepare(self, collection: ExperimentCollection) -> None:
        """Enter into the plans how many samples are selected; what was announced is about the whole run."""
        for nodeid, experiment in collection.experiments.items():
            plan = replace(experiment.plan, selected=len(self._positions[nodeid]))
            collection.experiments[nodeid] = replace(experiment, plan=plan)
        for nodeid, joined in collection.joined.items():
            joined.plan = replace(joined.plan, selected=len(self._positions[nodeid]))

    def pytest_crucible_begin(self, session: CrucibleSession) -> None:
        self._has_run = True
        session.messages.expected_verdicts = 0

    def pytest_crucible_run(self, run: ExperimentRun) -> None:
        run.positions = self._positions[run.experiment.plan.nodeid]

    def pytest_crucible_conclude_instead(self, state: SessionState, interrupted: bool) -> bool:
        """End the run without verdicts, and show what was lost and what to do next."""
        self._has_run = True
        store, run = state.resources.store, state.run
        if state.messages.expected_failures:
            marks = {nodeid: dict(mark) for nodeid, mark in state.messages.expected_failures.items()}
            add_decision(store, run, EXPECTED_FAILURES, 0, marks)
        store.end_run(run, finished=utc_now(), status="interrupted" if interrupted else "finished")
        state.messages.lines += [*_lost_lines(store, run), self._last_line(store, run, interrupted=interrupted)]
        return True

    def _last_line(self, store: RunStore, run: str, *, interrupted: bool) -> str:
        query = """
            SELECT COUNT(*) FROM replies JOIN arms ON arms.id = replies.arm
            JOIN experiments ON experiments.id = arms.experiment WHERE experiments.run = :run
        """
        replies, location = quantity(store.scalar(query, run=run), "reply"), self._session.resources.location
        if interrupted:
            return (
                f"shard {self._shard} was interrupted with {replies} in {location}: run it again with --crucible-resume"
            )
        files = f"crucible-shard-*-of-{self._shard.of}.db" if location == self._shard.file else "FILES"
        return (
            f"shard {self._shard}: {replies} in {location}; next, with the files of all shards: crucible merge {files}"
        )

    # Before the store is closed.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Store the exit status: what pytest itself fails stays failed in the merged run."""
        if not self._has_run or self._session.is_worker or self._session.messages.errors:
            return
        # Other shards have all items of a small joined test.
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = exitstatus = pytest.ExitCode.OK
        try:
            self._session.resources.store.set_exit_status(self._session.run, int(exitstatus))
        except StoreError as error:
            self._session.messages.lines.append(f"the exit status of shard {self._shard} is not stored: {error}")


def _check_store(store: RunStore, shard: Shard) -> None:
    """Raise SpecError for a store that has other runs: stored replies are used whole, those of other shards, too."""
    for run, manifest in store.rows("SELECT id, manifest FROM runs"):
        if ((from_json(manifest) or {}).get("settings") or {}).get("shard") != shard.option:
            raise SpecError(
                f"{store.location} has run {run}, which is not of shard {shard}: a shard needs a store of its own, "
                "name another file with --crucible-store"
            )


def _lost_lines(store: RunStore, run: str) -> Iterator[str]:
    reasons = lost_replies(store, run)
    for nodeid, arm, reason, detail, number in reasons[:_MOST_LOST]:
        cause = (detail or reason).partition("\n")[0]
        yield f"{nodeid}, {arm}: {quantity(number, 'result')} lost ({cause})"
    if len(reasons) > _MOST_LOST:
        yield f"and {quantity(sum(row[4] for row in reasons[_MOST_LOST:]), 'result')} more lost"
