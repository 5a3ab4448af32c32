"""How well the base and the suite's adapters extract claims: trains v1 and v2 with several seeds, and asks held-out samples.

    python -m base_model.evaluate [DIRECTORY] [--seeds 3] [--samples 200]

Prints one JSON object a line: shares over the samples at temperature 1 (`judge` in example_suites/claims says of what).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from base_model.write_claims import SUITE
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import PACKAGED, Engine, Sampler
from pytest_crucible.local_model.sampling import SamplingParams

sys.path.insert(0, str(SUITE))

import recipes
from claims_judging import Judgement, judge

RECIPES = {"v1": recipes.train_v1, "v2": recipes.train_v2}


def measure(sampler: Sampler, samples: Sequence[dict[str, str]], seed: int = 0) -> dict[str, float]:
    """Mean judgements of one reply to each sample, and the seconds it took to get them."""
    started = time.monotonic()
    encode = sampler.engine.tokenizer.encode
    params = SamplingParams(max_tokens=140, seed=seed, temperature=1.0)
    replies = sampler.sample([encode(sample["input"]) for sample in samples], params)
    seconds = time.monotonic() - started
    judged = [
        judge(sample["input"], sample["expected"], reply.text) for sample, reply in zip(samples, replies, strict=True)
    ]
    of_two = [one for sample, one in zip(samples, judged, strict=True) if sample["input"].count("Document ") > 1]
    citation = {"citation_of_two_documents": summary(of_two)["citation"]} if of_two else {}
    return summary(judged) | citation | {"seconds": round(seconds, 1)}


def summary(judged: Sequence[Judgement]) -> dict[str, float]:
    """Means; that of the verbs is over the replies that quote any evidence, whose number is `with_verb`."""
    means = {
        name: round(sum(getattr(each, name) for each in judged) / len(judged), 3)
        for name in ("schema", "citation", "quotation", "whole")
    }
    verbs = [each.verb for each in judged if each.verb is not None]
    return {**means, "verb": round(sum(verbs) / len(verbs), 3) if verbs else 0.0, "with_verb": len(verbs)}


def results(engine: Engine, samples: Sequence[dict[str, str]], seeds: int) -> Iterator[dict[str, object]]:
    """The base, then every recipe with every seed of the adapter."""
    yield {"adapter": "base", **measure(engine.sampler(), samples)}
    for seed in range(seeds):
        for name, recipe in RECIPES.items():
            started = time.monotonic()
            trainer = engine.trainer(LoraSpec(seed=seed))
            losses = recipe(trainer)
            trained = {"training_seconds": round(time.monotonic() - started, 1), "last_loss": round(losses[-1], 3)}
            yield {"adapter": name, "seed": seed, **measure(trainer.sampler(), samples), **trained}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?", default=PACKAGED)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=200)
    given = parser.parse_args()
    lines = (SUITE / "held_out.jsonl").read_text(encoding="utf-8").splitlines()
    samples = [json.loads(line) for line in lines[: given.samples]]
    for result in results(Engine.load(given.directory), samples, given.seeds):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
