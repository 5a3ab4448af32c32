"""The guards of a project: the table `[guards]` of crucible.toml, or `[tool.crucible.guards]` of pyproject.toml.

A guard is a model with the adapter `guard:NAME`, stands around another adapter by its setting `guard`, and is called in a test
by the fixture `guards`.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.adapter_kind import AdapterKind, UriForm, check_options, read_rest, required_text
from pytest_crucible.adapters.config_tables import read_table
from pytest_crucible.backends.stack import OuterWrapper
from pytest_crucible.records import JUDGE, Adapter, Sample
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.outcomes import Detection

# A session without guards does not load their libraries.
if TYPE_CHECKING:
    import pytest

    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.features.guards.guard import Guard, GuardSettings, Redaction
    from pytest_crucible.features.guards.normalise import ThresholdFile
    from pytest_crucible.features.guards.protections import GuardBackend, Protection, Protections
    from pytest_crucible.features.guards.redaction import FindingsRedactor, Redactor, RunRedaction
    from pytest_crucible.metrics import Metric
    from pytest_crucible.metrics.models.scorers import Judge

GUARD = "guard"
"""The backend of a guard that is an adapter, and the setting that lists the guards around one."""
GUARDS, REDACTION = "guards", "guards: redaction"
"""What is kept for the adapters of a session: the opened guards, and a function that returns the redactions of the run."""
OpenJudge = Callable[[str], "Judge"]


def no_judge(name: str) -> Judge:
    """Raise SpecError: models are opened in sessions only."""
    raise SpecError(
        f"guard of kind 'judge': adapter {name!r} can only be queried in a pytest session: call the guard there"
    )


class Guards:
    """Opens guards by their names, each once."""

    def __init__(
        self, root: Path, open_judge: OpenJudge = no_judge, redaction: Callable[[], RunRedaction] | None = None
    ) -> None:
        """Nothing is read yet. `open_judge` opens an adapter as a judge; `redaction` returns this run's redactions."""
        self._root = root
        self._open_judge = open_judge
        self._redaction = redaction
        self._opened: dict[str, Guard] = {}
        self._tables: Mapping[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the configured guards. Raises SpecError for a configuration that cannot be read."""
        return list(self._read())

    def settings(self, name: str, owner: str = "") -> GuardSettings:
        """Return a guard's settings with its threshold read. `owner` names what refers to it. Raises SpecError."""
        from pytest_crucible.features.guards.guard import read_guard
        from pytest_crucible.features.guards.kinds import OPTIONS

        tables = self._read()
        if name not in tables:
            where = f" in {owner}" if owner else ""
            hint = suggest(name, tables, otherwise=_list_guards(tables))
            raise SpecError(f"unknown guard {name!r}{where}: {hint}")
        settings = read_guard(name, tables[name], OPTIONS)
        chosen = self.threshold_file(settings)
        return settings if chosen is None else replace(settings, threshold=chosen.threshold)

    def threshold_file(self, settings: GuardSettings) -> ThresholdFile | None:
        """Return how a guard's threshold was chosen; None if it is a plain number. Raises SpecError."""
        if not settings.threshold_file:
            return None
        from pytest_crucible.features.guards.normalise import read_threshold

        return read_threshold(self._root / settings.threshold_file, settings.place)

    def thresholds_of(self, name: str) -> tuple[ThresholdFile, ...]:
        """Return the chosen thresholds of a guard, and of the guards that it combines. Raises SpecError."""
        settings = self.settings(name)
        own = self.threshold_file(settings)
        inner = [chosen for member in settings.guards for chosen in self.thresholds_of(member)]
        return (*([own] if own else []), *inner)

    def thresholds_around(self, adapter: Adapter) -> tuple[ThresholdFile, ...]:
        """Return the chosen thresholds of an adapter's guards, and of the guard that an adapter is. Raises SpecError."""
        names = [name for guards in adapter.settings.get(GUARD, {}).values() for name in guards]
        names += [adapter.options[GUARD]] if adapter.backend == GUARD else []
        return tuple(chosen for name in names for chosen in self.thresholds_of(name))

    def open(self, name: str, owner: str = "", parents: tuple[str, ...] = ()) -> Guard:
        """Return the guard with that name. Raises SpecError."""
        from pytest_crucible.features.guards.guard import AnyGuard, GuardContext, ThresholdGuard
        from pytest_crucible.features.guards.kinds import open_scorer

        if name in parents:
            raise SpecError(
                f"guards.{name} contains itself ({' > '.join((*parents, name))}): remove it from any = [...]"
            )
        if name not in self._opened:
            settings = self.settings(name, owner)
            if settings.guards:
                members = [self.open(member, settings.place, (*parents, name)) for member in settings.guards]
                self._opened[name] = AnyGuard(settings, members)
            else:
                context = GuardContext(root=self._root, open_judge=self._open_judge)
                self._opened[name] = ThresholdGuard(settings, open_scorer(settings, context))
        return self._opened[name]

    def redactor(self, name: str) -> FindingsRedactor:
        """Return the function that redacts a guard's findings, by its setting `redaction`. Raises SpecError."""
        from pytest_crucible.features.guards.forms import read_forms
        from pytest_crucible.features.guards.normalise import normalise
        from pytest_crucible.features.guards.redaction import FindingsRedactor, FoundValues, keep_to_itself

        settings = self.settings(name)
        # A judge cannot be opened yet, and finds no spans.
        find = None if settings.kind == "judge" else self.open(name).find_spans
        if find is None:
            raise SpecError(
                f"guard {name!r} of kind {settings.kind!r} cannot redact, because it finds no spans of a text: name a guard "
                "of kind pii, secrets, presidio or rules, or a combination of these"
            )
        run = self._redaction and self._redaction()
        values = FoundValues(normalise, read_forms, run.exchange if run else keep_to_itself)
        return FindingsRedactor(find, self._open_redactor(settings.redaction), values)

    def protect(self, adapter: Adapter) -> Protections | None:
        """Return the guards around an adapter; None if it has none. Raises SpecError."""
        around: Mapping[str, tuple[str, ...]] = adapter.settings.get(GUARD, {})
        if not any(around.values()):
            return None
        from pytest_crucible.features.guards.protections import Protections

        places = {
            place: [self.open(name, f"adapter {adapter.name!r}") for name in names] for place, names in around.items()
        }
        described = repr([(place, [guard.identity for guard in guards]) for place, guards in sorted(places.items())])
        return Protections(
            before=tuple(map(self._protection, places.get("before", ()))),
            after=tuple(map(self._protection, places.get("after", ()))),
            identity=hashlib.sha256(described.encode()).hexdigest(),
        )

    def _protection(self, guard: Guard) -> Protection:
        from pytest_crucible.features.guards.protections import Protection

        settings, queries = guard.settings, self._queries_model(guard.settings)
        if settings.action == "block":
            return Protection(guard, settings.stand_in, queries_model=queries)
        redactor = self._open_redactor(settings.redaction)
        return Protection(
            guard, settings.stand_in, lambda text, detection: redactor(text, detection.spans), queries_model=queries
        )

    def _open_redactor(self, how: Redaction) -> Redactor:
        from pytest_crucible.features.guards.normalise import normalise
        from pytest_crucible.features.guards.redaction import FoundValues, Redactor

        return Redactor(how, self._redaction and self._redaction(), FoundValues(normalise).fold)

    def _queries_model(self, settings: GuardSettings) -> bool:
        from pytest_crucible.features.guards.kinds import queries_model

        return queries_model(settings.kind) or any(
            self._queries_model(self.settings(member)) for member in settings.guards
        )

    def _read(self) -> Mapping[str, Any]:
        if self._tables is None:
            self._tables = read_table(self._root, "guards")
        return self._tables


def _list_guards(tables: Mapping[str, Any]) -> str:
    if not tables:
        return "no guard is configured: add a table [guards.NAME] to crucible.toml"
    return f"the guards are {', '.join(tables)}"


def guards_of(context: AdapterContext) -> Guards:
    """Return the guards of a session, whose judges are its adapters."""
    if GUARDS not in context.of_features:
        context.of_features[GUARDS] = Guards(
            context.root, lambda name: context.open_model(name, "a guard", JUDGE), context.of_features.get(REDACTION)
        )
    guards: Guards = context.of_features[GUARDS]
    return guards


# -- rows of the tables of adapters -----------------------------------------------------------------------------------------


def read_guard_names(name: str, value: Any, source: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the guards that read requests (`before`) and replies (`after`) of an adapter. Raises SpecError."""
    tables = value if isinstance(value, dict) else {"": value}
    named = {place: (names,) if isinstance(names, str) else names for place, names in tables.items()}
    if set(named) - {"before", "after"} or not all(
        isinstance(names, list | tuple) and all(isinstance(guard, str) for guard in names) for names in named.values()
    ):
        raise SpecError(
            f"adapter {name!r} in {source} has guard = {value!r}: write the guards that read requests and those that read "
            'replies, guard = { before = ["inj"], after = ["pii"] }'
        )
    return {place: tuple(names) for place, names in named.items()}


def open_guard(adapter: Adapter, context: AdapterContext) -> GuardBackend:
    """Return the backend of the guard that `guard` names. Raises SpecError."""
    from pytest_crucible.features.guards.protections import GuardBackend

    check_options(adapter, (GUARD,))
    return GuardBackend(guards_of(context).open(required_text(adapter, GUARD), f"adapter {adapter.name!r}"))


def find_metrics(samples: Sequence[Sample]) -> tuple[Metric, ...]:
    """Return the metrics that are scored of a guard without being listed. Raises SpecError."""
    from pytest_crucible.features.guards.metrics import guard_metrics

    return guard_metrics(samples)


def open_wrapper(adapter: Adapter, context: AdapterContext) -> OuterWrapper | None:
    """Return the guards around an adapter as its wrapper; None without guards. Raises SpecError."""
    protections = guards_of(context).protect(adapter) if adapter.settings.get(GUARD) else None
    if protections is None:
        return None
    from pytest_crucible.features.guards.protections import guard_backend

    return OuterWrapper(
        identity=f"guarded by {protections.identity}",
        wrap=lambda inner: guard_backend(inner, protections),
        estimate=lambda inner: guard_backend(inner, protections.without_models()),
    )


ADAPTER_KINDS = (
    AdapterKind(
        name=GUARD,
        open=open_guard,
        uri=UriForm((GUARD,), read_rest(GUARD)),
        is_offline=True,
        is_free=True,
        find_metrics=find_metrics,
    ),
)
ADAPTER_SETTINGS = ((GUARD, read_guard_names),)
WRAPPERS = (open_wrapper,)


# -- the fixture ------------------------------------------------------------------------------------------------------------

Run = Callable[[Coroutine[Any, Any, Detection]], Detection]


class BoundGuards(Mapping[str, Callable[[str], Any]]):
    """The guards by name. Calling one returns a Detection, or in an async test an awaitable of one."""

    def __init__(self, guards: Guards, run: Run | None) -> None:
        """`run` waits for a detection; None in an async test, which awaits it."""
        self._guards = guards
        self._run = run

    def __getitem__(self, name: str) -> Callable[[str], Detection | Awaitable[Detection]]:
        try:
            guard = self._guards.open(name)
        except SpecError as error:
            import pytest

            # An error in the configuration must not count as a failure of the model.
            raise pytest.UsageError(str(error)) from None
        run = self._run
        return guard.detect if run is None else lambda text: run(guard.detect(text))

    def __iter__(self) -> Iterator[str]:
        return iter(self._guards.names)

    def __len__(self) -> int:
        return len(self._guards.names)


def bind_guards(request: pytest.FixtureRequest) -> BoundGuards:
    """Return the guards for one test: the value of the fixture `guards`."""
    from pytest_crucible.session.session import session_of

    session = session_of(request.config)
    context = None if session is None else session.collection.context
    guards = Guards(request.config.rootpath) if context is None else guards_of(context)
    if inspect.iscoroutinefunction(request.function):
        return BoundGuards(guards, None)
    return BoundGuards(guards, asyncio.run if session is None else session.wait_for)
