"""What a benchmark found: measured values beside their limits, shown as one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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


def show(figures: Iterable[Figure]) -> int:
    """Print the table; the exit status is 1 when something is over its limit."""
    found: Sequence[Figure] = list(figures)
    rows = [figure.row() for figure in found]
    print(tabulate(rows, headers=HEADERS, tablefmt="github", colalign=("left", "right", "right", "right", "left")))
    return int(any(figure.over for figure in found))
