"""Fields that divide samples into slices, as targets and comparisons name them."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


def shortest(number: float) -> str:
    """Return the shortest text that reads as the same float.

    >>> shortest(2.0), shortest(0.5)
    ('2', '0.5')
    """
    return repr(number).removesuffix(".0")
