"""A stored experiment as one object: the inputs of every analysis, and further details that are read on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    ArmEvents,
    ArmOutcomes,
    CachedReplies,
    Contrast,
    PastComparison,
    Plan,
    ReusedReplies,
    Sample,
    SentAgain,
)
from pytest_crucible.records.calls import CallColumns, ReplyColumns
from pytest_crucible.records.outcomes import move_units
from pytest_crucible.records.plan import CHOOSING, HelperReplies
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.store import outcomes, reused_outcomes, samples
from pytest_crucible.store.calls import load_calls, load_long_texts, load_replies
from pytest_crucible.store.database import from_json
from pytest_crucible.store.decisions import load_decisions
from pytest_crucible.store.events import count_events, load_events
from pytest_crucible.store.history import (
    arm_key,
    candidates_on_samples,
    has_new_replies,
    past_comparisons,
    sessions_with_same_replies,
)
from pytest_crucible.store.prompts import first_prompts, load_prompts, load_twin_prompts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import samples_without_twin
from pytest_crucible.store.sent_calls import load_sent, own_settings, unlike_places
from pytest_crucible.store.written_rows import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExperiment:
    """One experiment that began. Each method reads from the store when it is called, and raises StoreError."""

    store: RunStore
    key: int
    run: str
    plan: Plan
    finished: bool
    """Whether every sample was run."""
    arms: tuple[ArmOutcomes, ...]
    """In the order of `plan.arms`: the candidate first."""
    groups: Sequence[str | None]
    """Each sample's group, in the dataset's order."""
    known_kinds: Mapping[str, str]
    """The kinds of its metrics in its latest earlier run, where the metrics are still the same."""
    run_events: Callable[[], Mapping[Place, ArmEvents]]
    """Returns the counted events of all experiments of the run."""
    variants: Mapping[str, tuple[ArmOutcomes, ...]]
    """The arms' outcomes on the twins of the samples, by the name of their variant."""

    def samples_without_twin(self) -> Mapping[str, Mapping[int, str]]:
        """Return, by the name of a variant, the positions of the samples that it does not apply to, with the reasons."""
        return {
            variant.name: samples_without_twin(self.store, variant.sha256) if variant.reasons else {}
            for variant in self.plan.variants
        }

    def events(self) -> Mapping[str, ArmEvents]:
        """Return the counted events by the name of the arm, or of the judge (`judge:NAME`)."""
        nodeid = self.plan.nodeid
        return {arm: events for (experiment, arm), events in self.run_events().items() if experiment == nodeid}

    def reused_replies(self) -> Mapping[str, ReusedReplies]:
        """Return, by arm, the stored replies that were copied into this run."""
        return reused_outcomes.reused_replies(self.store, self.key)

    def replies_sent_again(self) -> Mapping[str, SentAgain]:
        """Return, by arm, the stored replies that answered other calls and were sent again."""
        return reused_outcomes.replies_sent_again(self.store, self.run, self.key)

    def cached_replies(self) -> Mapping[str, CachedReplies]:
        """Return, by arm, how many replies came from the reply cache."""
        return reused_outcomes.cached_replies(self.store, self.key)

    def earlier_answers(self, arm: int) -> tuple[str, ArmOutcomes] | None:
        """Return the latest earlier run with an equal arm, and that arm's answers to the same calls; None without any."""
        earlier = reused_outcomes.earlier_arm(self.store, self.key, arm, run=self.run)
        if earlier is None:
            return None
        key, run = earlier
        own = own_settings(self.plan.arms[arm])
        sent = load_sent(self.store, arm_key(self.store, self.key, arm), own)
        unlike = unlike_places(sent, load_sent(self.store, key, own), self.plan.arms[arm])
        answers = move_units(outcomes.load_arm(self.store, key, arm), lambda place: None if place in unlike else place)
        return (run, answers) if answers.positions else None

    def past_comparisons(self, contrast: Contrast) -> tuple[PastComparison, ...]:
        """Return the earlier comparisons of the candidate with the same baseline by the same measure, oldest first."""
        baseline = [arm.name for arm in self.plan.arms].index(contrast.baseline)
        return past_comparisons(self.store, self.key, baseline, contrast)

    def sessions_with_same_replies(self, baseline: int) -> int:
        """Return how many sessions in a row, this one last, compared with the same replies of a baseline."""
        return sessions_with_same_replies(self.store, self.key, baseline)

    def has_new_replies(self, arm: int) -> bool:
        """Return whether an arm has any reply that was neither copied from a stored run nor cached."""
        return has_new_replies(self.store, self.key, arm)

    def candidates_on_samples(self) -> int:
        """Return how many candidates were measured on these samples so far, this one included."""
        return candidates_on_samples(self.store, self.key, self.plan.fingerprint.dataset)

    def texts(self, arm: int, metric: str) -> Mapping[tuple[int, int], str]:
        """Return the values of a text metric by (position, repeat)."""
        return outcomes.load_texts(self.store, self.key, arm, metric, self.plan.draws(arm))

    def inapplicable_reasons(self, arm: int) -> Mapping[str, str]:
        """Return, for each metric with inapplicable samples, the reason on one of them."""
        return outcomes.inapplicable_reasons(self.store, self.key, arm)

    def expected_values(self) -> Sequence[Any]:
        """Return each sample's `expected`, in the dataset's order."""
        return samples.expected_values(self.store, self.plan.dataset_sha256)

    def metadata_values(self) -> Sequence[Mapping[str, Any]]:
        """Return each sample's metadata, in the dataset's order."""
        return samples.metadata_values(self.store, self.plan.dataset_sha256)

    def samples(self, positions: Sequence[int]) -> Mapping[int, Sample]:
        """Return the samples at some positions."""
        return samples.samples(self.store, self.plan.dataset_sha256, positions)

    def seed(self) -> int:
        """Return the seed of the run."""
        return int(self.store.scalar("SELECT seed FROM runs WHERE id = :run", run=self.run))

    def all_sample_ids(self) -> Sequence[str]:
        """Return each sample's id, in the dataset's order."""
        return samples.all_sample_ids(self.store, self.plan.dataset_sha256)

    def all_samples(self) -> Sequence[Sample]:
        """Return all samples, in the dataset's order."""
        return samples.all_samples(self.store, self.plan.dataset_sha256)

    def calls(self, arm: int) -> CallColumns:
        """Return all calls of an arm about the original samples."""
        return load_calls(self.store, self.key, arm, self.plan.draws(arm))

    def prompts(self, arms: Sequence[CallColumns]) -> Sequence[Mapping[int, tuple[int, ...]]]:
        """Return, for each arm's calls, a hash of each prompt of its first reply to a sample, by position."""
        return load_prompts(self.store, self.plan.dataset_sha256, arms)

    def twin_prompts(self, arm: int, twin: int) -> Mapping[int, tuple[int, ...]]:
        """Return the same hashes of an arm's calls about the twins with a number, where these have another input."""
        variant = self.plan.variants[twin - 1].sha256
        calls = load_calls(self.store, self.key, arm, self.plan.draws(arm), twin)
        return load_twin_prompts(self.store, self.plan.dataset_sha256, variant, calls)

    def reply_columns(self, arm: int) -> ReplyColumns:
        """Return all replies of an arm to the original samples."""
        return load_replies(self.store, self.key, arm, self.plan.draws(arm))

    def long_texts(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        """Return texts of calls and replies by the keys that stand for them."""
        return load_long_texts(self.store, keys)

    def helper(self, nodeid: str) -> HelperReplies | None:
        """Return the replies of an experiment that served this one in its run; None if it has not begun."""
        helper = find_experiment(self.store, self.run, nodeid)
        return None if helper is None else helper.as_helper()

    def competitions(self) -> Sequence[tuple[HelperReplies, StoredExperiment]]:
        """Return the replies and details of each experiment of the run that chose a candidate for this test."""
        name = self.plan.nodeid + CHOOSING
        query = "SELECT id FROM experiments WHERE run = :run AND substr(nodeid, 1, :length) = :name ORDER BY id"
        keys = [key for (key,) in self.store.rows(query, run=self.run, name=name, length=len(name))]
        chosen = [load_experiment(self.store, key) for key in keys if self.store.has_arms(key)]
        return [(each.as_helper(), each) for each in chosen]

    def as_helper(self) -> HelperReplies:
        """Return its replies, as those of an experiment that served another one."""
        return HelperReplies(
            plan=self.plan,
            answers=self.arms,
            groups=self.groups,
            sample_ids=self.all_sample_ids(),
            known_kinds=self.known_kinds,
        )

    def decisions(self, subject: str) -> Mapping[int, Mapping[str, Any]]:
        """Return the decisions that the run has made on a subject, by their numbers."""
        return load_decisions(self.store, self.run, subject)

    def first_prompts(self, forms: Mapping[int, int | None]) -> Mapping[int, tuple[Any, Any]]:
        """Return first prompts by position, from the forms of their messages: each as it was sent, and with references in it."""
        return first_prompts(self.store, self.samples(list(forms)), forms)

    def reply_texts(self, arm: int, twin: int) -> Mapping[tuple[int, int], str]:
        """Return the texts of an arm's replies by (position, place): to the original samples (0), or to their twins."""
        return outcomes.all_reply_texts(self.store, self.key, arm, self.plan.draws(arm), twin)

    def replies(self, arm: int, positions: Sequence[int]) -> Mapping[int, str]:
        """Return an arm's first reply to the samples at some positions."""
        return outcomes.reply_texts(self.store, self.key, arm, positions)


def load_experiment(store: RunStore, key: int) -> StoredExperiment:
    """Return the experiment with this key. Raises StoreError."""
    run, plan, finished = store.first("SELECT run, plan, finished FROM experiments WHERE id = :key", key=key)
    return _load(store, run, key, from_plain(Plan, from_json(plan)), bool(finished), partial(load_events, store, run))


def find_experiment(store: RunStore, run: str, nodeid: str) -> StoredExperiment | None:
    """Return a run's experiment with this name, even if it is the choosing half of a sweep; None if it has not begun."""
    query = "SELECT id FROM experiments WHERE run = :run AND nodeid = :nodeid"
    key = store.scalar(query, run=run, nodeid=nodeid)
    return load_experiment(store, key) if key is not None and store.has_arms(key) else None


def load_experiments(
    store: RunStore, run: str, without_rows: Callable[[Plan], bool] = lambda plan: False
) -> Iterator[StoredExperiment]:
    """Yield the experiments of a run that began, as they were entered. Their events are read together, once.

    Those that `without_rows` names are larger than memory: they have no arms and groups, and events without durations.
    """
    run_events, counted = cache(partial(load_events, store, run)), cache(partial(count_events, store, run))
    for key, plan, finished in store.experiments(run):
        if store.has_arms(key):
            is_large = without_rows(plan)
            events = counted if is_large else run_events
            yield _load(store, run, key, plan, finished, events, with_rows=not is_large)


def _load(
    store: RunStore,
    run: str,
    key: int,
    plan: Plan,
    finished: bool,
    run_events: Callable[[], Mapping[Place, ArmEvents]],
    *,
    with_rows: bool = True,
) -> StoredExperiment:
    def load_arms(twin: int) -> tuple[ArmOutcomes, ...]:
        numbers = range(len(plan.arms))
        return tuple(outcomes.load_outcomes(store, key, number, plan.draws(number), twin) for number in numbers)

    return StoredExperiment(
        store=store,
        key=key,
        run=run,
        plan=plan,
        finished=finished,
        arms=load_arms(0) if with_rows else (),
        groups=samples.group_names(store, plan.dataset_sha256) if with_rows else (),
        known_kinds=store.known_kinds(plan, key),
        run_events=run_events,
        variants={variant.name: load_arms(twin) for twin, variant in enumerate(plan.variants, start=1) if with_rows},
    )
