"""A sweep as it was planned: its grid, members and halves. Nothing in it depends on a reply."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.plan import HelperReplies, PlanValue, choosing_nodeid
from pytest_crucible.records.serialize import canonical
from pytest_crucible.records.views import experiment_name

if TYPE_CHECKING:
    from pytest_crucible.sections.inputs import StoredDetails


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMember:
    """One member of a family, which competes to be the candidate."""

    name: str
    settings: Mapping[str, Any]
    """Dotted key of the adapter -> its value in this member."""
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The competition of a family's members."""

    family: str
    test: str
    """Nodeid of the experiment that chooses, on its choosing half."""
    by: str
    """The metric that chooses."""
    confirm: float
    """The share of samples that is kept for the verdicts."""
    drop: str
    grid: Mapping[str, tuple[Any, ...]]
    """Dotted key of the adapter -> its values; the last key varies fastest."""
    members: tuple[SweepMember, ...]
    """Members in the order of the grid, or of the search's trials."""
    choosing: int
    """Samples of the choosing half."""
    choosing_sha256: str
    confirming: int
    """Samples of the confirming half."""
    looks: tuple[int, ...]
    """The numbers of samples after which members may be dropped."""
    trials: int = 0
    """The number of settings that a search proposes; 0 for a grid. Its members are then the trials until now."""
    seed: int = 0
    """The seed of the search."""

    @property
    def sha256(self) -> str:
        """The hash of everything that the choice depends on, but the replies."""
        return hashlib.sha256(canonical(asdict(self)).encode()).hexdigest()

    @property
    def nodeid(self) -> str:
        """The name under which the run store has the replies of the choosing half."""
        return choosing_nodeid(self.test, self.family)

    @property
    def looks_subject(self) -> str:
        """The subject of the decisions on which members go on."""
        return f"looks of {self.family}"

    @property
    def winner_subject(self) -> str:
        """The subject of the decision about the winner."""
        return f"winner of {self.family}"

    @property
    def trials_subject(self) -> str:
        """The subject of the decisions on the settings of trials."""
        return f"trials of {self.family}"


SWEEP_OF = PlanValue[Sweep | None]("sweep", Sweep, None)
"""The sweep whose winner is the candidate of a plan; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLook:
    """One look of a sweep."""

    samples: int
    """The number of samples, from the beginning of the look order, that it rests on."""
    remaining: tuple[str, ...]
    """The members that went on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoosingHalf:
    """The replies of a family's members, in grid order, and the decisions based on them."""

    sweep: Sweep
    replies: HelperReplies
    looks: tuple[SweepLook, ...]
    winner: str
    """Empty until it is known."""

    def looked_at(self, member: str) -> int:
        """Return the number of samples, in look order, that decided about a member: it was dropped, or the last one."""
        # Where nothing is kept for the verdicts, the last one answers all samples.
        ends = self.sweep.confirm > 0
        decided = (
            look.samples for look in self.looks if member not in look.remaining or (ends and len(look.remaining) == 1)
        )
        return next(decided, len(self.replies.groups))


def load_choosing_half(sweep: Sweep, stored: StoredDetails) -> ChoosingHalf | None:
    """Return the choosing half of a sweep; None if it has not begun."""
    replies = stored.helper(sweep.nodeid)
    if replies is None:
        return None
    looks, winner = stored.decisions(sweep.looks_subject).values(), stored.decisions(sweep.winner_subject)
    return ChoosingHalf(
        sweep=sweep,
        replies=replies,
        looks=tuple(SweepLook(samples=look["samples"], remaining=tuple(look["kept"])) for look in looks),
        winner=winner[0]["winner"] if winner else "",
    )


def sweep_lines(plan: Plan) -> Iterator[str]:
    """Yield the line on the sweep of a plan; nothing without one."""
    sweep = SWEEP_OF.of(plan)
    if sweep is None:
        return
    if sweep.test != plan.nodeid:
        yield f"{sweep.family}: the winner of its sweep, which {experiment_name(sweep.test)} chooses"
        return
    which = f"{sweep.choosing:,} other samples" if sweep.confirm else "the same samples"
    members = f"{sweep.trials} trials" if sweep.trials else f"{len(sweep.members)} members"
    replies = sweep.choosing * (sweep.trials or len(sweep.members)) * plan.draws(0).size
    yield (f"{sweep.family}: first {members} compete by {sweep.by} on {which}, with at most {replies:,} replies")
