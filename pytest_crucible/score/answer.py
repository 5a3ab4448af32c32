"""The reply as metrics see it: without the reasoning before its answer, unless the session scores that, too."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.records import Reasoning, Reply
from pytest_crucible.records.outcomes import reasoning_length, reasoning_text


def scored_reply(reply: Reply, reasoning: Reasoning) -> Reply:
    """Return the reply that metrics are applied to. The store keeps the original.

    Under "strip", `text` is the answer alone and `reasoning` the text before it, in any form in which servers send it; this
    holds for an ensemble's members, for further choices, and for a string that the test returned. Under "keep" nothing changes.
    """
    if reasoning == "keep":
        return reply
    answer = _without_reasoning(reply)
    if not (reply.members or reply.alternatives):
        return answer
    return replace(
        answer,
        members={name: scored_reply(member, reasoning) for name, member in reply.members.items()},
        alternatives=tuple(scored_reply(choice, reasoning) for choice in reply.alternatives),
    )


def _without_reasoning(reply: Reply) -> Reply:
    # A value that is not a string was built by the test, and its text is only how it is shown.
    is_text = reply.value is None or isinstance(reply.value, str)
    length = reasoning_length(reply.text) if is_text else 0
    if not length:
        return reply
    answer = reply.text[length:].lstrip()
    return replace(
        reply,
        text=answer,
        reasoning="\n\n".join(part for part in (reply.reasoning, reasoning_text(reply.text, length)) if part),
        value=answer if reply.value == reply.text else reply.value,
    )
