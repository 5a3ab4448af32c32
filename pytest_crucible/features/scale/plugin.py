"""The hooks of runs on many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_crucible.features.row import Command

if TYPE_CHECKING:
    from pytest_crucible.session.session import CrucibleSession

_FOLDER = "pytest_crucible.features.scale"


def pytest_crucible_commands() -> dict[str, str]:
    return {"merge": Command(f"{_FOLDER}.merge_command:merge", "One run of the files that shards have written.")}


def pytest_crucible_open(session: CrucibleSession) -> None:
    """Let the session run one shard."""
    if shard := session.settings.option("shard"):
        from pytest_crucible.features.scale.shard_session import open_shard

        open_shard(session, shard)
