"""Budgets, leased to workers: what is spent and leased never exceeds the budget, whatever workers do and die.

A worker that dies may have spent what it had leased: that counts as spent, and is corrected if the worker is heard of again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Literal, NamedTuple

from pytest_crucible.backends.budget import UNLIMITED, Amount
from pytest_crucible.features.scale.limit_leases import LEASE_S
from pytest_crucible.quick_dataclass import dataclass

# Part of what is left of a budget that one worker may hold in advance, divided by the number of workers.
IN_ADVANCE = 0.5

NONE = Amount()

Decision = Literal["granted", "wait", "no"]
"""`wait`: what others have leased may come back; `no`: it would not be enough."""


class SpendReport(NamedTuple):
    """The state of one worker's part of a budget."""

    limit: Amount
    spent: Amount
    """By this worker, since it began."""
    lease: Amount
    """What it may spend without asking: reserved for requests, or soon to be."""
    needs: Sequence[Amount] = ()
    """Reservations that wait for a lease."""
    advance: Amount = NONE
    """What it would lease in advance."""


class SpendAnswer(NamedTuple):
    """The decisions on the needs of a report, what was added to the lease, and the amounts of all workers."""

    decisions: Sequence[Decision]
    added: Amount
    committed: Amount
    spent: Amount
    is_short: bool
    """Whether workers wait for what others have leased and do not use."""


@dataclass(slots=True)
class _Holder:
    spent: Amount = NONE
    lease: Amount = NONE
    until: float = 0.0
    is_alive: bool = True
    waits: bool = False


@dataclass(slots=True)
class BudgetLeases:
    """One budget and the workers that spend from it; each method gets the time as `now`."""

    limit: Amount = UNLIMITED
    _holders: dict[str, _Holder] = field(default_factory=dict)

    def exchange(self, worker: str, report: SpendReport, now: float) -> SpendAnswer:
        """Record what a worker spent and gave back, and decide on what it needs."""
        for holder in self._holders.values():
            holder.is_alive = holder.is_alive and holder.until >= now
        self.limit = Amount(*map(min, self.limit, report.limit))
        holder = self._holders.setdefault(worker, _Holder())
        holder.spent, holder.lease, holder.is_alive, holder.until = report.spent, report.lease, True, now + LEASE_S
        decisions = [self._decide(worker, holder, need) for need in report.needs]
        holder.waits = "wait" in decisions
        added = holder.lease.plus(report.lease, -1.0)
        if not self.is_short:
            added = added.plus(self._lease_in_advance(holder, report.advance))
        return SpendAnswer(decisions, added, self.committed, self.spent, self.is_short)

    def forget(self, worker: str) -> None:
        """Count the lease of a worker that has died as spent."""
        if worker in self._holders:
            self._holders[worker].is_alive = self._holders[worker].waits = False

    @property
    def news(self) -> object:
        """A value that changes when workers have to give back what they do not need."""
        return self.is_short

    @property
    def is_short(self) -> bool:
        return any(holder.waits and holder.is_alive for holder in self._holders.values())

    @property
    def spent(self) -> Amount:
        return _total(
            holder.spent if holder.is_alive else holder.spent.plus(holder.lease) for holder in self._holders.values()
        )

    @property
    def committed(self) -> Amount:
        """The amount that is spent or leased."""
        return _total(holder.spent.plus(holder.lease) for holder in self._holders.values())

    def _decide(self, worker: str, holder: _Holder, need: Amount) -> Decision:
        if self.committed.plus(need).within(self.limit):
            holder.lease = holder.lease.plus(need)
            return "granted"
        others = [other for name, other in self._holders.items() if name != worker and other.is_alive]
        at_most = self.committed.plus(_total(other.lease for other in others), -1.0)
        return "wait" if at_most.plus(need).within(self.limit) else "no"

    def _lease_in_advance(self, holder: _Holder, wants: Amount) -> Amount:
        left = self.limit.beyond(self.committed)
        alive = sum(other.is_alive for other in self._holders.values())
        added = Amount(*(min(want, IN_ADVANCE * part / alive) for want, part in zip(wants, left, strict=True)))
        holder.lease = holder.lease.plus(added)
        return added


def _total(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for amount in amounts:
        total = total.plus(amount)
    return total
