"""Group pursuit as a regressor and a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import column_or_1d

from anytime.blocks import LinearBlock
from anytime.estimator import ClassifierFace, RegressorFace
from anytime.linear.group_pursuit import GroupPursuit, keeps_moments
from anytime.linear.moments import refuse_overflow
from anytime.losses import LINKS, Loss, training_loss
from anytime.parameters import declared, without
from anytime.plan import Plan
from anytime.validation import class_labels, numbered_classes, target_numbers, weighed_by_class

Array = NDArray[np.float64]


@declared()
@without("class_weight")
class GroupPursuitRegressor(RegressorFace, GroupPursuit):
    """Anytime linear regression: groups bought in the order of gain per unit of cost, weights refitted for every prefix.

    CS-G-OMP and CS-G-FR of Hu et al. (2016, Algorithms 2 and 3), with doubling (Algorithm 4), several targets at once,
    ridge or bounded weights, and smooth losses (Hu 2019, Algorithm 5; Grubb 2014, chapter 5).

    Parameters
    ----------
    selection : {"omp", "forward", "single", "forward_single", "lasso"}, default="omp"
        How the next group is chosen: "omp" by the gradient over the group (orthogonal matching pursuit), "forward" by the exact
        gain (forward regression; as fast for squared loss, a refit per candidate for others). The others are baselines: "single"
        and "forward_single" look at the group's best column alone, "lasso" takes groups as they enter the path of the
        cost-weighted group lasso, and then refits weights like the others.
    whiten : {"data", "criterion", False}, default="data"
        "data": each group is whitened, and the penalty is on the weights of whitened columns, as the theory assumes. "criterion":
        only scores are whitened. False: not even those (a baseline that over-rates groups of similar columns). The lasso charges
        for the weights of whitened groups, with False for those of the columns as they are.
    cost_aware : bool, default=True
        False: choose by gain alone. A baseline; costs are charged all the same.
    schedule : {"greedy", "doubling"}, default="greedy"
        "doubling": never buy what costs more than everything so far; near the best at every budget, not only at those where
        a purchase is completed.
    c_min : float or "auto", default="auto"
        Doubling: the most that the first purchase may cost.
    loss : {"auto", "squared", "huber", "poisson"} or Loss, default="auto"
        "auto" is "squared", which takes several targets and needs one pass over the data; others refit for every purchase.
        "huber" turns from squares to distances one deviation of ``y`` away.
    l2_regularization : float or "auto", default="auto"
        Half of it times the squared weights, or values of leaves, is added to the loss. Columns are standardised. "auto": on
        held-out rows the best is chosen, for squared loss for each prefix by itself, and the sequence ends with the prefix
        that does best there; then weights are fitted to all rows.
    norm_bound : float, default=None
        Keep ``|w|`` within this ball instead of, or besides, that penalty; weights are of standardised columns for targets in
        units of their deviations, all targets together.
    fit_intercept : bool, default=True
        The mean of ``y`` is the answer before the first purchase; False: 0 is.
    validation_fraction : float or None, default=0.2
        Share of the training rows held out to decide on. None: none are. For ``l2_regularization="auto"`` alone; the
        order is then learned from the others. Where that makes fewer than 10 rows it is 1e-3, and all groups are bought.
    tol : float, default=1e-8
        Relative size of the gradient at which a refit ends; squared loss is solved exactly.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model. It draws the held-out rows.
    verbose : int, default=0
        Whether progress is printed. 1: a line per purchase of a fit by refits (squared loss is done at once). Ctrl-C ends such a
        fit with the groups bought so far.

    Attributes
    ----------
    plan_, stage_costs_, order_, n_features_in_, feature_names_in_
        As in :class:`AnytimeClassifier`. Stages and groups with columns are one and the same.
    coef_, intercept_ : (d,) and float, or (k, d) and (k,)
        Weights of the last stage, in the units of the columns and the targets; 0 for columns that it does not use.
    l2_regularization_ : (S,) array
        That of each prefix.
    certificate_ : Certificate or None
        What is proved of the sequence on the rows it was chosen on. None where nothing is.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.GroupPursuitRegressor(costs=costs, l2_regularization=1e-3).fit(X, y)
    >>> model.order_[:3], round(model.score(X, y, budget=20), 3), round(model.score(X, y), 3)
    (['bmi', 'blood pressure', 'blood draw'], 0.487, 0.518)
    """

    def _loss(self) -> Loss:
        loss = training_loss(self._loss_given)
        if LINKS[loss.link].classifies:
            raise ValueError(f"the loss {loss.name!r} is for classifiers; use GroupPursuitClassifier")
        return loss

    def _targets(self, y: Any, reset: bool, classes: ArrayLike | None = None) -> NDArray[Any]:
        if classes is not None:
            raise ValueError("classes are for classifiers; a regressor's targets are numbers")
        given = target_numbers(y)
        targets = np.asarray(given if given.ndim == 2 else column_or_1d(given, warn=True)[:, None])
        with np.errstate(over="ignore"):
            refuse_overflow((targets**2).sum(axis=0), "target")
        if self.loss == "poisson" and (targets < 0).any():
            raise ValueError(f"loss='poisson' is for counts, but y holds {targets.min():g}")
        known = self.__dict__.get("_stream")
        if not reset and known is not None and targets.shape[1] != known.train.n_targets:
            raise ValueError(f"y has {targets.shape[1]} targets, but {known.train.n_targets} before")
        return targets

    @property
    def coef_(self) -> Array:
        """Weights of the last stage."""
        table = _last_weights(self.plan_)[0]
        return table[:, 0] if table.shape[1] == 1 else table.T

    @property
    def intercept_(self) -> Any:
        """What the last stage says where all columns are 0."""
        constant = _last_weights(self.plan_)[1]
        return float(constant[0]) if constant.size == 1 else constant

    def _n_outputs(self, targets: NDArray[Any]) -> int:
        return int(targets.shape[1])

    def _start_from_moments(self, n_targets: int) -> None:
        pass

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


@declared(like=GroupPursuitRegressor)
class GroupPursuitClassifier(ClassifierFace, GroupPursuit):
    """Anytime linear classification: logistic or multinomial regression whose groups are bought one after the other.

    The generalised linear CS-G-OMP of Hu (2019, Algorithm 5), and simultaneous one-against-all pursuit of Grubb (2014,
    Algorithm 5.3).

    Parameters
    ----------
    loss : {"auto", "log", "one_vs_all", "squared"} or Loss, default="auto"
        "auto" is "log": logistic regression for two classes, multinomial for more. "one_vs_all": a logistic regression per class
        on the same groups. "squared": least squares to the indicator of each class, in one pass over the data.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each. ``partial_fit`` and
        ``fit_chunks`` do not know how often that is: give them a dict.
    fit_intercept : bool, default=True
        The shares of the classes are the answer before the first purchase; False: all are equal.

    Attributes
    ----------
    coef_, intercept_ : (K, d) and (K,)
        Of the last stage, in the units of the columns: a row of scores per class, or one for two classes and "log".
    l2_regularization_, certificate_
        As in :class:`GroupPursuitRegressor`.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.GroupPursuitClassifier(costs=costs, l2_regularization=1e-3).fit(X, y)
    >>> round(model.score(X, y, budget=30), 3), round(model.score(X, y), 3)
    (0.956, 0.986)
    """

    _default_loss = "log"

    def _weighed_by_class(self, y: Any, weight: Array | None, streaming: bool = False) -> Array | None:
        if streaming and self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all rows at once: use fit, or give the weights as a dict"
            )
        return weighed_by_class(weight, self.class_weight, y)

    def _loss(self) -> Loss:
        given = self._loss_given
        if given == "log":
            return training_loss("logistic" if len(self.classes_) == 2 else "multinomial")
        loss = training_loss("least_squares" if given == "squared" else given)
        if not LINKS[loss.link].classifies:
            raise ValueError(f"the loss {loss.name!r} is for regressors; use GroupPursuitRegressor")
        if LINKS[loss.link].binary and len(self.classes_) > 2:
            raise ValueError(
                f"the loss {loss.name!r} is for two classes, but there are {len(self.classes_)}; use 'log'"
            )
        return loss

    def _targets(self, y: Any, reset: bool, classes: ArrayLike | None = None) -> NDArray[Any]:
        y = class_labels(y)
        if reset:
            self.classes_ = numbered_classes(y if classes is None else np.asarray(classes))[0]
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes differ from those of the first call, {self.classes_.tolist()}")
        at = np.searchsorted(self.classes_, y)
        at = np.minimum(at, len(self.classes_) - 1)
        if (self.classes_[at] != y).any():
            strange = y[self.classes_[at] != y].tolist()[0]
            raise ValueError(
                f"y holds the label {strange!r}, which is not among the classes {self.classes_.tolist()}"
            )
        if keeps_moments(self):  # least squares to the indicator of each class
            return np.asarray(np.eye(len(self.classes_))[at])
        return np.asarray(at)

    @property
    def coef_(self) -> Array:
        """Weights of the last stage."""
        return _last_weights(self.plan_)[0].T

    @property
    def intercept_(self) -> Array:
        """What the last stage says where all columns are 0."""
        return _last_weights(self.plan_)[1]

    def _n_outputs(self, targets: NDArray[Any]) -> int:
        return LINKS[self._loss().link].n_outputs(len(self.classes_))

    def _start_from_moments(self, n_targets: int) -> None:
        if n_targets < 2:
            raise ValueError(
                "a classifier's moments have one target per class, 1 where a row is of that class"
            )
        self.classes_ = np.arange(n_targets)


def _last_weights(plan: Plan) -> tuple[Array, Array]:
    """(d, K) weights and (K,) intercept of the last stage, for columns as they are."""
    weights, intercept = np.zeros((plan.n_features, plan.base.size)), np.array(plan.base)
    for block in plan.blocks:  # one, or none where nothing is bought
        assert isinstance(block, LinearBlock)
        table, centres = block.coefficients[-1], block.centres
        weights[block._columns] = table
        intercept = block.intercepts[-1] - (0.0 if centres is None else centres @ table)
    return weights, intercept
