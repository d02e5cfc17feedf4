"""``AnytimeCurve``: quality against cost after every stage, and the numbers that summarise it.

It is a right-continuous step function: a stage counts from the moment its cumulative cost is reached, and its answer is held
until the next (Grubb, *Anytime Prediction*; Hu, *Anytime Prediction and Learning*, 2.1-2.2: looking only at the stages' own costs
over-states the quality between them). Timeliness, stopping cost, plateau rule and oracle curve are those of Hu et al., *Anytime
Linear Prediction* (AnytimeLinear); timeliness goes back to Karayev et al. 2012, area under average precision against time.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import with_rounding
from anytime.curves.areas import Array, Rule, area_between

if TYPE_CHECKING:
    import pandas as pd

    from anytime.curves.display import AnytimeCurveDisplay

Meter = Literal["budget", "model", "realised", "time"]
Normaliser = Literal["initial_risk", "final_objective", "none"]

_SLACK = 1e-12  # relative: a level such as 0.97 of the end is reached in spite of rounding


@dataclass(frozen=True)
class Purchase:
    """A group of features, the stage that first buys it, and its price if known."""

    group: str
    stage: int
    price: float | None = None
    branch: int = -1  # whose stage it is; -1: of the chain


@dataclass(frozen=True, eq=False, repr=False)
class AnytimeCurve:
    """Quality after every stage, or at every budget, against cost.

    Parameters
    ----------
    costs : (m,) float
        Cumulative cost of each stage, non-decreasing. The first is stage 0, the constant answer, at cost 0; a model without an
        answer before some cost starts there. Stages of equal cost are allowed (re-use of features is free): the last counts.
    values : (m,) float
        The metric after each stage.
    metric : str, default="objective"
        Name of the metric.
    greater_is_better : bool, default=True
        Whether higher values of the metric are better.
    perfect : float, default=None
        The value of a perfect predictor (1 for accuracy, 0 for a loss), from which initial risk and errors follow.
    meter : {"budget", "model", "realised", "time"}, default="model"
        Whether ``costs`` are budgets of every row, or one of the three meters.
    unit : str, default=None
        Unit of ``costs``.
    price_unit : str, default=None
        Unit of model and realised costs. None: ``unit``, unless the meter is time.
    model_costs, realised_costs, times : (m,) float, default=None
        The three meters: cost fixed in training, mean of what rows paid, and seconds.
    stages : (m,) int, default=None
        Stage numbers, in the chain or in a branch. None: numbered from 0.
    band : pair of (m,) float, default=None
        Lower and upper ends of a confidence band.
    confidence : float, default=None
        The coverage of ``band``.
    purchases : sequence of Purchase, default=()
        Groups in order of their first purchase.
    label : str, default=None
        Name of the model in plots.
    branches : (m,) int, default=None
        The branch that answers; -1: the chain. None: always the chain.
    bought : (m, p) bool, default=None
        Which of the p ``purchases`` each point has. None: those up to its stage.

    See Also
    --------
    curve : Measures a model on test rows.
    compare : Several curves on the same rows.

    Examples
    --------
    >>> curve = AnytimeCurve([0, 1, 3], [0.0, 0.6, 0.8], perfect=1.0)
    >>> curve.at(2.5), curve.cost_to_reach(0.7), round(curve.timeliness(), 6)
    (0.6, 3.0, 0.566667)
    """

    costs: Array
    values: Array
    _: KW_ONLY
    metric: str = "objective"
    greater_is_better: bool = True
    perfect: float | None = None
    meter: Meter = "model"
    unit: str | None = None
    price_unit: str | None = None
    model_costs: Array | None = None
    realised_costs: Array | None = None
    times: Array | None = None
    stages: NDArray[np.int64] | None = None
    band: tuple[Array, Array] | None = None
    confidence: float | None = None
    purchases: tuple[Purchase, ...] = ()
    label: str | None = None
    branches: NDArray[np.int64] | None = None
    bought: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "costs", _vector("costs", self.costs))
        size = self.costs.size
        if size == 0:
            raise ValueError("a curve needs at least one point; costs is empty")
        put(self, "values", _vector("values", self.values, size))
        for name in ("model_costs", "realised_costs", "times"):
            if getattr(self, name) is not None:
                put(self, name, _vector(name, getattr(self, name), size))
        stages = np.arange(size) if self.stages is None else self.stages
        put(self, "stages", _vector("stages", stages, size).astype(np.int64))
        branches = np.full(size, -1) if self.branches is None else self.branches
        put(self, "branches", _vector("branches", branches, size).astype(np.int64))
        if self.band is not None:
            low, high = self.band
            put(self, "band", (_vector("band[0]", low, size), _vector("band[1]", high, size)))
        put(self, "purchases", tuple(self.purchases))
        until = np.array([p.stage for p in self.purchases], dtype=np.int64) <= np.asarray(stages)[:, None]
        bought = until if self.bought is None else np.array(self.bought, dtype=bool)
        if bought.shape != until.shape:
            raise ValueError(f"bought must have shape {until.shape}, not {bought.shape}")
        put(self, "bought", bought)
        if self.price_unit is None and self.meter != "time":
            put(self, "price_unit", self.unit)
        if self.costs[0] < 0:
            raise ValueError(f"costs must not be negative, but the first is {self.costs[0]:g}")
        drop = np.flatnonzero(np.diff(self.costs) < 0)
        if drop.size:
            j = int(drop[0])
            raise ValueError(
                f"costs must not decrease, but costs[{j + 1}] = {self.costs[j + 1]:g} follows costs[{j}] = "
                f"{self.costs[j]:g}; sort the stages by cumulative cost"
            )

    def __len__(self) -> int:
        return self.costs.size

    def __repr__(self) -> str:
        name = f"{self.label!r}, " if self.label else ""
        unit = f" {self.unit}" if self.unit else ""
        return (
            f"AnytimeCurve({name}{self.metric} {self.values[0]:.4g} → {self.final:.4g}, {len(self)} points, "
            f"cost {self.costs[0]:g} to {self.total_cost:g}{unit})"
        )

    # ------------------------------------------------------------------ reading the curve

    @property
    def final(self) -> float:
        """The value after the last stage."""
        return float(self.values[-1])

    @property
    def total_cost(self) -> float:
        """The cost of all stages."""
        return float(self.costs[-1])

    @property
    def sign(self) -> float:
        """+1 if greater is better, −1 for a loss."""
        return 1.0 if self.greater_is_better else -1.0

    @property
    def held(self) -> NDArray[np.bool_]:
        """(m,) whether some budget ends at this point: the last point of each cost does, free stages before it do not."""
        return np.append(np.diff(self.costs) > 0, True)

    def position(self, budget: ArrayLike) -> NDArray[np.intp]:
        """Index of the last point with cost ≤ ``budget``; −1 if there is none."""
        budgets = np.asarray(budget, dtype=np.float64)
        if np.isnan(budgets).any():
            raise ValueError("budget is NaN; give a number of cost units, or inf for everything")
        return np.asarray(np.searchsorted(self.costs, with_rounding(budgets), side="right") - 1)

    @overload
    def at(self, budget: float) -> float: ...
    @overload
    def at(self, budget: ArrayLike) -> float | Array: ...
    def at(self, budget: ArrayLike) -> float | Array:
        """The value that ``budget`` buys: that of the last stage completed at cost ≤ budget.

        Right-continuous: a stage counts at exactly its own cost. NaN if the budget is below the first point: no answer yet.
        """
        where = self.position(budget)
        out = np.where(where >= 0, self.values[where], np.nan)
        return float(out) if out.ndim == 0 else out

    def cost_to_reach(self, target: float) -> float:
        """The least cost at which the value held is at least (a loss: at most) ``target``; inf when it never is."""
        reached = np.flatnonzero(self.held & (self.sign * self.values >= self.sign * target))
        return float(self.costs[reached[0]]) if reached.size else np.inf

    # ------------------------------------------------------------------ area and timeliness

    def improvement(self, start: float | None = None) -> Array:
        """(m,) improvement of each point over the start, in the direction of the metric.

        For the papers' objective, which starts at 0, this is the objective itself; for an accuracy or a loss it takes its place.
        """
        return np.asarray(self.sign * (self.values - (self.values[0] if start is None else start)))

    def area(
        self,
        low: float | None = None,
        high: float | None = None,
        *,
        rule: Rule = "step",
        start: float | None = None,
    ) -> float:
        """Area under the values between two costs; by default the whole curve, as the step function it is.

        Parameters
        ----------
        low, high : float, default=None
            The range of cost. None: the first and last point. Beyond the last point its value is held.
        rule : {"step", "trapezoid"}, default="step"
        start : float, default=None
            The value before the first point. Needed when ``low`` lies there.
        """
        costs, values = self._points(self.values, start)
        low = float(costs[0]) if low is None else float(low)
        high = self.total_cost if high is None else float(high)
        if not (np.isfinite(low) and np.isfinite(high)) or low > high:
            raise ValueError(f"area needs finite low ≤ high, not low={low:g}, high={high:g}")
        if low < costs[0]:
            raise ValueError(
                f"there is no answer at cost {low:g}, before {costs[0]:g}: give start=, or a higher low"
            )
        return area_between(costs, values, low, high, rule)

    def stopping_cost(self, alpha: float) -> float:
        """The α-stopping cost: the least cost with improvement ≥ α × final improvement (AnytimeLinear, section 3.5.2).

        The papers take it from the *training* curve of one method and cut all methods there: pass it to ``timeliness``.
        """
        improvement = self.improvement()
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
        target = alpha * improvement[-1]
        return float(self.costs[np.argmax(self.held & (improvement >= target - _SLACK * abs(target)))])

    def timeliness(
        self,
        alpha: float = 1.0,
        *,
        normalise: Normaliser = "initial_risk",
        rule: Rule = "trapezoid",
        stop_cost: float | None = None,
        initial_risk: float | None = None,
        start: float | None = None,
    ) -> float:
        r"""Mean improvement over the start up to a stopping cost, as a share of what could be improved (α-timeliness).

        .. math:: T_\alpha = \frac{1}{N} \int_0^{c_\alpha} F(c)\,dc, \qquad F(c) = \pm (v(c) - v(0)),

        with :math:`N = c_\alpha R(\emptyset)` by default (AnytimeLinear, section 3.5.2; Karayev et al. 2012). ``F`` is the
        papers' objective where the curve holds it (it starts at 0); for an accuracy it is the accuracy gained over the constant
        answer, for a loss the loss removed, so that timeliness means the same for every metric.

        Parameters
        ----------
        alpha : float, default=1.0
            The curve is cut where it first reaches this share of its final improvement; 1 is the whole curve, 0 gives 0.
        normalise : {"initial_risk", "final_objective", "none"}, default="initial_risk"
            Divide by stop × initial risk, by stop × final improvement, or not at all.
        rule : {"trapezoid", "step"}, default="trapezoid"
            Straight lines between points, as the papers, or the held answer.
        stop_cost : float, default=None
            Cut here instead of at the curve's own α-stopping cost. The last value is held beyond the end.
        initial_risk : float, default=None
            R(∅), the improvement of a perfect predictor. None: \|perfect − start\|.
        start : float, default=None
            The value of the constant answer. None: the first value.

        Returns
        -------
        float
            NaN if the normaliser is not positive: there was nothing to improve.
        """
        whole = alpha == 1
        stop = stop_cost if stop_cost is not None else self.total_cost if whole else self.stopping_cost(alpha)
        if not np.isfinite(stop) or stop < 0:
            raise ValueError(f"stop_cost must be finite and not negative, not {stop}")
        costs, gained = self._points(self.improvement(start), 0.0)
        area = area_between(costs, gained, 0.0, stop, rule)
        if normalise == "none" or stop == 0:
            return area
        scale = (
            float(gained[-1])
            if normalise == "final_objective"
            else self._risk(normalise, initial_risk, start)
        )
        return area / (stop * scale) if scale > 0 else np.nan

    def oracle(self) -> AnytimeCurve:
        """The same purchases in order of gain per cost: an optimistic bound, not a predictor (AnytimeLinear, section 3.5.2).

        From increments ``Δ_j`` at costs ``c_j``, sort by ``Δ_j / c_j`` and add up again. Concave, ends where this curve ends, and
        never below it. A stage that costs nothing belongs to the purchase before it.
        """
        costs, gained = self.costs[self.held], self.improvement()[self.held]
        gain, price = np.diff(gained), np.diff(costs)
        order = np.argsort(-gain / price, kind="stable")
        sums = np.cumsum(np.concatenate([gained[:1], gain[order]]))
        spent = np.minimum(np.cumsum(np.concatenate([costs[:1], price[order]])), costs[-1])
        spent[-1], sums[-1] = costs[-1], gained[-1]  # the same end to the last bit
        if not self.held[0]:  # free stages before the first purchase: a jump at the start
            spent, sums = np.insert(spent, 0, costs[0]), np.insert(sums, 0, 0.0)
        return AnytimeCurve(
            spent,
            self.values[0] + self.sign * sums,
            metric=self.metric,
            greater_is_better=self.greater_is_better,
            perfect=self.perfect,
            meter=self.meter,
            unit=self.unit,
            label=f"{self.label} (oracle)" if self.label else "oracle",
        )

    # ------------------------------------------------------------------ out

    def to_frame(self) -> pd.DataFrame:
        """One row per point: stage, cost, value; where known, branch, band, the three meters and the number of groups bought."""
        import pandas as pd

        columns: dict[str, Any] = {"stage": self.stages}
        if self.has_branches:
            columns["branch"] = self.branches
        columns |= {"cost": self.costs, self.metric: self.values}
        if self.band is not None:
            columns |= {"low": self.band[0], "high": self.band[1]}
        for name in ("model_costs", "realised_costs", "times"):
            if getattr(self, name) is not None:
                columns[name.removesuffix("s")] = getattr(self, name)
        if self.purchases:
            columns["groups"] = self.groups_bought()
        return pd.DataFrame(columns)

    def groups_bought(self) -> NDArray[np.int64]:
        """(m,) how many groups each point has bought."""
        return np.asarray(np.sum(np.asarray(self.bought), axis=1, dtype=np.int64))

    @property
    def has_branches(self) -> bool:
        """Whether a branch answers some budget."""
        return bool((np.asarray(self.branches) >= 0).any())

    def plot(self, ax: Any = None, **kwargs: Any) -> AnytimeCurveDisplay:
        """Draw the curve with matplotlib; see ``AnytimeCurveDisplay.plot``."""
        from anytime.curves.display import AnytimeCurveDisplay

        return AnytimeCurveDisplay.from_curve(self, ax=ax, **kwargs)

    # ------------------------------------------------------------------ helpers

    def _points(self, values: Array, start: float | None) -> tuple[Array, Array]:
        """The points, with one at cost 0 before a first answer that is not free."""
        if start is None or self.costs[0] == 0:
            return self.costs, values
        return np.insert(self.costs, 0, 0.0), np.insert(values, 0, start)

    def _risk(self, normalise: str, initial_risk: float | None, start: float | None) -> float:
        """R(∅): what perfection would improve on the start."""
        if normalise != "initial_risk":
            raise ValueError(
                f"normalise must be 'initial_risk', 'final_objective' or 'none', not {normalise!r}"
            )
        if initial_risk is not None:
            return float(initial_risk)
        if self.perfect is None:
            raise ValueError(
                f"the perfect value of {self.metric!r} is not known: give initial_risk=, or normalise='final_objective'"
            )
        return abs(self.perfect - float(self.values[0] if start is None else start))


def _vector(name: str, values: ArrayLike, size: int | None = None) -> Array:
    """A read-only finite copy."""
    out = np.array(values, dtype=np.float64)
    if out.ndim != 1:
        raise ValueError(f"{name} must be a vector, but has shape {out.shape}")
    if size is not None and out.size != size:
        raise ValueError(f"{name} has {out.size} entries, but the curve has {size} points")
    if not np.isfinite(out).all():
        raise ValueError(f"{name} must be finite, but {name}[{int(np.argmin(np.isfinite(out)))}] is not")
    out.flags.writeable = False
    return out
