"""Rows of conversations are those of the cookbook: tokens and weights of its renderers, of all answers and of the last.

Skipped in an environment without tinker-cookbook.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from pytest_crucible.features.training.encoding import TemplateEncoder, encode_rows
from pytest_crucible.local_model.engine import Engine, make_stand_in

pytest.importorskip("tinker_cookbook")
pytestmark = pytest.mark.slow

TEMPLATES = {
    "qwen3_instruct": (
        "<|im_end|>",
        "{%- for message in messages -%}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}",
    ),
    "llama3": (
        "<|eot_id|>",
        "{{ '<|begin_of_text|>' }}{%- for message in messages -%}"
        "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}"
        "{%- endfor -%}{%- if add_generation_prompt -%}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}",
    ),
}
WORDS = ["water", "is", "wet", "and", "17", "documents", "were", "studied", ",", "why", "not", "two", "?"]


def conversations() -> list[list[dict[str, str]]]:
    draw = random.Random(0)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(1, 9)))

    rows = []
    for _ in range(50):
        turns = draw.randint(1, 4)
        messages = [{"role": "system", "content": text()}] * draw.randint(0, 1)
        for _ in range(turns):
            messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
        rows.append(messages)
    return rows


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    make_stand_in(Engine.load_packaged()).tokenizer.save_for_transformers(folder)
    return folder


@pytest.mark.parametrize("renderer", TEMPLATES)
@pytest.mark.parametrize(
    ("train_on", "theirs"),
    [("all_assistant", "all_assistant_messages"), ("last_assistant", "last_assistant_message")],
)
def test_tokens_and_weights_are_those_of_a_renderer(renderer, train_on, theirs, tokenizer_folder):
    from tinker_cookbook import renderers
    from tinker_cookbook.supervised.common import datum_from_model_input_weights
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    tokenizer.eos_token, tokenizer.chat_template = TEMPLATES[renderer]
    cookbook, ours = renderers.get_renderer(renderer, tokenizer), TemplateEncoder(tokenizer)
    for messages in conversations():
        example = cookbook.build_supervised_example(messages, train_on_what=renderers.TrainOnWhat(theirs))
        expected = datum_from_model_input_weights(*example, max_length=10_000)
        (row,) = encode_rows([{"messages": messages}], ours, None, train_on=train_on)

        assert list(row.tokens) == expected.model_input.to_ints()
        for name in ("target_tokens", "weights"):
            np.testing.assert_array_equal(row.inputs[name], expected.loss_fn_inputs[name].to_numpy())
