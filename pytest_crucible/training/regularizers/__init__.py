"""Regularizers: terms that a recipe adds to a loss, all of them functions of the log-probabilities of the target tokens.

    from pytest_crucible.training.regularizers import KLDivergence

    def train(trainer):
        data = trainer.with_reference(trainer.datums("train.jsonl"))
        for step in trainer.steps(40):
            trainer.step(trainer.batch(step, data, 8), regularizers=[KLDivergence(0.1)])

Each is a sum over the tokens that count, as Tinker's losses are, times its weight. A service returns the log-probabilities of
targets and no others, so these are the terms that can be had on every base; `weight_decay` of Adam acts on the adapter itself.
"""

from pytest_crucible.training.regularizers.distributions import Entropy, KLDivergence
from pytest_crucible.training.regularizers.loss_gradients import GradientPenalty
from pytest_crucible.training.regularizers.magnitudes import L1, L2, ElasticNet
from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens
from pytest_crucible.training.regularizers.rows import Consistency, Orthogonality
from pytest_crucible.training.regularizers.term import Regularizer, Term

__all__ = [
    "L1",
    "L2",
    "Consistency",
    "ElasticNet",
    "Entropy",
    "GradientPenalty",
    "KLDivergence",
    "Orthogonality",
    "Regularizer",
    "ReplyTokens",
    "Term",
]
