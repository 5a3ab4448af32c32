"""The hooks of the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Command, Placed

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_crucible.runs.reproduction import ReproductionCheck
    from pytest_crucible.runs.suspects import Dependent, Suspects
    from pytest_crucible.session.collect import ExperimentCollection
    from pytest_crucible.session.settings import SettingsDraft
    from pytest_crucible.store.runs import RunStore

_FOLDER = "pytest_crucible.features.registry"


def pytest_crucible_sections() -> dict[str, Placed]:
    return {
        "candidates": Placed(
            90, f"{_FOLDER}.section", lambda plan: any("@" in arm.name for arm in plan.arms), of_counts=True
        )
    }


def pytest_crucible_commands() -> dict[str, str]:
    return {
        "models list": Command(
            f"{_FOLDER}.listing:list_models", "The versions of registered models, with state and evidence."
        ),
        "models register": Command(f"{_FOLDER}.commands:register_adapter", "Make an adapter a version of a model."),
        "models promote": Command(
            f"{_FOLDER}.commands:promote_candidate", "Promote a run's candidate, with the run as proof."
        ),
        "models rollback": Command(f"{_FOLDER}.commands:roll_back", "Restore the production version before this one."),
        "models retire": Command(f"{_FOLDER}.commands:retire", "Withdraw a version."),
        "models gate freeze": Command(f"{_FOLDER}.commands:freeze", "Freeze what a run has to show."),
        "models gate show": Command(f"{_FOLDER}.commands:show", "Show the gate of a model, and how it has changed."),
        "models watch": Command(
            f"{_FOLDER}.checkpoints:watch_source", "Register and judge each new checkpoint of a training, once."
        ),
        "models schedule": Command(
            f"{_FOLDER}.schedule:write_schedule", "Write the file that makes GitHub, systemd or cron run a command."
        ),
        "models curve": Command(
            f"{_FOLDER}.curve_command:print_curve", "The checkpoints of a cookbook training on a suite."
        ),
    }


def pytest_crucible_settings(draft: SettingsDraft) -> None:
    """Put versions by their numbers into the settings, and in an era its error rate."""
    from pytest_crucible.features.registry.version_names import resolve_settings

    resolve_settings(draft)


def pytest_crucible_manifest(collection: ExperimentCollection) -> dict[str, Any]:
    """Record what the suite demands of a candidate, which the gate of a model compares."""
    from pytest_crucible.features.registry.suite import record_collected
    from pytest_crucible.records.serialize import to_plain

    return {"suite": to_plain(record_collected(collection))}


def pytest_crucible_kept_runs(store: RunStore) -> Iterable[str]:
    """Return the runs that the log names as proof."""
    from pytest_crucible.features.registry.store import runs_in_log

    return runs_in_log(store)


def pytest_crucible_dependents(store: RunStore, suspects: Suspects) -> Iterator[Dependent]:
    """Yield the versions with a suspect adapter, file or proof."""
    from pytest_crucible.features.registry.dependents import suspect_versions

    return suspect_versions(store, suspects)


def pytest_crucible_check_folder(folder: Path) -> Iterable[ReproductionCheck]:
    """Check the checkpoints in the log directory of a tinker-cookbook training."""
    from pytest_crucible.features.registry.log_checks import check_log_directory

    return check_log_directory(folder)


def pytest_crucible_check_store(store: RunStore, location: str) -> Iterator[ReproductionCheck]:
    """Check the registry's log, the versions that it registered, and their weights; a store without a registry passes."""
    from pytest_crucible.features.registry.registration import check_registry

    return check_registry(store, location)
