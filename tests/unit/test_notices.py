"""What workers hand over, and what the controller makes of it."""

from __future__ import annotations

from pytest_crucible.notices import Notices


def test_what_is_told_is_handed_over_once_and_what_is_wrong_each_time():
    worker, controller = Notices([]), Notices([])
    worker.told.append("one answer was lost")
    worker.failed([OSError("the disk is full")])
    worker.complained(["a listener raised"])
    for _ in range(2):
        controller.take(worker.handed_over())

    assert controller.told == ["one answer was lost"]
    assert controller.wrong == ["the disk is full"]
    assert list(controller.complaints) == ["a listener raised"]


def test_what_several_workers_say_alike_is_said_once():
    controller = Notices([])
    for _ in range(3):
        worker = Notices(["no adapter is called 'v2'"])
        worker.complained(["a listener raised"])
        controller.take(worker.handed_over())

    assert controller.wrong == ["no adapter is called 'v2'"]
    assert list(controller.complaints) == ["a listener raised"]


def test_items_belong_to_their_experiment():
    notices = Notices([])
    notices.ran("test_a", "test_a[1]")
    notices.ran("test_a", "test_a[2]")

    assert notices.items == {"test_a": ["test_a[1]", "test_a[2]"]}
