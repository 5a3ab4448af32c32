"""The hooks of explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Placed

if TYPE_CHECKING:
    from pytest_crucible.runs.run_analysis import RunAnalysis
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.session import CrucibleSession

_FOLDER = "pytest_crucible.features.explanation"
PLUGIN = "crucible-explainer"
"""The name of the plugin of a session that explains samples, which has the hooks of its run."""


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"explanation": Placed(1, f"{_FOLDER}.section", of_explanations=True)}


def pytest_crucible_open(session: CrucibleSession) -> None:
    """Register the plugin of a session that explains samples."""
    if session.settings.option("explain"):
        from pytest_crucible.features.explanation.explainer import Explainer

        session.config.pluginmanager.register(Explainer(session), PLUGIN)


def pytest_crucible_analyse_run(analysis: RunAnalysis) -> None:
    """Take the draws that were not requested of samples themselves for skipped: their versions have more of them."""
    if any(plan.purpose == "explanation" for plan in analysis.plans):
        from pytest_crucible.features.explanation.results import skip_unrequested

        analysis.cuts.append(skip_unrequested)


def pytest_crucible_manifest(collection: ExperimentCollection) -> dict[str, Any]:
    """Mark the run as an explanation."""
    texts = collection.settings.option("explain")
    return {"explains": list(texts)} if texts else {}
