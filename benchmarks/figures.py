"""What a benchmark found: measured values beside their limits, shown as one table."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

HEADERS = ("benchmark", "measured", "limit", "ratio", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value. Without a limit it is there to be read, and cannot be over."""

    name: str
    measured: float | None
    """None when what would be measured is not installed."""
    unit: str
    limit: float | None = None
    digits: int = 1

    @property
    def over(self) -> bool:
        return self.limit is not None and self.measured is not None and self.measured > self.limit

    def row(self) -> tuple[str, str, str, str, str]:
        """The cells of the table."""
        if self.measured is None:
            return self.name, "not installed", "", "", ""
        shown = f"{self.measured:,.{self.digits}f} {self.unit}"
        if self.limit is None:
            return self.name, shown, "", "", ""
        ratio = f"{self.measured / self.limit:.2f}" if self.limit else ""
        return self.name, shown, f"{self.limit:,g} {self.unit}", ratio, "over" if self.over else "ok"


def machine() -> str:
    """Return what times depend on: `2 cores of Intel(R) Xeon(R) Processor, 23 GiB, Linux 6.18.44, Python 3.11.7`."""
    facts = dict(line.split("\t", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if "\t" in line)
    names = {name.strip(): value.strip(": \t") for name, value in facts.items()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    model = (
        f"{names.get('model name', platform.machine())} (family {names.get('cpu family')}, model {names.get('model')})"
    )
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {memory:.0f} GiB, {system}"


def show(figures: Iterable[Figure]) -> int:
    """Print the machine and the table; the exit status is 1 when something is over its limit."""
    found: Sequence[Figure] = list(figures)
    rows = [figure.row() for figure in found]
    print(f"{machine()}\n")
    print(tabulate(rows, headers=HEADERS, tablefmt="github", colalign=("left", "right", "right", "right", "left")))
    return int(any(figure.over for figure in found))
