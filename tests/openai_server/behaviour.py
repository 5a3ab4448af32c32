"""The server's behaviour: when it answers, with what, and how it fails."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl

FAULTS = ("reset", "close", "half", "hang", "stall", "garbage", "no_choices", "error_200", "slow")
"""And every HTTP status from 400 to 599, written as a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """All that can be said. Times are seconds."""

    latency_s: float = 0.0
    """From the request to the answer (its headers, when it is streamed)."""
    spread: float = 0.0
    """Sigma of a lognormal factor on the latency, whose median is 1."""
    tail_share: float = 0.0
    """Share of the answers that are `tail_times` slower."""
    tail_times: float = 20.0
    slots: int = 0
    """Answers that are made at one time, others queue; 0: any number."""
    fault: str = ""
    """Kinds of failure, with commas between; one of them is drawn:
    `500` (any status from 400), `reset` (TCP reset), `close` (no answer), `half` (half a body, then the end), `hang` (no answer
    ever), `stall` (half a body and no more), `garbage` (no JSON), `no_choices`, `error_200` (an error under status 200),
    `slow` (a body in 20 pieces, `chunk_s` apart)."""
    fault_in: str = ""
    """Only requests whose body has this text fail; empty for any."""
    fault_share: float = 1.0
    """Of the requests that fail: drawn again for each attempt of the same body."""
    fault_after_s: float = -1.0
    """From the request to its failure; negative: as long as an answer takes."""
    fails_first: int = 0
    """The same body fails so many times and is answered then; 0: `fault_share` alone says."""
    seed: int = 0
    """Of faults and latencies, which depend on it, the body and how often it came, not on the order."""
    retry_after: str = ""
    """With 429 and 503: seconds, `date:SECONDS` (an HTTP date in so many seconds), `ms:500` (retry-after-ms), `reset:1s`
    (x-ratelimit-reset-requests). Without: nothing is said."""
    rate: float = 0.0
    """Requests a second; what is more gets 429, and all answers tell the limit in x-ratelimit-*; 0: any number."""
    burst: int = 0
    """How many may come at once below that rate; 0: as many as in one second."""
    quiet: bool = False
    """Whether the limit is not told, and only kept."""
    message: str = ""
    """What errors say."""
    code: str = ""
    """The code of errors."""
    key: str = ""
    """Who does not send it as a bearer token gets 401."""
    context: int = 0
    """A prompt of more words gets 400 with the code context_length_exceeded; 0: none is too long."""
    text: str | None = None
    """The answer; None: the prompt."""
    varies: str = ""
    """When an equal request gets another answer, with commas between: `batch` (each third of them, while others wait for their
    answers), `sampled` (unless its temperature is 0)."""
    names: str = ""
    """The model that the answer names; empty: the one that was asked for."""
    answers: tuple[tuple[str, str], ...] = ()
    """The answer by prompt, as a mapping in JSON; any other prompt gets 400."""
    finish: str = ""
    """Finish reason; else `stop`, or `length` where max_tokens (in words) cut the text."""
    first_token_s: float = 0.0
    """In a stream: between headers and first token."""
    chunk_s: float = 0.0
    """In a stream: between tokens."""


TYPES = {field.name: str(field.type) for field in fields(Behaviour)}
NORMAL = Behaviour()


def behaving(base: Behaviour, settings: Mapping[str, Any]) -> Behaviour:
    """A behaviour with changes, which may be strings. Raises ValueError for what there is not."""
    changes = {}
    for name, value in settings.items():
        if name not in TYPES:
            raise ValueError(f"there is no behaviour {name!r}: known are {', '.join(TYPES)}")
        changes[name] = _convert(TYPES[name], value)
    behaviour = replace(base, **changes)
    for kind in filter(None, behaviour.fault.split(",")):
        if kind not in FAULTS and not (kind.isdigit() and 400 <= int(kind) <= 599):
            raise ValueError(f"there is no fault {kind!r}: known are statuses from 400 and {', '.join(FAULTS)}")
    return behaviour


def from_query(base: Behaviour, query: str) -> Behaviour:
    """From `latency_s=0.05&fault=500`."""
    return behaving(base, dict(parse_qsl(query, keep_blank_values=True)))


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of one request."""

    delay_s: float
    fault: str = ""


def fate(behaviour: Behaviour, body: bytes, attempt: int) -> Fate:
    """Drawn from the body and how often it came, from 1."""
    spared = behaviour.fault_in and behaviour.fault_in.encode() not in body
    if spared or not (behaviour.fault or behaviour.spread or behaviour.tail_share):
        return Fate(behaviour.latency_s)
    draws = random.Random(b"%d %d " % (behaviour.seed, attempt) + body)
    delay_s, fault = _delay(behaviour, draws), _fault(behaviour, draws, attempt)
    return Fate(behaviour.fault_after_s if fault and behaviour.fault_after_s >= 0 else delay_s, fault)


def vary(behaviour: Behaviour, body: Mapping[str, Any], text: str, attempt: int, concurrent: int) -> Behaviour:
    """Return the behaviour to one request: with another text where the answer to an equal one varies."""
    by_batch = "batch" in behaviour.varies and concurrent > 1 and attempt % 3 == 0
    by_sampling = "sampled" in behaviour.varies and body.get("temperature") != 0
    return replace(behaviour, text=f"{text} {attempt}") if by_batch or by_sampling else behaviour


def _delay(behaviour: Behaviour, draws: random.Random) -> float:
    delay = behaviour.latency_s * math.exp(behaviour.spread * draws.gauss(0, 1))
    return delay * behaviour.tail_times if draws.random() < behaviour.tail_share else delay


def _fault(behaviour: Behaviour, draws: random.Random, attempt: int) -> str:
    kinds = behaviour.fault.split(",")
    failing = attempt <= behaviour.fails_first if behaviour.fails_first else draws.random() < behaviour.fault_share
    return draws.choice(kinds) if failing else ""


def _convert(kind: str, value: Any) -> Any:
    if kind.startswith("tuple"):
        return tuple(value.items()) if isinstance(value, Mapping) else tuple(map(tuple, value))
    if kind in ("int", "float"):
        return int(value) if kind == "int" else float(value)
    return value
