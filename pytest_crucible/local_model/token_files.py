"""The file of a tokenizer: Hugging Face's `tokenizer.json`, which other libraries can read.

The file shows each byte as one visible character, as GPT-2's vocabulary and every library since do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_crucible.local_model.chat import TEMPLATE

# The pattern that splits text, in the syntax of `tokenizers` (Oniguruma).
PIECES = r" ?[A-Za-z\x{80}-\x{10FFFF}]+|[0-9]| ?[!-/:-@\[-`{-~]| +|[\x{00}-\x{1F}\x{7F}]+"
PAD, EOS = "<|pad|>", "<|endoftext|>"


def tokenizer_json(texts: Sequence[bytes], merges: Sequence[tuple[int, int]], reserved: Sequence[str] = ()) -> str:
    """Return the file for tokens that stand for these bytes; `pad`, `eos` and the reserved tokens come after them.

    >>> read_merges(tokenizer_json([bytes([byte]) for byte in range(256)] + [b"hi"], [(104, 105)]))
    ((104, 105),)
    """
    visible = [_visible(text) for text in texts]
    vocabulary = {text: token for token, text in enumerate([*visible, PAD, EOS, *reserved])}
    whole = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": PIECES}, "behavior": "Isolated", "invert": False}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocabulary[text], "content": text, **whole, "special": not is_shown(text)}
            for text in (PAD, EOS, *reserved)
        ],
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
            "merges": [[visible[first], visible[second]] for first, second in merges],
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def read_merges(text: str) -> tuple[tuple[int, int], ...]:
    """Return the merges of a file that `tokenizer_json` made.

    Raises KeyError, IndexError, TypeError or ValueError for any other file.
    """
    content = json.loads(text)
    splits, model = content["pre_tokenizer"]["pretokenizers"], content["model"]
    if splits[0]["pattern"]["Regex"] != PIECES:
        raise ValueError("it splits text by another pattern")
    ids = model["vocab"]
    if any(ids[character] != byte for character, byte in _HIDDEN.items()):
        raise ValueError("its first 256 tokens are not the bytes")
    return tuple((ids[first], ids[second]) for first, second in model["merges"])


def read_reserved(text: str) -> tuple[str, ...]:
    """Return the reserved tokens of such a file, which follow `pad` and `eos`."""
    return tuple(token["content"] for token in json.loads(text)["added_tokens"][2:])


def is_shown(name: str) -> bool:
    """Return whether a reader of a reply sees a special token: `<think>` is text, `<|im_end|>` a mark.

    >>> is_shown("<think>"), is_shown("<|im_end|>"), is_shown("<｜User｜>")
    (True, False, False)
    """
    return name.startswith("<") and name[1] not in "|｜"


def configurations(*, has_reserved: bool = False) -> dict[str, str]:
    """Return the files that transformers needs next to it, by name.

    Special tokens that a text spells out are read as text, except where renderers have to write reserved ones.
    """
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": not has_reserved,
        "chat_template": TEMPLATE,
    }
    contents = {"tokenizer_config.json": tokenizer, "config.json": {"model_type": "gpt2"}}
    return {name: json.dumps(content, indent=1) + "\n" for name, content in contents.items()}


def _alphabet() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(substitutes)) for byte in range(256)]


_VISIBLE = _alphabet()
_HIDDEN = {text: byte for byte, text in enumerate(_VISIBLE)}


def _visible(text: bytes) -> str:
    return "".join(_VISIBLE[byte] for byte in text)
