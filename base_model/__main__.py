"""Train the base model and write it into a directory, with the record of the run: `python -m base_model DIRECTORY`.

Set OPENBLAS_NUM_THREADS=1: more threads do not make it faster, and change the rounding.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from base_model.train import SHAPE, Course, make_tokenizer, train
from pytest_crucible.local_model.checkpoints import save_base
from pytest_crucible.local_model.config import Weights
from pytest_crucible.local_model.tokens import Tokenizer

_DECIDING = ("words", "passages", "claims", "drills", "readings", "mixture", "muon", "tokenizer", "gradients", "train")


def save(directory: Path, weights: Weights, tokenizer: Tokenizer, record: dict[str, object]) -> None:
    """Write the weights in half precision, the tokenizer, and the record of the run with both their hashes."""
    directory.mkdir(parents=True, exist_ok=True)
    save_base(directory / "model.safetensors", weights, SHAPE)
    tokenizer.save(directory / "tokenizer.json")
    files = ("model.safetensors", "tokenizer.json")
    hashes = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in files}
    (directory / "training.json").write_text(json.dumps(record | {"sha256": hashes}, indent=1) + "\n", encoding="utf-8")


def script_sha256() -> str:
    """One hash of all the files here that decide the text and the training."""
    together = hashlib.sha256()
    for module in _DECIDING:
        together.update((Path(__file__).parent / f"{module}.py").read_bytes())
    return together.hexdigest()


def main() -> None:
    """Train, and write everything into the directory that was named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, default=Course().steps)
    given = parser.parse_args()
    course, script, started = Course(steps=given.steps), script_sha256(), time.monotonic()
    tokenizer = make_tokenizer(course.tokenizer_seed)
    weights, log = train(course, tokenizer)
    record = {
        "made_by": "python -m base_model",
        "script_sha256": script,
        "shape": asdict(SHAPE),
        "parameters": SHAPE.parameters,
        "course": asdict(course),
        "tokens": course.steps * course.tokens_per_step,
        "minutes": round((time.monotonic() - started) / 60, 1),
        "numpy": np.__version__,
        "loss": log,
    }
    save(given.directory, weights, tokenizer, record)


if __name__ == "__main__":
    main()
