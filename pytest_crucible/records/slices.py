"""Fields that divide samples into slices, as targets and comparisons name them."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass

LONGEST_NAME = 60
"""Characters of a slice's name in a sentence."""
TWIN = "twin"
"""The field that names the version of a sample, or of its twin: `female`."""
# A name that targets may write without quotation marks.
_PLAIN = re.compile(r"[A-Za-z_][\w.\-]*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the samples, perhaps cut into ranges: `metadata.length(100, 200)`."""

    name: str
    cuts: tuple[float, ...] = ()

    def __str__(self) -> str:
        name = self.name if _PLAIN.fullmatch(self.name) else f'"{self.name}"'
        return f"{name}({', '.join(map(shortest, self.cuts))})" if self.cuts else name


@dataclass(frozen=True, slots=True)
class By:
    """`by language & topic within author`."""

    fields: tuple[Field, ...]
    within: Field | None = None

    def __str__(self) -> str:
        within = "" if self.within is None else f" within {self.within}"
        return f"by {self.title}{within}"

    @property
    def title(self) -> str:
        """The fields alone: `language & topic`."""
        return " & ".join(map(str, self.fields))


def short_name(name: str) -> str:
    """Return a slice's name for a sentence or a cell: on one line, printable, and cut where it is long.

    A name that has to be changed, or looks like another one, ends in a hash of the whole, so that two slices never have one name:
    an accent may be a part of its letter (NFC), or a character of its own.

    >>> short_name("law"), short_name("a" * 100 + "b")[-12:]
    ('law', 'aaa...#d89d2')
    """
    line = "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in " ".join(name.split()))
    if line == name and len(line) <= LONGEST_NAME and unicodedata.is_normalized("NFC", name):
        return name
    cut = line if len(line) <= LONGEST_NAME else f"{line[:LONGEST_NAME]}..."
    return f"{cut}#{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:5]}"


def shortest(number: float) -> str:
    """Return the shortest text that reads as the same float.

    >>> shortest(2.0), shortest(0.5)
    ('2', '0.5')
    """
    return repr(number).removesuffix(".0")
