"""The file of a tokenizer: Hugging Face's `tokenizer.json`, which other libraries read as well.

Each byte is shown as one visible character there, as GPT-2 wrote its vocabulary and every library since has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_crucible.embedded.chat import TEMPLATE

PIECES = r" ?[A-Za-z\x{80}-\x{10FFFF}]+|[0-9]| ?[!-/:-@\[-`{-~]| +|[\x{00}-\x{1F}\x{7F}]+"
"""How text is cut, as `tokenizers` writes it (Oniguruma)."""
PAD, EOS = "<|pad|>", "<|endoftext|>"


def written(texts: Sequence[bytes], merges: Sequence[tuple[int, int]]) -> str:
    """The file for tokens that stand for these bytes; `pad` and `eos` come after them.

    >>> read(written([bytes([one]) for one in range(256)] + [b"hi"], [(104, 105)]))
    ((104, 105),)
    """
    shown = [_shown(one) for one in texts]
    vocabulary = {text: one for one, text in enumerate([*shown, PAD, EOS])}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": False}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": vocabulary[text], "content": text, **special} for text in (PAD, EOS)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [[shown[first], shown[second]] for first, second in merges],
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def read(text: str) -> tuple[tuple[int, int], ...]:
    """Merges of a file that `written` made. Raises KeyError, IndexError, TypeError or ValueError for any other file."""
    content = json.loads(text)
    splits, model = content["pre_tokenizer"]["pretokenizers"], content["model"]
    if splits[0]["pattern"]["Regex"] != PIECES:
        raise ValueError("text is cut in another way")
    ids = model["vocab"]
    if any(ids[shown] != one for shown, one in _HIDDEN.items()):
        raise ValueError("its first 256 tokens are not the bytes")
    return tuple((ids[first], ids[second]) for first, second in model["merges"])


def configurations() -> dict[str, str]:
    """Files that transformers wants beside it, by name. Special tokens that a text spells out are read as text."""
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        "chat_template": TEMPLATE,
    }
    contents = {"tokenizer_config.json": tokenizer, "config.json": {"model_type": "gpt2"}}
    return {name: json.dumps(content, indent=1) + "\n" for name, content in contents.items()}


def _alphabet() -> list[str]:
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(0x100, 0x200))
    return [chr(one if one in shown else next(hidden)) for one in range(256)]


_VISIBLE = _alphabet()
_HIDDEN = {text: one for one, text in enumerate(_VISIBLE)}


def _shown(text: bytes) -> str:
    return "".join(_VISIBLE[one] for one in text)
