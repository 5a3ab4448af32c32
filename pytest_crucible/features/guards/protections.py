"""Guards around a backend, which read each request before it is sent and each reply, and a guard that is a backend itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.backends.protocol import Backend, KnowsItsSamples, Wrapper
from pytest_crucible.features.guards.guard import Guard
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.outcomes import BLOCKED, Detection


@dataclass(frozen=True)
class Protection:
    """One guard, and its action on a text that it flags."""

    guard: Guard
    stand_in: str
    """The text of a reply that it blocks."""
    redact: Callable[[str, Detection], str] | None = None
    """Returns the text without the findings; None if a flagged text is blocked."""
    queries_model: bool = False


@dataclass(frozen=True)
class Protections:
    """The guards of an adapter, in the order in which they read."""

    before: tuple[Protection, ...] = ()
    after: tuple[Protection, ...] = ()
    identity: str = ""
    """Of all guards together."""

    def without_models(self) -> Protections:
        """Return the guards that call no model."""
        instant = [tuple(guard for guard in place if not guard.queries_model) for place in (self.before, self.after)]
        return replace(self, before=instant[0], after=instant[1])


class _Blocked(Exception):
    """A guard has flagged a text and blocks it."""

    def __init__(self, protection: Protection, detection: Detection) -> None:
        super().__init__(detection.category)
        self.protection, self.detection = protection, detection

    def reply(self, reply: Reply | None = None) -> Reply:
        """Return the stand-in; tokens, cost and time are those of the blocked reply, or of no request."""
        # Without a request nothing was paid for.
        paid = (
            Reply(text="", input_tokens=0, output_tokens=0, cost_usd=0.0, latency_s=self.detection.latency_s)
            if reply is None
            else reply
        )
        return replace(
            paid,
            text=self.protection.stand_in,
            finish=BLOCKED,
            value=None,
            reasoning="",
            logprobs=None,
            tool_calls=(),
            alternatives=(),
            members={},
            detection=self.detection,
        )


class Guarded(Wrapper):
    """The outermost wrapper: a cached reply is read, too, and a request that is blocked costs nothing."""

    def __init__(self, inner: Backend, protections: Protections) -> None:
        super().__init__(inner)
        self.identity = f"{inner.identity} guarded by {protections.identity}"
        self._protections = protections

    async def generate(self, request: Request) -> Reply:
        """Raises BackendError if a guard failed and a failure loses the sample, and the backend's errors."""
        before, after = _Reader(self._protections.before), _Reader(self._protections.after)
        try:
            # A guard reads the whole reply first: pieces of one that it blocks would have been read already.
            request = replace(request, input=await before.read_input(request.input), open_stream=None)
        except _Blocked as blocked:
            return blocked.reply()
        reply = await self.inner.generate(request)
        if not isinstance(reply, Reply):
            return reply
        try:
            reply = await after.read_reply(reply)
        except _Blocked as blocked:
            return blocked.reply(reply)
        # A guard that flags comes before one that scores higher and does not: thresholds differ.
        detections = [*before.detections, *after.detections]
        most = max(detections, key=lambda detection: (detection.flagged, detection.score), default=None)
        return replace(reply, detection=most)


class GuardedSamples(Guarded):
    """A guarded backend that lists the samples that it can answer, such as recorded replies."""

    def samples(self) -> frozenset[str]:
        assert isinstance(self.inner, KnowsItsSamples)
        return self.inner.samples()


def guard_backend(inner: Backend, protections: Protections) -> Backend:
    """Return the backend with its guards around it."""
    return (GuardedSamples if isinstance(inner, KnowsItsSamples) else Guarded)(inner, protections)


class _Reader:
    """Reads texts with guards, one after the other, and edits what they redact. Raises _Blocked where one blocks."""

    def __init__(self, protections: Sequence[Protection]) -> None:
        self._protections = protections
        self.detections: list[Detection] = []

    async def read_text(self, text: str, *, edits: bool = True) -> str:
        """Return the text, edited where a guard redacts."""
        for protection in self._protections if text else ():
            detection = await protection.guard.detect(text)
            self.detections.append(detection)
            if not detection.flagged:
                continue
            # What a failed guard flags has no places that could be removed.
            if protection.redact is None or not detection.spans or not edits:
                raise _Blocked(protection, detection)
            text = protection.redact(text, detection)
        return text

    async def read_input(self, value: Any) -> Any:
        """Return a request's input, read without the system prompt: a text, or messages."""
        if isinstance(value, str):
            return await self.read_text(value)
        if not self._protections:
            return value
        if isinstance(value, list | tuple) and all(isinstance(message, Mapping) for message in value):
            return [await self._read_message(message) for message in value]
        # Other input has no form that a guard could edit: it is read as its text.
        await self.read_text(str(value), edits=False)
        return value

    async def _read_message(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        content = message.get("content")
        if message.get("role") in ("system", "developer") or not content:
            return message
        if isinstance(content, str):
            return {**message, "content": await self.read_text(content)}
        if isinstance(content, list):
            return {**message, "content": [await self._read_part(part) for part in content]}
        return message

    async def _read_part(self, part: Any) -> Any:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            return {**part, "text": await self.read_text(part["text"])}
        return part

    async def read_reply(self, reply: Reply) -> Reply:
        """Return the reply with all its texts read: reasoning, tool calls and further choices, too."""
        if not self._protections:
            return reply
        calls = json.dumps(list(reply.tool_calls), ensure_ascii=False, default=repr) if reply.tool_calls else ""
        edited = await self.read_text(calls)
        return replace(
            reply,
            text=await self.read_text(reply.text),
            reasoning=await self.read_text(reply.reasoning),
            tool_calls=reply.tool_calls if edited == calls else tuple(json.loads(edited)),
            alternatives=tuple([await self.read_reply(other) for other in reply.alternatives]),
        )


class GuardBackend:
    """Replies to a text with a guard's judgement of it."""

    simulated = False
    is_instant = True

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.identity = f"guard {guard.identity}"

    async def generate(self, request: Request) -> Reply:
        """Raises BackendError if the guard failed and a failure loses the sample."""
        started = time.perf_counter()
        detection = await self.guard.detect(input_text(request.input))
        label = f"flagged: {detection.category}" if detection.flagged and detection.category else "flagged"
        return Reply(
            text=label if detection.flagged else "passed",
            detection=detection,
            latency_s=time.perf_counter() - started if detection.latency_s is None else detection.latency_s,
            input_tokens=0,
            output_tokens=0,
            cost_usd=0.0,
        )


def input_text(value: Any) -> str:
    """Return the text that a guard reads in a request: the input, or its messages without the system prompt.

    >>> input_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}])
    'Hello'
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(message, Mapping) for message in value):
        return "\n".join(str(message.get("content", "")) for message in value if message.get("role") != "system")
    return str(value)
