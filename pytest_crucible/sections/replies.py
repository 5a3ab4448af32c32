"""Replies that count, and those that do not: lost ones, reused and cached ones, and how often they were compared before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import SimpleNamespace
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Arm,
    ArmOutcomes,
    CachedReplies,
    Claim,
    Contrast,
    Look,
    Note,
    OutcomeCounts,
    Plan,
    ReusedReplies,
    SentAgain,
    Statement,
    View,
)
from pytest_crucible.records.call_differences import MESSAGES, changes_text
from pytest_crucible.sections.inputs import SectionInputs, no_claims
from pytest_crucible.stats.number_format import quantity

_LABELS = {
    "scorer": "scorer error",
    "member": "ensemble member",
    "unanswered": "no answer",
    "uncached": "not in the reply cache",
    "not_run": "not run",
    "truncated": "truncation",
    "filtered": "content filter",
}
# These reasons lose the score of one metric; the reply is there.
_OF_SCORES = frozenset({"scorer", "member"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Counts by the arm's name."""

    repeats: int = 1
    """Replies a sample: with more than one, replies are counted rather than samples."""
    lost: Mapping[str, Mapping[str, int]]
    """Arm -> reason -> count, samples that were not run among them."""
    failures: Mapping[str, Mapping[str, int]]
    """Arm -> kind of failure -> count. Failures are the candidate's doing, and count as worst scores."""
    first: Mapping[str, Mapping[str, str]]
    """Arm -> reason, or metric that was lost -> first line of the first loss's message."""


def compute_losses(inputs: SectionInputs) -> Losses:
    """Return the lost samples and the failures of every arm."""
    arms = list(zip(inputs.plan.arms, inputs.counts or map(_count_outcomes, inputs.answers), strict=True))
    return Losses(
        repeats=max(inputs.plan.draws(number).size for number in range(len(arms))),
        lost={
            arm.name: _count_lost(inputs.plan, counts, inputs.samples * inputs.plan.draws(number).size)
            for number, (arm, counts) in enumerate(arms)
        },
        failures={arm.name: counts.failures for arm, counts in arms},
        first={arm.name: counts.first for arm, counts in arms},
    )


def view_losses(losses: Losses, claims: Sequence[Claim]) -> View:
    """Return a note for each arm that lost something, and for each that failed."""
    proof = Statement(text="A verdict is called proven only where it holds whatever the lost values were.")
    return View(
        title="Losses",
        notes=tuple(_losses_notes(losses)),
        methods=(proof,) if any(losses.lost.values()) else (),
        document={"lost": losses.lost, "failures": losses.failures},
    )


def _losses_notes(losses: Losses) -> Iterator[Note]:
    unit = "sample" if losses.repeats == 1 else "reply"
    for arm, reasons in losses.lost.items():
        if reasons:
            scores = {reason: count for reason, count in reasons.items() if reason in _OF_SCORES}
            units = {reason: count for reason, count in reasons.items() if reason not in _OF_SCORES}
            parts = (_counts(units, unit, "lost"), _counts(scores, "score", "lost"))
            details = [f"first: {message}" for message in dict.fromkeys(losses.first[arm].values())]
            if "unanswered" in reasons:
                details.append("--crucible-resume does not send them again; a run without it does")
            yield Note(text=f"{arm}: {', '.join(part for part in parts if part)}", details=tuple(details))
        if losses.failures[arm]:
            yield Note(text=f"{arm}: {_counts(losses.failures[arm], unit, 'failed')}")


def _counts(reasons: Mapping[str, int], unit: str, state: str) -> str:
    """Return `2 samples lost (error)` or `3 samples failed (2 assertion, 1 timeout)`; empty without reasons."""
    if not reasons:
        return ""
    labels = [(_LABELS.get(reason, reason), count) for reason, count in sorted(reasons.items())]
    listed = labels[0][0] if len(labels) == 1 else ", ".join(f"{count:,} {label}" for label, count in labels)
    return f"{quantity(sum(reasons.values()), unit)} {state} ({listed})"


def _count_outcomes(answers: ArmOutcomes) -> OutcomeCounts:
    return OutcomeCounts(
        replies=len(answers.positions),
        lost=Counter(str(lost.reason) for lost in answers.lost),
        lost_replies=sum(lost.metric is None for lost in answers.lost),
        failures=dict(Counter(kind for kind in answers.failures if kind is not None)),
        first=_first_messages(answers),
    )


def _count_lost(plan: Plan, outcomes: OutcomeCounts, replies: int) -> dict[str, int]:
    counts = dict(outcomes.lost)
    missing = replies - outcomes.replies - outcomes.lost_replies
    if missing:
        # Counted by difference: nothing is stored for a unit that was never run.
        reason = "deselected" if plan.selected < plan.planned else "not_run"
        counts[reason] = counts.get(reason, 0) + missing
    return counts


def _first_messages(answers: ArmOutcomes) -> dict[str, str]:
    messages: dict[str, str] = {}
    for lost in answers.lost:
        if lost.detail:
            # Each metric has an error of its own.
            messages.setdefault(lost.metric or lost.reason, lost.detail.splitlines()[0])
    return messages


@dataclass(frozen=True, slots=True, kw_only=True)
class OldAnswers:
    """Origins of the reused and cached replies of each arm, by its name."""

    plan: Plan
    reused: Mapping[str, ReusedReplies]
    cached: Mapping[str, CachedReplies]
    sent_again: Mapping[str, SentAgain] = field(default_factory=dict)


def compute_old_answers(inputs: SectionInputs) -> OldAnswers | None:
    """Return the replies that were not requested by this run; None if there are none."""
    stored = inputs.stored
    answers = OldAnswers(
        plan=inputs.plan,
        reused=stored.reused_replies(),
        cached=stored.cached_replies(),
        sent_again=stored.replies_sent_again(),
    )
    return answers if answers.reused or answers.cached or answers.sent_again else None


def view_old_answers(answers: OldAnswers, claims: Sequence[Claim]) -> View:
    """Return a note for each arm with reused or cached replies."""
    return View(
        title="Reused replies",
        notes=tuple(note for arm in answers.plan.arms for note in _old_answers_notes(answers, arm)),
        document={"reused": answers.reused, "cached": answers.cached, "sent_again": answers.sent_again},
    )


def _old_answers_notes(answers: OldAnswers, arm: Arm) -> Iterator[Note]:
    reused, cached = answers.reused.get(arm.name), answers.cached.get(arm.name)
    # The name of a stored run's arm already names its run.
    if reused is not None and reused.replies and arm.stored_run is None:
        total = answers.plan.count_replies(answers.plan.arms.index(arm))
        how = "; --crucible-fresh calls the model again" if arm.role == "baseline" else ""
        yield Note(text=f"{arm.name}: {reused.replies:,} of {total:,} replies reused from run {reused.run}{how}")
    if arm.name in answers.sent_again:
        yield Note(text=f"{arm.name}: {_sent_again_text(answers.sent_again[arm.name], arm)}")
    if cached is not None:
        yield Note(
            text=f"{arm.name}: {cached.replies:,} of {cached.requests:,} replies from the reply cache (since "
            f"{cached.since[:10]}), with their original latency and cost; --crucible-cache=refresh calls the model again"
        )


def _sent_again_text(sent: SentAgain, arm: Arm) -> str:
    """Return how many stored replies answered other calls, and in what the first of them differed."""
    text = changes_text({name: (pair["stored"], pair["sent"]) for name, pair in sent.differences.items()})
    names = [name for name in sent.differences if name != MESSAGES]
    how = (
        f"; if the arms are to differ in it, declare arms_differ_in={names}" if names and arm.role == "baseline" else ""
    )
    is_single = sent.replies == 1
    return (
        f"{quantity(sent.replies, 'stored reply')} {'answers' if is_single else 'answer'} other calls than this session sends "
        f"({text}), and {'its sample was' if is_single else 'their samples were'} sent again{how}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A comparison that earlier sessions made as well."""

    metric: str
    """The measure, as the comparison names it."""
    candidate: str
    baseline: str
    """Empty for a target."""
    comparison: int
    """The number of this comparison: 2 for the first rerun."""
    with_new_replies: int
    """How many of the comparisons brought new replies."""
    since: str
    """The day of the first comparison."""
    look: int | None = None
    """The number of the look at the replies of all sessions; None if this session decides alone."""
    replies: tuple[int, ...] | None = None
    """The number of replies in all sessions, of the candidate and then of the baseline."""
    level: float | None = None
    """The level of its interval."""
    sessions: tuple[int, ...] | None = None
    """How many sessions brought replies of the candidate, and then of the baseline."""
    other_calls: int = 0
    """How many sessions are left out of the pool, because they sent other calls."""
    is_fixed: bool = False
    """Whether rounds are declared fixed, so that claims are about these sessions alone."""


def compute_reruns(inputs: SectionInputs) -> tuple[Rerun, ...] | None:
    """Return the comparisons that were made before; None if each is the first of its kind."""
    return tuple(_reruns(inputs)) or None


def view_reruns(reruns: Sequence[Rerun], claims: Sequence[Claim]) -> View:
    """Return a note for each history; measures with the same one share a note."""
    counts = (_reruns_sentence(rerun) for rerun in reruns if rerun.baseline and rerun.since)
    sentences = [*counts, *filter(None, map(_pool_sentence, reruns))]
    return View(
        title="Reruns", notes=tuple(Note(text=sentence) for sentence in dict.fromkeys(sentences)), document=list(reruns)
    )


def _reruns(inputs: SectionInputs) -> Iterator[Rerun]:
    if not inputs.finished or inputs.plan.selected < inputs.plan.planned:
        return
    for contrast in inputs.plan.contrasts:
        past = inputs.stored.past_comparisons(contrast) if contrast.decides else ()
        if past or contrast in inputs.looks:
            yield Rerun(
                metric=contrast.expression,
                candidate=inputs.plan.candidate.name,
                baseline=contrast.baseline,
                comparison=len(past) + 1,
                with_new_replies=sum(any(each.has_new_replies) for each in past) + _is_new(inputs, contrast),
                since=past[0].started[:10] if past else "",
                **_look_fields(inputs, inputs.looks.get(contrast)),
            )
    for target, look in inputs.target_looks.items():
        yield Rerun(
            metric=target.text,
            candidate=inputs.plan.candidate.name,
            baseline="",
            comparison=look.number,
            with_new_replies=look.number,
            since=look.since[:10],
            **_look_fields(inputs, look),
        )


def _look_fields(inputs: SectionInputs, look: Look | None) -> dict[str, Any]:
    if look is None:
        return {}
    return {
        "look": look.number,
        "replies": look.replies,
        "level": 1 - 2 * look.alpha(inputs.alpha),
        "sessions": look.sessions,
        "other_calls": look.other_calls,
        "is_fixed": "rounds" in inputs.plan.fixed,
    }


def _is_new(inputs: SectionInputs, contrast: Contrast) -> bool:
    baseline = [arm.name for arm in inputs.plan.arms].index(contrast.baseline)
    return inputs.stored.has_new_replies(0) or inputs.stored.has_new_replies(baseline)


def _reruns_sentence(rerun: Rerun) -> str:
    """Return the sentence with the number of comparisons so far.

    >>> _reruns_sentence(Rerun(metric="ok", candidate="v2", baseline="v1", comparison=7, with_new_replies=3, since="2026-11-02"))
    'v1: comparison 7 of v2 with this baseline since 2026-11-02; 3 of the 7 with new replies'
    """
    count = f"comparison {rerun.comparison:,} of {rerun.candidate} with this baseline since {rerun.since}"
    old = rerun.comparison - rerun.with_new_replies
    return f"{rerun.baseline}: {count}" + (
        f"; {rerun.with_new_replies:,} of the {rerun.comparison:,} with new replies" if old else ""
    )


def _pool_sentence(rerun: Rerun) -> str:
    """Return a sentence on the replies that decide the comparison; empty if this session decides alone."""
    if rerun.replies is None or rerun.level is None:
        return ""
    names = (rerun.candidate, rerun.baseline)
    counts = ", ".join(f"{count:,} of {name}" for count, name in zip(rerun.replies, names, strict=False))
    bound = f"the interval is at {rerun.level:.2%}"
    if not rerun.baseline:
        bound = f"its one-sided bound is at {(1 + rerun.level) / 2:.2%}"
    where = "this session" if rerun.look == 1 else "the replies of all sessions"
    if rerun.other_calls:
        where = "the replies of the sessions that sent the same calls, without those of "
        where += f"{quantity(rerun.other_calls, 'other session')}"
    looked = f"look {rerun.look}, so {bound}".replace("%", " %")
    return f"{rerun.metric}: decided on {where} ({counts}); {looked}{_noise_text(rerun)}"


def _noise_text(rerun: Rerun) -> str:
    """Return how the noise between sessions is counted, if it is."""
    if rerun.sessions is None:
        return ""
    if rerun.is_fixed:
        return "; rounds are fixed, so it is about these sessions alone"
    if max(rerun.sessions, default=1) == 1:
        return "; noise between sessions is not counted, because there is one"
    names = (rerun.candidate, rerun.baseline)
    single = [name for name, count in zip(names, rerun.sessions, strict=False) if count == 1]
    uncounted = f"; not that of {single[0]}, whose replies are of one session" if single else ""
    return f"; noise between {max(rerun.sessions)} sessions is counted{uncounted}"


MANY = 10
"""Sessions after which a note appears: 15 % of series without any difference then have a proven regression
(docs/reference/error-rates.md)."""
RISK = "if they were lucky ones, a candidate that is no worse fails too often"
"""After the luckiest 5 % of stored baselines, 21 % of sessions at 40 samples and 32 % at 200 instead of 2.5 %: simulated by
tests/truth/rerun_evals.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBaseline:
    """A baseline with the replies of an earlier session."""

    arm: str
    sessions: int
    """How many sessions, this one included, have compared with the same replies."""


def compute_stored_baselines(inputs: SectionInputs) -> tuple[StoredBaseline, ...] | None:
    """Return the baselines that have served many sessions, and whose model could be called again.

    Not those that the user chose by the name of a run.
    """
    baselines = (
        StoredBaseline(arm=arm.name, sessions=inputs.stored.sessions_with_same_replies(number))
        for number, arm in enumerate(inputs.plan.arms)
        if arm.role == "baseline" and arm.stored_run is None and not arm.recorded
    )
    return tuple(baseline for baseline in baselines if baseline.sessions >= MANY) or None


def view_stored_baselines(baselines: Sequence[StoredBaseline], claims: Sequence[Claim]) -> View:
    """Return a suggestion for each baseline."""
    return View(
        title="Stored baselines",
        notes=tuple(
            Note(
                text=f"{baseline.arm}: {baseline.sessions:,} sessions have compared with the same stored replies of it; {RISK}: "
                "--crucible-fresh calls its model again"
            )
            for baseline in baselines
        ),
        document=list(baselines),
    )


LOSSES, CACHE, RERUNS, STORED_BASELINES = (
    # No claim of these sections can fail the session.
    SimpleNamespace(decides=False, compute=compute, claims=no_claims, view=view)
    for compute, view in (
        (compute_losses, view_losses),
        (compute_old_answers, view_old_answers),
        (compute_reruns, view_reruns),
        (compute_stored_baselines, view_stored_baselines),
    )
)
