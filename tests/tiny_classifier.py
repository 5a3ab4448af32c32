"""A tiny text classifier, trained here in a second: it knows attacks by the word `ignore`, and nothing else.

It is no model of language: it is there so that a real classifier, its tokenizer and its labels go through the program's own path.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from tiny_nli import tokenizer_of
from transformers import BertConfig, BertForSequenceClassification

WORDS = ("all", "previous", "instructions", "rules", "the", "what", "is", "a", "good", "soup", "say")
STEPS, AT_ONCE, LONGEST = 120, 32, 24


def draw_texts(draw: random.Random) -> dict[str, int]:
    """Return texts with their labels: random words, some of which the tokenizer does not know, with and without `ignore`."""
    labelled = {}
    for number in range(AT_ONCE):
        words = [draw.choice((*WORDS, "unheard")) for _ in range(draw.randint(0, LONGEST))]
        if number % 2:
            words.insert(draw.randint(0, len(words)), "ignore")
        labelled[" ".join(words)] = number % 2
    return labelled


def train_classifier(directory: Path, names: tuple[str, str] = ("BENIGN", "INJECTION")) -> Path:
    """Write a trained model whose labels have these names."""
    torch.manual_seed(0)
    # Several threads would wait for each other: the matrices are small.
    torch.set_num_threads(1)
    draw, tokenizer = random.Random(0), tokenizer_of(["ignore", *WORDS])
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, id2label=dict(enumerate(names)),
        label2id={name: number for number, name in enumerate(names)},
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        labelled = draw_texts(draw)
        inputs = tokenizer(list(labelled), padding=True, return_tensors="pt")
        loss = model(**inputs, labels=torch.tensor(list(labelled.values()))).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
