"""The text of the embedded model's reply, token by token."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from pytest_crucible.local_model.engine import Sampler
from pytest_crucible.local_model.sampling import SamplingParams, TextPieces


class TokenStream:
    """Delivers a reply's text to the sampling loop while the engine's thread samples it."""

    def __init__(self, sampler: Sampler, params: SamplingParams, receive: Callable[[str], None]) -> None:
        texts = [stop for stop in params.stop or () if isinstance(stop, str)]
        self._pieces = TextPieces(sampler.engine.tokenizer, texts)
        self._receive, self._loop = receive, asyncio.get_running_loop()
        self.first_at: float | None = None
        """Time of the first token by `time.perf_counter`."""

    def watch(self, number: int, token: int) -> None:
        """Deliver a token; called in the engine's thread."""
        self.first_at = self.first_at or time.perf_counter()
        # A closed loop needs no text, and an error at this point would end the replies of the whole batch.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, token)

    def _deliver(self, token: int) -> None:
        self._receive(self._pieces.add(token))
