"""Links from scores to answers, and losses of scores.

A plan adds up raw scores; its link turns them into answers, and a loss measures their distance from the truth. Both work on
``scores`` of shape (n, K). Learners use the gradient of a loss, the bounds on its curvature that step sizes and guarantees depend
on (Grubb, *Anytime Prediction*, 2014, equations 2.8 and 2.9), and the best step along a direction.
"""

from anytime.losses.catalogue import LOSSES, TRAINING_LOSSES, loss_for, training_loss
from anytime.losses.links import LINKS, Link, least_cost
from anytime.losses.loss import Loss, Target, regularised
from anytime.losses.ranking import lambdarank, ndcg_shortfall
from anytime.losses.regression import huber, quantile
from anytime.losses.search import line_search

__all__ = [
    "LINKS",
    "LOSSES",
    "TRAINING_LOSSES",
    "Link",
    "Loss",
    "Target",
    "huber",
    "lambdarank",
    "least_cost",
    "line_search",
    "loss_for",
    "ndcg_shortfall",
    "quantile",
    "regularised",
    "training_loss",
]
