"""The base model of a training's checkpoints, as the session's Tinker service knows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.records.errors import SpecError
from pytest_crucible.registry.curve import Checkpoint, label_of
from pytest_crucible.store.runs import RunStore

if TYPE_CHECKING:
    from pytest_crucible.adapters.context import AdapterContext

TINKER = "--crucible-tinker="
NOT_FOUND = 404


def find_base(
    store: RunStore, checkpoints: Sequence[Checkpoint], arguments: Sequence[str]
) -> tuple[list[Checkpoint], str]:
    """Return the checkpoints that the service has, and the URI of their base model.

    Raises SpecError where the service is gone, has none of them, or they are of several bases.
    """
    # Imported here: it imports pytest, whose options name the service.
    from pytest_crucible.session.pytest_project import with_adapters

    options = [argument for argument in arguments if argument.startswith(TINKER)]
    bases = with_adapters(Path.cwd(), store, lambda context: _look_up(checkpoints, context), options)
    present = [checkpoint for checkpoint in checkpoints if bases[checkpoint.adapter]]
    if not present:
        raise SpecError(
            f"the service has none of {len(checkpoints)} checkpoints, the first of which is {checkpoints[0].adapter}: "
            "they have expired, or --crucible-tinker=hosted or TINKER_BASE_URL names another service"
        )
    first = present[0]
    for other in present:
        if bases[other.adapter] != bases[first.adapter]:
            raise SpecError(
                f"step {label_of(other)} was trained on {bases[other.adapter]}, and step {label_of(first)} on "
                f"{bases[first.adapter]}: a curve is of one training, so remove the lines of the other"
            )
    return present, f"tinker:{bases[first.adapter]}"


def _look_up(checkpoints: Sequence[Checkpoint], context: AdapterContext) -> dict[str, str]:
    """Return the base model of each checkpoint by its URI; empty for one that the service does not have."""
    service = context.tinker().own

    def base_of(path: str) -> str:
        try:
            return str(service.rest.get_weights_info_by_tinker_path(path).result().base_model)
        except Exception as error:
            if getattr(error, "status_code", None) == NOT_FOUND:
                return ""
            raise

    def look() -> dict[str, str]:
        return {checkpoint.adapter: base_of(checkpoint.adapter) for checkpoint in checkpoints}

    bases: dict[str, str] = service.within("tell what checkpoints were trained on", look)
    return bases
