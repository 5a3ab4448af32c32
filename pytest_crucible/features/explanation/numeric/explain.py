"""Explanations of a model that predicts numbers from a table of numbers.

from pytest_crucible import explain

result = explain.shap(model.predict, rows, background=background)
result.to_frame()

`predict` is any function from an array of rows to an array of numbers. `rows` is an array or a data frame, whose columns are the
names of the features; `names=` names those of an array. All random choices follow `seed`. Invalid input raises SpecError.
"""

from __future__ import annotations

from pytest_crucible.features.explanation.numeric.attributions import LimeWeights as LimeWeights
from pytest_crucible.features.explanation.numeric.attributions import ShapValues as ShapValues
from pytest_crucible.features.explanation.numeric.attributions import lime as lime
from pytest_crucible.features.explanation.numeric.attributions import shap as shap
from pytest_crucible.features.explanation.numeric.curves import AccumulatedEffects as AccumulatedEffects
from pytest_crucible.features.explanation.numeric.curves import IndividualCurves as IndividualCurves
from pytest_crucible.features.explanation.numeric.curves import PartialDependence as PartialDependence
from pytest_crucible.features.explanation.numeric.curves import ale as ale
from pytest_crucible.features.explanation.numeric.curves import ice as ice
from pytest_crucible.features.explanation.numeric.curves import pdp as pdp
from pytest_crucible.features.explanation.numeric.whole_model import HStatistics as HStatistics
from pytest_crucible.features.explanation.numeric.whole_model import Importances as Importances
from pytest_crucible.features.explanation.numeric.whole_model import h_statistic as h_statistic
from pytest_crucible.features.explanation.numeric.whole_model import permutation_importance as permutation_importance
