"""One question to the server, for the tools that leave asking to their users: aiohttp, one session for a whole run."""

from __future__ import annotations

import os

import aiohttp

URL = os.environ["PEERS_URL"] + "/chat/completions"
SAMPLES = int(os.environ["PEERS_SAMPLES"])
CONCURRENCY = int(os.environ["PEERS_CONCURRENCY"])


def session() -> aiohttp.ClientSession:
    """To be made on a running loop, and closed."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY))


async def ask(client: aiohttp.ClientSession, question: str) -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": question}]}
    async with client.post(URL, json=body) as response:
        answer = await response.json()
    return answer["choices"][0]["message"]["content"]
