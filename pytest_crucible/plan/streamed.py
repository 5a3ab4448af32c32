"""Experiments that are analysed in batches. The plan decides it, before a request is sent."""

from __future__ import annotations

from pytest_crucible.measures.statistic import MOST_REPLIES
from pytest_crucible.records import MetricFacts, Plan
from pytest_crucible.records.datasets import SAME_ANSWER

MOST_IMPORTED = 500_000
"""Imported replies that are analysed in memory, where their prompts and replies are compared: of each, a kilobyte."""


def most_replies(plan: Plan, most_in_memory: int = MOST_REPLIES) -> int:
    """Return the most replies of an experiment that are analysed in memory."""
    return min(most_in_memory, MOST_IMPORTED) if plan.is_imported else most_in_memory


def is_streamed(plan: Plan, most_in_memory: int = MOST_REPLIES) -> bool:
    """Return whether an experiment is analysed in batches: it is large, and nothing in its plan needs all samples at once."""
    replies = sum(plan.count_replies(number) for number in range(len(plan.arms)))
    return replies > most_replies(plan, most_in_memory) and not _needs_all(plan)


def _needs_all(plan: Plan) -> bool:
    return bool(
        plan.look_alpha is not None
        or plan.random_factors
        or plan.exclusions
        or plan.selected < plan.planned
        or any(measure.by is not None for measure in (*plan.targets, *plan.contrasts))
        or any(contrast.unpaired for contrast in plan.contrasts)
        or any(term.metric == SAME_ANSWER for term in plan.variant_terms)
    )


def undecided_lines(plan: Plan) -> list[str]:
    """Return a line for each target and comparison that an experiment of this size leaves undecided."""
    if not is_streamed(plan):
        return []
    # Loaded for a plan of so many replies.
    from pytest_crucible.measures.streams import stream_problem

    problems = (
        stream_problem(
            measure,
            plan.facts.get(measure.metric, MetricFacts(name=measure.metric)),
            clustered=plan.groups is not None,
            replies=plan.draws(0).size,
        )
        for measure in (*plan.targets, *plan.contrasts)
    )
    return [f"undecided: {problem}" for problem in dict.fromkeys(filter(None, problems))]
