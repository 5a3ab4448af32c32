"""Marks in an answer that look like reasoning in a form that `reasoning_forms` does not have."""

from __future__ import annotations

import re

from pytest_crucible.records.reasoning import FIRST_SIGNS, answer_text

_NAME = r"(?!/)[^<>\[\]\s]{0,40}?(?:think(?!er|pad)|thought|reasoning|scratch_?pad|monologue)[^<>\[\]\s]{0,40}"
# Fenced blocks and inline code: the reply is about the marks in them.
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*+`", re.DOTALL)
_BEFORE, _AFTER = r"(?<![\"'(“‘«])", r"(?![\"')”’»])"
_TAG = re.compile(rf"{_BEFORE}[<\[](?P<slash>/?)(?P<name>{_NAME})[>\]]{_AFTER}", re.IGNORECASE)
_TOKEN = re.compile(
    rf"{_BEFORE}(?:<\|(?:channel|message|{_NAME})\|?>|<channel\|>|<\|start\|>assistant|◁/think▷){_AFTER}", re.IGNORECASE
)
# Almost all models write special tokens with these bars; DeepSeek's have wider ones.
_FIRST_TOKEN = re.compile(r"\s*+(<[|｜][^<>|｜\s]{1,40}[|｜]>)")
# Calls of tools are answers.
_TOOLS = ("tool", "function", "python", "action", "call")
_FIRST_TAG = re.compile(rf"\s*+([<\[]{_NAME}[>\]])", re.IGNORECASE)
_FIRST_SIGN = re.compile(r"\s*+[<\[aH]")
_FIRST_WORDS = re.compile(r"\s*+(analysis(?=[A-Z])|Here(?: is|'s) my thought process:)")
# What is left of a header on a channel where special tokens are cut.
_HEADER = re.compile(r"assistant(?:final|analysis|commentary)(?=[A-Z\d])")
_WORDS = ("think", "thought", "reasoning", "scratch", "monologue", "channel", "message", "assistant")
_ANY_SIGN = re.compile(rf"[<\[◁]|assistant|\A\s*+[aH{re.escape(FIRST_SIGNS)}]")
_SIGNS = re.compile(r"[<\[◁]|assistant")


def may_have_marks(text: str) -> bool:
    """Return False for a text that has marks of no form, known or not; most short replies have none, and this is quicker."""
    return _ANY_SIGN.search(text) is not None


def unknown_reasoning(text: str) -> str:
    """Return the first mark in a reply's answer that belongs to an unknown form of reasoning; empty without one.

    Marks are a special token at the beginning, a closing tag of reasoning that nothing opens, and tokens of channels. In quotes and
    in code they do not count.

    >>> unknown_reasoning("It is 3, no</deep_think>4"), unknown_reasoning("<b>4</b>")
    ('</deep_think>', '')
    """
    return find_unknown_mark(answer_text(text))


def find_unknown_mark(answer: str) -> str:
    """Return the first mark of an unknown form in an answer; empty without one."""
    first = _first_mark(answer)
    if first or not _SIGNS.search(answer):
        return first
    # Most answers in HTML have none of the words.
    lowered = answer.lower()
    if not any(word in lowered for word in _WORDS):
        return ""
    prose = _CODE.sub("``", answer)
    token = _TOKEN.search(prose) or _HEADER.search(prose)
    return token[0] if token else _unopened_tag(prose)


def _first_mark(answer: str) -> str:
    """Return the mark that an answer begins with; empty without one."""
    # Most answers begin with none of these.
    if not _FIRST_SIGN.match(answer):
        return ""
    token = _FIRST_TOKEN.match(answer)
    if token and not any(word in token[1].lower() for word in _TOOLS):
        return token[1]
    first = _FIRST_TAG.match(answer) or _FIRST_WORDS.match(answer)
    return first[1] if first else ""


def _unopened_tag(prose: str) -> str:
    """Return the first closing tag of reasoning without an opening one before it; empty without one."""
    opened: set[str] = set()
    for tag in _TAG.finditer(prose):
        name = tag["name"].lower()
        if tag["slash"] and name not in opened:
            return tag[0]
        opened.add(name)
    return ""
