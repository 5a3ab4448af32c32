"""Special tokens of other models' chat formats, which a stand-in has beside its own.

A stand-in answers under another model's name. The renderers of tinker-cookbook need the special tokens of that model, each
as one token: `<|im_end|>`, `<|eot_id|>`, `<think>`. One list serves all families, so that all stand-ins are the same model.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from pytest_crucible.local_model.config import Floats
from pytest_crucible.local_model.engine import Engine

# The order gives the ids: append only, because checkpoints of stand-ins depend on it.
RESERVED = (
    # Text that a reply shows, in several families.
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    # Llama 3
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    "<|python_tag|>",
    # Qwen 3 and Nemotron 3
    *("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"),
    # DeepSeek V3
    *("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>", "<｜User｜>", "<｜Assistant｜>"),
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
    *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
    # gpt-oss
    *("<|startoftext|>", "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>"),
    "<|call|>",
    # Kimi K2
    *("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>"),
    "<|tool_call_argument_begin|>",
    # GLM
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
)
_SPREAD = 0.1
# Prompts of recipes are longer than those that the model was trained on. Its replies to them are worse, but recipes run; with
# twice as much, reading one prompt would take more than 500 MB.
CONTEXT = 2048


def make_stand_in(engine: Engine) -> Engine:
    """Return the model with the reserved tokens after its own. Its hash differs, so that adapters are not mixed up."""
    rows = _new_rows(engine.weights["embedding"], len(RESERVED))
    embedding = np.concatenate([engine.weights["embedding"], rows])
    tokenizer = replace(engine.tokenizer, reserved=RESERVED)
    digest = hashlib.sha256("\n".join((engine.base_sha256, *RESERVED)).encode()).hexdigest()
    return Engine(
        tokenizer,
        replace(engine.shape, vocabulary=tokenizer.vocabulary, context=max(CONTEXT, engine.shape.context)),
        {**engine.weights, "embedding": embedding},
        digest,
    )


def _new_rows(embedding: Floats, count: int) -> Floats:
    """Return rows near the mean of the others, as Hewitt (2021), "Initializing new word embeddings", recommends.

    A random row would take probability from the tokens that the model knows; one at the mean has little, and the noise
    makes the new tokens distinguishable. Always the same rows for a base.
    """
    random = np.random.Generator(np.random.Philox(0))
    noise = random.normal(0.0, 1.0, (count, embedding.shape[1])) * embedding.std(axis=0) * _SPREAD
    rows: Floats = (embedding.mean(axis=0) + noise).astype(embedding.dtype)
    return rows
