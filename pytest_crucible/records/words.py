"""The words that records use for kinds, directions, roles and rulings."""

from __future__ import annotations

from typing import Literal

Role = Literal["candidate", "baseline"]
Kind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded", "text"]
Direction = Literal["higher", "lower"]
State = Literal["met", "missed", "undecided"]
Decision = Literal["point", "bound"]
Alternative = Literal["regression", "non-inferior", "superior", "equivalent"]
Value = bool | float | str
