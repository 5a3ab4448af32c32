"""The manager of one job: it forks the confined processes, watches them, and cleans up."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any, NoReturn

from pytest_crucible.sandbox import child_process, pipes
from pytest_crucible.sandbox.child_process import Place
from pytest_crucible.sandbox.outcome import outcome
from pytest_crucible.sandbox.watch import Children, end, watch


def serve_job(client_in: int, client_out: int, missing: str, libraries: tuple[str, ...]) -> None:
    """Read one job, run it, and send its result. Raises EOFError when the client is gone."""
    job = json.loads(pipes.receive(client_in))
    if missing:
        for _ in range(job["parts"]):
            pipes.receive(client_in)
        result = {"status": "refused", "detail": missing}
    else:
        result = _run(job, libraries, client_in)
    pipes.send(client_out, json.dumps(result).encode())


def _run(job: dict[str, Any], libraries: tuple[str, ...], client: int) -> dict[str, Any]:
    """Run one job in processes and a directory of its own, which are gone when this returns."""
    job["token"] = secrets.token_hex(16)
    folder = tempfile.mkdtemp(prefix="crucible-program-")
    start = time.monotonic()
    try:
        children = _start(job, Place(folder, libraries), client)
        try:
            watch(children, job["limits"], folder, client)
        finally:
            ends = end(children, job["limits"])
        result = outcome(children, job, ends)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    printed = bytes(children.printed).decode("utf-8", "backslashreplace")
    return {**result, "output": printed, "seconds": time.monotonic() - start}


def _start(job: dict[str, Any], place: Place, client: int) -> Children:
    output, output_end = os.pipe()
    report, report_end = os.pipe()
    opened = [output_end, report_end]
    if job["parts"] == 1:
        processes = [_fork(client, lambda part: child_process.run_program(part, job, place, output_end, report_end))]
    else:
        calls, calls_end = os.pipe()
        answers, answers_end = os.pipe()
        opened += [calls, calls_end, answers, answers_end]
        inner = (report_end, calls_end, answers)
        tests = _fork(client, lambda part: child_process.run_tests(json.loads(part), job, place, output_end, *inner))
        code = _fork(client, lambda part: child_process.run_code(part, job, place, output_end, answers_end, calls))
        processes = [tests, code]
    for descriptor in opened:
        os.close(descriptor)
    os.set_blocking(output, False)
    os.set_blocking(report, False)
    return Children(tuple(processes), output, report)


def _fork(client: int, run: Callable[[str], NoReturn]) -> int:
    """Fork a process that reads its own part of the job: this one must not hold the tests when it forks the code's process."""
    begun, begun_end = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            part = pipes.receive(client).decode("utf-8", "surrogatepass")
            os.write(begun_end, b".")
            os.close(begun_end)
            run(part)
        finally:
            os._exit(1)
    os.close(begun_end)
    has_read = os.read(begun, 1)
    os.close(begun)
    if not has_read:
        raise EOFError("a process ended before it had read its part of the job")
    return process
