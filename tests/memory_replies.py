"""The smallest ReplyCache: a dict. What it gives back went through the same text as in a run store."""

from __future__ import annotations

from pytest_crucible.backends.cache import CachedReply, KnownAdapter
from pytest_crucible.store.replies import decode_reply, encode_reply


class MemoryReplies:
    """A ReplyCache for one process."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, str, float]] = {}
        self.known: dict[str, KnownAdapter] = {}
        self._introduced: list[KnownAdapter] = []

    async def get(self, key: str) -> CachedReply | None:
        self.known |= {entry.settings: entry for entry in self._introduced}
        self._introduced.clear()
        if key not in self.rows:
            return None
        text, identity, at = self.rows[key]
        reply = decode_reply(text, cached=True)
        return None if reply is None else CachedReply(reply=reply, identity=identity, at=at)

    def put(self, key: str, cached: CachedReply, *, overwrite: bool = False) -> None:
        text = encode_reply(cached.reply)
        there = key in self.rows and decode_reply(self.rows[key][0]) is not None
        if text is not None and (overwrite or not there):
            self.rows[key] = (text, cached.identity, cached.at)

    def remember_adapter(self, adapter: KnownAdapter) -> None:
        self._introduced.append(adapter)

    def find_adapter(self, settings: str) -> KnownAdapter | None:
        return self.known.get(settings)
