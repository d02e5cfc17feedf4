"""One row at a time: ``learn_one`` and ``predict_one``, for rows as arrays or, as in river, as dictionaries."""

import copy
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from anytime.costs import BoundCosts
from anytime.faces import ClassifierFace
from anytime.forest_run import probabilities_of
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.streaming.algorithm import StreamAlgorithm
from anytime.streaming.open_rows import OpenRows, ordered
from anytime.streaming.reading import StreamReader
from anytime.streaming.stream_state import StreamState
from anytime.trees.importers.columns import Columns
from anytime.validation import as_table

_FEW = 256  # rows that learners answer sooner than a plan is made
_LEARNED = frozenset(
    [
        *("_bound", "_ignores", "_learning", "_number", "_numbers"),
        *("_one_row", "_open", "_places", "_reading"),
    ]
)


class PlanSnapshot:
    """The last plan that was made, and the moment it is of; its own object, because reading changes no model."""

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan
        self.moment: Any = None


class OneByOne(StreamReader):
    """A model that accepts single rows at any time. Not used by itself."""

    _learning: StreamState | None = None
    # where rows came one by one before anyone said what features or classes there are
    _open: OpenRows | None = None
    _reading: PlanSnapshot | None = None
    _bound: BoundCosts
    _number: dict[Any, int]  # of each label
    algorithm: str | StreamAlgorithm
    prefix: str
    position_: int = 0  # rows of the present stream that were read: where a checkpoint goes on
    source_: dict[str, Any] | None = None  # by what that stream is known again

    # ------------------------------------------------------------------ learning

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> Self:
        """Learn from one row.

        Parameters
        ----------
        x : (d,) array or dict
            A dictionary has values by name; an absent name is a missing value, and strings are categories.
        y : float or label
        w : float, default=1.0
            Weight of the row.
        """
        if w <= 0 or not np.isfinite(w):
            if w == 0:
                return self
            raise ValueError(f"the weight of a row must be finite and not negative, not {w}")
        if self._open is not None:
            return self._learn_open(x, y, w)
        learning = self._learning
        if learning is None:
            if self._has_begun:
                self._refuse_frozen()
            self._validate_params()
            fresh = self._unfitted()
            fresh._open = OpenRows(isinstance(x, Mapping))
            fresh._learn_open(x, y, w)
            self.__dict__ = fresh.__dict__
            return self
        codes = self._one_codes(x)
        learning.learn(codes, self._one_target(y), None if w == 1.0 else np.array([float(w)]))
        return self

    def _learn_open(self, x: Any, y: Any, w: float) -> Self:
        rows = self._open
        assert rows is not None
        if isinstance(x, Mapping) != rows.by_name:
            raise TypeError(
                f"rows came as {'dictionaries' if rows.by_name else 'arrays'} so far, but this one does not"
            )
        if not rows.by_name and rows.n_rows and np.shape(x) != (self.n_features_in_,):
            raise ValueError(
                f"the row has shape {np.shape(x)}, but rows had {self.n_features_in_} values so far"
            )
        new_feature = (
            rows.by_name and rows.complete and not x.keys() <= self.__dict__.get("_places", {}).keys()
        )
        label = y.item() if isinstance(y, np.generic) else y
        new_label = isinstance(self, ClassifierFace) and label not in self.__dict__.get("_number", {})
        if self._learning is not None and not new_feature and not new_label:
            codes = self._one_codes(x)
            target = self._one_target(y)
            rows.keep(x, label, w)
            self._learning.learn(codes, target, None if w == 1.0 else np.array([float(w)]))
            if not rows.complete and not isinstance(self, ClassifierFace):
                self._open = None  # features are settled, and nothing else could be new
            return self
        if new_label and not rows.complete and self._learning is not None:
            warnings.warn(
                f"the label {label!r} is new after {rows.n_rows} rows: learning restarts from the last {len(rows.rows)}. "
                "partial_fit(X, y, classes=...) says which labels there will be",
                stacklevel=3,
            )
        trial = copy.copy(self)
        trial._open = rows = copy.copy(rows)
        rows.rows = rows.rows.copy()
        rows.keep(x, label, w)
        trial._begin_anew()
        self.__dict__ = trial.__dict__
        return self

    def _begin_anew(self) -> None:
        """Fresh learners for the features and labels of the rows kept, taken through them."""
        rows = self._open
        assert rows is not None
        if rows.by_name and (rows.complete or "_places" not in self.__dict__):
            features = rows.features()
            names = list(features)
            self.n_features_in_ = max(len(names), 1)
            self._places = {name: j for j, name in enumerate(names)}
            self.__dict__.pop("feature_names_in_", None)
            if names and all(isinstance(name, str) for name in names):
                self.feature_names_in_ = np.array(names, dtype=object)
            words: dict[int, list[Any]] = {j: [] for j, word in enumerate(features.values()) if word}
            self.columns_ = Columns(self.n_features_in_, categories=words)
        elif not rows.by_name:
            self._first_codes(np.stack([x for x, _, _ in rows.rows]))
        if isinstance(self, ClassifierFace):
            labels = ordered({*self.__dict__.get("_number", {}), *(y for _, y, _ in rows.rows)})
            self._number = {label: c for c, label in enumerate(labels)}
            self.classes_ = _as_array(labels)
            if len(labels) < 2:  # nothing to tell apart yet
                return
        self._begin()
        assert self._learning is not None
        for x, y, w in rows.rows:
            weight = None if w == 1.0 else np.array([float(w)])
            self._learning.learn(self._one_codes(x), self._one_target(y), weight)

    def _one_codes(self, x: Any) -> Array:
        """(1, d) codes of a row to learn from."""
        if type(x) is np.ndarray and x.ndim == 1 and self._is_ready(x[None]):
            return self._array_codes(x[None], grow=True)
        if isinstance(x, Mapping):
            return self._named_codes(x, grow=True)
        return self._codes(np.asarray(x, dtype=np.float64).reshape(1, -1), grow=True)

    def _one_target(self, y: Any) -> NDArray[np.float64]:
        if isinstance(self, ClassifierFace):
            number = self._number.get(y.item() if isinstance(y, np.generic) else y)
            if number is None:
                raise ValueError(f"the label {y!r} is not among classes {list(self._number)}")
            return np.array([float(number)])
        target = float(y)
        if not np.isfinite(target):
            raise ValueError(f"the target of a row must be finite, not {y}")
        return np.array([target])

    # ------------------------------------------------------------------ answers

    def predict_one(
        self,
        x: Any,
        budget: float | None = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """The prediction for one row.

        Without bounds, the learners predict directly, so that a loop of predicting and learning makes no plan. With a budget or
        a deadline, or if no row was learned since the last prediction, the plan predicts.

        Parameters
        ----------
        x : (d,) array, dict or row of a table
            Absent columns are handled as in ``predict``; None is a missing value.
        budget, mean_budget : float, default=None
        deadline : float, default=None
            Seconds from the call.
        """
        self._refuse_unfitted()
        if self._learning is None and self._open is not None:
            return next(iter(self._number))  # the only label so far
        unbounded = budget is None and deadline is None and mean_budget is None
        if not (unbounded and self._answers_live) and self._reads_rows_as_they_are and not hasattr(x, "keys"):
            return super().predict_one(x, budget, deadline, mean_budget=mean_budget)
        rows = self._one_row_of(x)
        if unbounded and self._answers_live and rows.held is None:
            assert self._learning is not None
            return self._one_answer(self._learning.scores(rows.X)[0])
        return self._decided_one(self._run_plan(rows, budget, mean_budget, self._due_in(deadline)))

    def predict_proba_one(
        self,
        x: Any,
        budget: float | None = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> dict[Any, float]:
        """Probability of each label, as a dict.

        Parameters
        ----------
        x : (d,) array or dict
        budget, deadline, mean_budget : float, default=None
        """
        if not isinstance(self, ClassifierFace):
            raise AttributeError(f"a {type(self).__name__} has no probabilities")
        self._refuse_unfitted()
        if self._learning is None and self._open is not None:
            return dict.fromkeys(self._number, 1.0)
        unbounded = budget is None and deadline is None and mean_budget is None
        rows = self._one_row_of(x)
        if unbounded and self._answers_live and rows.held is None:
            assert self._learning is not None
            probabilities = LINKS[self._scores_link].transform(self._learning.scores(rows.X))
        else:
            probabilities = probabilities_of(
                self._run_plan(rows, budget, mean_budget, self._due_in(deadline))
            )
        return dict(zip(self.classes_.tolist(), probabilities[0].tolist(), strict=True))

    def _scores(self, X: Any, budget: Any, deadline: float | None, mean_budget: float | None = None) -> Array:
        X = as_table(X)
        shape: tuple[int, ...] = getattr(X, "shape", ())
        unbounded = budget is None and deadline is None and mean_budget is None
        if (
            unbounded
            and set(getattr(self, "feature_names_in_", ())) <= set(getattr(X, "columns", ()))
            and len(shape) == 2
            and shape[0] <= _FEW
            and self._learning is not None
            and self._answers_live
        ):
            return self._learning.scores(self._as_numbers(X))
        return super()._scores(X, budget, deadline, mean_budget)

    def _probabilities(
        self, X: Any, budget: Any, deadline: float | None, mean_budget: float | None = None
    ) -> Array:
        if self._learning is None:
            return super()._probabilities(X, budget, deadline, mean_budget)
        scores = self._scores(X, budget, deadline, mean_budget)  # a model that learns is never calibrated
        return LINKS[self._scores_link].transform(scores)

    @property
    def _scores_link(self) -> str:
        return super()._scores_link if self._learning is None else self._learning.boosting.loss.link

    @property
    def _answers_live(self) -> bool:
        """Whether the learners themselves answer: they are what a plan would be, and there is none of this moment."""
        if self._learning is None:
            return self._open is not None
        plain = self._rules.hypotheses == "last" and self.prefix == "all" and self.budget is None
        return plain and self._is_stale

    def _one_answer(self, scores: Array) -> Any:
        if not isinstance(self, ClassifierFace):
            return scores.item()
        return self.classes_.item(int(scores[0] > 0) if scores.size == 1 else int(scores.argmax()))

    # ------------------------------------------------------------------ the plan

    @property
    def plan_(self) -> Plan:
        """The current learners: a frozen copy, renewed after further learning."""
        learning, reading = self._learning, self._reading
        if reading is None or (learning is None and reading.plan is None):
            raise AttributeError(self._why_no_plan())
        if learning is not None and self._is_stale:
            reading.plan, reading.moment = self._plan_of(learning), self._moment(learning)
        assert reading.plan is not None
        return reading.plan

    @plan_.setter
    def plan_(self, plan: Plan) -> None:
        """A fixed plan: of a truncated model, or from a file."""
        if self._learning is not None:
            self._numbers = self._numbers.copy()
        self._learning, self._open, self._reading = None, None, PlanSnapshot(plan)
        self._bound = plan.costs

    def _plan_of(self, learning: StreamState) -> Plan:
        return learning.plan(
            self._bound,
            learning.boosting.loss.link,
            hypotheses=self._rules.hypotheses,
            evaluation_cost=float(self.evaluation_cost),
            best=self.prefix == "best",
        )

    def _moment(self, learning: StreamState) -> tuple[Any, ...]:
        """All that a plan depends on."""
        done = (learning.boosting.n_rows, learning.boosting.n_estimators)
        return (*done, self._rules.hypotheses, self.evaluation_cost, self.prefix)

    @property
    def _is_stale(self) -> bool:
        """Whether learning has gone on since the last plan was made."""
        learning, reading = self._learning, self._reading
        if learning is None:
            return False
        return reading is None or reading.plan is None or reading.moment != self._moment(learning)

    @property
    def _rules(self) -> StreamAlgorithm:
        algorithm = self.algorithm
        return StreamAlgorithm(algorithm) if isinstance(algorithm, str) else algorithm  # type: ignore[arg-type]  # constraints check it

    def _due_in(self, deadline: float | None) -> float:
        import time

        return self._due(time.monotonic(), deadline)

    # ------------------------------------------------------------------ states

    @property
    def _has_begun(self) -> bool:
        return self._reading is not None or self._open is not None

    def _unfitted(self) -> Self:
        """The same parameters, and nothing learned."""
        fresh = copy.copy(self)
        fresh.__dict__ = {
            name: value
            for name, value in self.__dict__.items()
            if name not in _LEARNED and (name.startswith("_") or not name.endswith("_"))
        }
        return fresh

    def _begin(self) -> None:
        raise NotImplementedError

    def _refuse_unfitted(self) -> None:
        if not self._has_begun:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit, partial_fit or learn_one first"
            )

    def _refuse_frozen(self) -> None:
        if self._learning is None and self._open is None:
            raise ValueError(
                "this model was truncated, or saved with learning=False, and has no learners: it can predict, but not learn"
            )

    def _why_no_plan(self) -> str:
        if self._open is not None:
            return f"this {type(self).__name__} has seen only one class; it is available once there are two"
        return f"this {type(self).__name__} is not fitted yet; call fit first"

    def _checked_places(self, places: Any) -> dict[Any, int]:
        if not isinstance(places, dict) or any(
            type(column) is not int or not 0 <= column < self.n_features_in_ for column in places.values()
        ):
            raise ValueError("names of features do not match the columns")
        return places

    def _restore_open(self, state: Mapping[str, Any] | None) -> None:
        self._open = None if state is None else OpenRows.from_state(state)
        if isinstance(self, ClassifierFace):
            self._number = {label: c for c, label in enumerate(self.classes_.tolist())}


def _as_array(labels: list[Any]) -> NDArray[Any]:
    """Labels as an array of their own kind, of objects where they are of several."""
    kinds = {type(label) for label in labels}
    if len(kinds) == 1:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
