"""Choose, example by example, between local models and a remote one, when only the remote one reveals the truth."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from anytime.online.experts import Expert, Experts, Opinions, answers_of
from anytime.online.request_learner import Decisions, RequestLearner
from anytime.online.schedule import Horizon, regret_upper_bound
from anytime.parameters import store

Array = NDArray[np.float64]
Labels = NDArray[Any]
Loss = Callable[[Labels, Labels], Array]


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What the selector decided for n examples.

    Attributes
    ----------
    asked : (n,) bool
        Which go to the remote model.
    answers : (n,)
        Local answers; of no meaning where ``asked``.
    """

    asked: NDArray[np.bool_]
    answers: Labels
    _decisions: Decisions = field(repr=False)
    _opinions: Opinions = field(repr=False)
    _learned: bool = field(default=False, init=False, repr=False)


class OnlineSelector(BaseEstimator):  # type: ignore[misc]
    """Learns on the fly which gate and local model to trust, with regret ``O((log K)^(1/3) T^(2/3))`` on any sequence.

    In each round one expert, a gate with a local model, is drawn. If its gate asks, the remote model answers at a price, and
    its answer, taken for the truth, tells how all experts would have done. If not, the local model answers and nothing is
    learned. Works for sequences of any kind: nothing is assumed of how examples come about.

    Parameters
    ----------
    experts : Experts, or sequence of Expert or of fitted classifiers
        Classifiers become experts that ask where they doubt, see ``Experts.confident``. They are not fitted again. One
        expert that always asks is added if there is none.
    remote : estimator or callable, default=None
        The remote model. None: its answers are given to ``partial_fit`` or ``learn``.
    evaluation_cost : float, default=0.1
        Price of evaluating one stage, features apart, in the unit of ``costs``. Here of asking the remote model, where a wrong
        local answer costs 1. Above 1, where no question is worth its price,
        losses and with them the bound are counted in units of it.
    horizon : int, "doubling" or None, default=None
        How many examples will come, if known. None: rates that fall as examples come. "doubling": restarts.
    loss : callable, default=None
        From answers (n,) and truths (n,) to losses in [0, 1]. None: 1 where they differ.
    random_state : int, Generator or None, default=None
        Seed; the same seed gives the same model.

    Attributes
    ----------
    experts_ : Experts
    learner_ : RequestLearner
    answers_, asked_, played_ : (n,)
        Of the rows of the last ``partial_fit``: what was answered, whether it was the remote model, and the expert drawn.
    n_rounds_, n_asked_ : int
        Rounds so far, and how many of them were asked.
    best_expert_ : int
    weights_ : (K,)
    regret_bound_ : float

    Notes
    -----
    There is no plan: experts are drawn anew for each row, and what is learned from one row changes the answer to the next.
    Rows have no weights: the bound on the regret is for losses of at most 1 that count alike.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(5000, 2))
    >>> truth = lambda X: (X[:, 0] > 0).astype(int)  # costly, and right
    >>> local = lambda X: (X[:, 0] + (X[:, 1] < 0) > 0).astype(int)  # wrong only if X[:, 1] < 0
    >>> experts = [Expert(lambda X: -X[:, 1], local), Expert(lambda X: X[:, 1], local), Expert(None, local)]
    >>> selector = OnlineSelector(experts, remote=truth, evaluation_cost=0.1, random_state=0).partial_fit(X)
    >>> selector.best_expert_, bool(np.mean(selector.predict(X) == truth(X)) == 1.0)
    (0, True)
    """

    def __init__(
        self,
        experts: Experts | Sequence[Any],
        *,
        remote: Any = None,
        evaluation_cost: float = 0.1,
        horizon: Horizon = None,
        loss: Loss | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        store(self, locals())

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Forget everything, and begin with these rows; see ``partial_fit``."""
        if hasattr(self, "learner_"):
            del self.learner_
        return self.partial_fit(X, y)

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Answer the rows of X in their order, and learn from those that are asked.

        Parameters
        ----------
        X : (n, d)
        y : (n,), default=None
            What the remote model would say, of which only rows that are asked are read. None: ``remote`` is asked.
        classes : (C,), default=None
            Ignored: labels are only compared, and new ones may come at any time.
        sample_weight : None
            All rows count alike.

        Raises
        ------
        ValueError
            There are weights, or neither labels nor a remote model.
        """
        if sample_weight is not None:
            raise ValueError(
                "OnlineSelector takes no sample_weight: its bound on the regret is for rows that count alike"
            )
        self._start()
        if y is not None:
            return self._replay(X, self._labels(y, len(X)))
        if self.remote is None:
            raise ValueError("there is no remote model to ask; give remote= or the labels y")
        return self._live(X)

    def decide(self, X: Any) -> Verdicts:
        """Draw an expert for each row: which rows to ask, and local answers for the others. ``learn`` takes what comes back.

        All rows are decided by what was learned before. Give few at a time, or those that arrive together.
        """
        self._start()
        opinions = self.experts_.consult(X)
        decisions = self.learner_.decide(opinions.asks)
        self.n_asked_ += int(decisions.asked.sum())
        return Verdicts(decisions.asked, opinions.answers_of(decisions.played), decisions, opinions)

    def learn(self, verdicts: Verdicts, y: ArrayLike) -> Self:
        """Learn from the truth about the rows asked, in their order: one label for each True in ``verdicts.asked``.

        Verdicts can be learned from once.
        """
        asked = verdicts.asked
        labels = self._labels(y, int(asked.sum()))
        if verdicts._learned:
            raise ValueError("these verdicts were learned from already; a second time they would count twice")
        losses = np.zeros(verdicts._opinions.asks.shape)
        losses[asked] = self._losses(verdicts._opinions.at(asked), labels)
        self.learner_.learn(verdicts._decisions, losses)
        object.__setattr__(verdicts, "_learned", True)
        return self

    def _start(self) -> None:
        if hasattr(self, "learner_"):
            return
        self.experts_ = _experts_of(self.experts)
        self.learner_ = RequestLearner(
            len(self.experts_),
            evaluation_cost=self.evaluation_cost,
            horizon=self.horizon,
            random_state=self.random_state,
        )
        self.n_asked_ = 0

    def _replay(self, X: Any, labels: Labels) -> Self:
        opinions = self.experts_.consult(X)
        decisions = self.learner_.run(opinions.asks, self._losses(opinions, labels))
        self.n_asked_ += int(decisions.asked.sum())
        self.asked_, self.played_ = decisions.asked, decisions.played
        self.answers_ = _filled(opinions.answers_of(self.played_), self.asked_, labels[self.asked_])
        return self

    def _live(self, X: Any) -> Self:
        """Rounds in their order, as each may change the next; what experts say does not change, and is had at once."""
        opinions, n = self.experts_.consult(X), len(X)
        self.asked_, self.played_ = np.zeros(n, dtype=np.bool_), np.empty(n, dtype=np.int32)
        truths: dict[int, Any] = {}
        for t in range(n):
            row = slice(t, t + 1)
            decisions = self.learner_.decide(opinions.asks[row])
            self.asked_[t], self.played_[t] = decisions.asked[0], decisions.played[0]
            if decisions.asked[0]:
                truth = answers_of(self.remote, X[row])
                self.learner_.learn(decisions, self._losses(opinions.at(row), truth))
                self.n_asked_, truths[t] = self.n_asked_ + 1, truth[0]
        self.answers_ = _filled(opinions.answers_of(self.played_), self.asked_, list(truths.values()))
        return self

    def _losses(self, opinions: Opinions, labels: Labels) -> Array:
        """(n, K) losses of all experts if the labels (n,) are true."""
        loss = self.loss if self.loss is not None else np.not_equal
        known = np.flatnonzero(~_missing(labels))
        self._check_known(labels[known])
        errors = np.full(opinions.answers.shape, np.nan)  # refused by the learner if it has to be read
        for j, column in enumerate(opinions.answers.T):
            errors[known, j] = loss(column[known], labels[known])
        return opinions.losses(self.evaluation_cost, errors)

    def _check_known(self, labels: Labels) -> None:
        """Refuse labels that no model can give, where all of them say what they can."""
        models = [expert.model for expert in self.experts_.experts if expert.model is not None]
        models += [] if self.remote is None else [self.remote]
        if self.loss is not None or not all(hasattr(model, "classes_") for model in models):
            return
        known = {label for model in models for label in np.asarray(model.classes_).tolist()}
        strange = sorted({*labels.tolist()} - known, key=repr)
        if strange:
            raise ValueError(
                f"no model knows the labels {strange[:5]}; they know {sorted(known, key=repr)[:8]}: give y in the same labels, "
                "or with more classes a loss="
            )

    @staticmethod
    def _labels(y: ArrayLike, n: int) -> Labels:
        labels = np.asarray(y)
        if labels.shape != (n,):
            raise ValueError(
                f"y has shape {labels.shape}; expected ({n},), a label for each row that may be read"
            )
        return labels

    # ------------------------------------------------------------------ what was learned

    def predict(self, X: Any) -> Labels:
        """Answers of the best expert so far, without learning; where it asks, those of ``remote``."""
        opinions = self._opinions(X)
        asked = opinions.asks[:, self.best_expert_]
        answers = opinions.answers_of(np.full(len(X), self.best_expert_, dtype=np.int32))
        if not asked.any():
            return answers
        if self.remote is None:
            raise ValueError(
                f"{int(asked.sum())} of {len(X)} rows go to the remote model, and there is none; give remote="
            )
        return _filled(answers, asked, answers_of(self.remote, X[asked]))

    def route(self, X: Any) -> NDArray[np.bool_]:
        """(n,) which rows the best expert so far would ask the remote model about."""
        return np.asarray(self._opinions(X).asks[:, self.best_expert_])

    def expert_losses(self, X: Any, y: ArrayLike) -> Array:
        """(n, K) what every expert would lose on the rows, to hold against those of ``played_``."""
        self._start()
        return self._losses(self.experts_.consult(X), self._labels(y, len(X)))

    @property
    def best_expert_(self) -> int:
        """The expert with the least estimated loss; ``experts_.experts`` lists them."""
        return self._learner.best

    @property
    def weights_(self) -> Array:
        """(K,) the probability of each expert in the coming round, exploration apart."""
        return self._learner.weights

    @property
    def n_rounds_(self) -> int:
        """Rounds so far."""
        return self._learner.n_rounds

    @property
    def regret_bound_(self) -> float:
        """What the expected loss so far can exceed that of the best expert by, at most; 0 before the first round."""
        learner = self._learner
        if not learner.n_rounds:
            return 0.0
        schedules = {None: "decreasing", "doubling": "doubling"}
        schedule = schedules.get(self.horizon, "known")
        rounds = int(self.horizon) if schedule == "known" else learner.n_rounds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that rounds are few was said in the beginning
            return regret_upper_bound(learner.n_experts, rounds, self.evaluation_cost, schedule=schedule)

    @property
    def _learner(self) -> RequestLearner:
        check_is_fitted(self, "learner_")
        return self.learner_

    def _opinions(self, X: Any) -> Opinions:
        check_is_fitted(self, "learner_")
        return self.experts_.consult(X)


def _experts_of(given: Experts | Sequence[Any]) -> Experts:
    if isinstance(given, Experts):
        return given
    listed = list(given)
    if all(isinstance(expert, tuple) for expert in listed):
        return Experts(listed)
    if any(isinstance(expert, Expert) for expert in listed):
        raise TypeError("experts are classifiers or Expert pairs, not some of each")
    return Experts.confident(listed)


def _filled(answers: Labels, where: NDArray[np.bool_], others: ArrayLike) -> Labels:
    """The answers with others in some places."""
    if not where.any():
        return answers
    filled = answers.astype(np.result_type(answers, np.asarray(others)))
    filled[where] = others
    return filled


def _missing(labels: Labels) -> NDArray[np.bool_]:
    """Which labels are None, NA or not a number."""
    if labels.dtype.kind == "O":
        import pandas as pd  # whose NA is not comparable even with itself

        return np.asarray(pd.isna(labels), dtype=np.bool_)
    return np.asarray(labels != labels)
