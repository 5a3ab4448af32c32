"""How many requests more than one for each question there may be."""

from __future__ import annotations

MOST_SAVED = 10.0
"""Second requests that can be saved up: a quiet hour allows no storm."""


class Allowance:
    """Each question earns a share of a second request."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._saved = 0.0

    def earn(self) -> None:
        self._saved = min(MOST_SAVED, self._saved + self._share)

    def spend(self) -> bool:
        """Whether there is a whole one left; it is then spent.

        >>> allowance = Allowance(0.5)
        >>> allowance.earn(), allowance.spend(), allowance.earn(), allowance.spend(), allowance.spend()
        (None, False, None, True, False)
        """
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
