"""Areas under ROC curves, their variances and paired tests against R's pROC (auroc_reference.R)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_crucible.measures import auroc
from pytest_crucible.measures.row import Prepared

CASES = json.loads((Path(__file__).parent / "auroc_reference.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_delong_equals_proc(case):
    labels = np.array(case["label"], dtype=float)
    arms = [Prepared(values=np.array(case[name], dtype=float), strata=labels) for name in ("first", "second")]
    areas = [auroc.estimate_area(arm) for arm in arms]
    difference = auroc.compare(*arms, 0.05)

    assert [area.value for area in areas] == pytest.approx(case["areas"], rel=1e-12)
    assert [area.variance for area in areas] == pytest.approx(case["variances"], rel=1e-9)
    # The same statistic; the p-value here is by Student's t, which allows for few samples.
    error = difference.deviation / len(case["label"]) ** 0.5
    assert difference.value / error == pytest.approx(case["z"], rel=1e-9)
    assert difference.p_value >= case["p"]
