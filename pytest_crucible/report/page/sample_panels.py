"""The samples most worth reading, with the prompt and each arm's reply side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.records import Exchange
from pytest_crucible.records.question_text import question_text
from pytest_crucible.records.reasoning import fold_reasoning
from pytest_crucible.report.experiment_page import Chapter
from pytest_crucible.report.page.archive import text_of
from pytest_crucible.report.printable import AN_ID, printable
from pytest_crucible.report.sections import section_excerpts
from pytest_crucible.stats.number_format import seconds

# Panels of each kind: a reader opens a few, and the archive has all samples.
HOW_MANY = 5
# Characters of a text in a panel; the sample's row in the archive has more.
A_REPLY = 4_000
# Characters of an input beside the id of its sample, about a line.
AN_EXCERPT = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePanel:
    """One sample: the reason it is shown, its input, and the first reply of each arm."""

    sample: str
    why: str
    input: str
    expected: str
    replies: tuple[tuple[str, str], ...]
    """Arm, and its reply or the state of its sample."""
    excerpt: str
    """The beginning of its question, on one line."""


def excerpt_panels(chapter: Chapter) -> dict[str, tuple[SamplePanel, ...]]:
    """Return the samples that sections show, by the title of the section."""
    place = {name: k for k, name in enumerate(chapter.columns.ids)}
    panels: dict[str, tuple[SamplePanel, ...]] = {}
    for title, excerpt in section_excerpts(chapter.analysis):
        if excerpt.sample in place:
            panels[title] = (*panels.get(title, ()), _panel(chapter, place[excerpt.sample], excerpt.reason))
    return panels


def slowest(chapter: Chapter) -> tuple[SamplePanel, ...]:
    """Return the samples for which the candidate's answer took longest."""
    took = np.nan_to_num(np.asarray(chapter.columns.latency_s[0], dtype=float), nan=-1.0)
    order = np.argsort(-took, kind="stable")[:HOW_MANY]
    return tuple(_panel(chapter, int(k), f"answered in {seconds(float(took[k]))}") for k in order if took[k] > 0)


def _panel(chapter: Chapter, position: int, why: str) -> SamplePanel:
    [exchange] = chapter.read([position])
    return SamplePanel(
        sample=printable(chapter.columns.ids[position], AN_ID),
        why=why,
        input=_short(text_of(exchange.input)),
        expected=_short(text_of(exchange.expected)),
        replies=tuple(zip(chapter.arms, _answers(exchange), strict=True)),
        excerpt=_excerpt(question_text(exchange.input)),
    )


def _answers(exchange: Exchange) -> Sequence[str]:
    return [
        _short(text_of(fold_reasoning(arm[0].text) or f"({arm[0].state}: {arm[0].detail})")) if arm else "(no reply)"
        for arm in exchange.replies
    ]


def _excerpt(text: str) -> str:
    line = " ".join(text[: 10 * AN_EXCERPT].split())
    return printable(line if len(line) <= AN_EXCERPT else f"{line[: AN_EXCERPT - 1]}\u2026")


def _short(text: str) -> str:
    return printable(text, A_REPLY)
