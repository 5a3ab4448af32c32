"""Arguments of the robustness marker."""

from __future__ import annotations

import pytest

from pytest_crucible.features.robustness.built_in import FAMILIES
from pytest_crucible.features.robustness.marks import read_mark


def test_a_family_stands_for_its_attacks_each_once():
    mark = read_mark(pytest.mark.robustness("homoglyph", "obfuscation", "rot13").mark)

    assert mark.attacks == ("homoglyph", *FAMILIES["obfuscation"])
    assert len(mark.attacks) >= 10
