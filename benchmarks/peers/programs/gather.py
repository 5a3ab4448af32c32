"""No tool at all: the least that a program with aiohttp can take."""

from __future__ import annotations

import asyncio

from asking import CONCURRENCY, SAMPLES, ask, session


async def right_answers() -> int:
    places = asyncio.Semaphore(CONCURRENCY)
    async with session() as client:

        async def is_right(number: int) -> bool:
            async with places:
                return await ask(client, f"question {number}") == f"question {number}"

        return sum(await asyncio.gather(*map(is_right, range(SAMPLES))))


if __name__ == "__main__":
    assert asyncio.run(right_answers()) == SAMPLES
