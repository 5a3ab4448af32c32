"""No tool at all: the least that a program with aiohttp can take."""

from __future__ import annotations

import asyncio

from asking import CONCURRENCY, SAMPLES, ask, session


async def main() -> None:
    places = asyncio.Semaphore(CONCURRENCY)
    async with session() as client:

        async def one(number: int) -> bool:
            async with places:
                return await ask(client, f"question {number}") == f"question {number}"

        right = await asyncio.gather(*(one(number) for number in range(SAMPLES)))
    assert sum(right) == SAMPLES


asyncio.run(main())
