"""HTTP clients compared: waiting that overlaps, CPU time a request, and whether what is cancelled ends on the wire.

    python -m benchmarks.http_clients                # all that are installed; those that are not are left out
    python -m benchmarks.http_clients aiohttp raw    # some

Each runs in processes of its own against one server in another process, which answers after 50 ms: chat completions of some 300
bytes, read and parsed as JSON. *Ideal* is requests x 50 ms / concurrency. *Waiting* is from the first reply to the last, over the
ideal, and *CPU* that of the client's process a request, in steady state (after as many requests as run at a time) and in the
whole process with start, imports and connecting. *Gone* is how many of 64 requests that are cancelled after 50 ms the server
saw hung up within 100 ms, *crashes* how many of the processes did not end with status 0. `raw` is asyncio's streams and no
library: the floor.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tabulate import tabulate

from tests.openai_server import OpenAIServer

MODULES = {"raw": "asyncio", "crucible": "pytest_crucible.backends.http.client"}
"""What is imported for those that are no package."""
LATENCY_S = 0.05
LOADS = ((1_000, 64), (10_000, 256))
RUNS = 3
HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}
Ask = Callable[[bytes], Awaitable[bytes]]


@contextlib.asynccontextmanager
async def raw(url: str, most: int) -> AsyncIterator[Ask]:
    """Connections that are kept in a list."""
    address, free = urlsplit(url), []
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())

    async def ask(body: bytes) -> bytes:
        reader, writer = free.pop() if free else await asyncio.open_connection(address.hostname, address.port)
        try:
            line = (
                f"POST {address.path} HTTP/1.1\r\nhost: {address.netloc}\r\n{head}content-length: {len(body)}\r\n\r\n"
            )
            writer.write(line.encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower()
            answer = await reader.readexactly(int(lines.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        except BaseException:
            writer.close()
            raise
        free.append((reader, writer))
        return answer

    yield ask
    for _, writer in free:
        writer.close()


@contextlib.asynccontextmanager
async def crucible(url: str, most: int) -> AsyncIterator[Ask]:
    """What this package asks with: asyncio's sockets, answers read by httptools."""
    from pytest_crucible.backends.http.client import Client, parse_address

    client = Client(parse_address(url), HEADERS, 10**6)

    async def ask(body: bytes) -> bytes:
        return (await client.post("", body)).body

    yield ask
    await client.close()


@contextlib.asynccontextmanager
async def aiohttp(url: str, most: int) -> AsyncIterator[Ask]:
    import aiohttp as library

    async with library.ClientSession(connector=library.TCPConnector(limit=0), headers=HEADERS) as session:

        async def ask(body: bytes) -> bytes:
            async with session.post(url, data=body) as response:
                return await response.read()

        yield ask


@contextlib.asynccontextmanager
async def pyqwest(url: str, most: int) -> AsyncIterator[Ask]:
    import pyqwest as library

    async with library.HTTPTransport(pool_max_idle_per_host=most) as transport:
        client = library.Client(transport)

        async def ask(body: bytes) -> bytes:
            return bytes((await client.post(url, HEADERS, body)).content)

        yield ask


@contextlib.asynccontextmanager
async def httpx2(url: str, most: int) -> AsyncIterator[Ask]:
    async with _like_httpx("httpx2", url, most) as ask:
        yield ask


@contextlib.asynccontextmanager
async def httpx(url: str, most: int) -> AsyncIterator[Ask]:
    async with _like_httpx("httpx", url, most) as ask:
        yield ask


@contextlib.asynccontextmanager
async def niquests(url: str, most: int) -> AsyncIterator[Ask]:
    import niquests as library

    async with library.AsyncSession(pool_maxsize=most, pool_connections=most) as session:

        async def ask(body: bytes) -> bytes:
            return (await session.post(url, data=body, headers=HEADERS)).content or b""

        yield ask


@contextlib.asynccontextmanager
async def _like_httpx(name: str, url: str, most: int) -> AsyncIterator[Ask]:
    library = importlib.import_module(name)
    limits = library.Limits(max_connections=most, max_keepalive_connections=most)
    async with library.AsyncClient(limits=limits, headers=HEADERS, timeout=60) as client:

        async def ask(body: bytes) -> bytes:
            return bytes((await client.post(url, content=body)).content)

        yield ask


CLIENTS = (raw, crucible, pyqwest, aiohttp, httpx2, niquests, httpx)


async def load(name: str, url: str, requests: int, concurrency: int) -> dict[str, float]:
    """Ask so many, and see the time from the first reply to the last and the CPU time of what came after the first round."""
    numbers, replied, steady = iter(range(requests)), [], 0.0

    async def worker(ask: Ask) -> None:
        nonlocal steady
        for number in numbers:
            answer = json.loads(await ask(_body(number)))
            assert answer["choices"][0]["message"]["content"] == _prompt(number)
            replied.append(time.perf_counter())
            if len(replied) == concurrency:
                steady = -time.process_time()

    async with globals()[name](url, concurrency) as ask:
        await asyncio.gather(*(worker(ask) for _ in range(concurrency)))
        steady += time.process_time()
    return {"waiting_s": replied[-1] - replied[0], "steady_s": steady / (requests - concurrency)}


async def cancel(name: str, url: str) -> None:
    async with globals()[name](url, 64) as ask:
        asked = [asyncio.ensure_future(ask(_body(number))) for number in range(64)]
        await asyncio.sleep(0.05)
        for one in asked:
            one.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.sleep(0.1)
        print(json.dumps({"gone": _counts(url)["cancelled"]}), flush=True)


def _prompt(number: int) -> str:
    return f"{number}: " + "is the claim supported by the evidence? " * 5


def _body(number: int) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": _prompt(number)}]}).encode()


def _counts(url: str) -> dict[str, int]:
    from http.client import HTTPConnection

    with contextlib.closing(HTTPConnection(urlsplit(url).netloc)) as connection:
        connection.request("GET", "/control")
        counts: dict[str, int] = json.loads(connection.getresponse().read())
    return counts


def row(name: str) -> Iterator[str]:
    """The cells of one client."""
    yield name
    crashes = 0
    for requests, concurrency in LOADS:
        with OpenAIServer.start(latency_s=LATENCY_S) as server:
            runs = [_child("load", name, server, requests, concurrency) for _ in range(RUNS)]
        crashes += sum(int(one["crashed"]) for one in runs)
        ideal = requests * LATENCY_S / concurrency
        yield f"{statistics.median(one['waiting_s'] for one in runs) / ideal:.3f}"
        yield f"{1000 * min(one['steady_s'] for one in runs):.3f}"
        yield f"{1000 * min(one['whole_s'] for one in runs) / requests:.3f}"
    with OpenAIServer.start(fault="hang") as server:
        told = _child("cancel", name, server)
        yield f"{told['gone']:.0f}"
    yield str(crashes + int(told["crashed"]))
    yield f"{1000 * min(_import_s(MODULES.get(name, name)) for _ in range(RUNS)):.0f}"


def _child(what: str, name: str, server: OpenAIServer, *load: int) -> dict[str, float]:
    url = f"{server.url}/chat/completions"
    command = [sys.executable, "-m", "benchmarks.http_clients", f"--{what}", name, url, *map(str, load)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        raise RuntimeError(f"{name} asked nothing: {done.stderr}")
    told: dict[str, float] = json.loads(done.stdout)
    told["whole_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told["crashed"] = done.returncode != 0
    return told


def _import_s(name: str) -> float:
    """CPU time of importing it where asyncio, ssl and json are imported already."""
    code = f"import asyncio, json, ssl, time; t = time.process_time(); import {name}; print(time.process_time() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def _installed(name: str) -> bool:
    return name in MODULES or importlib.util.find_spec(name) is not None


def main(names: list[str]) -> None:
    columns = [f"{what} {n:,} at {c}" for n, c in LOADS for what in ("waiting", "CPU ms", "- whole")]
    rows = [list(row(name)) for name in names if _installed(name)]
    print(
        tabulate(
            rows, headers=["client", *columns, "gone", "crashes", "import ms"], tablefmt="github", disable_numparse=True
        )
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        print(json.dumps(asyncio.run(load(sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])))), flush=True)
    elif sys.argv[1:2] == ["--cancel"]:
        asyncio.run(cancel(*sys.argv[2:]))
    else:
        main(sys.argv[1:] or [client.__name__ for client in CLIENTS])
