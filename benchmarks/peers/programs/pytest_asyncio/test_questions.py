"""pytest-asyncio: one item a question, on one loop, one question at a time."""

from __future__ import annotations

import pytest
import pytest_asyncio
from asking import SAMPLES, ask, session


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client():
    async with session() as opened:
        yield opened


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("number", range(SAMPLES))
async def test_question(number, client):
    assert await ask(client, f"question {number}") == f"question {number}"
