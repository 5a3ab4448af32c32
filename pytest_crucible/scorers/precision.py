"""On what a model computes, and how finely: bfloat16 where the machine has it in hardware, which is twice as fast or more."""

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


def machine(wanted: Precision | None = None) -> Machine:
    """What a model runs on here: a GPU where torch finds one. Precision is part of a scorer's identity."""
    import torch

    if torch.cuda.is_available():
        return Machine("cuda", wanted or ("bfloat16" if torch.cuda.is_bf16_supported() else "float32"))
    return Machine("cpu", wanted or ("bfloat16" if has_bfloat16() else "float32"))


@contextlib.contextmanager
def without_progress() -> Iterator[None]:
    """A bar that fills while weights are read has no place among a test run's lines."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this processor multiplies bfloat16; False where it does not say."""
    try:
        flags = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f" {flag} " in f"{line} " for line in flags.splitlines() for flag in CPU_FLAGS)
