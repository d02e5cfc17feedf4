"""Curves: quality at every budget, summaries in one number, and comparisons of models.

``curve`` evaluates a fitted model after every stage and returns an ``AnytimeCurve``; ``compare`` does so for several models and
writes a report. Metrics are those of the papers (timeliness, stopping cost, oracle) and of scikit-learn.
"""

from anytime.curves.anytime_curve import AnytimeCurve, Purchase
from anytime.curves.comparison import Comparison, compare, pareto_frontier
from anytime.curves.display import AnytimeCurveDisplay
from anytime.curves.elements import chunk_f1
from anytime.curves.evaluate import curve
from anytime.curves.metrics import NDCG, disagreement, ndcg

__all__ = [
    "NDCG",
    "AnytimeCurve",
    "AnytimeCurveDisplay",
    "Comparison",
    "Purchase",
    "chunk_f1",
    "compare",
    "curve",
    "disagreement",
    "ndcg",
    "pareto_frontier",
]
