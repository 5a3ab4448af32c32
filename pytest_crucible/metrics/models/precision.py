"""Device and precision of scoring models: bfloat16 if the hardware supports it, which is at least twice as fast."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Precision = Literal["bfloat16", "float32"]
CPU_FLAGS = ("avx512_bf16", "amx_bf16")


class Machine(NamedTuple):
    """The device and the precision of a model's weights."""

    device: str
    precision: Precision


def choose_machine(precision: Precision | None = None) -> Machine:
    """Return the device and precision to use here: a GPU if torch finds one. Precision is part of a scorer's identity."""
    import torch

    if torch.cuda.is_available():
        return Machine("cuda", precision or ("bfloat16" if torch.cuda.is_bf16_supported() else "float32"))
    return Machine("cpu", precision or ("bfloat16" if has_bfloat16() else "float32"))


@contextlib.contextmanager
def hidden_progress_bars() -> Iterator[None]:
    """Hide the progress bars of loading weights, which would mix with pytest's output."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this processor multiplies bfloat16; False if that is unknown."""
    try:
        flags = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f" {flag} " in f"{line} " for line in flags.splitlines() for flag in CPU_FLAGS)
