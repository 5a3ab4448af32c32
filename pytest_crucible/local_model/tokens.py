"""Byte-level byte-pair encoding: any text to token ids and back; and chat messages as a prompt.

    tokenizer = train_tokenizer(texts, vocabulary=1024)     # seconds; the same texts give the same tokenizer
    tokenizer.save(path / "tokenizer.json")                 # the format of Hugging Face's `tokenizers`
    tokenizer = Tokenizer.load(path / "tokenizer.json")
    tokenizer.decode(tokenizer.encode(text)) == text        # whatever the text

Text is first cut into pieces: a word with the blank before it, one digit, one punctuation mark with the blank before
it, a run of blanks, a run of control characters (line breaks). Digits stay alone so that numbers are copied digit by
digit. All beyond ASCII counts as letters: so the cut needs no Unicode tables, and is the same in every library. Then
pairs of tokens are merged within each piece, in the order in which training found them.

Ids 0 to 255 are the bytes, then come the merges, last `pad` and `eos`. Encoding never makes `pad` or `eos`, whatever the
text says; decoding leaves them out, and shows bytes that are no UTF-8 as U+FFFD.

A stand-in for another model has `reserved` tokens after these (see `engine.RESERVED`). Encoding never makes them either; decoding
shows those that are text to a reader, such as <think>, and leaves out the marks of a chat format, such as <|im_end|>.

`tokenizer.json` shows each byte as one visible character, as GPT-2's vocabulary and every library since do.

Chat messages become a prompt for a model that learned questions and answers but no role markers. One message is the unchanged
prompt, so that clients that can only send messages send the same prompt as clients that send a text. Several messages are a
conversation, in the form that the base model was trained on; `TEMPLATE` is the same form as a template for transformers:

    Document 12: ...                    system, or any other role
                                        (a blank line)
    Question: what is Document 12 called?       user
    Answer: ...                                 assistant
                                        (a blank line)
    Question: who was studied?          user
    Answer:                             here the reply begins, mostly with a blank
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import describe_type

# The pattern that splits text; `PIECES` is the same for other libraries.
cut_pieces = re.compile(" ?[A-Za-z\x80-\U0010ffff]+|[0-9]| ?[!-/:-@\\[-`{-~]| +|[\x00-\x1f\x7f]+").findall
_BYTES = 256
# Pieces whose ids are cached; beyond it the cache starts again.
_REMEMBERED = 1 << 16

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Tokenizer:
    """Merges in the order of training: each is a pair of ids that becomes one token.

    >>> tokenizer = Tokenizer(merges=((104, 105),))
    >>> tokenizer.encode("hi 42!"), tokenizer.vocabulary, tokenizer.eos
    ([256, 32, 52, 50, 33], 259, 258)
    >>> tokenizer.decode([256, 33, 258])
    'hi!'
    """

    merges: tuple[Pair, ...]
    reserved: tuple[str, ...] = ()
    _bytes: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    _ranks: dict[Pair, int] = field(init=False, repr=False, compare=False)
    _ids: dict[bytes, int] = field(init=False, repr=False, compare=False)
    _cache: dict[str, list[int]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        table = Table()
        for pair in self.merges:
            table.add(pair)
        object.__setattr__(self, "_bytes", tuple(table.bytes))
        object.__setattr__(self, "_ids", table.ids)
        object.__setattr__(self, "_ranks", {pair: rank for rank, pair in enumerate(self.merges)})

    @property
    def vocabulary(self) -> int:
        """The number of ids; all ids are below it."""
        return len(self._bytes) + 2 + len(self.reserved)

    @property
    def pad(self) -> int:
        """The id that pads rows."""
        return len(self._bytes)

    @property
    def eos(self) -> int:
        """The id that ends a text."""
        return len(self._bytes) + 1

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text.

        A lone surrogate is not text and raises UnicodeEncodeError (a ValueError).
        """
        cache = self._cache
        ids: list[int] = []
        for piece in cut_pieces(text):
            piece_ids = cache.get(piece)
            if piece_ids is None:
                if len(cache) >= _REMEMBERED:
                    # Clearing at the limit is simpler than evicting, and the common pieces return at once.
                    cache.clear()
                piece_ids = cache[piece] = self._merge_piece(piece)
            ids += piece_ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; ValueError for an unknown id."""
        return self.bytes_of(ids).decode("utf-8", errors="replace")

    def bytes_of(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of ids, before they are read as UTF-8: a character may span several tokens."""
        texts = self._bytes
        ids = [int(token) for token in ids]
        if ids and not 0 <= min(ids) <= max(ids) < self.vocabulary:
            wrong = next(token for token in ids if not 0 <= token < self.vocabulary)
            raise ValueError(f"token {wrong} does not exist, ids are 0 to {self.vocabulary - 1}")
        return b"".join(texts[token] if token < len(texts) else self._reserved_text(token) for token in ids)

    def reserved_id(self, name: str) -> int | None:
        """Return the id of a reserved token; None for any other text."""
        return self.eos + 1 + self.reserved.index(name) if name in self.reserved else None

    def _reserved_text(self, token: int) -> bytes:
        name = self.reserved[token - self.eos - 1] if token > self.eos else ""
        return name.encode() if is_shown(name) else b""

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`, which `Tokenizer.load` and Hugging Face's `tokenizers` both read."""
        path.write_text(tokenizer_json(self._bytes, self.merges, self.reserved), encoding="utf-8")

    def save_for_transformers(self, directory: Path) -> None:
        """Write a directory from which transformers' AutoTokenizer produces the same ids."""
        directory.mkdir(parents=True, exist_ok=True)
        self.save(directory / "tokenizer.json")
        for name, content in configurations(has_reserved=bool(self.reserved)).items():
            (directory / name).write_text(content, encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Tokenizer:
        """Return the tokenizer that `save` wrote; ValueError for another library's file."""
        try:
            text = path.read_text(encoding="utf-8")
            # The reserved tokens follow `pad` and `eos`.
            reserved = tuple(token["content"] for token in json.loads(text)["added_tokens"][2:])
            return Tokenizer(read_merges(text), reserved)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"{path} was not written by this tokenizer ({error!r})") from None

    def _merge_piece(self, piece: str) -> list[int]:
        """Return the ids of a piece: always merge the pair that training found first, everywhere in the piece."""
        ids, ranks = list(piece.encode("utf-8")), self._ranks
        while len(ids) > 1:
            best = min(pairwise(ids), key=lambda pair: ranks.get(pair, len(ranks)))
            if best not in ranks:
                break
            ids = replace_pair(ids, best, self._ids[self._bytes[best[0]] + self._bytes[best[1]]])
        return ids


class Table:
    """The bytes of every id. Two merges with the same bytes have the same id."""

    def __init__(self) -> None:
        self.bytes = [bytes([byte]) for byte in range(_BYTES)]
        self.ids = {text: position for position, text in enumerate(self.bytes)}

    def add(self, pair: Pair) -> int:
        if not max(pair) < len(self.bytes):
            raise ValueError(f"merge {pair} uses a token that no earlier merge made")
        merged = self.bytes[pair[0]] + self.bytes[pair[1]]
        # Two merges may produce the same bytes; they then share one id.
        if merged not in self.ids:
            self.ids[merged] = len(self.bytes)
            self.bytes.append(merged)
        return self.ids[merged]


def replace_pair(ids: list[int], pair: Pair, merged: int) -> list[int]:
    result, position, last = [], 0, len(ids) - 1
    while position <= last:
        if position < last and ids[position] == pair[0] and ids[position + 1] == pair[1]:
            result.append(merged)
            position += 2
        else:
            result.append(ids[position])
            position += 1
    return result


# The pattern that splits text, in the syntax of `tokenizers` (Oniguruma).
PIECES = r" ?[A-Za-z\x{80}-\x{10FFFF}]+|[0-9]| ?[!-/:-@\[-`{-~]| +|[\x{00}-\x{1F}\x{7F}]+"
PAD, EOS = "<|pad|>", "<|endoftext|>"


def tokenizer_json(texts: Sequence[bytes], merges: Sequence[tuple[int, int]], reserved: Sequence[str] = ()) -> str:
    """Return the file for tokens that stand for these bytes; `pad`, `eos` and the reserved tokens come after them.

    >>> read_merges(tokenizer_json([bytes([byte]) for byte in range(256)] + [b"hi"], [(104, 105)]))
    ((104, 105),)
    """
    visible = ["".join(_VISIBLE[byte] for byte in text) for text in texts]
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


QUESTION, ANSWER, SEPARATOR = "Question: ", "\nAnswer:", "\n\n"
EXPECTED = "write {'role': ..., 'content': ...}"

TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['content'] is string -%}{%- set content = message['content'] -%}"
    "{%- else -%}{%- set content = message['content'] | map(attribute='text') | join -%}{%- endif -%}"
    "{%- if messages | length == 1 -%}{{- content -}}"
    "{%- elif message['role'] == 'assistant' -%}{{- '\\nAnswer: ' + content -}}"
    "{%- else -%}"
    "{%- if not loop.first -%}{{- '\\n\\n' -}}{%- endif -%}"
    "{%- if message['role'] == 'user' -%}{{- 'Question: ' -}}{%- endif -%}{{- content -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt and messages | length > 1 -%}{{- '\\nAnswer:' -}}{%- endif -%}"
)


def render_prompt(messages: Any) -> str:
    r"""Return a list of messages as the prompt after which the reply begins; TypeError for anything else.

    >>> render_prompt([{"role": "user", "content": "Extract the claims.\n"}])
    'Extract the claims.\n'
    >>> render_prompt([{"role": "system", "content": "Water is wet."}, {"role": "user", "content": "what is wet?"}])
    'Water is wet.\n\nQuestion: what is wet?\nAnswer:'
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
        raise TypeError(f"expected a list of messages, not {describe_type(messages)}: {EXPECTED}")
    if len(messages) == 1:
        return message_text(messages[0])
    return "".join(_turn(message, index) for index, message in enumerate(messages)) + ANSWER


def split_conversation(messages: Any) -> tuple[str, str]:
    r"""Return the prompt of a conversation that ends with an answer, and the reply to learn.

    >>> split_conversation([{"role": "user", "content": "2 + 2 ="}, {"role": "assistant", "content": " 4"}])
    ('2 + 2 =', ' 4')
    """
    if isinstance(messages, str) or not isinstance(messages, Sequence) or len(messages) < 2:
        raise TypeError("a conversation to learn from needs at least two messages, the last of them the answer")
    answer = message_text(messages[-1])
    return render_prompt(messages[:-1]), answer if len(messages) == 2 else f" {answer}"


def message_text(message: Any) -> str:
    """Return the text of a message, which may come in parts; TypeError without text."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not content:
        raise TypeError(f"a message has no text: {EXPECTED}")
    return "".join(map(_text_of, content))


def _text_of(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise TypeError("the content of a message must be text: this model reads only text")
    return text


def _turn(message: Any, index: int) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    if not isinstance(role, str):
        raise TypeError(f"a message has no role: {EXPECTED}")
    content = message_text(message)
    if role == "assistant":
        return f"{ANSWER} {content}"
    return f"{SEPARATOR if index else ''}{QUESTION if role == 'user' else ''}{content}"
