"""How well a server's limit is held: a server over HTTP that takes 50 requests a second, asked through the whole stack.

    python -m benchmarks.limits            # all, about five minutes
    python -m benchmarks.limits pauses     # one of them
    python -m benchmarks.limits by_chance  # a server that refuses by chance, beside a naive client

64 samples are asked at a time, answers take 50 ms, and the server is asked as much as the limiter lets through. *Held* is what was
accepted over what is allowed, *refused* the share of requests that were answered 429, both after the first 5 s, which are for
learning. *Lost* are requests that failed for good, of all. Servers that refuse by chance are in `benchmarks.chance_refusals`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.chance_refusals import by_chance
from benchmarks.figures import Figure, show
from benchmarks.suite import ROOT
from tests.openai_server import OpenAIServer

if TYPE_CHECKING:
    from pytest_crucible.backends.limiting.limiter import Limiters

RATE, LATENCY_S = 50, 0.05
LEARNING_S, SECONDS = 5, 30
AT_A_TIME = 64


@dataclass(frozen=True, slots=True)
class Seen:
    """What the server and those who asked it saw."""

    seconds: Sequence[tuple[int, int, int]]
    """(second, requests, refused)."""
    lost: int
    most_at_a_time: int

    def accepted(self, start: int, end: int) -> float:
        return sum(asked - refused for second, asked, refused in self.seconds if start <= second < end) / (end - start)

    def refused(self, start: int, end: int) -> float:
        asked = sum(asked for second, asked, _ in self.seconds if start <= second < end)
        return sum(refused for second, _, refused in self.seconds if start <= second < end) / max(1, asked)


def quiet() -> list[Figure]:
    """The server says nothing but 429."""
    return _held("no Retry-After", _asked(rate=RATE, quiet=True))


def pauses() -> list[Figure]:
    """It asks for a second's pause with every 429, and everybody pauses."""
    return _held("Retry-After: 1", _asked(rate=RATE, quiet=True, retry_after="1"))


def told() -> list[Figure]:
    """It tells in headers of each answer what is left."""
    return _held("x-ratelimit-*", _asked(rate=RATE))


def changes() -> list[Figure]:
    """The limit falls to 20, and rises to 80."""

    def change(server: OpenAIServer) -> None:
        time.sleep(20)
        server.behave(rate=20, burst=20)
        time.sleep(20)
        server.behave(rate=80, burst=80)

    seen = _asked(70, change, rate=RATE, quiet=True)
    return [
        *_held("falls to 20/s, after 5 s", seen, 26, 40, rate=20),
        *_held("rises to 80/s, after 15 s", seen, 56, 70, rate=80),
    ]


def slower() -> list[Figure]:
    """It makes 8 answers at a time, and lets all others wait for theirs."""
    seen = _asked(slots=8)
    rate = 8 / LATENCY_S
    return [
        Figure(name="8 at a time, others wait: not used", measured=_missing(seen, rate), unit="%", limit=5),
        Figure(name="- lost", measured=seen.lost, unit="requests", limit=0, digits=0),
    ]


def processes() -> list[Figure]:
    """Four processes of one run ask it, each 64 samples at a time."""
    return _held("4 processes", _asked(workers=4, rate=RATE, quiet=True))


ALL: dict[str, Callable[[], list[Figure]]] = {
    one.__name__: one for one in (quiet, pauses, told, changes, slower, processes, by_chance)
}


def figures() -> list[Figure]:
    return [figure for measured in ALL.values() for figure in measured()]


def _held(name: str, seen: Seen, start: int = LEARNING_S, end: int = SECONDS, rate: float = RATE) -> list[Figure]:
    return [
        Figure(name=f"{name}: not used of the limit", measured=_missing(seen, rate, start, end), unit="%", limit=5),
        Figure(name="- refused", measured=100 * seen.refused(start, end), unit="%", limit=2, digits=2),
        Figure(name="- lost", measured=seen.lost, unit="requests", limit=0, digits=0),
        Figure(name="- most at a time", measured=seen.most_at_a_time, unit="requests", digits=0),
    ]


def _missing(seen: Seen, rate: float, start: int = LEARNING_S, end: int = SECONDS) -> float:
    return max(0.0, 100 * (1 - seen.accepted(start, end) / rate))


def _asked(
    seconds: float = SECONDS,
    meanwhile: Callable[[OpenAIServer], None] = lambda server: None,
    *,
    workers: int = 1,
    **behaviour: object,
) -> Seen:
    """Ask from processes of their own."""
    with OpenAIServer.start(latency_s=LATENCY_S, **behaviour) as server:
        arguments = [server.url, secrets.token_hex(6), str(workers), str(seconds + 0.5)]
        with contextlib.ExitStack() as stack:
            asking = [stack.enter_context(_asking(arguments)) for _ in range(workers)]
            meanwhile(server)
            lost = sum(json.loads(process.communicate()[0]) for process in asking)
        counts = server.counts()
    return Seen([tuple(row) for row in counts["seconds"]], lost, counts["most_concurrent"])


@contextlib.contextmanager
def _asking(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.limits", "--ask", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        yield process


async def ask(url: str, run: str, workers: int, seconds: float) -> int:
    """Ask as much as can be asked; how many requests were lost."""
    from pytest_crucible.backends.limiting.limiter import Limiters, Workers

    return await ask_within(Limiters(ordinary=AT_A_TIME, workers=Workers(run, workers)), url, run, seconds)


async def ask_within(limiters: Limiters, url: str, run: str, seconds: float) -> int:
    """Ask as much as these limits allow; how many requests were lost."""
    from pytest_crucible.backends.context import BackendContext
    from pytest_crucible.backends.openai.backend import open_openai
    from pytest_crucible.backends.stack import wrap_backend
    from pytest_crucible.records import Adapter, Request
    from pytest_crucible.records.errors import BackendError

    adapter = Adapter(name="v2", backend="openai", options={"base_url": url, "model": "m"}, parameters={}, asking={})
    backend = open_openai(adapter, Path.cwd())
    asked, lost = wrap_backend(backend, adapter, BackendContext(limiters=limiters)), 0
    end = time.monotonic() + seconds

    async def work(number: int) -> None:
        nonlocal lost
        count = 0
        while time.monotonic() < end:
            count += 1
            try:
                await asked.generate(Request(input=f"{run} {number} {count}", sample="a", repeat=0, arm="v2"))
            except BackendError:
                lost += 1

    tasks = [asyncio.create_task(work(number)) for number in range(AT_A_TIME)]
    _, late = await asyncio.wait(tasks, timeout=seconds + 5)
    for task in late:
        task.cancel()
    await backend.close()
    limiters.close()
    return lost


if __name__ == "__main__":
    if sys.argv[1:2] == ["--ask"]:
        url, run, workers, seconds = sys.argv[2:]
        print(json.dumps(asyncio.run(ask(url, run, int(workers), float(seconds)))))
        raise SystemExit
    chosen = sys.argv[1:] or list(ALL)
    raise SystemExit(show([figure for name in chosen for figure in ALL[name]()]))
