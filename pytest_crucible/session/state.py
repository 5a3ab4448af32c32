"""The state that all parts of a session share: settings, plans, resources, events and messages."""

from __future__ import annotations

import secrets

import pytest

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.settings import Settings
from pytest_crucible.sample.engine import Deadline
from pytest_crucible.session.collect import ExperimentCollection
from pytest_crucible.session.events import EventPublisher
from pytest_crucible.session.interruptions import Interruptions
from pytest_crucible.session.redaction import KeyRedactor, key_redactor
from pytest_crucible.session.resources import Resources
from pytest_crucible.session.settings import read_settings
from pytest_crucible.session.workers import Messages


@dataclass(frozen=True)
class SessionState:
    """The state of one session, of which each part uses what it needs."""

    config: pytest.Config
    settings: Settings
    run: str
    interruptions: Interruptions
    hide: KeyRedactor
    publisher: EventPublisher
    resources: Resources
    collection: ExperimentCollection
    messages: Messages
    deadline: Deadline | None
    objects_are_aside: bool
    """Whether the objects that were there before the session are out of garbage collection; its own follow then."""

    @property
    def is_worker(self) -> bool:
        """True in a worker of pytest-xdist."""
        return hasattr(self.config, "workerinput")


def open_state(config: pytest.Config, run: str | None, *, objects_are_aside: bool) -> SessionState:
    """Return the state of a new session. Raises pytest.UsageError for invalid options."""
    settings = read_settings(config)
    # The id of a run is not drawn from the seed: two runs with one seed are two runs.
    run = run or getattr(config, "workerinput", {}).get("crucible_run") or secrets.token_hex(6)
    # Its handlers are restored last of all that is registered here.
    interruptions = Interruptions(config)
    publisher = EventPublisher(config, settings, run)
    resources = Resources(config, settings, run, publisher)
    collection = ExperimentCollection(config, settings, resources)
    seconds, text = settings.deadline_s, settings.deadline or ""
    return SessionState(
        config=config,
        settings=settings,
        run=run,
        interruptions=interruptions,
        hide=key_redactor(config),
        publisher=publisher,
        resources=resources,
        collection=collection,
        messages=Messages(collection.problems),
        deadline=None if seconds is None else Deadline.after(seconds, text),
        objects_are_aside=objects_are_aside,
    )
