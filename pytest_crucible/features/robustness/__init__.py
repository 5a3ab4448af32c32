"""Robustness: attacks on prompts, canaries, certificates and searches, with a control."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "robustness",
    options=(
        Option(
            "attacks",
            "attacks to add to all experiments, such as homoglyph,keyboard_typo; none runs none at all",
            key="string",
            metavar="NAMES",
        ),
    ),
    markers=(
        "robustness(*attacks, strength=0.05, draws=1, protect=(), max_edit_share=None, min_similarity=None, normalise='text', "
        "queries=50, metric=None, kept=None, certify=None): send each sample attacked, too, and again as a control",
    ),
    judging_markers=("robustness",),
    fixtures={
        "canary": "A secret of the sample, for the system prompt or a document: injection attacks ask for it. In functions marked "
        "`crucible`.",
        "perturb": "A function that attacks a text in attacked variants and returns it unchanged in others. In functions marked "
        "`crucible`.",
    },
)
