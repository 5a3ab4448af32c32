"""The controller's use of its workers' announcements and reports."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_crucible.session.messages import Messages
from pytest_crucible.session.workers import WorkerReports


def controller() -> tuple[WorkerReports, Messages]:
    config = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=lambda name: None))
    messages = Messages([])
    return WorkerReports(config, messages), messages


def report(owner: str, item: str, **facts: bool) -> SimpleNamespace:
    worker = Messages([])
    worker.begun = facts.get("begun", True)
    message = {"run": "r", "owner": owner, "item": item, "line": None, **worker.pop_message()}
    return SimpleNamespace(crucible=message, node=SimpleNamespace(gateway=SimpleNamespace(id="gw0")))


def test_one_worker_with_a_stored_experiment_is_enough_to_begin_the_run():
    reports, messages = controller()
    reports.add_worker(SimpleNamespace(announced={"run": "r", "begun": False, "verdicts": 2, "reports": 1}))
    assert not messages.begun

    reports.receive(report("test_a", "test_a", begun=True))
    reports.receive(report("test_b", "test_b", begun=False))

    assert messages.begun
    assert messages.expected_verdicts == 2
    assert messages.items == {"test_a": ["test_a"], "test_b": ["test_b"]}


def test_an_error_of_a_worker_that_has_ended_is_an_error_of_the_session():
    reports, messages = controller()
    reports.add_failures(["the disk is full"])

    assert messages.errors == ["the disk is full"]
