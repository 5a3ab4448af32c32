"""The parts that all pages of one dashboard share: the run store, templates, addresses, and values computed once for all."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_crucible.features.view.addresses import Addresses
from pytest_crucible.features.view.samples.indexes import SampleIndexes
from pytest_crucible.features.view.server.hosts import Hosts
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.redaction import hider
from pytest_crucible.records.secret_settings import secrets_in
from pytest_crucible.report.html import MARKS, page_environment
from pytest_crucible.store.runs import UnknownRunError

if TYPE_CHECKING:
    from jinja2 import Environment

    from pytest_crucible.features.view.labelling import Labelling
    from pytest_crucible.store.runs import RunStore


TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Site:
    """A dashboard of one run store."""

    store: RunStore
    """Opened for reading. Each thread may use it."""
    addresses: Addresses = field(default_factory=Addresses)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    """Opens the dashboard: the server exchanges it for a cookie."""
    hosts: Hosts = field(default_factory=Hosts)
    """Those by which requests may address it."""
    _shown: set[str] = field(default_factory=set)
    """Runs that a page was shown of."""
    worker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="results"))
    """Computes one after another: two large runs at once would need twice the memory."""
    explainer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="explain"))
    """The fragility of a verdict may take minutes, for which the results of other runs do not wait."""
    sample_indexes: SampleIndexes = field(default_factory=SampleIndexes)
    """The samples of experiments, for their lists."""
    labelling: Labelling | None = None
    """The labels page, where the dashboard was started with --labels."""

    def find_run(self, named: str) -> str:
        """Return the id of a run, named as on the command line. Raises SpecError, also for one that was removed since."""
        try:
            run = find_run(self.store, named)
        except SpecError:
            if named in self._shown:
                raise SpecError(f"run {named} was removed from this store") from None
            raise
        self._shown.add(run)
        return run

    def sentence(self, error: Exception) -> str:
        """Return the sentence of an error, without a path of this machine."""
        location = self.store.location
        return str(error).replace(f"run store {location!r}", "this store").replace(location, "this store")

    @cached_property
    def results(self) -> ComputedOnce:
        """The results of finished runs: 100 kB each, and 2 MB of one with hundreds of verdicts."""
        return ComputedOnce(self.worker, most=100)

    @cached_property
    def explanations(self) -> ComputedOnce:
        """The explanations of the verdicts of finished runs."""
        return ComputedOnce(self.explainer, most=100)

    @cached_property
    def comparisons(self) -> ComputedOnce:
        """Comparisons of runs and trends: some MB each where 100,000 samples changed."""
        return ComputedOnce(self.worker, most=10)

    @cached_property
    def hide(self) -> Callable[[str], str]:
        """The function that hides keys in a text: those of this process and of the store's URL, and what looks like one."""
        of_store = hider(secrets_in(self.store.where))
        return lambda text: of_store(self.store.hide(text))

    @cached_property
    def templates(self) -> Environment:
        environment = page_environment(TEMPLATES, self.hide)
        environment.globals.update(address=self.addresses, marks=MARKS, labelling=self.labelling)
        environment.filters["sentence"] = self.sentence
        return environment

    def render(self, template: str, **values: Any) -> str:
        """Return a page, or a part of one, as HTML."""
        return self.templates.get_template(template).render(**values)


def find_run(store: RunStore, named: str) -> str:
    """Return the id of a run, named as on the command line. Raises SpecError."""
    try:
        return store.find_run(named)
    except UnknownRunError as error:
        hint = f"did you mean {error.near}?" if error.near else f"the latest is {error.latest}"
        raise SpecError(f"no run begins with {named!r}: {hint}") from None


T = TypeVar("T")


class ComputedOnce:
    """The last values that were computed, by their keys. Any thread may use it."""

    def __init__(self, worker: ThreadPoolExecutor, most: int) -> None:
        self._worker, self._most = worker, most
        self._values: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def start(self, key: Hashable, compute: Callable[[], T]) -> Future[T]:
        """Return the value of a key, perhaps not computed yet. What raised is computed again."""
        with self._lock:
            future = self._values.pop(key, None)
            if future is None or future.cancelled() or (future.done() and future.exception() is not None):
                future = self._worker.submit(compute)
            self._values[key] = future
            for other in list(self._values)[: -self._most]:
                del self._values[other]
            return future
