"""pytest alone: one item that gathers all answers."""

from __future__ import annotations

import asyncio

from asking import SAMPLES
from gather import right_answers


def test_questions():
    assert asyncio.run(right_answers()) == SAMPLES
