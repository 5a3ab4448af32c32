"""The addresses of pages, as links have them."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote, urlencode

from pytest_crucible.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses on a server. Experiments are numbered from 1, in the order in which they were entered."""

    is_static: ClassVar[bool] = False
    """Pages are files: they have no script, and nothing answers a search."""

    def runs(self, **state: str | int) -> str:
        return "/" + _query(state)

    def run(self, run: str) -> str:
        return f"/runs/{run}"

    def events(self, run: str = "") -> str:
        """Return the address of the changes of a run, or of the list of runs, which open pages follow."""
        return f"/runs/{run}/events" if run else "/events"

    def results(self, run: str) -> str:
        """Return the address of the verdicts and sections of a finished run, which its page fetches first."""
        return f"/runs/{run}/results"

    def explanations(self, run: str) -> str:
        """Return the address of what each verdict of a finished run is made of, which its page fetches last."""
        return f"/runs/{run}/explanations"

    def samples(self, run: str, **state: str | int) -> str:
        return f"/runs/{run}/samples" + _query(state)

    def sample_rows(self, run: str) -> str:
        """Return the address of rows of the samples, which their page and those of each sample fetch."""
        return f"/runs/{run}/samples/rows"

    def sample_choices(self, run: str) -> str:
        """Return the address of what samples can be filtered by."""
        return f"/runs/{run}/samples/choices"

    def sample(self, run: str, experiment: int, position: int, **state: str | int) -> str:
        return f"/runs/{run}/samples/{experiment}/{position}" + _query(state)

    def sample_part(self, run: str, experiment: int, position: int, part: str) -> str:
        """Return the address of what a sample's page fetches: its `views`, or one `text`, which is chosen by `?of=KEY`."""
        return f"/runs/{run}/samples/{experiment}/{position}/{part}"

    def requests(self, run: str, part: str = "") -> str:
        """Return the address of the page, or of its part `counts`, which it fetches."""
        return f"/runs/{run}/requests" + (f"/{part}" if part else "")

    def training(self, run: str, part: str = "") -> str:
        """Return the address of the page, or of its part `courses`, which it fetches."""
        return f"/runs/{run}/training" + (f"/{part}" if part else "")

    def labels(self, run: str, **state: str | int) -> str:
        return f"/runs/{run}/labels" + _query(state)

    def label_reply(self, run: str) -> str:
        """Return the address of the reply to label, which the labels page fetches."""
        return f"/runs/{run}/labels/reply"

    def comparisons(self, **state: str | int) -> str:
        """Return the address where two runs are chosen."""
        return "/compare" + _query(state)

    def compare(self, candidate: str, baseline: str, part: str = "") -> str:
        """Return the address of a comparison of two runs, or of the part `results` or `samples` that it fetches."""
        return f"/compare/{quote(candidate, safe='')}/{quote(baseline, safe='')}" + (f"/{part}" if part else "")

    def trends(self) -> str:
        """Return the address where a metric is chosen."""
        return "/trend"

    def trend(self, metric: str, part: str = "", **state: str | int) -> str:
        """Return the address of a metric's trend, or of its part `points`, which it fetches."""
        return f"/trend/{quote(metric, safe='')}" + (f"/{part}" if part else "") + _query(state)

    def asset(self, name: str) -> str:
        return f"/assets/{name}"


def parse_number(text: str, least: int, most: int = 10**9) -> int | None:
    """Return a whole number of an address; None for all else. Python refuses to convert thousands of digits."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 11 else -1
    return number if least <= number <= most else None


def _query(state: dict[str, str | int]) -> str:
    """Return the query of an address: what is not chosen is left out, so that equal views have equal addresses."""
    chosen = {name: value for name, value in state.items() if value not in ("", None)}
    return f"?{urlencode(chosen)}" if chosen else ""
