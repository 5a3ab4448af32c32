"""Reads what was sent for each unit of an arm, from outcomes and from the store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_crucible.records import Arm, ModelCall, Outcome, Plan, Sample
from pytest_crucible.records.call_differences import SentCalls, SentComparison, arms_text
from pytest_crucible.records.redaction import redact
from pytest_crucible.records.serialize import canonical, plain_or_repr
from pytest_crucible.store.rows import KnownTexts, call_form
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.texts import PARAMETERS, form_key

Place = tuple[int, int]
"""Position and repeat."""


class CallReader:
    """Returns what outcomes have sent, in the words of the store. `hide` redacts texts."""

    def __init__(self, hide: Callable[[str], str], arms: Sequence[Arm]) -> None:
        self._hide = hide
        self.own = [own_settings(arm, hide) for arm in arms]
        """The parameters of each arm's adapter, as canonical JSON."""
        self._unchanged = [SentCalls(None, (settings,)) for settings in self.own]
        """By arm: the call that most tests send, of the sample's input at the adapter's parameters."""
        self._known: dict[str, str] = {}

    def read(self, outcome: Outcome, *, with_messages: bool = True) -> SentCalls | None:
        """Return the calls of an outcome; None if it has sent nothing."""
        arm, sample = outcome.unit.arm, outcome.sample
        calls = [call for call in outcome.calls if not call.judge]
        if not calls or sample is None:
            return None
        first = calls[0]
        key = None
        if with_messages and (first.text is not sample.input or first.system):
            key = first.form_key = self.messages(first, sample, first.system)
        if key is None and len(calls) == 1 and not first.settings:
            return self._unchanged[arm]
        own = self.own[arm]
        return SentCalls(key, tuple(dict.fromkeys(self._settings(call, own) for call in calls)))

    def read_rows(self, arm: int, rows: Sequence[Mapping[str, Any]], *, with_messages: bool = True) -> SentCalls | None:
        """Return the calls of a unit by its rows of the table `calls`; None without any."""
        calls = [row for row in rows if not row["member"]]
        if not calls:
            return None
        texts = [self.own[arm] if row["parameters"] is None else canonical(row["parameters"]) for row in calls]
        return SentCalls(calls[0]["messages"] if with_messages else None, tuple(dict.fromkeys(texts)))

    def messages(self, call: ModelCall, sample: Sample, system: str) -> int | None:
        """Return the key of a call's messages as they would be stored after a system prompt."""
        form = call_form(call, KnownTexts(sample, self._hide), system)
        return None if form is None else form_key(form.form)

    def _settings(self, call: ModelCall, own: str) -> str:
        if not call.settings:
            return own
        if call.settings not in self._known:
            self._known[call.settings] = canonical(redact(plain_or_repr(call.parameters), self._hide))
        return self._known[call.settings]


def load_sent(store: RunStore, arm: int, own: str) -> dict[Place, SentCalls]:
    """Return what was sent for each unit of the arm with this key, whose adapter's parameters are `own`."""
    return {place: sent for place, (sent, _) in load_paid_calls(store, arm, own).items()}


def load_paid_calls(store: RunStore, arm: int, own: str) -> dict[Place, tuple[SentCalls, str]]:
    """Return what was sent for each unit of an arm, and the run that has paid for the first call; empty for its own run."""
    query = f"""
        SELECT position, epoch, messages, {PARAMETERS}, paid_by FROM calls
        WHERE arm = :arm AND member = '' ORDER BY position, epoch, call
    """
    texts: dict[str | None, str] = {None: own, "null": own}
    shared: dict[SentCalls, SentCalls] = {}
    units: dict[Place, tuple[SentCalls, str]] = {}
    for position, repeat, messages, parameters, paid_by in store.rows(query, arm=arm):
        if parameters not in texts:
            texts[parameters] = canonical(json.loads(parameters))
        settings, place = texts[parameters], (position, repeat)
        earlier, payer = units.get(place, (None, paid_by or ""))
        if earlier is None:
            sent = SentCalls(messages, (settings,))
        elif settings in earlier.settings:
            continue
        else:
            sent = SentCalls(earlier.messages, (*earlier.settings, settings))
        # Most units have sent the same: they share one object.
        units[place] = shared.setdefault(sent, sent), payer
    return units


def own_settings(arm: Arm, hide: Callable[[str], str] = str) -> str:
    """Return the parameters of an arm's adapter as canonical JSON, without credentials."""
    # Imported here: backends import asyncio, 20 ms that a stored run is shown without.
    from pytest_crucible.backends.cache import without_credentials

    return canonical(redact(plain_or_repr(without_credentials(arm.parameters)), hide))


def unlike_places(ours: Mapping[Place, SentCalls], theirs: Mapping[Place, SentCalls], arm: Arm) -> frozenset[Place]:
    """Return the places of another run at which an arm was sent other calls about a sample than in this one."""
    own = own_settings(arm)
    by_sample = {position: ours[position, repeat] for position, repeat in sorted(ours, reverse=True)}
    comparison = SentComparison(arm, arm, (own, own))
    return frozenset(
        place
        for place, calls in theirs.items()
        if place[0] in by_sample and comparison.differences(ours.get(place, by_sample[place[0]]), calls)
    )


def sent_text(store: RunStore, experiment: int, plan: Plan) -> str:
    """Return the parameters in which a test's calls differ between the candidate and its baselines; empty without any.

    Those that adapters declare are left out.
    """
    keys = dict(store.rows("SELECT number, id FROM arms WHERE experiment = :experiment", experiment=experiment))
    own = [own_settings(arm) for arm in plan.arms]
    candidate, *others = (
        load_sent(store, keys[number], text) if number in keys else {} for number, text in enumerate(own)
    )
    texts = []
    for number, sent in enumerate(others, start=1):
        comparison = SentComparison(plan.candidate, plan.arms[number], (own[0], own[number]), with_messages=False)
        common = (comparison.differences(candidate[place], sent[place]) for place in candidate.keys() & sent.keys())
        differing = {name: pair for differences in common for name, pair in differences.items()}
        if differing:
            texts.append(arms_text(plan.candidate.name, plan.arms[number].name, differing))
    return "; ".join(texts)
