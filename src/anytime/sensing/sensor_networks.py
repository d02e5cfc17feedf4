"""Networks of sensors as scikit-learn estimators, whose plans have a stage for each sensor.

Every sensor reads its own columns for free and decides by itself whether to send; sending has a price.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags

from anytime._compat import HasMethods, StrOptions
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts, FeatureCosts
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace, RegressorFace
from anytime.parameters import declared, positive, store, without
from anytime.plan import Plan
from anytime.rules import ScoreRule
from anytime.sensing.block import SensorBlock
from anytime.sensing.problem import SensingProblem, SensorGate, SensorWeights, device_inputs
from anytime.sensing.solvers import DirectGates, GateSolver
from anytime.trees.rows import checked_weights
from anytime.validation import class_labels, numbered_classes, validated, weighed_by_class

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SensorReport:
    """Performance of a sensor network.

    Attributes
    ----------
    participation : float
        Share of (example, sensor) pairs in which the sensor sends.
    active_sensors : float
        Mean number of sensors that send per example.
    mean_cost : float
        Mean cost per example.
    score : float
        Accuracy or R².
    """

    participation: float
    active_sensors: float
    mean_cost: float
    score: float


class _SensorNetwork(AnytimeModel):
    """What both estimators share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "solver": [HasMethods("solve"), None],
        "gate": [StrOptions({"sigmoid", "relu"})],
        "slope": [positive],
        "open_gates": [StrOptions({"scaled", "whole"})],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        mean_budget: float | None = None,
        budget: float | None = None,
        solver: GateSolver | None = None,
        gate: Literal["sigmoid", "relu"] = "sigmoid",
        slope: float = 1.0,
        open_gates: Literal["scaled", "whole"] = "scaled",
        class_weight: Any = None,
        meter: str = "realised",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    @holding_out
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train what sensors say and when they speak together.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
        sample_weight : (n,), default=None
        """
        self._validate_params()
        trained = copy.copy(self)
        trained._learn(X, y, sample_weight)
        self.__dict__ = trained.__dict__
        return self

    def _learn(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        """Read the data, and train on it."""
        raise NotImplementedError

    def _train(
        self,
        X: Array,
        targets: Array,
        base: Array,
        loss: Literal["cross_entropy", "squared"],
        link: str,
        weight: Array | None,
        unit: float = 1.0,
    ) -> None:
        sensors = self._sensors()
        prices = np.array([sensors.costs.prices[name] for name in sensors.costs.names])
        columns = [np.flatnonzero(sensors.column_group == k) for k in range(len(prices))]
        if any(not part.size for part in columns):
            raise ValueError("a group of costs has no columns, so it cannot be a sensor; leave it out")
        centre, scale = X.mean(axis=0), X.std(axis=0)
        scale[scale == 0] = 1.0
        gate, total = SensorGate(self.gate, self.slope), float(prices.sum())
        problem = SensingProblem(
            device_inputs((X - centre) / scale, columns), targets, base, loss, gate,
            prices=prices / prices.mean() if total else None,
            weight=None if weight is None else weight / weight.mean(),
        )  # fmt: skip
        share = None if self.mean_budget is None or not total else min(self.mean_budget / total, 1.0)
        seed = self.random_state
        random = np.random.default_rng(
            seed.randint(2**31) if isinstance(seed, np.random.RandomState) else seed
        )
        width = problem.inputs.shape[2]
        start = SensorWeights.drawn(len(prices), width, targets.shape[1], random, 1 / np.sqrt(width))
        solver = DirectGates() if self.solver is None else self.solver
        weights = solver.solve(problem, start, share, random)
        blocks = []
        for k, part in enumerate(columns):
            spread = scale[part]
            message = unit * np.vstack([weights.v[k, : part.size] / spread[:, None], weights.a[k]])
            opening = np.append(weights.w[k, : part.size] / spread, weights.b[k])
            if link == "logistic":  # of two logits the difference
                message = message[:, 1:] - message[:, :1]
            blocks.append(
                SensorBlock(part, message, opening, centre[part], gate, whole=self.open_gates == "whole")
            )
        before = base[1:] - base[:1] if link == "logistic" else unit * base
        self.plan_ = self._planned(blocks, prices, before, link, X)

    def _sensors(self) -> BoundCosts:
        """The groups of columns, which are the sensors."""
        sensors = self._bound_costs()
        if sensors.costs.requires:
            raise ValueError(
                "sensors decide independently, so none can require another: give costs without requires"
            )
        return sensors

    def _planned(self, blocks: list[SensorBlock], prices: Array, base: Array, link: str, X: Array) -> Plan:
        """A stage for each sensor, those that change the answer most per price first."""
        power = np.array([np.mean(block.outputs(0, X) ** 2) for block in blocks])
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.where(prices > 0, power / prices, np.inf)
        order = np.argsort(-worth, kind="stable")
        plan = Plan(
            blocks=[blocks[k] for k in order],
            costs=_speaking_costs(self._sensors()),
            base=base,
            link=link,
            passes={s: ScoreRule(blocks[k].score) for s, k in enumerate(order)},
            evaluation_costs=prices[order] if prices.any() else None,
        )
        run, paid = Run(plan, np.ascontiguousarray(X), metered=True), []
        assert run.ledger is not None
        for s in range(plan.n_stages):
            run.advance(s + 1)
            paid.append(float(plan.costs.costs.amounts(run.ledger.paid).mean()))
        return replace(plan, expected_costs=np.array(paid))

    def active(self, X: ArrayLike) -> NDArray[np.bool_]:
        """(n, K) which sensors speak, in the order of ``sensors_``."""
        rows = self._checked(X)
        sensors = [block for block in self.plan_.blocks if isinstance(block, SensorBlock)]
        return np.column_stack([block.score.outputs(0, rows)[:, 0] > 0 for block in sensors])

    @property
    def sensors_(self) -> list[str]:
        """Names of the sensors in the order of the stages."""
        costs = self._plan.costs
        groups = [int(costs.column_group[block.columns(0)[0]]) for block in self._plan.blocks]
        return [costs.costs.names[g] for g in groups]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def report(self, X: ArrayLike, y: ArrayLike) -> SensorReport:
        """How often sensors speak, what that costs, and how good the answers are."""
        active = self.active(X)
        paid = float(self.cost(X).mean())
        return SensorReport(float(active.mean()), float(active.sum(axis=1).mean()), paid, self.score(X, y))


def _speaking_costs(sensors: BoundCosts) -> BoundCosts:
    """Prices of a network: a sensor reads its columns for nothing; a step without columns has the price of speaking."""
    prices = sensors.costs
    columns = {
        name: np.flatnonzero(sensors.column_group == k).tolist() for k, name in enumerate(prices.names)
    }
    speaking = {f"{name} speaks": prices.prices[name] for name in prices.names}
    costs = FeatureCosts(
        prices={**dict.fromkeys(prices.names, 0.0), **speaking},
        groups={**columns, **{name: [] for name in speaking}},
        unit=prices.unit,
    )
    return costs.bind(sensors.column_group.size)


@declared()
class SensorNetworkClassifier(ClassifierFace, _SensorNetwork):
    """Sensors that each read some of the columns and send only if it helps; a receiver adds up their scores.

    Each sensor decides from its own columns alone whether to send. Logits are ``log prior + Σ_k (v_k'x_k + a_k) g_k`` over those
    that do (Nan, *Learning to predict under a budget*, 2018, section 7.1).
    The plan has a stage for each sensor, which rows pay for if it sends.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        Each group is a sensor, and its price is that of sending; a sensor reads its own columns for free.
    mean_budget : float, default=None
        Gates are trained to keep to it. If each sensor costs 1, it is the mean number of sensors that send.
    budget : float, default=None
        Sensors are then heard in the order of the plan until the budget of a row is spent.
    solver : GateSolver, default=None
        Training method of the gates. None: ``DirectGates()``, which has its own settings.
    gate : {"sigmoid", "relu"}, default="sigmoid"
        Function from the score of a sensor to the weight of its contribution.
    slope : float, default=1.0
        Slope of the sigmoid.
    open_gates : {"scaled", "whole"}, default="scaled"
        Whether the contribution of a sensor with an open gate is multiplied by the gate, or counts in full.

    Attributes
    ----------
    plan_ : Plan
        A stage for each sensor, those that change the answer most per price first.
    sensors_ : list of str
        Sensors in the order of the stages.

    See Also
    --------
    SensorNetworkRegressor : The same for regression.
    AcquisitionClassifier : One device decides what to buy next.

    Notes
    -----
    Preliminary in the source: neither convergence nor sample sizes are proved. The mean budget holds on the training rows.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, zones = at.datasets.load("digits")
    >>> sensors = at.FeatureCosts(groups=zones.groups, prices=dict.fromkeys(zones.groups, 1.0))
    >>> network = at.SensorNetworkClassifier(costs=sensors, mean_budget=6, random_state=0).fit(X, y)
    >>> report = network.report(X, y)
    >>> bool(report.mean_cost <= 6), bool(report.score > 0.9)
    (True, True)
    """

    def _learn(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        rows, labels, weight = _read(self, X, y, sample_weight)
        self.classes_, codes = numbered_classes(class_labels(labels))
        n_classes, weight = len(self.classes_), weighed_by_class(weight, self.class_weight, labels)
        targets = np.eye(n_classes)[codes]
        prior = np.average(targets, axis=0, weights=weight)
        link = "logistic" if n_classes == 2 else "softmax"
        self._train(rows, targets, np.log(np.maximum(prior, 1e-12)), "cross_entropy", link, weight)


@declared(like=SensorNetworkClassifier)
@without("class_weight")
class SensorNetworkRegressor(RegressorFace, _SensorNetwork):
    """Sensors that each read some of the columns and send only if it helps; the answer is ``mean + Σ_k v_k'x_k g_k``.

    Attributes
    ----------
    sensors_
        As in :class:`SensorNetworkClassifier`.

    See Also
    --------
    SensorNetworkClassifier : The same for classification.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, _ = at.datasets.load("diabetes")
    >>> network = at.SensorNetworkRegressor(mean_budget=3, random_state=0).fit(X, y)
    >>> report = network.report(X, y)
    >>> bool(report.active_sensors <= 3), bool(report.score > 0.3)
    (True, True)
    """

    def _learn(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        rows, numbers, weight = _read(self, X, y, sample_weight, y_numeric=True)
        targets = np.asarray(numbers, dtype=np.float64)[:, None]
        spread = float(targets.std()) or 1.0  # training is on the scale of the targets' deviation
        base = np.average(targets, axis=0, weights=weight) / spread
        self._train(rows, targets / spread, base, "squared", "identity", weight, spread)


def _read(
    model: Any, X: Any, y: Any, sample_weight: ArrayLike | None, **checks: Any
) -> tuple[Array, NDArray[Any], Array | None]:
    """Rows, truth and weights; rows of weight 0 left out."""
    rows, truth = validated(model, X, y, dtype=np.float64, **checks)
    if sample_weight is None:
        return np.asarray(rows), np.asarray(truth), None
    weight = checked_weights(sample_weight, rows)
    present = weight > 0
    return np.asarray(rows)[present], np.asarray(truth)[present], weight[present]
