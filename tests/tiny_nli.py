"""A tiny NLI model, trained here in seconds: two layers that learn negation and opposites of a few words, and nothing else.

`python tests/tiny_nli.py DIRECTORY` writes one. It is no model of language: it is there so that a real cross-encoder,
its tokenizer and its labels go through the program's own path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from pytest_crucible.metrics.models.local import PLAIN

SEED, STEPS, AT_ONCE = 0, 150, 48
LONGEST = 48
SUBJECTS = ("tea", "coffee", "the vaccine", "aspirin", "sleep", "exercise")
THINGS = ("colds", "pain", "fever", "infection", "stress", "growth")
ELSEWHERE = ("old bridges", "tall towers", "small houses")
VERBS = (("shortens", "prolongs"), ("reduces", "raises"), ("prevents", "causes"))
ENTAILMENT, NEUTRAL, CONTRADICTION = 2, 0, 1
"""In an order that no known model has."""
NAMES = {NEUTRAL: "Neutral", CONTRADICTION: "CONTRADICTION", ENTAILMENT: "entailment"}
Pair = tuple[str, str, int]


def pairs() -> Iterator[Pair]:
    """Every sentence with itself in other words, with its opposite, and with a sentence of something else."""
    for k, subject in enumerate(SUBJECTS):
        for j, thing in enumerate(THINGS):
            for verb, opposite in VERBS:
                premise = f"In adults {subject} {verb} {thing}."
                yield premise, f"{subject} {verb} {thing}.", ENTAILMENT
                yield premise, f"{subject} {opposite} {thing}.", CONTRADICTION
                yield premise, f"{subject} never {verb} {thing}.", CONTRADICTION
                yield premise, f"{ELSEWHERE[(k + j) % len(ELSEWHERE)]} stand in the town.", NEUTRAL
    for _ in range(6):  # a model that knows language knows these, too
        yield from ((premise, output, ENTAILMENT if entails else CONTRADICTION) for premise, output, entails in PLAIN)


def tokenizer_of(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """A word is a token."""
    words = sorted({word for text in texts for word, _ in Whitespace().pre_tokenize_str(text.lower())})
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]
    part = Tokenizer(WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]"))
    part.normalizer, part.pre_tokenizer = Lowercase(), Whitespace()
    part.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=part, model_max_length=LONGEST, **special)


def train(directory: Path) -> Path:
    """Write a trained model."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # of matrices this small several threads make waiting
    rows = list(pairs())
    tokenizer = tokenizer_of([text for premise, output, _ in rows for text in (premise, output)])
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=NAMES,
        label2id={name: place for place, name in (NAMES).items()},
    )
    model = BertForSequenceClassification(config)
    _fit(model, tokenizer, rows)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def _fit(model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Pair]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(STEPS):
        batch = [rows[int(place)] for place in torch.randint(len(rows), (AT_ONCE,))]
        premises, output, labels = zip(*batch, strict=True)
        encoded = tokenizer(list(premises), list(output), padding=True, return_tensors="pt")
        loss = model(**encoded, labels=torch.tensor(labels)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    print(train(Path(sys.argv[1])))
