"""``AdaptiveClassifier``: a cheap model, and a gate that decides which rows need a costly model."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from anytime._compat import Interval, StrOptions
from anytime.adaptive.adaptive_training import AdaptiveModel
from anytime.adaptive.blocks import CostlyBlock
from anytime.adaptive.costly import SOURCES, attached
from anytime.adaptive.stages import Chain, Exit
from anytime.bounded_runs import Budget
from anytime.calibrated import holding_out
from anytime.engine import Run
from anytime.faces import ClassifierFace
from anytime.losses import LINKS
from anytime.parameters import declared, not_negative, positive_integer, store
from anytime.plan import Array, Plan
from anytime.rows import Rows, warn_of_absent

# what a file keeps besides the plan
_SAVED = ("cost_penalty_", "costly_fraction_", "threshold_", "sent_", "doubt_")


@declared()
class AdaptiveClassifier(ClassifierFace, AdaptiveModel):
    """A cheap model and a gate in front of a costly model, so that only rows that need it pay for it.

    The gate and the cheap model are learned together and share features. Every row gets the cheap answer first; the gate sends
    some rows on to the costly model, whose answer replaces it. With ``mean_budget``, the model tries several values of
    ``cost_penalty`` and ``costly_fraction``, and held-out rows choose the most accurate within the budget.
    ADAPT-GBRT and ADAPT-LIN of Nan, *Learning to predict under a budget*, 2018, chapter 5; Nan and Saligrama,
    *Adaptive Classification for Prediction Under a Budget*, NIPS 2017.

    Parameters
    ----------
    costly : estimator, callable, (n, C) probabilities or None, default=None
        The costly model. A fitted estimator is used as it is, an unfitted one is fitted on all rows. Probabilities of the
        classes for the rows of ``fit`` are enough for training; ``attach`` adds the model later. A callable maps rows to
        probabilities. A fitted ``AdaptiveClassifier`` makes a chain of three models, and so on. None: gradient
        boosting on all columns. Note that ``sklearn.base.clone`` returns an unfitted copy, except of a ``FrozenEstimator``.
    cheap : {"boost", "linear"}, default="boost"
        Type of the gate and the cheap model: boosted trees or linear models.
    mean_budget : float, default=None
        ``cost_penalty`` and ``costly_fraction`` are chosen for it, unless set.
    costly_fraction : float, default=None
        Maximum share of rows sent to the costly model, on average. None: chosen for the budget, else 0.3.
    cost_penalty : float, default=None
        Here the mean loss over rows, for features of the gate and the cheap model. None: chosen for the mean budget,
        else a tenth of the class entropy per price of all features.
    proba_source : {"auto", "oob", "crossval", "insample"}, default="auto"
        Source of the costly model's probabilities for the training rows. "oob": out-of-bag estimates of a forest. "crossval":
        clones fitted on folds. "insample": the model itself, correct if it was trained on other rows. "auto": the first of
        these that is available; the last only for models that cannot be trained.
    costly_columns : list of str or int, default=None
        Columns that the costly model takes. None: all.
    evaluation_cost : float, default=0.0
        Here the stage is the costly model, such as a call of a service.
    cheap_evaluation_cost : float, default=0.0
        Price of evaluating the gate and the cheap model together, without features.
    answer_first : bool, default=True
        Whether the cheap answer comes before the gate. False: the gate runs first, and rows that it sends on do not pay for
        features that only the cheap model reads; they have no answer until the costly model has run.
    gate : {"both", "learned", "margin"}, default="both"
        Which rows go on: by the learned gate, by the margin of the cheap answer, or by the best mixture on held-out rows.
        Without held-out rows, or if the gate runs first, it is the learned one.
    folds : int or None, default=3
        Cross-validation folds for routing training rows by trees not fitted to them; a cheap model that overfits its own rows
        would seem to need no help. None: route by in-sample predictions, as in the thesis.
    n_init : int, default=None
        Number of starts, all but the first random; the one with the lowest objective is kept. None: 1 for trees, 4 for linear
        models, which often end in a local minimum.
    max_iter : int, default=None
        Maximum rounds of training and routing. None: 5 for trees, 50 for linear models.
    tol : float, default=1e-4
        Relative change of the objective at which training stops.
    n_estimators : int, default=100
        Here for the gate and the cheap model each, per class if there are several.
    class_weight : dict, "balanced" or None, default=None
        They apply to training, to the choice of settings, and to the fit of a costly model that takes weights.
    validation_fraction : float or None, default=0.2
        Thresholds and settings are chosen on them; without them, rows with a positive gate score are sent on.
    costly_folds : int, default=5
        Folds for the costly model's probabilities.
    time_budget : float, default=None
        It includes fitting the costly model and its clones, but cannot interrupt another library's fit: if time is
        short, pass a fitted model with ``costly_proba``.
    verbose : int, default=0
        1: a line for every setting. Ctrl-C ends training with the best setting so far.

    Attributes
    ----------
    plan_ : Plan
        A stage for each cheap model, then the costly one; ``plan_.expected_costs`` is the mean cost of held-out rows.
    cost_penalty_, costly_fraction_ : float
        The setting used.
    threshold_ : float or None
        Rows with a gate score above it go to the costly model; None if none does.
    doubt_ : float
        Weight of the margin of the cheap answer in the gate; infinite if only the margin counts.
    sent_ : float
        Share of held-out rows (training rows if none are held out) sent to the costly model. It may differ from
        ``costly_fraction_``, which bounds the mean of soft decisions.
    expected_cost_ : float
        Mean cost of held-out rows.
    trials_ : list of GateTrial
    terms_ : Terms
        The objective on the training rows.
    trace_ : list of float
        The objective after each round.
    n_iter_ : int
        Number of rounds.
    costly_ : object
        The fitted costly model; missing after loading.
    honest_proba_ : (n, C)
        Probabilities for the rows of ``fit``, from costly models not fitted to them.

    See Also
    --------
    LadderClassifier : Several cheap models and no learned gate.
    OnlineSelector : Learns when to ask if no labels come back.
    cascade : For services that answer requests.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.adaptive import AdaptiveClassifier
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> forest = RandomForestClassifier(50, oob_score=True, random_state=0).fit(X, y)
    >>> model = AdaptiveClassifier(forest, costs=costs, cost_penalty=0.01, n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.cost(X).mean() < 0.7 * costs.total), bool(model.score(X, y) > 0.95)
    (True, True)
    """

    _attaches: ClassVar[str] = "costly"  # by which ``load`` takes what a file does not hold
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "costly": "no_validation",  # read_costly does
        "cheap": [StrOptions({"boost", "linear"})],
        "costly_fraction": [Interval(Real, 0, 1, closed="both"), None],
        "cost_penalty": [not_negative, None],
        "proba_source": [StrOptions(set(SOURCES))],
        "costly_columns": ["array-like", None],
        "cheap_evaluation_cost": [not_negative],
        "answer_first": ["boolean"],
        "gate": [StrOptions({"both", "learned", "margin"})],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
        "n_init": [positive_integer, None],
        "max_iter": [positive_integer, None],
        "tol": [not_negative],
        "costly_folds": [Interval(Integral, 2, None, closed="left")],
    }

    def __init__(
        self,
        costly: Any = None,
        *,
        cheap: Literal["boost", "linear"] = "boost",
        costs: Any = None,
        mean_budget: float | None = None,
        budget: float | None = None,
        costly_fraction: float | None = None,
        cost_penalty: float | None = None,
        proba_source: str = "auto",
        costly_columns: Any = None,
        evaluation_cost: float = 0.0,
        cheap_evaluation_cost: float = 0.0,
        answer_first: bool = True,
        gate: Literal["both", "learned", "margin"] = "both",
        folds: int | None = 3,
        n_init: int | None = None,
        max_iter: int | None = None,
        tol: float = 1e-4,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = 4,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        class_weight: Any = None,
        validation_fraction: float | None = 0.2,
        costly_folds: int = 5,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "realised",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    @holding_out
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        costly_proba: ArrayLike | None = None,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit the model. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, with NaN for missing values; columns of a table may be categories. The costly model gets the same rows; if
            it does not accept them, pass a pipeline with an imputer or an encoder.
        y : (n,)
            The true labels.
        sample_weight : (n,), default=None
            Rows of weight 0 are ignored.
        costly_proba : (n, C), default=None
            Probabilities of the costly model for the rows, if known; preferably from a model not fitted to them.
        X_val, y_val : (m, d) and (m,), default=None
            Rows for choosing settings, on which the costly model was not trained. None: a share of ``X``, see
            ``validation_fraction``.
        """
        self._validate_params()
        if (X_val is None) != (y_val is None):
            raise ValueError("give X_val and y_val together: validation rows and their labels")
        trained = copy.copy(self)
        trained._train(X, y, sample_weight, costly_proba, X_val, y_val)
        _note_reach(trained.plan_)
        self.__dict__ = trained.__dict__
        return self

    # ------------------------------------------------------------------ what the gate does

    def gate_score(self, X: Any) -> Array:
        """(n,) Score of the first gate; above 0, the row is passed to the costly model.

        NaN if the table lacks a column that the gate reads.
        """
        rows, chain = self._read_in(X), self._chain()
        if chain is None or not chain.exits:
            return np.full(len(rows.X), np.inf if self.threshold_ == -np.inf else -np.inf)
        return self._gate_says(chain.exits[0], rows)

    def sent(self, X: Any) -> NDArray[np.bool_]:
        """(n,) Whether each row is passed to the costly model."""
        rows, chain = self._read_in(X), self._chain()
        if rows.held is not None and chain is not None and chain.exits:
            return self._goes_on(rows, 1)
        return self.gate_score(X) > 0

    def _gate_says(self, exit: Exit, rows: Rows) -> Array:
        """(n,) Score of the gate of an exit; NaN where the gate would read a column that is absent."""
        read = [exit.gate.columns(0), exit.cheap.columns(0)] if exit.doubt else [exit.gate.columns(0)]
        if rows.held is None or rows.held[self.plan_.costs.groups_of(np.concatenate(read))].all():
            return exit.score(rows.X, self.plan_.link)
        warn_of_absent(rows)
        return np.full(len(rows.X), np.nan)

    def _goes_on(self, rows: Rows, exits: int) -> NDArray[np.bool_]:
        """(n,) whether rows that are not complete pass the first ``exits`` exits, in the course of the plan."""
        plan, link = self.plan_, LINKS[self.plan_.link]
        run = Run(plan, rows.X, metered=True, held=rows.held)
        run.advance(exits)
        if run.incomplete.any():
            warn_of_absent(rows)
        on, gate = ~run.finished, plan.passes.get(exits)
        # gates before the last end a row's way after their stage
        if gate is None or exits < plan.n_stages - 1:
            return on
        if rows.held is not None and not rows.held[plan.costs.groups_of(gate.columns())].all():
            return np.zeros_like(on)
        return np.asarray(on & gate.holds(rows.X, run.scores(), link))

    def cost(
        self,
        X: Any,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
        meter: str = "realised",
        row_prices: ArrayLike | None = None,
    ) -> Array:
        """Cost of each answer, (n,); works without the costly model. See :meth:`AnytimeModel.cost`."""
        answering = self
        if hasattr(self, "plan_") and self.detached_ is not None:
            blocks = [b.silent if isinstance(b, CostlyBlock) else b for b in self.plan_.blocks]
            answering = copy.copy(self)
            answering.plan_ = replace(self.plan_, blocks=blocks)
        return AdaptiveModel.cost(
            answering, X, budget, deadline, mean_budget=mean_budget, meter=meter, row_prices=row_prices
        )

    def attach(self, costly: Any) -> Self:
        """Attach the missing costly model, after training on its probabilities or after loading from a file.

        Parameters
        ----------
        costly : fitted estimator, or callable from rows to probabilities
            It must reproduce the predictions that the costly model made in training for the stored probe rows.
        """
        check_is_fitted(self, "plan_")
        if not any(isinstance(block, CostlyBlock) for block in self.plan_.blocks):
            raise ValueError("the costly model is part of this model's plan; there is nothing to attach")
        blocks = [
            attached(block, costly, self) if isinstance(block, CostlyBlock) else block
            for block in self.plan_.blocks
        ]
        self.plan_ = replace(self.plan_, blocks=blocks)
        self.costly_ = costly
        return self

    def _chain(self) -> Chain | None:
        check_is_fitted(self, "plan_")
        return Chain.of(self.plan_)

    @property
    def detached_(self) -> str | None:
        """The name of the costly model if it has to be attached; None if it is present."""
        lost = [b.name for b in self._plan.blocks if isinstance(b, CostlyBlock) and b.function is None]
        return lost[0] if lost else None

    @property
    def expected_cost_(self) -> float:
        """Mean cost of held-out rows."""
        costs = self._plan.expected_costs
        return float(costs[-1]) if costs is not None and costs.size else 0.0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if hasattr(self.costly, "__sklearn_tags__") and not isinstance(self.costly, type):
            tags.input_tags.allow_nan = self.costly.__sklearn_tags__().input_tags.allow_nan
        return tags

    # ------------------------------------------------------------------ files

    def _file_state(self) -> dict[str, Any]:
        return {**super()._file_state(), **{name: getattr(self, name) for name in _SAVED}}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        _note_reach(self.plan_)
        for name in _SAVED:
            value = state[name]
            if value is not None and not isinstance(value, float):
                raise ValueError(f"{name} must be a number, not {value!r}")
            setattr(self, name, value)


def _note_reach(plan: Plan) -> None:
    """Let costly models that are not in the plan say what is enough to do without them."""
    for block, start in zip(plan.blocks, plan.block_start, strict=False):
        if isinstance(block, CostlyBlock) and start and plan.expected_costs is not None:
            block.enough = float(plan.expected_costs[start - 1])
