"""One more process that uses a shared limiter, and does what a test tells it.

with LimiterProcess.start(run, concurrency=3) as other:
other.do("take")            # whether it got a turn at once
other.do("give", "429", "2")  # gives its oldest turn back: the request was answered, or a quota is exhausted for 2 s
other.do("wait")            # waits for a turn
other.do("count")           # how many turns it has
other.process.kill()
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SERVER = "http://host/v1 key"
COUNT = 4


@dataclass(frozen=True)
class LimiterProcess:
    process: subprocess.Popen[str]

    @staticmethod
    @contextlib.contextmanager
    def start(run: str, concurrency: int) -> Iterator[LimiterProcess]:
        command = [sys.executable, __file__, run, str(concurrency)]
        paths = {"PYTHONPATH": str(Path(__file__).parent.parent)}
        with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=paths) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                yield LimiterProcess(process)
            finally:
                process.kill()

    def do(self, *words: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


def main(run: str, concurrency: int) -> None:
    from pytest_crucible.backends.limiting.control import Limits
    from pytest_crucible.backends.limiting.limiter import Limiters, Workers
    from pytest_crucible.records import Reply
    from pytest_crucible.records.errors import Retryable

    limiters = Limiters(workers=Workers(run, COUNT))
    limiter = limiters.of(SERVER, Limits(concurrency=concurrency))
    leases = []

    async def wait() -> None:
        leases.append(await limiter.acquire("v2"))

    def do(word: str, kind: str = "", pause_s: str = "0") -> object:
        if word == "take":
            lease = limiter.try_acquire("v2")
            leases.extend([lease] if lease else [])
            return lease is not None
        if word == "wait":
            waiting.append(asyncio.ensure_future(wait()))
        elif word == "give":
            refusal = Retryable("no", kind=kind, retry_after_s=float(pause_s), quota_exhausted=True)
            outcome = refusal if kind else Reply(text="4")
            leases.pop(0).release(outcome)
        elif word == "close":
            limiters.close()
        return len(leases)

    async def serve() -> None:
        print("ready", flush=True)
        while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            answer = do(*line.split())
            await asyncio.sleep(0)
            print(answer, flush=True)

    waiting: list[asyncio.Future[None]] = []
    asyncio.run(serve())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
