"""Frozen records that the stages exchange. Fields are JSON scalars, tuples, mappings and other records.

`records.serialize` turns them into plain JSON and back. Names resolve on first use, because importing all records takes
milliseconds that a pytest session without experiments should not pay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_crucible.records.arms import Adapter as Adapter
    from pytest_crucible.records.arms import Arm as Arm
    from pytest_crucible.records.arms import ArmTraining as ArmTraining
    from pytest_crucible.records.choosing import ChoosingHalf as ChoosingHalf
    from pytest_crucible.records.choosing import SweepLook as SweepLook
    from pytest_crucible.records.conversations import Conversation as Conversation
    from pytest_crucible.records.conversations import StoredCall as StoredCall
    from pytest_crucible.records.datasets import Dataset as Dataset
    from pytest_crucible.records.datasets import Origin as Origin
    from pytest_crucible.records.datasets import Sample as Sample
    from pytest_crucible.records.datasets import Selection as Selection
    from pytest_crucible.records.events import Emit as Emit
    from pytest_crucible.records.events import Event as Event
    from pytest_crucible.records.factors import FACTORS as FACTORS
    from pytest_crucible.records.factors import FEWEST_LEVELS as FEWEST_LEVELS
    from pytest_crucible.records.factors import Draws as Draws
    from pytest_crucible.records.history import Change as Change
    from pytest_crucible.records.history import Look as Look
    from pytest_crucible.records.history import PairVariability as PairVariability
    from pytest_crucible.records.history import PastComparison as PastComparison
    from pytest_crucible.records.history import RunSummary as RunSummary
    from pytest_crucible.records.history import TrendPoint as TrendPoint
    from pytest_crucible.records.judges import CLEAN as CLEAN
    from pytest_crucible.records.judges import HUMAN as HUMAN
    from pytest_crucible.records.judges import ORDERS as ORDERS
    from pytest_crucible.records.judges import HumanAgreement as HumanAgreement
    from pytest_crucible.records.judges import PlaceBias as PlaceBias
    from pytest_crucible.records.measures import Contrast as Contrast
    from pytest_crucible.records.measures import Measure as Measure
    from pytest_crucible.records.measures import MetricFacts as MetricFacts
    from pytest_crucible.records.measures import Target as Target
    from pytest_crucible.records.measures import VariantTerm as VariantTerm
    from pytest_crucible.records.outcomes import CUT_SHORT as CUT_SHORT
    from pytest_crucible.records.outcomes import UNEXPLAINED as UNEXPLAINED
    from pytest_crucible.records.outcomes import ArmOutcomes as ArmOutcomes
    from pytest_crucible.records.outcomes import Failure as Failure
    from pytest_crucible.records.outcomes import Lost as Lost
    from pytest_crucible.records.outcomes import LostReason as LostReason
    from pytest_crucible.records.outcomes import ModelCall as ModelCall
    from pytest_crucible.records.outcomes import Observation as Observation
    from pytest_crucible.records.outcomes import OpenStream as OpenStream
    from pytest_crucible.records.outcomes import Outcome as Outcome
    from pytest_crucible.records.outcomes import Reply as Reply
    from pytest_crucible.records.outcomes import Request as Request
    from pytest_crucible.records.outcomes import ScoreColumns as ScoreColumns
    from pytest_crucible.records.outcomes import Unit as Unit
    from pytest_crucible.records.plan import DetectableEffect as DetectableEffect
    from pytest_crucible.records.plan import Exclusion as Exclusion
    from pytest_crucible.records.plan import Fingerprint as Fingerprint
    from pytest_crucible.records.plan import Plan as Plan
    from pytest_crucible.records.plan import PromptForm as PromptForm
    from pytest_crucible.records.results import Analysis as Analysis
    from pytest_crucible.records.results import CachedReplies as CachedReplies
    from pytest_crucible.records.results import ReusedReplies as ReusedReplies
    from pytest_crucible.records.results import Run as Run
    from pytest_crucible.records.results import Verdict as Verdict
    from pytest_crucible.records.samples import ArmReply as ArmReply
    from pytest_crucible.records.samples import Exchange as Exchange
    from pytest_crucible.records.samples import OutcomeState as OutcomeState
    from pytest_crucible.records.samples import SampleColumns as SampleColumns
    from pytest_crucible.records.statistics import AATest as AATest
    from pytest_crucible.records.statistics import BeyondReach as BeyondReach
    from pytest_crucible.records.statistics import BoundedValue as BoundedValue
    from pytest_crucible.records.statistics import Comparison as Comparison
    from pytest_crucible.records.statistics import Diversity as Diversity
    from pytest_crucible.records.statistics import EffectSize as EffectSize
    from pytest_crucible.records.statistics import Estimate as Estimate
    from pytest_crucible.records.statistics import Evidence as Evidence
    from pytest_crucible.records.statistics import Interval as Interval
    from pytest_crucible.records.statistics import MemberPair as MemberPair
    from pytest_crucible.records.statistics import Proportion as Proportion
    from pytest_crucible.records.statistics import Ratio as Ratio
    from pytest_crucible.records.statistics import ReducedEvidence as ReducedEvidence
    from pytest_crucible.records.statistics import TargetResult as TargetResult
    from pytest_crucible.records.sweeps import Sweep as Sweep
    from pytest_crucible.records.sweeps import SweepMember as SweepMember
    from pytest_crucible.records.tables import ColumnKind as ColumnKind
    from pytest_crucible.records.tables import ExportTable as ExportTable
    from pytest_crucible.records.training import Lineage as Lineage
    from pytest_crucible.records.training import TrainingResult as TrainingResult
    from pytest_crucible.records.types import Alternative as Alternative
    from pytest_crucible.records.types import Applies as Applies
    from pytest_crucible.records.types import DecisionRule as DecisionRule
    from pytest_crucible.records.types import Direction as Direction
    from pytest_crucible.records.types import Kind as Kind
    from pytest_crucible.records.types import Purpose as Purpose
    from pytest_crucible.records.types import Reasoning as Reasoning
    from pytest_crucible.records.types import Relation as Relation
    from pytest_crucible.records.types import Role as Role
    from pytest_crucible.records.types import State as State
    from pytest_crucible.records.types import Value as Value
    from pytest_crucible.records.usage import BUDGET as BUDGET
    from pytest_crucible.records.usage import HELPERS as HELPERS
    from pytest_crucible.records.usage import JUDGE as JUDGE
    from pytest_crucible.records.usage import PARAPHRASER as PARAPHRASER
    from pytest_crucible.records.usage import ArmEvents as ArmEvents
    from pytest_crucible.records.usage import BudgetSpent as BudgetSpent
    from pytest_crucible.records.usage import EventCount as EventCount
    from pytest_crucible.records.usage import LatencySummary as LatencySummary
    from pytest_crucible.records.usage import Quantile as Quantile
    from pytest_crucible.records.usage import Usage as Usage
    from pytest_crucible.records.variants import UNCHANGED as UNCHANGED
    from pytest_crucible.records.variants import NoTwin as NoTwin
    from pytest_crucible.records.variants import PlannedVariant as PlannedVariant
    from pytest_crucible.records.variants import Twin as Twin
    from pytest_crucible.records.variants import Variant as Variant
    from pytest_crucible.records.variants import VariantGroup as VariantGroup
    from pytest_crucible.records.views import Chart as Chart
    from pytest_crucible.records.views import Claim as Claim
    from pytest_crucible.records.views import Excerpt as Excerpt
    from pytest_crucible.records.views import Note as Note
    from pytest_crucible.records.views import Point as Point
    from pytest_crucible.records.views import Row as Row
    from pytest_crucible.records.views import SectionOutcome as SectionOutcome
    from pytest_crucible.records.views import Statement as Statement
    from pytest_crucible.records.views import Table as Table
    from pytest_crucible.records.views import View as View
    from pytest_crucible.records.views import experiment_name as experiment_name

_NAMES = {
    "arms": "Adapter Arm ArmTraining",
    "choosing": "ChoosingHalf SweepLook",
    "conversations": "Conversation StoredCall",
    "datasets": "Dataset Origin Sample Selection",
    "events": "Emit Event",
    "factors": "FACTORS FEWEST_LEVELS Draws",
    "history": "Change Look PairVariability PastComparison RunSummary TrendPoint",
    "judges": "CLEAN HUMAN ORDERS HumanAgreement PlaceBias",
    "measures": "Contrast Measure MetricFacts Target VariantTerm",
    "outcomes": "CUT_SHORT UNEXPLAINED ArmOutcomes Failure Lost LostReason ModelCall Observation OpenStream Outcome Reply Request "
    "ScoreColumns Unit",
    "plan": "Exclusion Fingerprint DetectableEffect Plan PromptForm",
    "results": "Analysis CachedReplies ReusedReplies Run Verdict",
    "samples": "ArmReply Exchange OutcomeState SampleColumns",
    "statistics": "BeyondReach Comparison Diversity EffectSize Estimate Evidence Interval MemberPair BoundedValue Ratio "
    "AATest Proportion ReducedEvidence TargetResult",
    "sweeps": "Sweep SweepMember",
    "tables": "ColumnKind ExportTable",
    "training": "Lineage TrainingResult",
    "types": "Alternative Applies DecisionRule Direction Kind Purpose Reasoning Relation Role State Value",
    "variants": "UNCHANGED NoTwin PlannedVariant Twin Variant VariantGroup",
    "views": "Chart Claim Excerpt Note Point Row SectionOutcome Statement Table View experiment_name",
    "usage": "BUDGET HELPERS JUDGE PARAPHRASER ArmEvents BudgetSpent EventCount Quantile LatencySummary Usage",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
