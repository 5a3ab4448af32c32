"""Literal types that records share: kinds, directions, roles, relations, states."""

from __future__ import annotations

from typing import Literal

Role = Literal["candidate", "baseline"]
Kind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded", "text"]
Direction = Literal["higher", "lower"]
Applies = Literal["sample", "reply"]
Reasoning = Literal["strip", "keep"]
State = Literal["met", "missed", "undecided"]
DecisionRule = Literal["point", "bound"]
Alternative = Literal["regression", "non-inferior", "superior", "equivalent", "estimate"]
"""`estimate` claims nothing: a difference and its interval."""
Purpose = Literal["gate", "practice"]
"""A practice experiment is scored and gives no verdict: its samples may become training data."""
Relation = Literal[">=", "<=", ">", "<", "=="]
Value = bool | float | str
