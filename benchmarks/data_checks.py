"""Data checks: ten checks on a million samples, and 10,000 samples against a million training rows."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure, show
from benchmarks.memory import peak_mib

SAMPLES, ROWS = 1_000_000, 1_000_000
COMPARED = 10_000
_WORDS = 60_000


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        seconds, processor, _ = _apart("checks", place)
        compared, compared_processor, memory = _apart("contamination", place)
    return [
        Figure(name="ten data checks on 1,000,000 samples", measured=seconds, unit="s", limit=10),
        Figure(name="- processor time", measured=processor, unit="s"),
        Figure(name="10,000 samples against 1,000,000 training rows", measured=compared, unit="s", limit=60),
        Figure(name="- processor time", measured=compared_processor, unit="s"),
        Figure(name="- most memory", measured=memory, unit="MB", limit=500),
    ]


def _apart(what: str, place: Path) -> tuple[float, float, float]:
    """Return the seconds, the processor's seconds and the MB of a part that runs in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.data_checks", what, str(place)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, processor, memory = map(float, output.split())
    return seconds, processor, memory


def run_checks() -> tuple[float, float]:
    """Return the seconds of ten checks on samples in memory, and the processor's seconds."""
    from pytest_crucible.datasets import checks
    from pytest_crucible.datasets.packed import PackedSamples
    from pytest_crucible.records import Sample

    draw = random.Random(1)
    samples = PackedSamples(
        Sample(
            id=f"q{k}",
            input=f"What is {k} plus {k}?",
            expected="even" if k % 2 else "odd",
            metadata={"age": draw.random() * 99, "code": f"A-{k}", "length": k % 50},
        )
        for k in range(SAMPLES)
    )
    ten = [
        checks.expect_no_missing_values("expected"),
        checks.expect_column_values_to_be_in_set("expected", ["even", "odd"]),
        checks.expect_column_values_to_be_between("age", 0, 99),
        checks.expect_column_values_to_match_regex("code", r"^A-\d+$"),
        checks.expect_column_values_to_be_unique("code"),
        checks.expect_column_mean_to_be_between("age", 40, 60),
        checks.expect_column_quantile_to_be("length", 0.5, 25),
        checks.expect_label_balance("expected"),
        checks.expect_feature_correlation("age", "length"),
        checks.expect_clean_text("input"),
    ]
    started, used = time.perf_counter(), time.process_time()
    results = checks.check_samples(samples, ten)
    seconds = time.perf_counter() - started, time.process_time() - used
    assert all(result.state == "passed" for result in results), results
    return seconds


def compare(place: Path) -> tuple[float, float]:
    """Return the seconds of a comparison, the training file read from disk, and the processor's seconds."""
    from pytest_crucible.features.contamination.compare import compare_with_file
    from pytest_crucible.records import Sample

    texts = _texts(0)
    samples = [Sample(id=f"s{k}", input=next(texts)) for k in range(COMPARED)]
    path = place / "train.jsonl"
    training = _texts(1)
    with path.open("w") as file:
        for k in range(ROWS):
            # One row in a thousand is a sample.
            text = samples[k // 1000 % COMPARED].input if k % 1000 == 0 else next(training)
            file.write(json.dumps({"prompt": text, "completion": "yes"}) + "\n")
    started, used = time.perf_counter(), time.process_time()
    overlap = compare_with_file(samples, path, dataset_sha256="benchmark")
    seconds = time.perf_counter() - started, time.process_time() - used
    assert len(overlap.matches) >= ROWS // 1000, len(overlap.matches)
    return seconds


def _texts(seed: int) -> Iterator[str]:
    """Yield texts of 8 to 30 words whose frequencies follow Zipf's law, as in any language."""
    draw = np.random.default_rng(seed)
    shares = 1 / np.arange(1, _WORDS + 1)
    sums = np.cumsum(shares / shares.sum())
    while True:
        lengths = draw.integers(8, 31, size=1000)
        words = [f"w{number}" for number in np.minimum(np.searchsorted(sums, draw.random(lengths.sum())), _WORDS - 1)]
        start = 0
        for length in lengths.tolist():
            yield " ".join(words[start : start + length])
            start += length


if __name__ == "__main__":
    if len(sys.argv) == 1:
        raise SystemExit(show(figures()))
    took = run_checks() if sys.argv[1] == "checks" else compare(Path(sys.argv[2]))
    print(*took, peak_mib() * 2**20 / 1e6)
