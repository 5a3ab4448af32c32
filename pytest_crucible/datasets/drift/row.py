"""One field of two datasets: the drift of its values and of its missing values, and its decision."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_crucible.datasets.drift.kinds import FieldKind
from pytest_crucible.records.types import State
from pytest_crucible.stats.data_drift import FieldDrift, decide_margin


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """One field of two datasets."""

    field: str
    kind: FieldKind | None
    drift: FieldDrift | None
    """The comparison of the values that are not missing; None if they allow no test."""
    missing_drift: FieldDrift | None = None
    """The comparison of the shares of missing values; None if no value is missing."""
    p_adjusted: float | None = None
    """Adjusted over both comparisons (Bonferroni) and over all fields (Holm)."""
    missing: tuple[int, int] = (0, 0)
    stability: tuple[float, float] | None = None
    """The population stability index, and its mean without drift; None for texts."""
    state: State | None = None
    """Of a margin; None without one."""
    note: str = ""

    @property
    def parts(self) -> tuple[FieldDrift, ...]:
        """The comparisons that could be made."""
        return tuple(each for each in (self.drift, self.missing_drift) if each is not None)

    def p_value(self, margin: float | None) -> float | None:
        """Return the p-value of any drift of the field; None if nothing could be compared.

        Texts have no distance. With a margin they fail if their own drift is proven; their missing values have a distance.
        """
        own = self.drift if margin is not None and self._is_of_texts else None
        p_values = [each.p_value for each in ((own,) if own else self.parts)]
        return min(1.0, len(p_values) * min(p_values)) if p_values else None

    def is_proven(self, alpha: float) -> bool:
        """Return whether any drift, even a small one, is proven."""
        return self.p_adjusted is not None and self.p_adjusted <= alpha

    def fails(self, alpha: float) -> bool:
        """Return whether the field has drifted: beyond the margin if there is one."""
        return self.state == "missed" if self.state is not None else self.is_proven(alpha)

    def decide(self, margin: float | None, alpha: float, family_size: int) -> DriftRow:
        """Return the row with its state against the margin, corrected for the number of fields; unchanged without a margin."""
        if margin is None or not self.parts:
            return self
        # Beyond the margin may be either of two; within it have to be both.
        size = family_size * len(self.parts)
        states = {
            decide_margin(each, margin, alpha=alpha, family_size=size)
            for each in self.parts
            if each.distance is not None
        }
        if "missed" in states:
            return replace(self, state="missed")
        if self._is_of_texts:
            return self
        return replace(self, state="undecided" if "undecided" in states else "met")

    def missing_text(self) -> str:
        """Return the shares of missing values: `5 % and 60 % of the values are missing`; empty if none is."""
        if self.missing_drift is None:
            return ""
        old, new = (100 * count / n for count, n in zip(self.missing, self.missing_drift.n, strict=True))
        return f"{old:.3g} % and {new:.3g} % of the values are missing"

    @property
    def _is_of_texts(self) -> bool:
        return self.drift is not None and self.drift.distance is None
