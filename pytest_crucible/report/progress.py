"""The live line `test_math  1,204/2,638  3 lost  412/s  4 s left`, and without a terminal a line now and then.

Their cost does not grow with the samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def progress_text(name: str, done: int, total: int, lost: int, seconds: float, waits_for: str = "") -> str:
    """Return the line: samples done and lost, the rate and the time left, or the cause of a wait.

    >>> progress_text("test_math", 500, 2000, 3, 2.0)
    'test_math  500/2,000  3 lost  250/s  6 s left'
    """
    rate = done / seconds if seconds > 0 else 0.0
    parts = [name, f"{done:,}/{total:,}"]
    if lost:
        parts.append(f"{lost:,} lost")
    if waits_for:
        parts.append(waits_for)
    elif rate:
        parts += [f"{rate:,.0f}/s" if rate >= 1 else f"{rate:.2g}/s", f"{_duration((total - done) / rate)} left"]
    return "  ".join(parts)


def log_line(progress: str, *, refused: float, waiting: float, waits_for: str, seconds_left: float | None) -> str:
    """Return a line of a log: progress, the shares of refused requests and of time waited, the cause of a wait, and the end.

    >>> log_line("test_math  120/300", refused=0.15, waiting=0.61, waits_for="", seconds_left=40.0)
    'test_math  120/300  15 % of requests refused  61 % of the time waiting  40 s left'
    """
    parts = [progress]
    if refused:
        parts.append(f"{100 * refused:.0f} % of requests refused")
    if waiting >= 0.01:
        parts.append(f"{100 * waiting:.0f} % of the time waiting")
    if waits_for:
        parts.append(waits_for)
    parts.append("end unknown" if seconds_left is None else f"{_duration(seconds_left)} left")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, _ = divmod(round(seconds), 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.0f} h"


class ProgressLine:
    """Rewrites the line below the cursor, and moves the cursor back at the end, so that pytest's own output stays.

    `column` is the cursor's position on pytest's own line.
    """

    def __init__(self, write: Callable[[str], None], *, width: int, column: int) -> None:
        self._write = write
        # A line as wide as the terminal would wrap, and the cursor would not come back.
        self._width = width - 1
        self._column = column
        self._started = time.perf_counter()
        self._shown = False

    def show(self, name: str, done: int, total: int, lost: int, waits_for: str = "") -> None:
        text = progress_text(name, done, total, lost, time.perf_counter() - self._started, waits_for)
        below = "" if self._shown else "\n"
        self._write(f"{below}\r{text[: self._width]:<{self._width}}")
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            # One line up, to the column where pytest was writing.
            self._write(f"\r{'':<{self._width}}\x1b[1A\x1b[{self._column + 1}G")
            self._shown = False
