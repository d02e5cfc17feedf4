"""Base of the labelers of sequences and graphs: elements come with their features, in a table."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from anytime._compat import Interval, StrOptions
from anytime.costs import FeatureCosts
from anytime.parameters import shared, store
from anytime.plan import Plan
from anytime.ragged import elements_of
from anytime.structured.block import EntropySelector
from anytime.structured.learners import LinearUpdateLearner, TreeUpdateLearner, UpdateLearner
from anytime.structured.model import ElementLabels, StructuredModel, read_labels, train_structured
from anytime.structured.rules import StructuredRules, StructuredStep
from anytime.structured.structures import Array, ElementTable, Structures
from anytime.structured.tokens import FeatureReader
from anytime.structured.trainer import StructuredSpeedBoost
from anytime.trees.clock import Clock

__all__ = ["ElementLabeler"]

_PILOT = 500  # elements on which it is measured how long a stage takes
_MEASURING = (
    0.05  # share of the time that is left: measurements that take less are done again with more elements
)
_STAGES_IN_TIME = 3  # that there shall be time for, or fewer structures are learned from


class ElementLabeler(StructuredModel):
    """A model of structures whose elements come with their features. Not used by itself."""

    _parameter_constraints = shared(
        "costs", "budget", "meter", "evaluation_cost", "max_stages", "l2_regularization", "max_leaf_nodes",
        "learning_rate", "class_weight", "n_iter_no_change", "time_budget", "warm_start", "random_state", "n_jobs",
        "verbose",
    ) | {
        "learner": [StrOptions({"linear", "trees", "both"})],
        "context": [Interval(Integral, 0, 10, closed="both")],
        "growth": shared("cost_penalty")["cost_penalty"],
        "folds": [Interval(Integral, 2, None, closed="left")],
        "min_count": shared("n_estimators")["n_estimators"],
        "epochs": shared("n_estimators")["n_estimators"],
    }  # fmt: skip

    learner: str
    context: int
    evaluation_cost: float
    growth: float
    max_stages: int
    folds: int
    min_count: int
    epochs: int
    l2_regularization: float
    max_leaf_nodes: int | None
    learning_rate: float
    class_weight: Any
    n_iter_no_change: int
    time_budget: float | None
    warm_start: bool
    random_state: Any
    verbose: int
    steps_: list[StructuredStep]

    def __init__(
        self,
        *,
        costs: Any = None,
        budget: float | None = None,
        meter: str = "model",
        learner: str = "linear",
        context: int = 2,
        evaluation_cost: float = 0.0,
        growth: float = 0.15,
        max_stages: int = 60,
        folds: int = 4,
        min_count: int = 1,
        epochs: int = 8,
        l2_regularization: float = 0.5,
        max_leaf_nodes: int | None = 31,
        learning_rate: float = 1.0,
        class_weight: Any = None,
        n_iter_no_change: int = 3,
        time_budget: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    @abstractmethod
    def _elements(self, X: Any) -> tuple[Any, Any]:
        """The features of the elements of each structure, and what else is known of the structures."""

    @abstractmethod
    def _batch(
        self, table: Array, offsets: NDArray[np.int64], categories: NDArray[np.int32], more: Any
    ) -> ElementTable:
        """Structures of elements with their features."""

    @property
    def _has_context(self) -> bool:
        return True

    def _fit(self, X: Any, y: Any) -> Self:
        self._validate_params()
        clock = Clock(self.time_budget, self.verbose)
        elements, more = self._elements(X)
        reader = FeatureReader.fit(elements, min_count=self.min_count, what=self._what)
        table, offsets = reader.read(elements)
        structures = self._batch(table, offsets, reader.categories, more)
        labels = read_labels(y, offsets, self.class_weight, self._what)
        if len(structures) < self.folds:
            raise ValueError(f"folds is {self.folds}, but there are {len(structures)} {self._what}s")
        costs = FeatureCosts.coerce(self.costs, reader.n_columns, reader.names).bind(
            reader.n_columns, reader.names
        )
        before = self._trainer_of(table, labels) if self.warm_start else None
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        least = 0.01 * costs.costs.total / max(costs.n_groups, 1)
        rules = StructuredRules(
            evaluation_cost=self.evaluation_cost,
            least_cost=max(least, 1e-9),
            folds=self.folds,
            learning_rate=self.learning_rate,
        )

        def train(
            rows: NDArray[np.intp] | None, max_stages: int, clock: Clock, drawn: str = ""
        ) -> tuple[Plan, StructuredSpeedBoost]:
            return train_structured(
                structures if rows is None else structures.take(rows),
                labels if rows is None else labels.take(elements_of(offsets, rows)[0]),
                costs,
                [EntropySelector()],
                self._learners(),
                rules,
                max_stages=max_stages,
                n_iter_no_change=self.n_iter_no_change,
                clock=clock,
                seed=seed,
                n_threads=self._threads(),
                before=before,
                drawn=drawn,
            )

        rows = self._rows_in_time(offsets, labels, clock, random, train) if before is None else None
        drawn = "" if rows is None else f"left time for {rows.size} of {len(structures)} {self._what}s"
        plan, trainer = train(rows, self.max_stages, clock, drawn)
        self._training = (table, labels, trainer) if self.warm_start else None
        self.plan_, self.classes_, self._reader = plan, labels.classes, reader
        self.steps_, self.n_features_in_ = trainer.steps, reader.n_columns
        if reader.names is not None:
            self.feature_names_in_ = np.array(reader.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _rows_in_time(
        self,
        offsets: NDArray[np.int64],
        labels: ElementLabels,
        clock: Clock,
        random: np.random.RandomState,
        train: Callable[..., Any],
    ) -> NDArray[np.intp] | None:
        """Structures from which a few stages can be learned in the time that is left, drawn at random; None: all.

        How long a stage takes is measured on a small part of them, and on larger ones while that takes next to no time.
        """
        n, n_elements = offsets.size - 1, int(offsets[-1])
        if np.isinf(clock.seconds) or n_elements <= 2 * _PILOT or n <= 2 * self.folds:
            return None
        labelled = np.add.reduceat(np.append(labels.weight, 0.0), offsets[:-1]) * (np.diff(offsets) > 0) > 0
        order = random.permutation(n)
        # those with labels first: copies need some
        order = order[np.argsort(~labelled[order], kind="stable")]
        so_far = np.cumsum(np.diff(offsets)[order])
        pilot = max(int(np.searchsorted(so_far, _PILOT)) + 1, 2 * self.folds)
        while True:
            began = clock.elapsed
            train(np.sort(order[:pilot]), 1, Clock(None, 0))
            took, left = clock.elapsed - began, clock.seconds - clock.elapsed
            affordable = left * so_far[pilot - 1] / (_STAGES_IN_TIME * took)
            if affordable >= n_elements:
                return None
            if took > _MEASURING * left:
                return np.sort(order[: max(int(np.searchsorted(so_far, affordable)), pilot)])
            # of few elements a stage takes longer, for each of them, than of many: measure again
            pilot = min(int(np.searchsorted(so_far, 4 * so_far[pilot - 1])) + 1, n)

    def _trainer_of(self, table: Array, labels: ElementLabels) -> StructuredSpeedBoost | None:
        """The trainer of the fit before, where there is one; it goes on with the data that it has learned from."""
        before: tuple[Array, ElementLabels, StructuredSpeedBoost] | None = getattr(self, "_training", None)
        if before is None:
            if hasattr(self, "plan_"):
                warnings.warn(
                    "warm_start: a model that was loaded, unpickled or fitted without warm_start has no training data "
                    "to continue from: training starts over",
                    stacklevel=4,
                )
            return None
        earlier_table, known_labels, trainer = before
        same = np.array_equal(earlier_table, table, equal_nan=True) and np.array_equal(
            known_labels.weight, labels.weight
        )
        if not same or not np.array_equal(known_labels.truth, labels.truth):
            raise ValueError(
                "warm_start=True continues on the same data, and these data differ: fit a new model"
            )
        return trainer

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_training"}

    def _learners(self) -> list[UpdateLearner]:
        linear = LinearUpdateLearner(
            growth=self.growth,
            use_context=self._has_context,
            epochs=self.epochs,
            l2_regularization=self.l2_regularization,
        )
        trees = TreeUpdateLearner(
            max_leaf_nodes=self.max_leaf_nodes,
            use_context=self._has_context,
            l2_regularization=self.l2_regularization,
            n_threads=self._threads(),
        )
        offered: dict[str, list[UpdateLearner]] = {
            "linear": [linear],
            "trees": [trees],
            "both": [linear, trees],
        }
        return offered[self.learner]

    def _structures(self, X: Any) -> Structures:
        elements, more = self._elements(X)
        table, offsets = self._reader.read(elements)
        structures = self._batch(table, offsets, self._reader.categories, more)
        structures.held = self._reader.held(elements)
        return structures

    def _file_state(self) -> dict[str, Any]:
        reader = self._reader
        return {"names": reader.names, "vocabularies": reader.vocabularies, "optional": reader.optional}

    def _restore_file_state(self, state: dict[str, Any]) -> None:
        # files of before say nothing of what is optional: everything is
        optional = state.get("optional", state["names"] or ())
        self._reader = FeatureReader(
            state["names"], self.plan_.n_features, state["vocabularies"], self._what, optional
        )
        self._check_stages(self._structures([]))
