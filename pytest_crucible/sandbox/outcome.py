"""The outcome of a job: from reports and exit statuses to a status and a detail."""

from __future__ import annotations

import json
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.sandbox.tests_process import GONE
from pytest_crucible.sandbox.watch import Children

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
