"""Guards around a backend: what they block, edit and read."""

from __future__ import annotations

import asyncio

import pytest

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.features.guards.protections import Protection, Protections, guard_backend
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.outcomes import Detection, Span

FOUND = "secret"


class Finder:
    """Flags the word `secret`, with its places."""

    def __init__(self, score: float = 1.0) -> None:
        self.score = score
        self.read: list[str] = []

    async def detect(self, text: str) -> Detection:
        self.read.append(text)
        places = [k for k in range(len(text)) if text.startswith(FOUND, k)]
        spans = tuple(Span("WORD", place, place + len(FOUND)) for place in places)
        return Detection(
            flagged=bool(spans), score=self.score * bool(spans), category="WORD", spans=spans, latency_s=0.5
        )


def hide(text, detection):
    for span in reversed(detection.spans):
        text = text[: span.start] + "***" + text[span.end :]
    return text


def ask(value, reply="fine", *, before=(), after=(), sent=None):
    def answer(request: Request):
        if sent is not None:
            sent.append(request.input)
        return reply

    backend = guard_backend(ScriptedBackend(answer), Protections(tuple(before), tuple(after), "g"))
    return asyncio.run(backend.generate(Request(input=value, sample="s", repeat=0)))


BLOCKS = Protection(Finder(), "sorry")
EDITS = Protection(Finder(), "sorry", hide)


def test_blocked_request_is_not_sent():
    sent = []
    reply = ask("the secret", before=[BLOCKS], sent=sent)

    assert sent == []
    assert (reply.text, reply.finish) == ("sorry", "blocked")
    assert (reply.cost_usd, reply.input_tokens, reply.latency_s) == (0.0, 0, 0.5)
    assert reply.detection.category == "WORD"


def test_guarded_requests_are_not_streamed():
    requests: list[Request] = []
    backend = guard_backend(
        ScriptedBackend(lambda request: requests.append(request) or "fine"), Protections((), (BLOCKS,))
    )
    asyncio.run(backend.generate(Request(input="q", sample="s", repeat=0, open_stream=lambda: print)))

    assert requests[0].open_stream is None


def test_blocked_reply_keeps_only_its_cost():
    paid = Reply(
        text="the secret", input_tokens=3, output_tokens=2, cost_usd=0.1, latency_s=2.0, reasoning="r", logprobs=(0.1,),
        alternatives=(Reply(text="x"),), value={"secret": 1},
    )  # fmt: skip
    reply = ask("hello", paid, after=[BLOCKS])

    assert (reply.text, reply.finish) == ("sorry", "blocked")
    assert (reply.input_tokens, reply.cost_usd, reply.latency_s) == (3, 0.1, 2.0)
    assert (reply.reasoning, reply.logprobs, reply.alternatives, reply.value) == ("", None, (), None)


@pytest.mark.parametrize(
    ("value", "sent_instead"),
    [
        ("the secret", "the ***"),
        ([{"role": "user", "content": "the secret"}], [{"role": "user", "content": "the ***"}]),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a secret"}, {"type": "image", "url": "secret"}]}],
            [{"role": "user", "content": [{"type": "text", "text": "a ***"}, {"type": "image", "url": "secret"}]}],
        ),
        ([{"role": "system", "content": "the secret"}], [{"role": "system", "content": "the secret"}]),
    ],
)
def test_redaction_skips_the_system_prompt(value, sent_instead):
    sent = []
    reply = ask(value, before=[EDITS], sent=sent)

    assert sent == [sent_instead]
    assert (reply.text, reply.finish) == ("fine", "stop")
    assert reply.detection is None or reply.detection.flagged == (sent_instead != value)


def test_redaction_edits_all_texts_of_a_reply():
    full = Reply(
        text="a secret",
        reasoning="b secret",
        tool_calls=({"arguments": "c secret"},),
        alternatives=(Reply(text="d secret"),),
    )
    reply = ask("hello", full, after=[EDITS])

    assert (reply.text, reply.reasoning, reply.tool_calls) == ("a ***", "b ***", ({"arguments": "c ***"},))
    assert [other.text for other in reply.alternatives] == ["d ***"]
    assert reply.detection.flagged


def test_passing_reply_has_its_detection():
    assert ask("hello", before=[BLOCKS], after=[EDITS]).detection == Detection(
        flagged=False, score=0.0, category="WORD"
    )


def test_guards_read_in_order():
    second = Finder()
    ask("the secret", before=[EDITS, Protection(second, "no")])

    assert second.read == ["the ***"]


def test_flagged_text_without_spans_is_blocked():
    class Blind(Finder):
        async def detect(self, text):
            return Detection(flagged=True, score=1.0)

    assert ask("hello", before=[Protection(Blind(), "no", hide)]).finish == "blocked"


def test_other_inputs_are_read_and_not_edited():
    sent = []

    assert ask({"question": "the secret"}, before=[EDITS], sent=sent).finish == "blocked"
    assert ask({"question": "hello"}, before=[EDITS], sent=sent).text == "fine"
    assert sent == [{"question": "hello"}]


def test_identities_of_guarded_backends_differ():
    backend = ScriptedBackend(lambda request: "x", identity="m")
    first, other = (guard_backend(backend, Protections(identity=name)) for name in "ab")

    assert len({backend.identity, first.identity, other.identity}) == 3
