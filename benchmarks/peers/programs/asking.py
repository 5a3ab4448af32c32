"""One question, for the tools that leave asking to their users: aiohttp, one session for a whole run."""

from __future__ import annotations

import os

import aiohttp

URL = os.environ["PEERS_URL"]
"""That of the server; empty where each answer is there at once."""
SAMPLES = int(os.environ["PEERS_SAMPLES"])
CONCURRENCY = int(os.environ["PEERS_CONCURRENCY"])


def session() -> aiohttp.ClientSession:
    """To be made on a running loop, and closed."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY))


async def ask(client: aiohttp.ClientSession, question: str) -> str:
    if not URL:
        return question
    body = {"model": "m", "messages": [{"role": "user", "content": question}]}
    async with client.post(f"{URL}/chat/completions", json=body) as response:
        answer = await response.json()
    return answer["choices"][0]["message"]["content"]
