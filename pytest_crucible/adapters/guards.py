"""The guards of a project: the table `[guards]` of crucible.toml, or `[tool.crucible.guards]` of pyproject.toml."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.config_tables import GUARD, read_table
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, suggest

# A session without guards does not load their libraries.
if TYPE_CHECKING:
    from pytest_crucible.adapters.findings_redactor import FindingsRedactor
    from pytest_crucible.backends.guarded import Protection, Protections
    from pytest_crucible.detectors.replacements import Redaction, Redactor, RunRedaction
    from pytest_crucible.guards.guard import Asks, Guard, GuardSettings
    from pytest_crucible.guards.normalise import ThresholdFile

OpenJudge = Callable[[str], "Asks"]


def no_judge(name: str) -> Asks:
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
        self.open_judge = open_judge
        self._redaction = redaction
        self._opened: dict[str, Guard] = {}
        self._tables: Mapping[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the configured guards. Raises SpecError for a configuration that cannot be read."""
        return list(self._read())

    def settings(self, name: str, owner: str = "") -> GuardSettings:
        """Return a guard's settings with its threshold read. `owner` names what refers to it. Raises SpecError."""
        from pytest_crucible.guards.guard import OPTIONS, read_guard

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
        from pytest_crucible.guards.normalise import read_threshold

        return read_threshold(self._root / settings.threshold_file, settings.place)

    def thresholds_of(self, name: str) -> tuple[ThresholdFile, ...]:
        """Return the chosen thresholds of a guard, and of the guards that it combines. Raises SpecError."""
        settings = self.settings(name)
        own = self.threshold_file(settings)
        inner = [chosen for member in settings.guards for chosen in self.thresholds_of(member)]
        return (*([own] if own else []), *inner)

    def thresholds_around(self, adapter: Adapter) -> tuple[ThresholdFile, ...]:
        """Return the chosen thresholds of an adapter's guards, and of the guard that an adapter is. Raises SpecError."""
        names = [name for guards in adapter.guard.values() for name in guards]
        names += [adapter.options[GUARD]] if adapter.backend == GUARD else []
        return tuple(chosen for name in names for chosen in self.thresholds_of(name))

    def open(self, name: str, owner: str = "", parents: tuple[str, ...] = ()) -> Guard:
        """Return the guard with that name. Raises SpecError."""
        from pytest_crucible.guards.guard import AnyGuard, GuardContext, ThresholdGuard, open_scorer

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
                context = GuardContext(root=self._root, open_judge=self.open_judge)
                self._opened[name] = ThresholdGuard(settings, open_scorer(settings, context))
        return self._opened[name]

    def redactor(self, name: str) -> FindingsRedactor:
        """Return the function that redacts a guard's findings, by its setting `redaction`. Raises SpecError."""
        from pytest_crucible.adapters.findings_redactor import FindingsRedactor
        from pytest_crucible.detectors.replacements import FoundValues, keep_to_itself
        from pytest_crucible.guards.forms import read_forms
        from pytest_crucible.guards.normalise import normalise

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
        if not any(adapter.guard.values()):
            return None
        from pytest_crucible.backends.guarded import Protections

        places = {
            place: [self.open(name, f"adapter {adapter.name!r}") for name in names]
            for place, names in adapter.guard.items()
        }
        described = repr([(place, [guard.identity for guard in guards]) for place, guards in sorted(places.items())])
        return Protections(
            before=tuple(map(self._protection, places.get("before", ()))),
            after=tuple(map(self._protection, places.get("after", ()))),
            identity=hashlib.sha256(described.encode()).hexdigest(),
        )

    def _protection(self, guard: Guard) -> Protection:
        from pytest_crucible.backends.guarded import Protection

        settings, queries = guard.settings, self._queries_model(guard.settings)
        if settings.action == "block":
            return Protection(guard, settings.stand_in, queries_model=queries)
        redactor = self._open_redactor(settings.redaction)
        return Protection(
            guard, settings.stand_in, lambda text, detection: redactor(text, detection.spans), queries_model=queries
        )

    def _open_redactor(self, how: Redaction) -> Redactor:
        from pytest_crucible.detectors.replacements import FoundValues, Redactor
        from pytest_crucible.guards.normalise import normalise

        return Redactor(how, self._redaction and self._redaction(), FoundValues(normalise).fold)

    def _queries_model(self, settings: GuardSettings) -> bool:
        from pytest_crucible.guards.guard import queries_model

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
