"""The manager of one job: it forks the confined processes, watches them, and reports the outcome."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from pytest_crucible.sandbox.child_process import GONE, Place, run_code, run_program, run_tests
from pytest_crucible.sandbox.messages import receive_message, send_message
from pytest_crucible.sandbox.watch import Children, end, watch

REPORTED = ("passed", "failed", "memory", "refused", GONE)


def outcome(children: Children, job: Mapping[str, Any], ends: Sequence[tuple[int, float]]) -> dict[str, str]:
    """Return status and detail of a job whose processes have ended with these statuses and processor times."""
    if children.stopped is not None:
        return dict(zip(("status", "detail"), children.stopped, strict=True))
    report = _parse_report(bytes(children.report), job["token"])
    if report is not None and report["status"] != GONE:
        return report
    # Without a report the first process ended early; a report that the code is gone is about the last.
    status, used = ends[0] if report is None else ends[-1]
    signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if signalled == signal.SIGXCPU or used >= job["limits"]["cpu_s"]:
        return {"status": "timeout", "detail": f"not done after {job['limits']['cpu_s']} s of processor time"}
    if signalled:
        return {"status": "killed", "detail": f"by {_name(signalled)}"}
    return {"status": "failed", "detail": "ended the process before its end"}


def _parse_report(report: bytes, token: str) -> dict[str, str] | None:
    """Return the child's own report; None if it is cut short or lacks the token."""
    try:
        fields = json.loads(report.partition(b"\n")[0])
        is_known = fields["status"] in REPORTED
        # The program shares the pipe with its runner and could forge a report; it does not know the token.
        if is_known and secrets.compare_digest(fields["token"], token):
            return {"status": str(fields["status"]), "detail": str(fields["detail"])}
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def serve_job(client_in: int, client_out: int, missing: str, libraries: tuple[str, ...]) -> None:
    """Read one job, run it, and send its result. Raises EOFError when the client is gone."""
    job = json.loads(receive_message(client_in))
    if missing:
        for _ in range(job["parts"]):
            receive_message(client_in)
        result = {"status": "refused", "detail": missing}
    else:
        result = _run(job, libraries, client_in)
    send_message(client_out, json.dumps(result).encode())


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
        processes = [_fork(client, lambda part: run_program(part, job, place, output_end, report_end))]
    else:
        calls, calls_end = os.pipe()
        answers, answers_end = os.pipe()
        opened += [calls, calls_end, answers, answers_end]
        inner = (report_end, calls_end, answers)
        tests = _fork(client, lambda part: run_tests(json.loads(part), job, place, output_end, *inner))
        code = _fork(client, lambda part: run_code(part, job, place, output_end, answers_end, calls))
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
            part = receive_message(client).decode("utf-8", "surrogatepass")
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
