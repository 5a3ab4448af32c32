"""Loss and gradients of DPO from PyTorch, which `test_dpo_reference.py` compares with: `python tests/reference/dpo_reference.py`.

The embedded model is written again in PyTorch, in float64 and without any of the package's own computing: only its weights, the
factors of an adapter and the tokens of some pairs are taken from there. Made with torch 2.13.0.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent.parent))
from tiny_base import write_tiny_base

from pytest_crucible.backends.local import open_engine
from pytest_crucible.features.training.losses import Preference
from pytest_crucible.features.training.trainer import EmbeddedTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec

FILE = Path(__file__).with_suffix(".json")
BETA = 0.3
SPEC = LoraSpec(rank=4, seed=3)
PAIRS = [
    {"prompt": "What is the sum of two and three?", "chosen": "five", "rejected": "The answer is six, I think."},
    {"prompt": "one and one?", "chosen": "The sum is two.", "rejected": "two"},
    {"prompt": "sum", "chosen": "The answer is five.", "rejected": "no"},
]
ROWS = [
    {"prompt": "two and two?", "completion": "The sum of two and two is four."},
    {"prompt": "?", "completion": "no"},
]


def prepare(folder: Path) -> tuple[EmbeddedTrainer, list[Preference]]:
    """Return a trainer whose adapter has left the starting model, and pairs that refer to the starting model."""
    trainer = EmbeddedTrainer(open_engine(write_tiny_base(folder / "base")), SPEC, folder=folder)
    pairs = trainer.preferences(PAIRS)
    for _ in range(2):
        trainer.step(trainer.datums(ROWS), learning_rate=0.02)
    return trainer, pairs


def main() -> None:
    import torch

    with tempfile.TemporaryDirectory() as folder:
        trainer, pairs = prepare(Path(folder))
        base = {
            name: torch.tensor(values.tolist(), dtype=torch.float64) for name, values in trainer.engine.weights.items()
        }
        factors = {
            name: torch.tensor(values.tolist(), dtype=torch.float64, requires_grad=True)
            for name, values in trainer.adapter.factors.items()
        }
        shape = trainer.engine.shape
    merged = {**base, "unembedding": base["embedding"].T}
    for name in {name.rpartition(".")[0] for name in factors}:
        merged[name] = merged[name] + SPEC.scale * factors[f"{name}.A"] @ factors[f"{name}.B"]
    start = {**base, "unembedding": base["embedding"].T}
    margins = [
        logprob(torch, merged, shape, pair.chosen)
        - logprob(torch, start, shape, pair.chosen)
        - logprob(torch, merged, shape, pair.rejected)
        + logprob(torch, start, shape, pair.rejected)
        for pair in pairs
    ]
    loss = -torch.nn.functional.logsigmoid(BETA * torch.stack(margins)).sum()
    loss.backward()
    gradients = {name: factor.grad.flatten().tolist() for name, factor in sorted(factors.items())}
    FILE.write_text(
        json.dumps(
            {
                "torch": torch.__version__,
                "loss": loss.item(),
                "margins": [margin.item() for margin in margins],
                "norms": {name: sum(value**2 for value in values) ** 0.5 for name, values in gradients.items()},
                # A few of thousands: any error would change all of a matrix.
                "values": {name: [round(value, 8) for value in values[:24]] for name, values in gradients.items()},
            },
            indent=1,
        )
        + "\n",
        encoding="utf-8",
    )


def logprob(torch: Any, weights: Any, shape: Any, datum: Any) -> Any:
    """Return the log-probability of a datum's reply."""
    tokens = torch.tensor([int(token) for token in datum.tokens])
    targets = torch.tensor(datum.inputs["target_tokens"].tolist())
    counted = torch.tensor(datum.inputs["weights"].tolist(), dtype=torch.float64)
    x = weights["embedding"][tokens]
    for layer in range(shape.layers):
        part = {name.removeprefix(f"layers.{layer}."): value for name, value in weights.items()}
        x = x + attention(torch, norm(torch, x) * part["attention_norm"], part, shape) @ part["out"]
        x = x + torch.relu(norm(torch, x) * part["mlp_norm"] @ part["up"]) ** 2 @ part["down"]
    logits = (norm(torch, x) * weights["norm"]) @ weights["unembedding"]
    chosen = torch.log_softmax(logits, dim=-1)[torch.arange(len(tokens)), targets]
    return (chosen * counted).sum()


def norm(torch: Any, x: Any) -> Any:
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6)


def attention(torch: Any, x: Any, part: Any, shape: Any) -> Any:
    positions = len(x)
    queries, keys, values = (x @ part["qkv"]).split(shape.width, dim=-1)
    keys = torch.cat([keys[:1], keys[1:] + part["smear"] * (keys[:-1] - keys[1:])])
    queries, keys, values = (
        each.reshape(positions, shape.heads, shape.head).transpose(0, 1) for each in (queries, keys, values)
    )
    scores = rotate(torch, queries) @ rotate(torch, keys).transpose(1, 2) / shape.head**0.5
    future = torch.triu(torch.full((positions, positions), -torch.inf, dtype=torch.float64), diagonal=1)
    mixed = torch.softmax(scores + future, dim=-1) @ values
    return mixed.transpose(0, 1).reshape(positions, shape.width)


def rotate(torch: Any, heads: Any) -> Any:
    """Return heads (heads, positions, channels) with rotary positions: channels 2i and 2i + 1 are turned together."""
    pairs = heads.shape[-1] // 2
    rates = 10_000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    angles = torch.arange(heads.shape[1], dtype=torch.float64)[:, None] * rates
    even, odd = heads[..., 0::2], heads[..., 1::2]
    turned = (even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos())
    return torch.stack(turned, dim=-1).flatten(-2)


if __name__ == "__main__":
    main()
