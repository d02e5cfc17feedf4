"""What an importer returns: the trees, and everything needed to turn their sum into the original's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.trees.arrays import TreeArrays
from anytime.trees.importers.columns import Columns

Combine = Literal["sum", "mean"]
LINK_NAMES = (
    *("identity", "exp", "signed_square", "softplus", "regression_logistic"),  # numbers
    *("logistic", "softmax", "ova", "probability"),  # classes
)


@dataclass(frozen=True, eq=False)
class Imported:
    """A fitted model of another library, in the canonical layout.

    The ``link``, one of ``LINK_NAMES``, says how a score becomes an answer; ``signed_square`` is LightGBM's ``reg_sqrt``,
    ``softplus`` its ``cross_entropy_lambda``. Two boosted classes have one output, the log-odds of ``classes[1]``. Scales such as
    LightGBM's ``sigmoid`` are already in the leaves.
    """

    trees: TreeArrays  # a stage is a boosting round (``K`` trees for ``K`` classes) or a forest's tree, as trained
    # (K,): the score before any tree. For averages the mean of the trees' roots: the class prior or the target mean
    base: NDArray[np.float64]
    # the score of a prefix: ``base`` plus the sum of its stages, or their mean (``base`` for the empty prefix only)
    combine: Combine
    link: str
    # (C,): in the original's dtype. None: ``predict`` gives the linked score (regression, ranking)
    classes: NDArray[Any] | None
    feature_names: list[str] | None  # as the library kept them (LightGBM writes ``_`` for a blank)
    columns: Columns  # how a row becomes the numbers that the trees compare
    source: str  # library, class and version of the model, such as "lightgbm.Booster 4.7.0"

    def encode(self, X: Any) -> NDArray[np.float64]:
        """(n, d) float64: a table or an array as the trees read it, see :meth:`Columns.encode`."""
        return self.columns.encode(X)


def unknown_link(source: str, objective: str) -> str:
    """What to say of a model whose objective does not tell what its scores mean."""
    return (
        f"{source} was trained with {objective}, so what its scores mean is unknown. "
        "Say it: import_trees(model, link='identity'), 'logistic', 'softmax', …"
    )
