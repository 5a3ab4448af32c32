"""Claims and their evidence on SciFact's 300 dev claims, by label: which checkpoint cites better, and does it say too much?"""

import pytest

from pytest_crucible import NotApplicable, metric

LABELS = ("SUPPORT", "CONTRADICT", "NEI")


def on(label):
    """Does the reply say what the annotators say of the claim? Only for the claims of one label."""

    @metric(name=f"right_{label}", kind="binary", version="1")
    def right(reply, sample):
        if sample.expected["label"] != label:
            return NotApplicable(f"the claim is not labelled {label}")
        said = {"SUPPORT": " supports c1", "CONTRADICT": " refutes c1"}
        found = {name for name, words in said.items() if words in reply.text} or {"NEI"}
        return found == {label}

    return right


@pytest.mark.crucible(
    dataset="scifact-dev",
    metrics=[
        "schema_compliance",
        "citation_accuracy",
        "citation_recall",
        "citation_exists",
        "entailment_overlap",
        *map(on, LABELS),
    ],
)
@pytest.mark.quality_target("schema_compliance >= 0.95", "citation_exists >= 0.95")
@pytest.mark.quality_target("citation_accuracy >= 0.60")
@pytest.mark.quality_target("right_NEI >= 0.75")
@pytest.mark.ab_compare("citation_accuracy")
@pytest.mark.ab_compare("right_SUPPORT")
@pytest.mark.ab_compare("right_CONTRADICT")
@pytest.mark.ab_compare("right_NEI")
async def test_scifact(sample, sampler):
    return await sampler.generate(sample.input)
