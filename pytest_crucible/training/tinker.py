"""Training adapters on a Tinker service, through the `TrainingClient` of the official SDK: the same recipes, other weights.

A step waits for its loss before it moves the adapter, which costs a round trip: a service cannot take a step back.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pytest_crucible.embedded.adam import AdamParams, NotFinite
from pytest_crucible.embedded.batches import Datum
from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.embedded.training import Trained
from pytest_crucible.errors import SpecError
from pytest_crucible.training.base import Watch
from pytest_crucible.training.encoding import Encoder
from pytest_crucible.training.trainer import Kept, RecipeTrainer

SAVE_S = 120.0
"""How often the state of an adapter that is known to be good is saved, for a training that will not come to its end."""
PATH = "tinker://"
Within = Callable[[str, Callable[[], Any]], Any]


class TinkerTrainer(RecipeTrainer):
    """`client` is the SDK's, for recipes that know what they want of it; what they do with it alone is not written down."""

    def __init__(
        self,
        client: Any,
        sdk: Any,
        spec: LoraSpec,
        encoder: Encoder,
        *,
        name: str,
        within: Within,
        resumed: Callable[[str], Any],
        folder: Path,
        context: int | None = None,
        watch: Watch = lambda log: None,
    ) -> None:
        """`within(doing, call)` waits for what a call of the SDK gives, and raises SpecError when it fails or is late.

        `resumed(path)` makes a client that goes on from a state.
        """
        super().__init__(spec, encoder, folder=folder, context=context, watch=watch)
        self.client = client
        self._sdk, self._name, self._within, self._resumed = sdk, name, within, resumed
        self._good, self._saved_at = "", time.monotonic()
        self._has_failed = False

    def sampler(self) -> Any:
        """The SDK's SamplingClient; later steps do not change it."""
        return self._within("save weights to sample from", self.client.save_weights_and_get_sampling_client)

    def save(self, folder: Path) -> Kept:
        if self._has_failed:
            return Kept(state=self._good)
        checkpoint = self._within(
            "save weights to sample from", lambda: self.client.save_weights_for_sampler(self._name)
        )
        return Kept(checkpoint=checkpoint.path, state=self._save_state(self._name))

    def _pass(self, data: Sequence[Datum], loss: str, config: Mapping[str, float], *, forward_only: bool) -> Trained:
        run = self.client.forward if forward_only else self.client.forward_backward
        rows, settings = [self._datum(one) for one in data], dict(config) or None
        found = self._asked("run forward and backward", lambda: run(rows, loss, settings))
        total = float(found.metrics["loss:sum"])
        if not math.isfinite(total):
            self._has_failed = True
            raise NotFinite(f"the {loss} loss is {total}")
        outputs = [{name: one.to_numpy() for name, one in row.items()} for row in found.loss_fn_outputs]
        return Trained(total, outputs, dict(found.metrics), {})

    def _move(self, params: AdamParams) -> dict[str, float]:
        given = {name: value for name, value in asdict(params).items() if name in _fields(self._sdk.AdamParams)}
        found = self._asked("make a step", lambda: self.client.optim_step(self._sdk.AdamParams(**given)))
        return dict(found.metrics or {})

    def _remember(self) -> None:
        if self.log.losses and time.monotonic() - self._saved_at >= SAVE_S:
            self._good = self._save_state(f"{self._name}-unfinished")
            self._saved_at = time.monotonic()

    def _load(self, checkpoint: str | Path) -> str:
        path = str(checkpoint)
        if not path.startswith(PATH):
            path = _state_of(self._folder / Path(checkpoint).expanduser())
        self.client = self._resumed(path)
        info = self._within("tell what it trains", self.client.get_info)
        rank = getattr(info.model_data, "lora_rank", None) or getattr(info, "lora_rank", None) or self.spec.rank
        self.spec = replace(self.spec, rank=rank)
        return path

    def _asked(self, doing: str, call: Callable[[], Any]) -> Any:
        """What fails ends the training, which may have a state to go on from."""
        try:
            return self._within(doing, call)
        except SpecError as error:
            self._has_failed = True
            raise ValueError(str(error)) from None

    def _save_state(self, name: str) -> str:
        saved = self._within("save its state", lambda: self.client.save_state(name, overwrite=True))
        return str(saved.path)

    def _datum(self, datum: Datum) -> Any:
        inputs = {name: values.tolist() for name, values in datum.inputs.items()}
        return self._sdk.Datum(
            model_input=self._sdk.ModelInput.from_ints([int(one) for one in datum.tokens]), loss_fn_inputs=inputs
        )


def _fields(model: Any) -> set[str]:
    """Names that a type of this version of the SDK knows."""
    known = getattr(model, "model_fields", None) or getattr(model, "__annotations__", {})
    return set(known)


def _state_of(place: Path) -> str:
    """The state of an adapter that a recipe has trained on the service: its directory says so."""
    try:
        state = json.loads((place / "lineage.json").read_text(encoding="utf-8"))["state"]
    except (OSError, ValueError, KeyError, TypeError):
        state = ""
    if not state:
        raise ValueError(
            f"start_from({str(place)!r}) names no training on a Tinker service: write tinker://RUN/weights/NAME, or the "
            "directory of an adapter that was trained there"
        )
    return str(state)
