"""Generation settings, prompts and ends of replies in the words that an ordinary run has for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pytest_crucible.records import Reply

# Spellings of the ends of replies that are the candidate's failures, see `Reply.finish`.
_CUT = frozenset({"length", "max_tokens", "model_length", "max_output_tokens", "token_limit"})
_FILTERED = frozenset({"content_filter", "content_filtered", "safety", "refusal"})


def finish_of(reason: Any) -> str:
    """Return why a reply ended, in our words.

    >>> finish_of("max_tokens"), finish_of("SAFETY"), finish_of(None)
    ('length', 'content_filter', 'stop')
    """
    word = str(reason or "").lower()
    return "length" if word in _CUT else "content_filter" if word in _FILTERED else "stop"


def first_end(replies: Iterable[Reply | None]) -> str:
    """Return the first unusual end of the replies to a sample: one that was cut in a conversation spoils what follows."""
    return next((reply.finish for reply in replies if reply is not None and reply.finish != "stop"), "stop")


# Settings of generation, without capitals and underscores: a configuration also has keys, addresses and time limits.
_SETTINGS = frozenset(
    {
        "temperature",
        "topp",
        "topk",
        "minp",
        "maxtokens",
        "maxcompletiontokens",
        "maxoutputtokens",
        "maxgentoks",
        "maxnewtokens",
    }
    | {"seed", "stop", "stopsequences", "until", "dosample", "presencepenalty", "frequencypenalty", "repetitionpenalty"}
    | {
        "reasoning",
        "reasoningeffort",
        "reasoningtokens",
        "thinking",
        "effort",
        "verbosity",
        "responseformat",
        "responseschema",
    }
    | {
        "tools",
        "toolchoice",
        "n",
        "numchoices",
        "bestof",
        "logprobs",
        "numfewshot",
        "systeminstruction",
        "systemmessage",
    }
    | {"systemprompt", "instructions", "fewshotasmultiturn", "chattemplate"}
)


@lru_cache(maxsize=1024)
def _is_setting(name: str) -> bool:
    """Return whether a name is that of a generation setting. All rows of a file have the same few."""
    return name.replace("_", "").lower() in _SETTINGS


def generation_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration has of generation settings, without empty ones.

    >>> generation_settings({"temperature": 0.5, "maxTokens": 64, "apiKey": "k", "seed": None})
    {'temperature': 0.5, 'maxTokens': 64}
    """
    return {
        str(name): value
        for name, value in settings.items()
        if _is_setting(str(name)) and value not in (None, [], {}, "")
    }


# As columns of a table these may be metrics, counts, or parts of the reply.
_AMBIGUOUS = frozenset(
    {"seed", "stop", "until", "reasoning", "reasoningtokens", "thinking", "effort", "verbosity", "tools", "n"}
    | {"numchoices", "bestof", "logprobs", "instructions"}
)


def setting_columns(names: Iterable[str]) -> list[str]:
    """Return the columns of a table that are generation settings.

    >>> setting_columns(["id", "Temperature", "max_tokens", "verbosity"])
    ['Temperature', 'max_tokens']
    """
    return [name for name in names if name.replace("_", "").lower() in _SETTINGS - _AMBIGUOUS]


def as_messages(prompt: Any) -> Any:
    """Return a prompt's messages: a list of them, as JSON or not; a text that is not one stays as it is.

    >>> as_messages('[{"role": "user", "content": "2 + 2?"}]'), as_messages("2 + 2?")
    ([{'role': 'user', 'content': '2 + 2?'}], '2 + 2?')
    """
    if not (isinstance(prompt, str) and prompt.lstrip().startswith("[")):
        return prompt
    try:
        messages = json.loads(prompt)
    except ValueError:
        return prompt
    is_chat = isinstance(messages, list) and all(isinstance(each, dict) and "role" in each for each in messages)
    return messages if is_chat else prompt
