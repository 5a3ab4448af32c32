"""The attacks that a project can name: those of the package, of plugins, and of `[attacks]` in its configuration."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pytest_crucible.features.robustness.built_in import FAMILIES, ROWS, make_attack, make_injection, read_pack
from pytest_crucible.features.robustness.edits import AsksFor, Attack, Perturbed, Source
from pytest_crucible.records import UNCHANGED, NoTwin, Twin
from pytest_crucible.records.errors import SpecError, describe_type, suggest
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.object_reference import import_function, load_object

FORMS = ("attack", "chain", "pack", "function")
SEARCH = "greedy_search"
"""An attack that is not a function of a text: it queries the model to choose which edits to keep."""
RESERVED = ("control", "worst", SEARCH, *FAMILIES)
EXAMPLE = 'write [attacks.NAME] with attack = "keyboard_typo", chain = [...], pack = "FILE" or function = "module:name"'


class Attacks:
    """All attacks by name. A chain is resolved when it is first used, so that tables may stand in any order."""

    def __init__(
        self, tables: Mapping[str, Any] | None = None, offered: Mapping[str, Any] | None = None, root: Path = Path()
    ) -> None:
        """`tables` are the tables of `[attacks]`, `offered` the attacks of plugins. Raises SpecError for an unreadable table."""
        self._tables, self._offered, self._root = dict(tables or {}), dict(offered or {}), root
        self._made: dict[str, Attack] = {}
        for name, table in self._tables.items():
            self._check_table(name, table)

    @property
    def names(self) -> tuple[str, ...]:
        return (*ROWS, *self._offered, *self._tables)

    def get(self, name: str, within: tuple[str, ...] = ()) -> Attack:
        """Return the attack with that name. Raises SpecError for an unknown one, and for a chain that contains itself."""
        if name in within:
            raise SpecError(
                f"[attacks.{within[0]}] contains itself: {' -> '.join((*within, name))}; remove one of them"
            )
        if name not in self._made:
            self._made[name] = self._make(name, within)
        return self._made[name]

    def _make(self, name: str, within: tuple[str, ...]) -> Attack:
        if name in self._tables:
            return self._from_table(name, dict(self._tables[name]), within)
        if name in self._offered:
            offered = self._offered[name]
            loaded = load_object(offered) if isinstance(offered, str) else offered
            return loaded if isinstance(loaded, Attack) else function_attack(name, loaded)
        if name not in ROWS:
            raise SpecError(
                f"unknown attack {name!r}: {suggest(name, self.names, otherwise='`crucible guards attacks` lists them')}"
            )
        return make_attack(name)

    def _check_table(self, name: str, table: Any) -> None:
        where = f"[attacks.{name}]"
        if not isinstance(table, dict) or len(forms := [form for form in FORMS if form in table]) != 1:
            raise SpecError(f"{where} must have exactly one of {', '.join(FORMS)}: {EXAMPLE}")
        if name in RESERVED or name in ROWS:
            raise SpecError(f"{where} has the name of an attack of the package: choose another one")
        if forms != ["attack"] and len(table) > 1:
            other = sorted(set(table) - set(forms))[0]
            raise SpecError(f"{where} has {other!r} beside {forms[0]}: only attack = takes settings; remove it")

    def _from_table(self, name: str, table: dict[str, Any], within: tuple[str, ...]) -> Attack:
        if "attack" in table:
            return make_attack(table.pop("attack"), table, root=self._root, as_name=name)
        if "pack" in table:
            path = self._root / str(table["pack"])
            frames = read_pack(path)
            asks_for: AsksFor = "code" if any(frame.asks_for_code for frame in frames) else "secret"
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            return Attack(
                name=name, kind="injection", summary=f"{len(frames)} frames of {path.name}", perturb=make_injection(frames),
                has_strength=False, asks_for=asks_for, settings={"pack": digest},
            )  # fmt: skip
        if "function" in table:
            return function_attack(name, import_function(f"[attacks.{name}] has function =", str(table["function"])))
        return self._chain(name, table["chain"], within)

    def _chain(self, name: str, links: Any, within: tuple[str, ...]) -> Attack:
        if not isinstance(links, list) or len(links) < 2 or not all(isinstance(link, str) for link in links):
            raise SpecError(f"[attacks.{name}] has chain = {links!r}: write a list of two or more names of attacks")
        attacks = [self.get(link, (*within, name)) for link in links]
        model = next((attack.name for attack in attacks if attack.needs_model), None)
        if model is not None:
            raise SpecError(f"[attacks.{name}] has {model!r} in its chain, whose text a model writes: run it by itself")
        return Attack(
            name=name, kind="own", summary=" then ".join(links), perturb=partial(_run_chain, attacks),
            has_strength=any(attack.has_strength for attack in attacks),
            asks_for=next((attack.asks_for for attack in attacks if attack.asks_for), ""),
            settings={"chain": [attack.key for attack in attacks]},
        )  # fmt: skip


def function_attack(name: str, function: Any) -> Attack:
    """Return an attack that calls a user's function with those of `text`, `rng`, `strength` and `sample` that it takes.

    It returns the attacked text, a Twin (which may change the expected answer, too), or None if it does not apply. Raises
    SpecError for an object that is not such a function.
    """
    names = ("text", "rng", "strength", "sample")
    if not callable(function):
        raise SpecError(f"attack {name!r} is {describe_type(function)}: name a function of a text")
    takes = tuple(inspect.signature(function).parameters)
    unknown = [argument for argument in takes if argument not in names]
    if unknown or "text" not in takes:
        raise SpecError(
            f"the function of attack {name!r} has the arguments {', '.join(takes) or 'none'}; expected text, and any of "
            f"{', '.join(names[1:])}"
        )
    summary = (inspect.getdoc(function) or "a function of the project").splitlines()[0]
    return Attack(
        name=name, kind="own", summary=summary, perturb=partial(_call_function, name, function, takes),
        has_strength="strength" in takes, settings={"function": hashlib.sha256("".join(sources(function)).encode()).hexdigest()},
    )  # fmt: skip


def _call_function(
    name: str, function: Callable[..., Any], takes: Sequence[str], source: Source, rng: Random, strength: float
) -> Perturbed | NoTwin:
    values = {"text": source.text, "rng": rng, "strength": strength, "sample": source.sample}
    result = function(**{argument: values[argument] for argument in takes})
    if isinstance(result, NoTwin):
        return result
    if result is None:
        return NoTwin(f"the function of {name} returned None")
    if isinstance(result, Twin):
        return Perturbed(result.input, expected=result.expected)
    if isinstance(result, str):
        return Perturbed(result)
    raise SpecError(
        f"attack {name!r} returned {describe_type(result)}: return a text, a Twin, or None where it does not apply"
    )


def _run_chain(attacks: Sequence[Attack], source: Source, rng: Random, strength: float) -> Perturbed | NoTwin:
    """Return the text after all attacks; if one attack does not apply, neither does the chain."""
    text, expected = source.text, UNCHANGED
    for attack in attacks:
        step = attack.perturb(replace(source, text=text), rng, strength)
        if isinstance(step, NoTwin):
            return step
        text, expected = step.text, expected if step.expected is UNCHANGED else step.expected
    return Perturbed(text, expected=expected)
