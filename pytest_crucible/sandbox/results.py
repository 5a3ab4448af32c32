"""The limits of a program, and its result."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

Status = Literal["passed", "failed", "timeout", "memory", "killed", "refused", "starved"]
MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resources that one program may use.

    Time means processor time, so that a busy machine fails no program.

    >>> Limits(cpu_s=1, memory_bytes=64 << 20).wall_s
    10.0
    """

    cpu_s: int = 3
    """Seconds of processor time."""
    wall_s: float = 10.0
    """Seconds on the clock, less those in which it waited for a processor: for programs that sleep."""
    memory_bytes: int = 512 * MEBIBYTE
    """Address space, the interpreter's own included (about 30 MiB)."""
    file_bytes: int = 8 * MEBIBYTE
    """Size of one file."""
    disk_bytes: int = 32 * MEBIBYTE
    """Size of its directory; checked 20 times a second."""
    open_files: int = 64
    output_bytes: int = 1 << 16
    """Output to keep; the rest is discarded."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{field.name} is {value}: a limit is a finite number above 0")
        if self.cpu_s != int(self.cpu_s):
            raise ValueError(f"cpu_s is {self.cpu_s}: the kernel counts whole seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a program: it ran to its end (passed), or the reason why not."""

    status: Status
    """`passed`; `failed` (an exception, or an exit before the end), `timeout`, `memory`, `killed` (by a signal, or for writing
    too much); `refused` when it was not run, because this machine cannot confine it; `starved` when this machine was too busy to
    give it its time."""
    detail: str = ""
    output: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.status == "passed"
