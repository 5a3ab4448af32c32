"""On what a model computes, and how finely: bfloat16 where the machine has it in hardware, which is twice as fast or more."""

from __future__ import annotations

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


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether this processor multiplies bfloat16; False where it does not say."""
    try:
        flags = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f" {flag} " in f"{line} " for line in flags.splitlines() for flag in CPU_FLAGS)
