"""What the methods come from, as BibTeX has it and as a reader does."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One publication: the key that a paper cites it by, its BibTeX type and fields."""

    key: str
    type: str
    fields: Mapping[str, str]

    def bibtex(self) -> str:
        """The entry, a field a line."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.type}{{{self.key},", *lines, "}"])

    def plain(self) -> str:
        """`Holm, Sture (1979). A simple ... procedure. Scandinavian Journal of Statistics 6(2):65-70.`"""
        given = {name: value.translate(_PLAIN).replace("--", "-") for name, value in self.fields.items()}
        where = given.get("journal") or given["publisher"]
        if "volume" in given:
            where += f" {given['volume']}({given['number']}):{given['pages']}"
        doi = f" doi:{given['doi']}" if "doi" in given else ""
        title = given["title"].replace("``", '"').replace("''", '"')
        if "edition" in given:
            title += f", {given['edition'].lower()} edition"
        return f"{given['author']} ({given['year']}). {title}. {where}.{doi}"


_PLAIN = {ord("\\"): None, ord("{"): None, ord("}"): None}


@cache
def known_references() -> Mapping[str, Reference]:
    """All that a run may cite, by key."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {key: Reference(key=key, type=table.pop("type"), fields=table) for key, table in tables.items()}
