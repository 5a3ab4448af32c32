"""Publications that the methods come from, as BibTeX entries and as plain text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_crucible.records.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One publication: the key that a paper cites it by, its BibTeX type and fields."""

    key: str
    type: str
    fields: Mapping[str, str]

    def bibtex(self) -> str:
        """Return the BibTeX entry, one field on each line."""
        lines = [f"  {name} = {{{value}}}," for name, value in self.fields.items()]
        return "\n".join([f"@{self.type}{{{self.key},", *lines, "}"])

    def plain(self) -> str:
        """Return `Holm, Sture (1979). A simple ... procedure. Scandinavian Journal of Statistics 6(2):65-70.`"""
        fields = {name: value.translate(_PLAIN).replace("--", "-") for name, value in self.fields.items()}
        where = fields.get("journal") or fields["publisher"]
        if "volume" in fields:
            where += f" {fields['volume']}({fields['number']}):{fields['pages']}"
        doi = f" doi:{fields['doi']}" if "doi" in fields else ""
        # BibTeX writes quotes as pairs of accents and apostrophes.
        title = fields["title"].replace("``", '"').replace("''", '"')
        if "edition" in fields:
            title += f", {fields['edition'].lower()} edition"
        return f"{fields['author']} ({fields['year']}). {title}. {where}.{doi}"


_PLAIN = {ord("\\"): None, ord("{"): None, ord("}"): None}


@cache
def known_references() -> Mapping[str, Reference]:
    """Return all that a run may cite, by key."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {key: Reference(key=key, type=table.pop("type"), fields=table) for key, table in tables.items()}


def find_references(keys: Sequence[str]) -> tuple[Reference, ...]:
    """Return the publications of some keys. Raises SpecError for a key that references.toml does not have."""
    references = known_references()
    unknown = next((key for key in keys if key not in references), None)
    if unknown is not None:
        raise SpecError(f"a section cites {unknown!r}, which is not a known reference (known: {', '.join(references)})")
    return tuple(references[key] for key in keys)
