"""Explanations: which parts of a prompt caused a reply, by its metrics on the prompt with parts left out."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "explanation",
    options=(
        Option(
            "explain",
            "send this sample again with parts of its prompt left out; worst:N or changed:N choose samples; may be repeated",
            (),
            metavar="ID",
            repeats=True,
        ),
        Option(
            "segments",
            "the parts of a prompt: message, paragraph, sentence or FILE:function",
            "paragraph",
            key="string",
            metavar="KIND",
        ),
        Option(
            "explain_calls",
            "the most requests to explain one sample of one arm",
            200,
            key="int",
            type=int,
            metavar="N",
        ),
    ),
    check_options="pytest_crucible.features.explanation.choice:check_options",
)
