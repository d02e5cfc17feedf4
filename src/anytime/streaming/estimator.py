"""Base of the streaming classifier and regressor: from parameters to learners, from rows to learning, from learners to a plan.

Learning never changes an earlier plan: a plan is a frozen copy, made on demand if rows were learned since the last one.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length

from anytime._compat import Interval, StrOptions
from anytime.faces import ClassifierFace
from anytime.losses import LINKS
from anytime.parameters import shared, store
from anytime.plan import Array
from anytime.streaming.algorithm import StreamAlgorithm
from anytime.streaming.banks import Bank, StreamLearner, learner_named
from anytime.streaming.banks.native import NativeBank
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.categories import CategoryNumbers
from anytime.streaming.checkpoints import Checkpoints
from anytime.streaming.class_weights import ClassWeights
from anytime.streaming.drift import Drift
from anytime.streaming.losses import StreamLoss, loss_named
from anytime.streaming.monitors import EdgeKind
from anytime.streaming.one_by_one import PlanSnapshot
from anytime.streaming.rehearsal import Rehearsal
from anytime.streaming.scaling import RunningScale
from anytime.streaming.stream_state import StreamState
from anytime.trees.clock import Clock
from anytime.trees.rows import checked_weights

_GROWING = ("hoeffding_tree", "stump")  # rehearse by default
_REHEARSED = 500  # rows kept for that
Method = Literal["predict", "predict_proba", "decision_function"]


class StreamingBoost(Checkpoints):
    """Base of the classifier and the regressor."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "learner": [str, StreamLearner],
        "loss": [str, StreamLoss],
        "learning_rate": [*shared("learning_rate")["learning_rate"], None],
        "algorithm": [StrOptions({"auto", "smooth", "residual"}), StreamAlgorithm],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "rehearse": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "drift": [StrOptions({"adwin", "windows"}), Drift, None],
        "standardise": [StrOptions({"auto"}), "boolean"],
        "prefix": [StrOptions({"all", "best"})],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        n_estimators: int = 100,
        learner: str | StreamLearner = "hoeffding_tree",
        loss: str | StreamLoss = "auto",
        learning_rate: float | None = None,
        algorithm: str | StreamAlgorithm = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        batch_size: int = 1,
        epochs: int = 1,
        rehearse: int | str = "auto",
        drift: str | Drift | None = None,
        standardise: bool | str = "auto",
        prefix: str = "all",
        categorical_features: Any = "from_dtype",
        evaluation_cost: float = 0.0,
        time_budget: float | None = None,
        budget: float | None = None,
        meter: str = "model",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Start over and learn from the rows in order, ``epochs`` times. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, with NaN for missing values; columns of a table may be categories.
        y : (n,)
        sample_weight : (n,), default=None
            Rows of weight 0 are ignored.
        """
        self._validate_params()
        fresh = self._unfitted()
        codes, targets, weight = fresh._first_rows(X, y, sample_weight, None)
        assert fresh._learning is not None
        self._pass_over(fresh._learning, codes, targets, weight)
        self.__dict__ = fresh.__dict__
        return self

    def _pass_over(
        self, learning: StreamState, codes: Array, targets: NDArray[Any], weight: Array | None
    ) -> None:
        """Learn from rows ``epochs`` times, as far as time and patience go."""
        clock, last_told = Clock(self.time_budget, int(self.verbose)), 0
        pieces = learning.pieces(len(codes)) * self.epochs
        try:
            for done, rows in enumerate(pieces, start=1):
                learning.learn(codes[rows], targets[rows], None if weight is None else weight[rows])
                if 10 * done // len(pieces) > last_told:
                    last_told = 10 * done // len(pieces)
                    message = f"{learning.n_rows} rows, error before learning {learning.error:.5g}"
                    clock.tell(message, n_rows=learning.n_rows, progressive_error=learning.error)
                if clock.over:
                    return
        except KeyboardInterrupt:
            if not learning.n_rows:
                raise
            warnings.warn(f"interrupted: the model has learned from {learning.n_rows} rows", stacklevel=3)

    def partial_fit(
        self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from further rows, in order.

        With ``batch_size=1``, the result does not depend on how rows are split into chunks, to the last bit.

        Parameters
        ----------
        X : (n, d)
            The columns of the first call; categories may be new.
        y : (n,)
        classes : (C,), default=None
            All labels that will occur; a classifier needs them in its first call.
        sample_weight : (n,), default=None
        """
        self._learn_rows(X, y, classes, sample_weight)
        return self

    def predict_then_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        method: Method = "predict",
    ) -> NDArray[Any]:
        """Learn from further rows, and return the prediction of each row before learning from it (progressive validation).

        Rows of weight 0 are predicted, too.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in ``partial_fit``.
        method : {"predict", "predict_proba", "decision_function"}, default="predict"
            What to return: predictions (n,); for a classifier also probabilities (n, C) or scores.
        """
        return self._answers_for(self._learn_rows(X, y, classes, sample_weight), method)

    def _learn_rows(
        self, X: Any, y: Any, classes: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> Array:
        """Scores of rows before each was learned, those of weight 0 included."""
        if not self._has_begun:
            self._validate_params()
            fresh = self._unfitted()
            rows = fresh._first_rows(X, y, sample_weight, classes, keep_absent=True)
            self.__dict__ = fresh.__dict__
        else:
            self._refuse_frozen()
            rows = self._further_rows(X, y, sample_weight, classes)
        codes, targets, weight = rows
        learning = self._learning
        assert learning is not None
        if weight is None or weight.all():
            return learning.learn(codes, targets, weight)
        scores = np.empty((len(codes), learning.boosting.bank.n_outputs))
        present = weight > 0
        for run in np.split(np.arange(len(codes)), np.flatnonzero(present[1:] != present[:-1]) + 1):
            some = slice(run[0], run[-1] + 1)
            if present[run[0]]:
                scores[some] = learning.learn(codes[some], targets[some], weight[some])
            else:  # as good as absent
                scores[some] = learning.scores(self._numbers.apply(codes[some]))
        return scores

    def append(self, n: int) -> Self:
        """Append ``n`` new learners; the existing ones and their prefixes stay the same.

        They start with the next row; until then their stages change nothing.
        """
        self._refuse_unfitted()
        self._refuse_frozen()
        assert self._learning is not None
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        self._learning.boosting.append(int(n))
        return self

    # ------------------------------------------------------------------ from parameters to learners

    def _first_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None,
        *,
        keep_absent: bool = False,
    ) -> tuple[Array, NDArray[Any], Array | None]:
        y = self._checked_targets(y)
        check_consistent_length(X, y)
        codes = self._first_codes(X)
        weight = None if sample_weight is None else checked_weights(sample_weight, codes)
        if weight is not None and not keep_absent and not weight.all():
            present = np.flatnonzero(weight)
            codes, y, weight = np.ascontiguousarray(codes[present]), y[present], weight[present]
        self._take_classes(y, classes)
        self._begin()
        return codes, self._targets(y), weight

    def _further_rows(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, classes: ArrayLike | None
    ) -> tuple[Array, NDArray[Any], Array | None]:
        ready = self._is_ready(X) and isinstance(y, np.ndarray) and y.shape == (len(X),)
        y = self._quick_targets(y) if ready else self._checked_targets(y)
        if not ready:
            check_consistent_length(X, y)
        if classes is not None:
            self._take_classes(y, classes)
        targets = self._targets(y)
        codes = self._array_codes(X, grow=True) if ready else self._codes(X, grow=True)
        weight = None if sample_weight is None else checked_weights(sample_weight, codes)
        return codes, targets, weight

    def _begin(self) -> None:
        """Fresh learners for the columns and classes that are known."""
        self._bound = self._bound_costs()
        loss = self._loss()
        n_outputs = 1 if loss.link == "identity" or LINKS[loss.link].binary else len(self.classes_)
        learner = learner_named(self.learner)
        state = self.random_state
        seed = state if isinstance(state, int) else check_random_state(state).randint(np.iinfo(np.int32).max)
        bank = learner.make(self.n_estimators, self.n_features_in_, n_outputs, int(seed))
        if isinstance(bank, NativeBank):
            bank.n_threads = self._threads()
        if self._rules.hypotheses != "last":
            bank.track(self._rules.hypotheses)
        by_itself = self.standardise if isinstance(self.standardise, bool) else learner.standardises
        self._numbers = CategoryNumbers(sorted(self.columns_.categories), by_target=n_outputs == 1)
        self._learning = StreamState(
            self._boosting(bank, loss),
            self._numbers,
            RunningScale(self.n_features_in_) if by_itself else None,
            None if loss.classifies else RunningScale(1, frozen_after=self._rules.scale_rows),
            self.batch_size,
            class_weights=self._class_weights(),
            rehearsal=self._rehearsal(learner.kind, int(seed)),
        )
        self._reading = PlanSnapshot()

    def _rehearsal(self, kind: str, seed: int) -> Rehearsal | None:
        """Rows to learn from again; by default where learners grow."""
        by_itself = _REHEARSED if kind in _GROWING else 0
        n_kept = by_itself if isinstance(self.rehearse, str) else self.rehearse
        return Rehearsal(n_kept, self.n_features_in_, seed) if n_kept else None

    def _boosting(self, bank: Bank, loss: StreamLoss) -> BoostedBank:
        drift = Drift(detector=self.drift) if isinstance(self.drift, str) else self.drift  # type: ignore[arg-type]
        rules = self._rules.for_loss(loss, bank.n_outputs, self.learning_rate)
        return BoostedBank(bank, loss, drift=drift, **rules)

    def _loss(self) -> StreamLoss:
        named = self.loss
        if isinstance(named, str) and named == "auto":
            named = "squared"
            if isinstance(self, ClassifierFace):
                named = "logistic" if len(self.classes_) <= 2 else "softmax"
        loss = loss_named(named, self._rules.rho) if isinstance(named, str) else named
        kind = "classifier" if isinstance(self, ClassifierFace) else "regressor"
        if loss.classifies != (kind == "classifier"):
            raise ValueError(f"the loss {loss.name!r} cannot be used by a {kind}")
        if loss.classifies and LINKS[loss.link].binary and len(self.classes_) > 2:
            raise ValueError(f"the loss {loss.name!r} is for 2 classes, but there are {len(self.classes_)}")
        return loss

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _quick_targets(self, y: NDArray[Any]) -> NDArray[Any]:
        """The same for an array of the right shape, without scikit-learn's checks."""
        raise NotImplementedError

    def _class_weights(self) -> ClassWeights | None:
        """How much rows count by their class; None: all alike."""
        return None

    def _take_classes(self, y: NDArray[Any], classes: ArrayLike | None) -> None:
        raise NotImplementedError

    def _targets(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """(n,) targets as losses read them: numbers of classes for a classifier."""
        raise NotImplementedError

    def _answers_for(self, scores: Array, method: str) -> NDArray[Any]:
        """The answers for rows with such scores, by the method that was called."""
        raise NotImplementedError

    @property
    def _goes_on_learning(self) -> bool:
        """Whether what was learned about its plan would be about another one soon."""
        return self._learning is not None

    # ------------------------------------------------------------------ how it has done so far

    @property
    def rows_seen_(self) -> int:
        """Rows learned from, in all passes."""
        if self._open is not None:
            return self._open.n_rows
        return self._learnt.n_rows

    @property
    def n_estimators_(self) -> int:
        """Number of learners, including appended ones."""
        return self._learnt.boosting.n_estimators

    @property
    def edges_(self) -> Array:
        """(N,) measured edge of every learner: 1 minus the share of its targets that it left unfitted."""
        return self.edges()

    def edges(self, kind: EdgeKind = "running") -> Array:
        """(N,) measured edges: since the start ("running"), with old rows fading ("discounted"), or "windowed"."""
        return self._learnt.boosting.monitor.edge(kind)

    @property
    def prefix_losses_(self) -> Array:
        """(N + 1,) recent mean loss of every prefix on rows before learning from them, in units of ``loss``."""
        return self._learnt.boosting.prefix_losses.means()

    @property
    def best_prefix_(self) -> int:
        """Length of the prefix with the lowest recent loss."""
        return self._learnt.boosting.prefix_losses.best()

    @property
    def progressive_error_(self) -> float:
        """Error of all predictions made before learning: root mean square error, or the share of wrong classes."""
        return self._learnt.error

    @property
    def n_alarms_(self) -> int:
        """Number of changes detected by ``drift``."""
        return self._learnt.boosting.n_alarms

    @property
    def _learnt(self) -> StreamState:
        if self._learning is None:
            raise AttributeError(
                f"this {type(self).__name__} holds a plan and no learners, or is not fitted yet"
            )
        return self._learning

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags
