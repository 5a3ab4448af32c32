"""The addresses of one run's pages as files, relative to the page that has the link: a static server has them at any path."""

from __future__ import annotations

from typing import ClassVar

from pytest_crucible.features.view.addresses import Addresses
from pytest_crucible.quick_dataclass import dataclass

SAMPLES_A_FILE = 1_000


@dataclass(frozen=True, slots=True)
class StaticAddresses(Addresses):
    """Addresses from a page some folders below the first. Pages that need a server have an empty one."""

    is_static: ClassVar[bool] = True
    root: str = ""
    """The way up to the first page, such as `../../`."""

    def runs(self, **state: str | int) -> str:
        return ""

    def run(self, run: str) -> str:
        return f"{self.root}index.html"

    def events(self, run: str = "") -> str:
        return ""

    def results(self, run: str) -> str:
        return ""

    def explanations(self, run: str) -> str:
        return ""

    def samples(self, run: str, **state: str | int) -> str:
        """Return the list of files of samples, or its part on an experiment; empty for a list with a filter."""
        if state.keys() - {"experiment"}:
            return ""
        part = f"#experiment-{state['experiment']}" if state else ""
        return f"{self.root}samples.html{part}"

    def samples_file(self, experiment: int, number: int) -> str:
        """Return a file of samples. Files of an experiment are numbered from 1."""
        return f"{self.root}samples/{experiment}/{number}.html"

    def sample(self, run: str, experiment: int, position: int, **state: str | int) -> str:
        return f"{self.samples_file(experiment, position // SAMPLES_A_FILE + 1)}#sample-{position}"

    def requests(self, run: str, part: str = "") -> str:
        return "" if part else f"{self.root}requests.html"

    def training(self, run: str, part: str = "") -> str:
        return "" if part else f"{self.root}training.html"

    def labels(self, run: str, **state: str | int) -> str:
        return ""

    def comparisons(self, **state: str | int) -> str:
        return ""

    def compare(self, candidate: str, baseline: str, part: str = "") -> str:
        return ""

    def trends(self) -> str:
        return ""

    def trend(self, metric: str, part: str = "", **state: str | int) -> str:
        return ""

    def asset(self, name: str) -> str:
        return f"{self.root}assets/{name}"
