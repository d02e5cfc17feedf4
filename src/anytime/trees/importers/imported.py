"""What an importer returns: the trees, and everything needed to turn their sum into the original's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.trees.arrays import TreeArrays
from anytime.trees.importers.columns import encode_columns

Combine = Literal["sum", "mean"]
LINK_NAMES = (
    *("identity", "exp", "signed_square", "softplus", "regression_logistic"),  # numbers
    *("logistic", "softmax", "ova", "probability"),  # classes
)


@dataclass(frozen=True, eq=False)
class Imported:
    """A fitted model of another library, in the canonical layout.

    Attributes
    ----------
    trees : TreeArrays
        Stages as trained: one boosting round (``K`` trees for ``K`` classes) or one forest tree per stage.
    base : (K,) float64
        The score before any tree. For averages it is the mean of the trees' roots: the class prior or the target mean.
    combine : {"sum", "mean"}
        The score of a prefix: ``base`` plus the sum of its stages, or the mean of its stages (``base`` for the
        empty prefix, and nowhere else).
    link : str
        How a score becomes an answer, one of the names in `anytime.losses`: ``identity``, ``exp``, ``signed_square``
        (LightGBM's ``reg_sqrt``), ``softplus`` (its ``cross_entropy_lambda``), ``regression_logistic`` for numbers;
        ``logistic``, ``softmax``, ``ova``, ``probability`` for classes. Two boosted classes have one output, the log-odds
        of ``classes[1]``. Scales such as LightGBM's ``sigmoid`` are already in the leaves.
    classes : (C,) array or None
        Class labels in the original's dtype. None: ``predict`` gives the linked score (regression, ranking).
    feature_names : list of str or None
        As the library kept them (LightGBM writes ``_`` for a blank).
    categories : dict of int to list, or None
        Columns whose values are categories: value ``i`` of the list has code ``i``, which is what the trees compare.
    source : str
        Who made the model, for instance ``"lightgbm.Booster 4.7.0"``.
    arrays_hold_codes : bool
        What a plain array (not a table) contains in a categorical column: codes for LightGBM and XGBoost, the
        values themselves for scikit-learn.
    missing_value : float
        The number that stands for a missing one (``missing=`` of the XGBoost estimators), NaN by default.
    rounded_down : tuple of int
        Categorical columns in which -0.5 is a wrong value and not category 0 (XGBoost; LightGBM cuts it to 0).
    """

    trees: TreeArrays
    base: NDArray[np.float64]
    combine: Combine
    link: str
    classes: NDArray[Any] | None
    feature_names: list[str] | None
    categories: dict[int, list[Any]] | None
    source: str
    arrays_hold_codes: bool = True
    missing_value: float = float("nan")
    rounded_down: tuple[int, ...] = ()

    @property
    def reads_plain_numbers(self) -> bool:
        """Whether a plain float array can go to the trees as it is, without :meth:`encode`."""
        return (
            not (self.categories and not self.arrays_hold_codes)
            and bool(np.isnan(self.missing_value))
            and not self.rounded_down
        )

    def encode(self, X: Any) -> NDArray[np.float64]:
        """Turn a table or an array into the numbers that the trees compare, as the original library does.

        A value that is in no list of ``categories`` becomes NaN. The libraries do the same, except that
        XGBoost 3 refuses a table with one.

        Parameters
        ----------
        X : (n, d) table or array

        Returns
        -------
        (n, d) float64
        """
        codes = encode_columns(X, self.trees.n_features, self.categories, self.arrays_hold_codes)
        if self.reads_plain_numbers:
            return codes
        if not np.isnan(self.missing_value):
            codes = np.where(_narrow(codes) == np.float32(self.missing_value), np.nan, codes)
        for column in self.rounded_down:
            codes[:, column] = np.floor(_narrow(codes[:, column]))
        return codes


def _narrow(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Float32, as XGBoost reads everything: numbers beyond its range are infinite."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)
