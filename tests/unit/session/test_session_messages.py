"""Messages of workers, and the controller's use of them."""

from __future__ import annotations

from pytest_crucible.session.messages import Messages


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


def test_what_several_workers_say_alike_is_said_once():
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
