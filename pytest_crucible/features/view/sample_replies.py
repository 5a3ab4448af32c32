"""The replies to a sample side by side, each with its state, scores, latency and tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from pytest_crucible.features.view.sample_texts import compared_reply, prompt_key, reply_key
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Conversation, Plan
from pytest_crucible.report.conversations import (
    NOT_RECORDED,
    Block,
    Turn,
    conversation_turns,
    prompt_blocks,
    score_text,
)
from pytest_crucible.runs.reporters import INSTANT_S
from pytest_crucible.stats.number_format import quantity, seconds
from pytest_crucible.store.conversations import load_conversations
from pytest_crucible.store.reply_facts import ReplyFacts, load_reply_facts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import load_sample, load_twins


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmReply:
    """One reply of an arm, as a column of the page."""

    key: str
    conversation: Conversation
    facts: ReplyFacts
    parameters: Mapping[str, Any]
    """The sampling parameters of the arm."""
    turns: tuple[Turn, ...]
    """Without the messages that all arms were sent first, which stand above."""

    @property
    def scored(self) -> str:
        return compared_reply(self.conversation)

    @property
    def compared_block(self) -> Block | None:
        """The last block of the turns that has the scored text; None where the test scored another one."""
        blocks = [block for turn in self.turns for block in turn.blocks if block.kind == "reply"]
        return next((block for block in reversed(blocks) if block.value == self.scored), None)

    def scores(self) -> Iterator[tuple[str, str, str]]:
        """Yield each metric with its score, and the reason of one that does not apply or is lost."""
        for metric, value in self.conversation.scores.items():
            yield metric, score_text(value), self.facts.reasons.get(metric, "")
        for metric, (reason, detail) in self.facts.lost.items():
            yield metric, "lost", ": ".join(part for part in (reason, detail.partition("\n")[0]) if part)

    def details(self) -> Iterator[tuple[str, str]]:
        """Yield what the reply took, and how it was requested."""
        row = self.facts.reply
        if row.latency_s is not None and row.latency_s >= INSTANT_S:
            yield "latency", seconds(row.latency_s)
        tokens = [(row.input_tokens, "input token"), (row.output_tokens, "output token")]
        if counts := [quantity(count, noun) for count, noun in tokens if count is not None]:
            yield "tokens", ", ".join(counts)
        if row.finish:
            yield "finish", row.finish
        if self.parameters:
            yield "parameters", ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        if payers := _payers(self.conversation):
            yield "paid by", ", ".join(payers)


def _payers(conversation: Conversation) -> list[str]:
    payers = dict.fromkeys(call.paid_by for call in conversation.calls)
    if set(payers) == {None}:
        return []
    return ["this run" if run is None else f"run {run}" if run else "an earlier run" for run in payers]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRow:
    """One reply in the table of all replies to a sample."""

    variant: int
    number: int
    """The place of the reply among those of the arm."""
    draw: str
    arm: str
    state: str
    scores: tuple[str, ...]


@dataclass(frozen=True)
class SampleReplies:
    """A stored sample with all of its replies, of which one of each arm is chosen."""

    store: RunStore
    key: int
    """The experiment's key in the store."""
    plan: Plan
    position: int
    variant: int = 0
    """The twin that is chosen; 0 is the sample itself."""
    draw: int = 0
    """The place of the chosen reply among those of an arm."""

    @cached_property
    def sample(self) -> Mapping[str, Any]:
        return load_sample(self.store, self.plan.dataset_sha256, self.position)

    @cached_property
    def conversations(self) -> Sequence[Conversation]:
        if not self.store.has_arms(self.key):
            return ()
        return load_conversations(self.store, self.key, self.plan, self.position)

    @cached_property
    def twins(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Input, expected value, reason and facts of the sample's twin in each variant; None where it has none."""
        return tuple(
            load_twins(self.store, each.sha256, self.position).get(self.position) for each in self.plan.variants
        )

    def facts(self) -> Iterator[tuple[str, Any]]:
        """Yield what is known of the sample, and of its twin in the chosen variant, beside the prompt."""
        twin = self.twins[self.variant - 1] if self.variant else None
        own = self.sample if twin is None or twin["reason"] else {**self.sample, "expected": twin["expected"]}
        entries = {"expected": own["expected"], "group": own["sample_group"], "metadata": own["metadata"]}
        entries |= {"changed": twin["facts"]} if twin else {}
        return ((name, value) for name, value in entries.items() if value is not None)

    def metrics(self) -> list[str]:
        """Return the names of all metrics that some reply has a score of."""
        return list(dict.fromkeys(metric for c in self.conversations for metric in c.scores))

    def rows(self) -> list[ReplyRow]:
        """Return all replies to the sample and its twins, as rows of a table."""
        return [
            ReplyRow(
                variant=self.twin_of(c),
                number=c.unit.repeat,
                draw=c.draw,
                arm=c.arm,
                state=c.state,
                scores=tuple(score_text(c.scores[name]) if name in c.scores else "-" for name in self.metrics()),
            )
            for c in self.conversations
        ]

    def input_of(self, variant: int) -> Any:
        """Return what a variant has as input; the sample's own where the variant does not apply."""
        twin = self.twins[variant - 1] if variant else None
        return self.sample["input"] if twin is None or twin["reason"] else twin["input"]

    def twin_of(self, conversation: Conversation) -> int:
        """Return the number of the variant that a conversation is about."""
        return self.plan.draws(conversation.unit.arm).twin(conversation.unit.variant)

    def key_of(self, conversation: Conversation) -> str:
        return reply_key(self.twin_of(conversation), conversation.unit.arm, conversation.unit.repeat)

    def select_conversations(self) -> list[Conversation]:
        """Return the conversations of the chosen variant and draw, one of each arm that has it."""
        return [c for c in self.conversations if self.twin_of(c) == self.variant and c.unit.repeat == self.draw]

    def shared_prompt(self) -> tuple[Block, ...]:
        """Return what all arms were sent first; empty if that is not the same, or not recorded."""
        prompts = {
            conversation.arm: _first_messages(self._turns(conversation)) for conversation in self.select_conversations()
        }
        first, *others = prompts.values() or [()]
        is_recorded = all(block.value != NOT_RECORDED for block in first)
        return first if is_recorded and all(prompt == first for prompt in others) else ()

    def prompt(self) -> tuple[Block, ...]:
        """Return what all arms were sent first, or the input of the sample where they were sent different messages."""
        return self.shared_prompt() or prompt_blocks(self.input_of(self.variant))

    def arms(self) -> list[ArmReply]:
        """Return the chosen replies, one of each arm."""
        shared = self.shared_prompt()
        return [self._arm(conversation, shared) for conversation in self.select_conversations()]

    def _turns(self, conversation: Conversation) -> tuple[Turn, ...]:
        return tuple(conversation_turns(conversation, self.input_of(self.twin_of(conversation))))

    def _arm(self, conversation: Conversation, shared: tuple[Block, ...]) -> ArmReply:
        unit, turns = conversation.unit, list(self._turns(conversation))
        facts = load_reply_facts(self.store, self.key, self.plan, unit.arm, self.twin_of(conversation), self.position)
        first = _first_of_arm(turns)
        turns[first] = replace(turns[first], blocks=turns[first].blocks[len(shared) :])
        return ArmReply(
            key=self.key_of(conversation),
            conversation=conversation,
            facts=facts[unit.repeat],
            parameters=self.plan.arms[unit.arm].parameters,
            turns=tuple(turns),
        )

    def texts(self) -> dict[str, str]:
        """Return the names of all texts that can be compared, by key: the replies and then the prompts."""
        replies = {self.key_of(c): ", ".join(part for part in (c.arm, c.draw) if part) for c in self.conversations}
        prompts = {prompt_key(0): "prompt"} | {
            prompt_key(number): f"prompt, {variant.name}"
            for number, variant in enumerate(self.plan.variants, start=1)
            if self.twins[number - 1] is not None
        }
        return replies | (prompts if len(prompts) > 1 else {})

    def first_pair(self) -> tuple[str, str]:
        """Return the keys of the texts that are compared first: the first replies of candidate and baseline, if there are both."""
        first, *others = self.texts()
        baseline = reply_key(0, 1, 0)
        return first, baseline if baseline in others else (others or [first])[0]

    def text(self, key: str) -> Any:
        """Return the text with a key; None without one."""
        for variant in range(1 + len(self.plan.variants)):
            if key == prompt_key(variant):
                return self.input_of(variant)
        return next((compared_reply(c) for c in self.conversations if self.key_of(c) == key), None)


def _first_of_arm(turns: Sequence[Turn]) -> int:
    """Return the place of the first call of the arm itself: a role may have been called before."""
    return next((place for place, turn in enumerate(turns) if not turn.is_role), 0)


def _first_messages(turns: Sequence[Turn]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for block in turns[_first_of_arm(turns)].blocks:
        if block.kind != "message":
            break
        blocks.append(block)
    return tuple(blocks)
