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
    """Decisions of the selector for n examples.

    Attributes
    ----------
    asked : (n,) bool
        Which examples go to the remote model.
    answers : (n,)
        Local answers; meaningless where ``asked``.
    """

    asked: NDArray[np.bool_]
    answers: Labels
    _decisions: Decisions = field(repr=False)
    _opinions: Opinions = field(repr=False)
    _learned: bool = field(default=False, init=False, repr=False)


class OnlineSelector(BaseEstimator):  # type: ignore[misc]
    """Learn online which gate and local model to trust, with regret ``O((log K)^(1/3) T^(2/3))`` on any sequence.

    Each round draws one expert, a gate with a local model. If its gate asks, the remote model answers at a price, and its answer,
    taken as the truth, reveals the losses of all experts. If not, the local model answers and nothing is learned. Nothing is
    assumed about the sequence of examples.

    Parameters
    ----------
    experts : Experts, or sequence of Expert or of fitted classifiers
        Classifiers become experts that ask when they are uncertain, see ``Experts.confident``. They are not refitted. An
        expert that always asks is added if there is none.
    remote : estimator or callable, default=None
        The remote model. None: its answers are passed to ``partial_fit`` or ``learn``.
    evaluation_cost : float, default=0.1
        Price of evaluating one stage, without its features, in the unit of ``costs``. Here the price of asking the
        remote model, in units of one wrong local answer. Above 1, when no question is worth its price, losses and the bound
        are counted in units of it.
    horizon : int, "doubling" or None, default=None
        Number of examples, if known. None: rates that decrease as examples arrive. "doubling": restarts.
    loss : callable, default=None
        Function from answers (n,) and truths (n,) to losses in [0, 1]. None: 1 if they differ.
    random_state : int, Generator or None, default=None
        Seed; the same seed gives the same model.

    Attributes
    ----------
    experts_ : Experts
    learner_ : RequestLearner
    answers_, asked_, played_ : (n,)
        For the rows of the last ``partial_fit``: the answer, whether the remote model gave it, and the expert drawn.
    n_rounds_, n_asked_ : int
        Number of rounds so far, and of questions.
    best_expert_ : int
    weights_ : (K,)
    regret_bound_ : float

    See Also
    --------
    LadderClassifier : Learns from labelled rows when to ask.
    AdaptiveClassifier : Learns a gate from labelled rows.

    Notes
    -----
    There is no plan: an expert is drawn for each row, and learning from one row changes the answer to the next. Rows have no
    weights: the regret bound is for equally weighted losses of at most 1.

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
        """Start over with these rows; see ``partial_fit``."""
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
        """Answer the rows of X in order, and learn from those that are asked.

        Parameters
        ----------
        X : (n, d)
            Rows in the order in which they arrive.
        y : (n,), default=None
            Answers of the remote model; only rows that are asked are read. None: ``remote`` is asked.
        classes : (C,), default=None
            Ignored: labels are only compared, and new ones may appear at any time.
        sample_weight : None
            Must be None: all rows have equal weight.

        Raises
        ------
        ValueError
            If there are weights, or neither labels nor a remote model.
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
        """Draw an expert for each row: which rows to ask, and local answers for the others; ``learn`` takes the labels.

        All rows are decided with the current weights, so pass few at a time, or those that arrive together.
        """
        self._start()
        opinions = self.experts_.consult(X)
        decisions = self.learner_.decide(opinions.asks)
        self.n_asked_ += int(decisions.asked.sum())
        return Verdicts(decisions.asked, opinions.answers_of(decisions.played), decisions, opinions)

    def learn(self, verdicts: Verdicts, y: ArrayLike) -> Self:
        """Learn from the true labels of the rows asked, in order: one for each True in ``verdicts.asked``.

        Verdicts can be used only once.
        """
        requests = verdicts.asked
        labels = self._labels(y, int(requests.sum()))
        if verdicts._learned:
            raise ValueError("these verdicts were learned from already; a second time they would count twice")
        losses = np.zeros(verdicts._opinions.asks.shape)
        losses[requests] = self._losses(verdicts._opinions.at(requests), labels)
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
        """Rounds in order, as each may change the next; the answers of experts do not change, and are computed at once."""
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
        labelled = np.flatnonzero(~_missing(labels))
        self._check_known(labels[labelled])
        errors = np.full(opinions.answers.shape, np.nan)  # refused by the learner if it has to be read
        for j, column in enumerate(opinions.answers.T):
            errors[labelled, j] = loss(column[labelled], labels[labelled])
        return opinions.losses(self.evaluation_cost, errors)

    def _check_known(self, labels: Labels) -> None:
        """Refuse labels that no model can give, where all of them say what they can."""
        models = [expert.model for expert in self.experts_.experts if expert.model is not None]
        models += [] if self.remote is None else [self.remote]
        if self.loss is not None or not all(hasattr(model, "classes_") for model in models):
            return
        possible = {label for model in models for label in np.asarray(model.classes_).tolist()}
        strange = sorted({*labels.tolist()} - possible, key=repr)
        if strange:
            raise ValueError(
                f"no model was trained on the labels {strange[:5]}; their classes are {sorted(possible, key=repr)[:8]}: "
                "give y in the same labels, or with more classes a loss="
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
        """Answer with the best expert so far, or with ``remote`` where it asks; nothing is learned."""
        opinions = self._opinions(X)
        requests = opinions.asks[:, self.best_expert_]
        answers = opinions.answers_of(np.full(len(X), self.best_expert_, dtype=np.int32))
        if not requests.any():
            return answers
        if self.remote is None:
            raise ValueError(
                f"{int(requests.sum())} of {len(X)} rows go to the remote model, and there is none; give remote="
            )
        return _filled(answers, requests, answers_of(self.remote, X[requests]))

    def route(self, X: Any) -> NDArray[np.bool_]:
        """(n,) rows for which the best expert so far would ask the remote model."""
        return np.asarray(self._opinions(X).asks[:, self.best_expert_])

    def expert_losses(self, X: Any, y: ArrayLike) -> Array:
        """(n, K) losses of every expert on the rows, to compare with those of ``played_``."""
        self._start()
        return self._losses(self.experts_.consult(X), self._labels(y, len(X)))

    @property
    def best_expert_(self) -> int:
        """The expert with the lowest estimated loss; ``experts_.experts`` lists them."""
        return self._learner.best

    @property
    def weights_(self) -> Array:
        """(K,) probability of each expert in the next round, without exploration."""
        return self._learner.weights

    @property
    def n_rounds_(self) -> int:
        """Rounds so far."""
        return self._learner.n_rounds

    @property
    def regret_bound_(self) -> float:
        """Upper bound on the excess of the expected loss so far over that of the best expert; 0 before the first round."""
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


def _experts_of(experts: Experts | Sequence[Any]) -> Experts:
    if isinstance(experts, Experts):
        return experts
    listed = list(experts)
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
