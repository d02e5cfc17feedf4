"""Group pursuit as a regressor and a classifier."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import column_or_1d

from anytime.blocks import LinearBlock
from anytime.faces import ClassifierFace, RegressorFace
from anytime.linear.group_pursuit import GroupPursuit, keeps_moments
from anytime.linear.moments import refuse_overflow
from anytime.losses import LINKS, Loss, training_loss
from anytime.parameters import declared, without
from anytime.plan import Plan
from anytime.validation import class_labels, label_numbers, numbered_classes, target_numbers, weighed_by_class

Array = NDArray[np.float64]


@declared()
@without("class_weight")
class GroupPursuitRegressor(RegressorFace, GroupPursuit):
    """Anytime linear regression: groups are bought by gain per unit of cost, with weights refitted for every prefix.

    CS-G-OMP and CS-G-FR of Hu et al. (2016, Algorithms 2 and 3), with doubling (Algorithm 4), several targets at once,
    ridge or bounded weights, and smooth losses (Hu 2019, Algorithm 5; Grubb 2014, chapter 5).

    Parameters
    ----------
    selection : {"omp", "forward", "single", "forward_single", "lasso"}, default="omp"
        How the next group is chosen: "omp" by the gradient over the group (orthogonal matching pursuit), "forward" by the exact
        gain (forward regression; as fast for squared loss, a refit per candidate for others). The others are baselines: "single"
        and "forward_single" use the score of the group's best column, "lasso" adds groups as they enter the path of the
        cost-weighted group lasso and refits weights like the others.
    whiten : {"data", "criterion", False}, default="data"
        "data": each group is whitened, and the penalty is on the weights of whitened columns, as the theory assumes. "criterion":
        only scores are whitened. False: nothing is (a baseline that overrates groups of similar columns). The lasso
        penalises the weights of whitened groups, or with False those of the original columns.
    schedule : {"greedy", "doubling"}, default="greedy"
        Near-optimal at every budget, not only at those where a purchase is completed.
    c_min : float or "auto", default="auto"
    loss : {"auto", "squared", "huber", "poisson"} or Loss, default="auto"
        "auto" is "squared", which takes several targets and needs one pass over the data; others refit for every purchase.
        "huber" changes from squared to absolute errors at one standard deviation of ``y``.
    l2_regularization : float or "auto", default="auto"
        Columns are standardised. "auto": held-out rows choose it (for squared loss, separately for each prefix), and
        the sequence ends at the prefix with the lowest held-out loss; weights are then fitted to all rows.
    norm_bound : float, default=None
        Constrain ``|w|`` to this ball instead of, or in addition to, the penalty. Weights refer to standardised columns and
        targets, all targets together.
    fit_intercept : bool, default=True
        Whether the answer before the first purchase is the mean of ``y``; False: 0.
    validation_fraction : float or None, default=0.2
        Only for ``l2_regularization="auto"``; the order is then learned from the other rows. With fewer than 10
        held-out rows, the ridge is 1e-3 and all groups are bought.
    tol : float, default=1e-8
        Relative size of the gradient at which a refit stops; squared loss is solved exactly.
    random_state : int, RandomState or None, default=None
        It draws the held-out rows.
    verbose : int, default=0
        1: a line per purchase, unless the loss is squared (which is solved in one step). Ctrl-C ends such a fit with
        the groups bought so far.

    Attributes
    ----------
    plan_, stage_costs_, order_, n_features_in_, feature_names_in_
        As in :class:`AnytimeClassifier`. Each group with columns is a stage.
    coef_, intercept_ : (d,) and float, or (k, d) and (k,)
        Weights of the last stage, in the units of the columns and the targets; 0 for columns that it does not use.
    l2_regularization_ : (S,) array
        The ridge penalty of each prefix.
    certificate_ : Certificate or None
        Bounds on the optimum, on the rows that chose the sequence. None if nothing is proved.

    See Also
    --------
    GroupPursuitClassifier : The same for classification.
    SpeedBoostRegressor : Boosted trees for all budgets.

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
        numbers = target_numbers(y)
        targets = np.asarray(numbers if numbers.ndim == 2 else column_or_1d(numbers, warn=True)[:, None])
        with np.errstate(over="ignore"):
            refuse_overflow((targets**2).sum(axis=0), "target")
        if self.loss == "poisson" and (targets < 0).any():
            raise ValueError(f"loss='poisson' is for counts, but y holds {targets.min():g}")
        stream = self.__dict__.get("_stream")
        if not reset and stream is not None and targets.shape[1] != stream.train.n_targets:
            raise ValueError(f"y has {targets.shape[1]} targets, earlier rows had {stream.train.n_targets}")
        return targets

    @property
    def coef_(self) -> Array:
        """Weights of the last stage."""
        table = _last_weights(self.plan_)[0]
        return table[:, 0] if table.shape[1] == 1 else table.T

    @property
    def intercept_(self) -> Any:
        """Scores of the last stage if all columns are 0."""
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
    """Anytime linear classification: logistic or multinomial regression that buys groups one after the other.

    The generalised linear CS-G-OMP of Hu (2019, Algorithm 5), and simultaneous one-against-all pursuit of Grubb (2014,
    Algorithm 5.3).

    Parameters
    ----------
    loss : {"auto", "log", "one_vs_all", "squared"} or Loss, default="auto"
        "auto" is "log": logistic regression for two classes, multinomial for more. "one_vs_all": a logistic regression per class
        on the same groups. "squared": least squares to the indicator of each class, in one pass over the data.
    class_weight : dict, "balanced" or None, default=None
        ``partial_fit`` and ``fit_chunks`` cannot count the classes in advance: use a dict.
    fit_intercept : bool, default=True
        Whether the answer before the first purchase is the class frequencies; False: equal probabilities.

    Attributes
    ----------
    coef_, intercept_ : (K, d) and (K,)
        Weights of the last stage, in the units of the columns: a row per class, or one for two classes and "log".
    l2_regularization_, certificate_
        As in :class:`GroupPursuitRegressor`.

    See Also
    --------
    GroupPursuitRegressor : The same for regression.
    SubmodularTreeClassifier : Different columns for different rows.
    SpeedBoostClassifier : Boosted trees for all budgets.

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
        name_or_loss = self._loss_given
        if name_or_loss == "log":
            return training_loss("logistic" if len(self.classes_) == 2 else "multinomial")
        loss = training_loss("least_squares" if name_or_loss == "squared" else name_or_loss)
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
        numbers = label_numbers(y, self.classes_)
        if keeps_moments(self):  # least squares to the indicator of each class
            return np.asarray(np.eye(len(self.classes_))[numbers])
        return numbers

    @property
    def coef_(self) -> Array:
        """Weights of the last stage."""
        return _last_weights(self.plan_)[0].T

    @property
    def intercept_(self) -> Array:
        """Scores of the last stage if all columns are 0."""
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
