"""``AdaptiveClassifier``: a cheap model and a gate that know when a costly model is worth it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from anytime._compat import Interval, StrOptions
from anytime.adaptive.adaptive_training import AdaptiveModel
from anytime.adaptive.blocks import CostlyBlock
from anytime.adaptive.costly import SOURCES, attached
from anytime.adaptive.stages import Chain, Exit
from anytime.calibrated import holding_out
from anytime.engine import Run
from anytime.estimator import Budget, ClassifierFace
from anytime.losses import LINKS
from anytime.parameters import declared, not_negative, positive_integer, store
from anytime.plan import Array, Plan
from anytime.rows import Rows, warn_of_absent

if TYPE_CHECKING:
    from sklearn.utils import Tags

# what a file keeps besides the plan
_SAVED = ("cost_penalty_", "costly_fraction_", "threshold_", "sent_", "doubt_")


@declared()
class AdaptiveClassifier(ClassifierFace, AdaptiveModel):
    """A cheap model and a gate in front of a costly model, so that only rows that need it pay for it.

    The gate and the cheap model are learned together, on as few features as they can share. Every row has the cheap answer
    first; a row whose gate says so goes on to the costly model, whose answer replaces it. With ``mean_budget`` the model tries
    several prices of features and shares of rows to send on, and held-out rows choose the most accurate within the budget.
    ADAPT-GBRT and ADAPT-LIN of Nan, *Learning to predict under a budget*, 2018, chapter 5; Nan and Saligrama,
    *Adaptive Classification for Prediction Under a Budget*, NIPS 2017.

    Parameters
    ----------
    costly : estimator, callable, (n, C) probabilities or None, default=None
        The costly model. A fitted estimator is used as it is, another one is fitted on all rows. Probabilities of the
        classes for the rows of ``fit`` are enough to learn; ``attach`` gives the model itself later. A callable goes from
        rows to probabilities. A fitted ``AdaptiveClassifier`` makes a chain of three models, and so on. None: gradient
        boosting on all columns. Note that ``sklearn.base.clone`` makes any estimator unfitted that is not a ``FrozenEstimator``.
    cheap : {"boost", "linear"}, default="boost"
        What gate and cheap model are: boosted trees or linear models.
    mean_budget : float, default=None
        What rows may pay on average in a prediction that names no bound. None: no limit. ``cost_penalty`` and
        ``costly_fraction``, where not given, are chosen for it.
    costly_fraction : float, default=None
        The most rows sent to the costly model, on average. None: chosen for the budget, else 0.3.
    cost_penalty : float, default=None
        Loss that one unit of cost must save to be spent. In means over rows, for gate and cheap model to buy a feature.
        None: chosen for the mean budget, else a tenth of the entropy of the classes per price of all features.
    proba_source : {"auto", "oob", "crossval", "insample"}, default="auto"
        Where the costly model's probabilities of the training rows come from. "oob": from a forest's trees that have not
        seen the row. "crossval": from clones fitted on folds. "insample": from the model as it is, right if it was trained
        on other rows. "auto": the first of these that there is; the last only for what cannot be trained.
    costly_columns : list of str or int, default=None
        Columns that the costly model takes. None: all.
    evaluation_cost : float, default=0.0
        Price of evaluating one stage, features apart, in the unit of ``costs``. Here the stage is the costly model, such as
        a call of a service.
    cheap_evaluation_cost : float, default=0.0
        Price of evaluating gate and cheap model together, features apart.
    answer_first : bool, default=True
        Whether a row has the cheap answer before its gate is asked. False: the gate comes first, and rows that it sends on do not
        pay for what only the cheap model reads; they have no answer until the costly model has one.
    gate : {"both", "learned", "margin"}, default="both"
        What decides who goes on: the learned gate, how undecided the cheap answer is, or as much of both as held-out rows find
        best. Without held-out rows, or where the gate comes first, it is the learned one.
    folds : int or None, default=3
        Folds by which trees route training rows as if they had not learned from them. A cheap model that fits its own rows too
        well would seem to need no help. None: by what they say of their own rows, as in the thesis.
    n_init : int, default=None
        Starts, all but the first random; the one with the least objective is kept. None: 1 for trees, 4 for linear models, which
        often end in a local minimum.
    max_iter : int, default=None
        Turns of learning and routing. None: 5 for trees, 50 for linear models.
    tol : float, default=1e-4
        Relative change of the objective at which turns end.
    n_estimators : int, default=100
        Number of trees or learners in the ensemble. Of gate and cheap model each, with several classes that many per class.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each. They count in
        training, in what is judged, and in the fit of a costly model that takes weights.
    validation_fraction : float or None, default=0.2
        Share of the training rows held out to decide on. None: none are. Thresholds and settings are chosen on them;
        without, rows whose gate is above 0 are sent.
    costly_folds : int, default=5
        Folds for the costly model's probabilities.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. Fitting the costly model and its clones on folds counts, but another
        library's fit is not cut short: where time is short, give a model with ``costly_proba`` of the rows.
    verbose : int, default=0
        Whether progress is printed. 1: a line for every setting. Ctrl-C ends training with the best setting so far.

    Attributes
    ----------
    plan_ : Plan
        A stage for each cheap model, then the costly one; ``plan_.expected_costs`` is what held-out rows pay on average.
    cost_penalty_, costly_fraction_ : float
        The setting used.
    threshold_ : float or None
        Rows whose gate is above it go to the costly model; None where none goes.
    doubt_ : float
        How much the margin of the cheap answer counts in the gate; infinite where it alone does.
    sent_ : float
        Share of held-out rows that do, of training rows where none are held out. It may differ from ``costly_fraction_``, which
        bounds the mean of soft decisions.
    expected_cost_ : float
        What held-out rows pay on average.
    trials_ : list of GateTrial
    terms_ : Terms
        The objective on the training rows.
    trace_ : list of float
        The objective after each turn.
    n_iter_ : int
        Turns.
    costly_ : object
        The fitted costly model; not after loading.
    honest_proba_ : (n, C)
        Probabilities of the rows of ``fit``, from a costly model that has not learned from them.

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

    # ------------------------------------------------------------------ learning

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
        """Learn from rows. A fit that fails leaves the model as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, NaN where one is missing; columns of a table may be categories. The costly model is given the same, and
            says so where it cannot take it; a pipeline with an imputer or an encoder can.
        y : (n,)
        sample_weight : (n,), default=None
            A row of weight 0 is as good as absent.
        costly_proba : (n, C), default=None
            What the costly model says of the rows, where that is known; better not from a model that has learned from them.
        X_val, y_val : (m, d) and (m,), default=None
            Rows on which settings are chosen, none of which the costly model has learned from. None: a share of ``X``, as
            ``validation_fraction`` says.
        """
        self._validate_params()
        if (X_val is None) != (y_val is None):
            raise ValueError("give X_val and y_val together: validation rows and their truth")
        trained = copy.copy(self)
        trained._train(X, y, sample_weight, costly_proba, X_val, y_val)
        _note_reach(trained.plan_)
        self.__dict__ = trained.__dict__
        return self

    # ------------------------------------------------------------------ what the gate does

    def gate_score(self, X: Any) -> Array:
        """(n,) Above 0: the row goes on to the costly model. Of several gates the one that is asked first.

        NaN where the table lacks a column that the gate reads, so that it is not asked.
        """
        rows, chain = self._read_in(X), self._chain()
        if chain is None or not chain.exits:
            return np.full(len(rows.X), np.inf if self.threshold_ == -np.inf else -np.inf)
        return self._gate_says(chain.exits[0], rows)

    def sent(self, X: Any) -> NDArray[np.bool_]:
        """(n,) Whether each row goes on to the costly model."""
        rows, chain = self._read_in(X), self._chain()
        if rows.held is not None and chain is not None and chain.exits:
            return self._goes_on(rows, 1)
        return self.gate_score(X) > 0

    def _gate_says(self, exit: Exit, rows: Rows) -> Array:
        """(n,) what the gate of an exit says; NaN where it would read a column that is not there."""
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
        if (
            gate is None or exits < plan.n_stages - 1
        ):  # gates before the last end a row's way after their stage
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
        """What each answer costs, (n,); known without the costly model too. See :meth:`AnytimeModel.cost`."""
        asked = self
        if hasattr(self, "plan_") and self.detached_ is not None:
            blocks = [b.silent if isinstance(b, CostlyBlock) else b for b in self.plan_.blocks]
            asked = copy.copy(self)
            asked.plan_ = replace(self.plan_, blocks=blocks)
        return AdaptiveModel.cost(
            asked, X, budget, deadline, mean_budget=mean_budget, meter=meter, row_prices=row_prices
        )

    def attach(self, costly: Any) -> Self:
        """Give the costly model that is missing: after learning from its probabilities alone, or after loading from a file.

        Parameters
        ----------
        costly : fitted estimator, or callable from rows to probabilities
            It has to say of the probe rows that the model remembers what the costly model said in training.
        """
        check_is_fitted(self, "plan_")
        if not any(isinstance(block, CostlyBlock) for block in self.plan_.blocks):
            raise ValueError("this model has no costly model outside its plan: there is nothing to attach")
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
        """The name of the costly model where it has to be given with ``attach``; None where all is there."""
        lost = [b.name for b in self._plan.blocks if isinstance(b, CostlyBlock) and b.function is None]
        return lost[0] if lost else None

    @property
    def expected_cost_(self) -> float:
        """What the average held-out row pays."""
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
