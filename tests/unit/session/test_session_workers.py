"""Messages of workers, and the controller's use of them, of announcements and of reports."""

from __future__ import annotations

from types import SimpleNamespace

from pytest_crucible.session.workers import Messages, WorkerReports


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


def test_messages_are_handed_over_once_and_errors_each_time():
    worker, controller = Messages([]), Messages([])
    worker.lines.append("one answer was lost")
    worker.add_failures([OSError("the disk is full")])
    worker.add_complaints(["a listener raised"])
    for _ in range(2):
        controller.merge(worker.pop_message())

    assert controller.lines == ["one answer was lost"]
    assert controller.errors == ["the disk is full"]
    assert list(controller.complaints) == ["a listener raised"]


def test_equal_messages_of_several_workers_are_shown_once():
    controller = Messages([])
    for _ in range(3):
        worker = Messages(["no adapter is called 'v2'"])
        worker.add_complaints(["a listener raised"])
        controller.merge(worker.pop_message())

    assert controller.errors == ["no adapter is called 'v2'"]
    assert list(controller.complaints) == ["a listener raised"]


def test_items_belong_to_their_experiment():
    messages = Messages([])
    messages.add_item("test_a", "test_a[1]")
    messages.add_item("test_a", "test_a[2]")

    assert messages.items == {"test_a": ["test_a[1]", "test_a[2]"]}
