"""The parts that differ between classification, regression, and a single tree."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import column_or_1d

from anytime._compat import Interval, StrOptions
from anytime.faces import ClassifierFace, RegressorFace
from anytime.forests.budgeted import BudgetModel, GrowingTask
from anytime.forests.choosing import Attempt
from anytime.forests.growing import ClassTree
from anytime.forests.guarantee import TreeGuarantee
from anytime.forests.impurity import ClassPairs, Entropy, Gini, Impurity, Powers, SquaredError, SquaredPairs
from anytime.forests.levels import max_cost
from anytime.parameters import not_negative, positive_integer, without
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.validation import class_labels, numbered_classes, target_numbers


@without("leaf_sizes")
class Classes(ClassifierFace, BudgetModel):
    """Classes, and the threshold of Pairs."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetModel._parameter_constraints,
        "impurity": [StrOptions({"pairs", "powers", "entropy", "gini"}), Impurity],
        "alpha": [not_negative, StrOptions({"auto"})],
        "alphas": ["array-like"],
    }

    @property
    def alpha_(self) -> float | None:
        """The threshold of Pairs that was used; None with another impurity."""
        return self.setting_.size

    def _listed_sizes(self) -> list[float | None]:
        named, chosen = self.impurity, isinstance(self.alpha, str)
        if named == "pairs":
            return _checked("alphas", self.alphas if chosen else [self.alpha], not_negative)
        if not chosen and self.alpha != 0:
            raise ValueError(
                f"alpha is {self.alpha}, the threshold of impurity='pairs', but the impurity is {named!r}, which has its own"
            )
        if isinstance(named, Impurity) and named.regression:
            raise ValueError(f"{named!r} is an impurity for regression, not for classification")
        return [named.alpha if isinstance(named, ClassPairs) else None]

    def _impurity(self, size: float | None) -> Impurity:
        named = self.impurity
        if isinstance(named, Impurity):
            return named
        if named == "pairs":
            assert size is not None
            return ClassPairs(size)
        return {"powers": Powers(), "entropy": Entropy(), "gini": Gini()}[named]

    def _leaf_rows(self, size: float | None) -> int:
        return int(self.min_samples_leaf)

    @property
    def _link(self) -> str:
        return "counts" if self.vote == "counts" else "probability"

    def _targets(self, y: Any, of_validation: bool = False) -> NDArray[Any]:
        y = class_labels(y)
        if not of_validation:
            self.classes_, numbers = np.unique(y, return_inverse=True)
            return np.asarray(numbers, dtype=np.intp)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"y_val holds the label {y[unknown][0]!r}, which y does not have")
        return np.asarray(np.searchsorted(self.classes_, y))

    def _check_present(self, target: NDArray[Any]) -> None:
        numbered_classes(self.classes_[target])

    def _strata(self, target: NDArray[Any]) -> NDArray[np.intp]:
        return np.asarray(target, dtype=np.intp)

    def _class_factors(self, target: NDArray[Any]) -> Array | None:
        if self.class_weight is None:
            return None
        present = np.unique(target)
        labels = self.classes_[present]
        factors = np.ones(len(self.classes_))
        factors[present] = compute_class_weight(self.class_weight, classes=labels, y=self.classes_[target])
        if (bad := np.flatnonzero(~(np.isfinite(factors) & (factors > 0)))).size:
            label, factor = self.classes_[bad[0]], factors[bad[0]]
            raise ValueError(f"class_weight of {label!r} is {factor:g}; it must be positive and finite")
        return factors

    def _base(self, target: NDArray[Any], weight: Array | None) -> Array:
        counts = np.bincount(target, weights=weight, minlength=len(self.classes_)).astype(np.float64)
        return counts if self.vote == "counts" else counts / counts.sum()


@without("alpha", "alphas", "vote", "class_weight", min_samples_leaf="auto")
class Numbers(RegressorFace, BudgetModel):
    """Numbers, and the fewest rows of a leaf."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetModel._parameter_constraints,
        "impurity": [StrOptions({"pairs", "squared_error"}), Impurity],
        "min_samples_leaf": [positive_integer, StrOptions({"auto"})],
        "leaf_sizes": ["array-like"],
    }

    @property
    def min_samples_leaf_(self) -> int:
        """The fewest rows of a leaf that was used."""
        return self._leaf_rows(self.setting_.size)

    def _listed_sizes(self) -> list[float | None]:
        named = self.impurity
        if isinstance(named, Impurity) and not named.regression:
            raise ValueError(f"{named!r} is an impurity for classification, not for regression")
        sizes = self.leaf_sizes if isinstance(self.min_samples_leaf, str) else [self.min_samples_leaf]
        return _checked("leaf_sizes", sizes, positive_integer)

    def _impurity(self, size: float | None) -> Impurity:
        named = self.impurity
        if isinstance(named, Impurity):
            return named
        return SquaredPairs() if named == "pairs" else SquaredError()

    def _leaf_rows(self, size: float | None) -> int:
        assert size is not None
        return int(size)

    _link = "identity"

    def _targets(self, y: Any, of_validation: bool = False) -> NDArray[Any]:
        numbers = target_numbers(y)
        return np.asarray(column_or_1d(numbers, warn=True))

    def _strata(self, target: NDArray[Any]) -> NDArray[np.intp]:
        return np.zeros(len(target), dtype=np.intp)

    def _base(self, target: NDArray[Any], weight: Array | None) -> Array:
        return np.atleast_1d(np.average(target, weights=weight))


def _checked(name: str, sizes: Iterable[Any], allowed: Interval) -> list[float | None]:
    """Sizes to be tried as numbers, each of which is in an interval."""
    listed = np.asarray(sizes).tolist()
    for at, size in enumerate(listed):
        if not (allowed.is_satisfied_by(size) and np.isfinite(size)):
            raise ValueError(f"{name}[{at}] is {size!r}; it must be {allowed}")
    if not listed:
        raise ValueError(f"{name} is empty: there is nothing to choose from")
    return [float(size) for size in listed]


class SingleTree(BudgetModel):
    """What is special to a single tree."""

    guarantee_: TreeGuarantee | None

    @property
    def max_cost_(self) -> float:
        """The cost of the most expensive path: what no row ever exceeds."""
        if not self._plan.n_stages:
            return 0.0
        block = self._plan.blocks[-1]
        assert isinstance(block, TreeBlock)
        fields: dict[str, Any] = dict(block.select([block.n_stages - 1]).forest.arrays())
        del fields["shift"]
        return max_cost(TreeArrays(**fields), self._plan.costs)

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A model of its own within smaller bounds, without ``trees_`` and ``guarantee_``."""
        smaller = super().truncate(budget, mean_budget=mean_budget)
        smaller.guarantee_ = None
        return smaller

    def _finish(self, attempt: Attempt, task: GrowingTask) -> None:
        super()._finish(attempt, task)
        grown = self.trees_[0] if self.trees_ else attempt.growth.first.tree
        by_price = self.setting_.weighting == 1
        try:
            proved = self._proved(grown, attempt, task) if by_price else None
        except KeyboardInterrupt:
            proved = None
            task.notes.append("interrupted: the tree has no guarantee_")
        if proved is not None and not self.trees_:  # what was cut off makes it cheaper, and no longer pure
            proved = replace(proved, max_cost=self.max_cost_, separates=False)
        self.guarantee_ = proved

    def _proved(self, tree: ClassTree, attempt: Attempt, task: GrowingTask) -> TreeGuarantee | None:
        named = sorted(self.columns_.categories)
        many = bool(named) and any(np.unique(bins).size > 2 for bins in task.data.bins()[:, named].T)
        return TreeGuarantee.of(tree, attempt.grower, task.bench.costs, many_categories=many)

    def _file_state(self) -> dict[str, Any]:
        proved = self.guarantee_
        return {**super()._file_state(), "guarantee": None if proved is None else proved.to_dict()}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        proved = state["guarantee"]
        self.guarantee_ = None if proved is None else TreeGuarantee.from_dict(proved)
