"""A prompt that is read in pieces has the numbers of the whole one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tiny_model import SHAPE, tiny_engine

from pytest_crucible.local_model import reading
from pytest_crucible.local_model.config import Shape
from pytest_crucible.local_model.decoding import Decodable, Prefilled, multiply_by_row
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.local_model.model import forward
from pytest_crucible.local_model.reading import PIECE, PromptReading
from pytest_crucible.local_model.training import one_thread


def read_pieces(weights: Decodable, shape: Shape, prompt: list[int]) -> tuple[Prefilled, int]:
    """Return the row after a prompt, and the number of pieces."""
    prompt_reading, pieces = PromptReading(weights, shape, prompt), 1
    while (row := prompt_reading.read_piece()) is None:
        pieces += 1
    return row, pieces


def read_processor() -> str:
    """Return what Linux says of the processor."""
    facts = Path("/proc/cpuinfo")
    return facts.read_text() if facts.exists() else ""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors round in ways of their own")
@pytest.mark.parametrize("length", [1, 63, 64, PIECE, 2 * PIECE - 1, 2 * PIECE, 3 * PIECE + 1, 1000])
def test_pieces_give_the_numbers_of_the_whole_prompt_bit_for_bit(length):
    engine = Engine.load_packaged()
    weights, shape = engine.sampler().weights, replace(engine.shape, context=1000)
    prompt = np.random.default_rng(length).integers(0, shape.vocabulary, length).tolist()

    with one_thread():
        row, pieces = read_pieces(weights, shape, prompt)
        whole = forward(weights.merged, shape, np.array([prompt]))

    assert pieces == max(1, length // PIECE)
    for keys, values, layer in zip(row.keys, row.values, whole.layers, strict=True):
        assert_array_equal(keys, layer.attended.keys[0])
        assert_array_equal(values, layer.attended.values[0])
    assert_array_equal(row.logits, multiply_by_row(whole.states[-1:], weights.merged.unembedding)[0])


@pytest.mark.slow
@pytest.mark.skipif("avx2" not in read_processor(), reason="has no AVX2")
@pytest.mark.parametrize("kernel", ["Haswell", "Nehalem"])
def test_pieces_give_the_numbers_of_the_whole_prompt_on_other_processors(kernel):
    """OpenBLAS takes the kernel of an older processor: each rounds a row by its place in another way."""
    selected = ["-k", "bit_for_bit", "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__, *selected]
    done = subprocess.run(command, env={**os.environ, "OPENBLAS_CORETYPE": kernel}, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout


def test_a_piece_continues_the_smearing_and_the_positions_of_the_one_before(monkeypatch):
    monkeypatch.setattr(reading, "PIECE", 64)
    weights, prompt = tiny_engine().sampler().weights, [*range(3, 153)]

    row, pieces = read_pieces(weights, SHAPE, prompt)
    shorter, _ = read_pieces(weights, SHAPE, prompt[:100])
    whole = forward(weights.merged, SHAPE, np.array([prompt]))

    assert pieces == 2
    assert_allclose(row.keys[1], whole.layers[1].attended.keys[0], rtol=1e-3, atol=1e-5)
    assert_allclose(row.logits, (whole.states[-1:] @ weights.merged.unembedding)[0], rtol=1e-3, atol=1e-4)
    assert_allclose(shorter.keys[0], row.keys[0][:, :100], rtol=1e-3, atol=1e-5)
