"""The store is watched once for all open pages, and not without any."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from live_runs import LiveRun, live_run

from pytest_crucible.features.view.live import state, watcher
from pytest_crucible.features.view.live.state import ALL, State, StateReader
from pytest_crucible.features.view.live.watcher import Watcher
from pytest_crucible.features.view.site import Site
from pytest_crucible.runs.run_store import open_for_reading
from tests.dashboard import dashboard_client, served_dashboard


class CountedReader(StateReader):
    """Counts how often the store is looked at."""

    looks = 0
    fails = False

    def read(self, runs: Collection[str]) -> dict[str, State]:
        self.looks += 1
        if self.fails:
            raise ValueError("a broken plan")
        return super().read(runs)


@pytest.fixture
def live(path: Path) -> Iterator[LiveRun]:
    with live_run(path) as live:
        live.commit()
        yield live


@pytest.fixture
def reader(path: Path, live: LiveRun) -> Iterator[CountedReader]:
    with open_for_reading(str(path), "view") as store:
        yield CountedReader(Site(store))


def run(steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(steps(), 30))


async def following(stream: AsyncIterator[Any], text: str) -> State:
    """Return the first state that has a text."""
    async for news in stream:
        if news is not None and text in str(news[1]):
            return news[1]
    raise AssertionError(f"the stream has ended without {text!r}")


def test_fifty_pages_cost_as_many_looks_as_one(reader, live):
    async def steps() -> None:
        watching, began = Watcher(reader), time.monotonic()
        streams = [watching.follow("run1") for _ in range(50)]
        await asyncio.gather(*(following(stream, "0 of 10") for stream in streams))
        live.add(0)
        live.commit()
        await asyncio.gather(*(following(stream, "1 of 10") for stream in streams))
        # Two more: the first is at once, and pages that come meanwhile have one of their own.
        assert reader.looks <= 2 + (time.monotonic() - began) / watcher.INTERVAL_S
        for stream in streams:
            await stream.aclose()

    run(steps)


def test_without_a_page_nothing_is_read(reader):
    async def steps() -> None:
        watching = Watcher(reader)
        stream = watching.follow("run1")
        await following(stream, "0 of 10")
        await stream.aclose()
        await asyncio.sleep(3 * watcher.INTERVAL_S)
        looks = reader.looks
        await asyncio.sleep(3 * watcher.INTERVAL_S)
        assert reader.looks == looks
        await following(watching.follow("run1"), "0 of 10")

    run(steps)


def test_a_slow_page_gets_the_latest_state_and_none_of_those_before(reader, live):
    async def steps() -> None:
        watching = Watcher(reader)
        quick, slow = watching.follow("run1"), watching.follow("run1")
        await asyncio.gather(following(quick, "0 of 10"), following(slow, "0 of 10"))
        for position in range(3):
            live.add(position)
            live.commit()
            await following(quick, f"{position + 1} of 10")
        assert "3 of 10" in str((await anext(slow))[1])

    run(steps)


def test_states_are_numbered_and_equal_ones_are_not_repeated(reader, live, monkeypatch):
    monkeypatch.setattr(watcher, "BEAT_S", 4 * watcher.INTERVAL_S)

    async def steps() -> None:
        stream = Watcher(reader).follow("run1")
        before = [news[0] async for news in _until_beat(stream)]
        live.add(0)
        live.commit()
        number, state = await next_news(stream)
        assert number > before[-1]
        assert "1 of 10" in str(state)

    run(steps)


async def next_news(stream: AsyncIterator[Any]) -> tuple[int, State]:
    """Return the next state; on a slow machine, beats come before it."""
    async for news in stream:
        if news is not None:
            return news
    raise AssertionError("the stream has ended")


async def _until_beat(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield what comes until nothing has changed for a while."""
    while (news := await anext(stream)) is not None:
        yield news


def test_an_error_of_the_reader_is_shown_and_the_next_look_goes_on(reader):
    async def steps() -> None:
        reader.fails = True
        stream = Watcher(reader).follow("run1")
        await following(stream, "progress cannot be read: ValueError('a broken plan')")
        reader.fails = False
        await following(stream, "0 of 10")

    run(steps)


def test_a_store_that_is_gone_is_a_problem_until_it_is_back(reader, path):
    async def steps() -> None:
        stream = Watcher(reader).follow("run1")
        await following(stream, "0 of 10")
        away = path.rename(path.with_suffix(".away"))
        await following(stream, "does not exist")
        away.rename(path)
        await following(stream, "0 of 10")

    run(steps)


def test_the_list_of_runs_changes_when_a_run_begins_or_ends(reader, live, path):
    async def steps() -> None:
        stream = Watcher(reader).follow(ALL)
        _, first = await next_news(stream)
        with live_run(path, run="run2") as other:
            other.commit()
            _, begun = await next_news(stream)
            other.end()
            _, ended = await next_news(stream)
        assert first != begun != ended

    run(steps)


def test_a_change_right_after_a_look_is_noticed_however_long_the_look_takes(tmp_path, monkeypatch):
    """Both changes have one time, and the process is paused between them."""
    path, clock = tmp_path / "runs.db", [1000.0]
    path.touch()
    os.utime(path, (1000.0, 1000.0))

    def stat_slowly(path: str) -> os.stat_result:
        status = os.stat(path)
        clock[0] += 1.0
        return status

    monkeypatch.setattr(state, "os", SimpleNamespace(stat=stat_slowly))
    monkeypatch.setattr(state, "time", SimpleNamespace(time=lambda: clock[0]))
    store: Any = SimpleNamespace(database=SimpleNamespace(is_sqlite=True, path=str(path)))

    assert state.store_version(store) != state.store_version(store)
    assert state.store_version(store) == state.store_version(store)


def test_a_run_that_never_was_is_removed(reader):
    async def steps() -> None:
        assert await anext(Watcher(reader).follow("nothing")) == (1, {"status": "removed"})

    run(steps)


def test_a_server_ends_its_streams_when_it_stops(path, live):
    with contextlib.ExitStack() as streams:
        with served_dashboard(path) as (address, token):
            responses = [streams.enter_context(open_stream(address, token)) for _ in range(3)]
            assert all(response.readline().startswith(b"id: ") for response in responses)

        # It waits for its responses: without an end of them, for ever.
        assert all(b"0 of 10" in response.read() for response in responses)


def test_a_client_that_never_reads_does_not_stop_others(path, live):
    with served_dashboard(path) as served, open_stream(*served), open_stream(*served) as response:
        assert response.getheader("content-type").startswith("text/event-stream")
        assert response.readline().startswith(b"id: ")
        live.add(0)
        live.commit()
        while b"1 of 10" not in response.readline():
            pass


def test_a_stream_needs_the_cookie_and_answers_head_at_once(path, live):
    with dashboard_client(path) as client:
        assert client.head("/runs/run1/events").status_code == 200
        client.cookies.clear()
        assert client.get("/runs/run1/events").status_code == 403
        assert client.get("/events").status_code == 403


def test_a_name_that_no_database_takes_reaches_none(path, live, monkeypatch):
    """One query is for all pages: PostgreSQL refuses NUL, so that no page would get its state."""
    followed = []

    async def follow(self: Watcher, run: str) -> AsyncIterator[None]:
        followed.append(run)
        yield None

    monkeypatch.setattr(Watcher, "follow", follow)
    with dashboard_client(path) as client:
        assert client.get("/runs/a%00b/events").text.startswith("event: beat")

    assert followed == ["a\ufffdb"]


@contextlib.contextmanager
def open_stream(address: str, token: str) -> Iterator[http.client.HTTPResponse]:
    """Yield the response with the events of run1."""
    host = address.removeprefix("http://")
    with closing(http.client.HTTPConnection(host)) as link, closing(http.client.HTTPConnection(host)) as connection:
        link.request("GET", f"/?token={token}")
        with link.getresponse() as exchange:
            cookie = exchange.getheader("set-cookie").partition(";")[0]
        connection.request("GET", "/runs/run1/events", headers={"Cookie": cookie})
        with connection.getresponse() as response:
            yield response
