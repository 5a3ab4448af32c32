"""Words of texts in any script: also where nothing separates them, and where a letter is followed by marks."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Any

# Letters of scripts without blanks between words; the mark that lengthens a kana belongs to no script, and zero is a number.
_UNSEPARATED = r"(?:(?=\p{L})[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]|[\u30fc\u3007])\p{M}*"
_PATTERNS = {
    "other letter": r"(?!\p{Latin})\p{L}",
    "unseparated": _UNSEPARATED,
    "word": rf"{_UNSEPARATED}|(?:(?!{_UNSEPARATED})[\p{{L}}\p{{N}}\p{{M}}])+",
    "punctuation": r"\p{P}",
    # Invisible: directions of writing, joiners, soft hyphens.
    "format": r"\p{Cf}",
    # What sacrebleu's tokenizer for Chinese separates beside letters: punctuation of East Asian texts.
    "wide punctuation": r"[\u3000-\u303f\uff00-\uffef]",
}


@cache
def _pattern(name: str) -> Any:
    import regex  # takes longer to import than all metrics

    return regex.compile(_PATTERNS[name])


def is_latin(text: str) -> bool:
    """Return whether all letters of a text are Latin.

    >>> is_latin("naïve – 10 %"), is_latin("Война"), is_latin("GPT 模型")
    (True, False, False)
    """
    return text.isascii() or _pattern("other letter").search(text) is None


def is_mostly_latin(text: str) -> bool:
    """Return whether at least half of the letters of a text are Latin.

    >>> is_mostly_latin("the angle α"), is_mostly_latin("угол A")
    (True, False)
    """
    return text.isascii() or 2 * len(_pattern("other letter").findall(text)) <= sum(map(str.isalpha, text))


def fold(text: str) -> str:
    """Return a text in Unicode's form NFKC, case folded, without invisible characters."""
    return str(_pattern("format").sub("", unicodedata.normalize("NFKC", text).casefold()))


def split_words(text: str) -> list[str]:
    """Return the words of a text, folded: runs of letters, digits and marks; in scripts without blanks each character is one.

    >>> split_words("Мир, 2020年! हिन्दी")
    ['мир', '2020', '年', 'हिन्दी']
    """
    words: list[str] = _pattern("word").findall(fold(text))
    return words


def plain_words(text: str) -> str:
    """Return a text with letters that are not Latin folded, without punctuation of any script, and with its words separated.

    Other texts are returned as they are.

    >>> plain_words("«Мир»。"), plain_words("«café»")
    ('мир', '«café»')
    """
    return text if is_latin(text) else separate_characters(str(_pattern("punctuation").sub("", fold(text))))


def separate_characters(text: str, *, punctuation: bool = False) -> str:
    """Return a text with blanks around each character of a script without blanks, on request also of its punctuation.

    >>> separate_characters("GPT模型").split()
    ['GPT', '模', '型']
    """
    if text.isascii():
        return text
    spaced = _pattern("unseparated").sub(r" \g<0> ", text)
    return str(_pattern("wide punctuation").sub(r" \g<0> ", spaced) if punctuation else spaced)
