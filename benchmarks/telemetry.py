"""What it costs to tell what happens: the sampling loop's time an event, all CPU time, and reading a run's events back.

A request makes two events, of which the run store keeps one. CPU time is the least of several runs: whatever else the machine
does only adds. Spans are made by an SDK without a processor: what exporting them costs is the exporter's.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pluggy
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.figures import Figure, show
from pytest_crucible import hookspecs
from pytest_crucible.backends.spending import Metered
from pytest_crucible.exports.table_files import write_csv
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.sections.usage import summarize_usage
from pytest_crucible.store.events import load_events
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.tables import events
from pytest_crucible.store.writer import Recorder, Writer
from pytest_crucible.telemetry.listeners import Listeners
from pytest_crucible.telemetry.otel import Instruments, Spans

REQUESTS = 20_000
EVENTS = 100_000
EXPORTED = 1_000_000
REPEATS = 5
EXPERIMENT = "tests/test_claims.py::test_claims"


class Instant:
    """A model that answers at once."""

    identity = "instant"
    simulated = False
    reply = Reply(text="yes", input_tokens=100, output_tokens=20, cost_usd=0.0001, first_token_s=0.1)

    async def generate(self, request: Request) -> Reply:
        return self.reply


def figures() -> list[Figure]:
    bare = _asking(lambda backend, emit: backend, [])[0]
    nobody = _asking(Metered, [])
    hook = _asking(Metered, [_hook()])
    spans = _asking(Metered, [Spans("run", TracerProvider().get_tracer("benchmark"))])
    both = _asking(Metered, [_otel()])
    read_s, memory = _reading()
    return [
        Figure(name="telemetry: the loop's time an event", measured=(nobody[0] - bare) / 2, unit="us", limit=10),
        Figure(name="- all CPU time a request: two events, one stored", measured=nobody[1] - bare, unit="us", limit=30),
        Figure(name="- the loop's time an event, with a hook", measured=(hook[0] - bare) / 2, unit="us"),
        Figure(name="- the loop's time an event, with spans", measured=(spans[0] - bare) / 2, unit="us"),
        Figure(name="- the loop's time an event, with spans and metrics", measured=(both[0] - bare) / 2, unit="us"),
        Figure(name=f"usage of an arm from {EVENTS:,} events, CPU", measured=read_s, unit="s", limit=0.3, digits=2),
        Figure(name=f"exporting {EXPORTED:,} events as CSV: most memory", measured=memory, unit="MiB", limit=32),
    ]


def _asking(wrap: Callable[..., Instant], others: list[Emit]) -> tuple[float, float]:
    """The loop's CPU time a request, and that of all threads, in microseconds: the least of several runs."""
    runs = [_ask(wrap, others) for _ in range(REPEATS)]
    return min(run[0] for run in runs), min(run[1] for run in runs)


def _ask(wrap: Callable[..., Instant], others: list[Emit]) -> tuple[float, float]:
    with _store() as store:
        writer, recorder = store.writer(), Recorder("run")
        recorder.open(writer)
        listeners = Listeners({**{str(k): one for k, one in enumerate(others)}, "store": recorder})
        backend = wrap(Instant(), listeners)
        whole = time.process_time()
        loop = asyncio.run(_requests(backend))
        writer.close()
        return loop * 1e6 / REQUESTS, (time.process_time() - whole) * 1e6 / REQUESTS


async def _requests(backend: Instant) -> float:
    requests = [Request(input="?", sample=f"sample-{k}", repeat=0, experiment=EXPERIMENT, arm="v2") for k in range(99)]
    began = time.thread_time()
    for k in range(REQUESTS):
        await backend.generate(requests[k % 99])
    return time.thread_time() - began


def _reading() -> tuple[float, float]:
    """CPU seconds to read and judge the events of an arm, the least of several; memory of exporting ten times as many, in MiB."""
    with _store() as store:
        writer = store.writer()
        _tell(writer, EVENTS)
        seconds = min(_judge(store) for _ in range(REPEATS))
        _tell(writer, EXPORTED - EVENTS)
        writer.close()
        tracemalloc.start()
        write_csv(events(store, "run"), _Nowhere())
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        return seconds, memory


def _judge(store: RunStore) -> float:
    began = time.process_time()
    (found,) = load_events(store, "run").values()
    summarize_usage("v2", found, level=0.95)
    return time.process_time() - began


def _tell(writer: Writer, count: int) -> None:
    facts = {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.0001, "first_token_s": 0.1, "finish": "stop"}
    for k in range(count):
        name = "limiter.wait" if k % 4 == 0 else "request.stop"
        event = Event(name=name, at=float(k), seconds=k % 97 / 97, experiment=EXPERIMENT, arm="v2", facts=facts)
        writer.tell("run", event)
        if writer.behind():
            writer.flush()
    writer.flush()


@contextlib.contextmanager
def _store() -> Iterator[RunStore]:
    with tempfile.TemporaryDirectory() as directory:
        store = RunStore(str(Path(directory) / "runs.db"))
        yield store
        store.close()


def _hook() -> Emit:
    """As pytest calls one."""
    plugins = pluggy.PluginManager("pytest")
    plugins.add_hookspecs(hookspecs)
    plugins.register(_Listening())
    call = plugins.subset_hook_caller("pytest_crucible_event", [])
    return lambda event: call(config=None, event=event)


def _otel() -> Emit:
    spans = Spans("run", TracerProvider().get_tracer("benchmark"))
    instruments = Instruments(NoOpMeterProvider().get_meter("benchmark"))

    def tell(event: Event) -> None:
        spans(event)
        instruments(event)

    return tell


class _Listening:
    """A plugin that counts."""

    count = 0

    @pluggy.HookimplMarker("pytest")
    def pytest_crucible_event(self, event: Event) -> None:
        self.count += 1


class _Nowhere(io.RawIOBase):
    """A file that keeps nothing."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return len(memoryview(data))  # type: ignore[arg-type]


if __name__ == "__main__":
    raise SystemExit(show(figures()))
