"""``compare``: several models on the same rows, the same meter and the same draws, in a table, a plot or a page.

Fairness rules of the papers (Grubb, *Anytime Prediction*, chapter 6): one cost meter and one start for all; a model that ignores
costs is still charged the true cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._compat import n_rows_of
from anytime.curves.anytime_curve import AnytimeCurve, Meter
from anytime.curves.display import PALETTE, AnytimeCurveDisplay, cost_label, metric_label
from anytime.curves.evaluate import curve as evaluate
from anytime.curves.evaluate import usual_meter
from anytime.curves.resampling import generator

if TYPE_CHECKING:
    import pandas as pd

    from anytime.advice import PurchasePath
    from anytime.explanations import Explanation

SHARES = (0.90, 0.95, 0.99)


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    metric: Any = None,
    meter: Meter | None = None,
    budgets: ArrayLike | None = None,
    full_cost: float | Mapping[str, float] | None = None,
    random_state: Any = None,
    **kwargs: Any,
) -> Comparison:
    """Compare several fitted models on the same rows, at every budget.

    Parameters
    ----------
    models : mapping from str to estimator
        Fitted models by name. One without ``stages`` (any estimator with ``predict``) is a single point at its full cost; below
        that cost it is given the constant answer of the others.
    X : (n, d)
        Rows that no model was trained on.
    y : (n,)
        Their labels or numbers.
    metric, meter
        As in ``anytime.curve``; the same for all.
    budgets : (b,), default=None
        Budgets for ``table``. None: quarters of the greatest cost.
    full_cost : float or mapping from str to float, default=None
        Cost of an answer of a model without stages; usually the price of all features it reads.
    random_state : int, Generator or RandomState, default=None
        Seed of the bootstrap draws, which are the same for all models.
    **kwargs
        Further arguments of ``anytime.curve``, such as ``sample_weight``, ``qid``, ``groups``, ``bootstrap`` or ``confidence``.

    Returns
    -------
    Comparison
        Curves by name, a table of values at the budgets, and a report.

    See Also
    --------
    curve : One model.
    pareto_frontier : The best model at each cost.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> X, y = np.arange(4.0)[:, None], np.arange(4.0)
    >>> result = compare({"mean": DummyRegressor().fit(X, y)}, X, y, full_cost=2.0)
    >>> result.curves["mean"].at(2.0)
    0.0
    """
    if not isinstance(models, Mapping) or not models:
        raise ValueError("compare needs a mapping from names to fitted models, with at least one")
    seed = int(generator(random_state).integers(2**32))  # one seed, so that all are judged on the same draws
    meter = usual_meter(models.values()) if meter is None else meter
    curves = {}
    for name, model in models.items():
        price = full_cost.get(name) if isinstance(full_cost, Mapping) else full_cost
        try:
            curves[str(name)] = evaluate(
                model,
                X,
                y,
                metric=metric,
                meter=meter,
                full_cost=price,
                random_state=seed,
                label=str(name),
                **kwargs,
            )
        except (TypeError, ValueError) as error:
            raise type(error)(f"model {name!r}: {error}") from error
    return Comparison(curves, budgets=budgets, n_rows=n_rows_of(X))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Curves of several models on the same rows.

    Parameters
    ----------
    curves : mapping from str to AnytimeCurve
        At least one; all of one metric and one meter.
    budgets : (b,), default=None
        Budgets for ``table``.
    n_rows : int, default=None
        How many rows the curves were measured on.

    See Also
    --------
    compare : Makes a comparison.
    AnytimeCurve : One curve.

    Examples
    --------
    >>> import anytime as at
    >>> cheap = at.AnytimeCurve([0, 1], [0.5, 0.8], metric="accuracy")
    >>> precise = at.AnytimeCurve([0, 4], [0.5, 0.9], metric="accuracy")
    >>> comparison = at.Comparison({"cheap": cheap, "precise": precise}, budgets=[1, 4])
    >>> comparison.table().to_numpy().tolist()
    [[0.8, 0.8], [0.5, 0.9]]
    """

    curves: Mapping[str, AnytimeCurve]
    budgets: ArrayLike | None = None
    n_rows: int | None = None

    def __post_init__(self) -> None:
        check_comparable(list(self.curves.values()))
        units = {c.unit for c in self.curves.values() if c.unit}
        if len(units) > 1:
            raise ValueError(
                f"costs in {' and '.join(sorted(units))} cannot be compared; give all models one unit"
            )
        if self.budgets is not None:
            object.__setattr__(self, "budgets", np.atleast_1d(np.asarray(self.budgets, dtype=np.float64)))

    # ------------------------------------------------------------------ what all curves share

    @property
    def first(self) -> AnytimeCurve:
        """The first curve: its metric and meter are those of all."""
        return next(iter(self.curves.values()))

    def unit(self, of: Literal["unit", "price_unit"] = "unit") -> str | None:
        """The unit of cost (or of prices), which models without stages do not have."""
        return next((getattr(c, of) for c in self.curves.values() if getattr(c, of)), None)

    @property
    def horizon(self) -> float:
        """The greatest cost of any model; up to there each holds its last answer."""
        return max(c.total_cost for c in self.curves.values())

    @property
    def start(self) -> float:
        """The value of the constant answer: the best that any curve has at cost 0, else the worst first value."""
        sign = self.first.sign
        free = [sign * float(c.values[0]) for c in self.curves.values() if c.costs[0] == 0]
        return sign * (max(free) if free else min(sign * float(c.values[0]) for c in self.curves.values()))

    @property
    def best(self) -> float:
        """The best final value of any model. A peak on the way is not taken: on test data it is mostly noise."""
        return self.first.sign * max(c.sign * c.final for c in self.curves.values())

    def target(self, share: float) -> float:
        """The value that is ``share`` of the way from the constant answer to the best."""
        return self.start + share * (self.best - self.start)

    # ------------------------------------------------------------------ tables

    def table(self, budgets: ArrayLike | None = None) -> pd.DataFrame:
        """Quality at each budget: one row per model, one column per budget; NaN before a model's first answer."""
        import pandas as pd

        wanted = self.budgets if budgets is None else budgets
        asked = (
            self.horizon * np.arange(1, 5) / 4
            if wanted is None
            else np.atleast_1d(np.asarray(wanted, dtype=np.float64))
        )
        rows = {name: np.atleast_1d(c.at(asked)) for name, c in self.curves.items()}
        columns = pd.Index(asked, name=f"budget ({self.unit()})" if self.unit() else "budget")
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("model")

    def summary(self, shares: Sequence[float] = SHARES) -> pd.DataFrame:
        """One row per model: final quality, mean quality over all budgets, timeliness, cost to reach shares of the best.

        The mean is the area under the step curve from 0 to the greatest cost of any model, over that cost: the quality to expect
        of a budget drawn evenly. Timeliness is that mean as a share of what could be gained over the constant answer (``step``
        rule, one start and one stopping cost for all; where the perfect value is not known, the best of all models stands in).
        Shares are of the gain from the constant answer to the best final value of all models.
        """
        import pandas as pd

        rows = {name: self._summary_of(c, shares) for name, c in self.curves.items()}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")

    def _summary_of(self, c: AnytimeCurve, shares: Sequence[float]) -> dict[str, float]:
        start, horizon = self.start, self.horizon
        risk = abs((self.best if c.perfect is None else c.perfect) - start)
        flat = horizon == 0
        out = {
            "final": c.final,
            "mean": c.final if flat else c.area(0, horizon, start=start) / horizon,
            "timeliness": np.nan
            if flat
            else c.timeliness(rule="step", stop_cost=horizon, initial_risk=risk, start=start),
            "total cost": c.total_cost,
        }
        return out | {f"cost to {share:.0%}": c.cost_to_reach(self.target(share)) for share in shares}

    # ------------------------------------------------------------------ out

    def plot(self, ax: Any = None, *, log: bool = False, **kwargs: Any) -> Any:
        """Draw all curves on one axes, each held to the greatest cost; returns the axes."""
        for j, (name, c) in enumerate(self.curves.items()):
            style = {"color": PALETTE[j % len(PALETTE)]} | kwargs
            ax = AnytimeCurveDisplay(c).plot(ax, log=log, name=name, right=self.horizon, **style).ax_
        ax.set_xlabel(cost_label(self.first.meter, self.unit()))
        return ax

    def report(
        self,
        path: str | Path,
        *,
        title: str = "Quality under a budget",
        paths: Mapping[str, PurchasePath | Explanation] | None = None,
    ) -> Path:
        """Write one self-contained HTML page: curves, a budget slider, a table, and what each model buys.

        The page loads nothing from any server and works from a file.

        Parameters
        ----------
        path : str or Path
            Where to write it.
        title : str
            Heading of the page.
        paths : mapping from name to PurchasePath or Explanation, default=None
            Single rows, each with what ``model.path`` or ``at.explain`` says of it: the page shows what was bought, and how the
            answer moved; for an explanation, by how much each purchase moved it.
        """
        from anytime.curves.report import render

        path = Path(path)
        path.write_text(render(self, title, paths or {}), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        table = self.summary().to_html(float_format=lambda v: f"{v:.4g}", na_rep="-", escape=True, border=0)
        return f"<div>{table}</div>"

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(self.curves)} by {metric_label(self.first)}\n{self.summary().to_string()}"


def check_comparable(curves: Sequence[AnytimeCurve]) -> None:
    """Raise ``ValueError`` unless there are curves, all of one metric and one meter."""
    if not curves:
        raise ValueError("no curves were given")
    for c in curves[1:]:
        for name in ("metric", "greater_is_better", "meter"):
            if getattr(c, name) != getattr(curves[0], name):
                raise ValueError(
                    f"curves differ in {name}: {getattr(curves[0], name)!r} and {getattr(c, name)!r}"
                )


def pareto_frontier(
    costs: ArrayLike, values: ArrayLike, *, greater_is_better: bool = True
) -> NDArray[np.intp]:
    """Find the points that no other point beats at the same or a lower cost.

    Parameters
    ----------
    costs : (m,) float
        Cost of each point.
    values : (m,) float
        Quality of each point.
    greater_is_better : bool, default=True
        Whether higher values are better.

    Returns
    -------
    (p,) int
        Positions of these points, by increasing cost. Along them costs and values strictly improve; of equal points the first
        is kept.

    Raises
    ------
    ValueError
        If costs and values are not vectors of one length, or contain NaN.

    See Also
    --------
    compare : Curves of several models.

    Examples
    --------
    >>> pareto_frontier([1, 2, 3, 4], [0.6, 0.5, 0.9, 0.9]).tolist()
    [0, 2]
    """
    cost, value = np.asarray(costs, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if cost.ndim != 1 or cost.shape != value.shape:
        raise ValueError(
            f"costs and values must be vectors of one length, not of shapes {cost.shape} and {value.shape}"
        )
    if np.isnan(cost).any() or np.isnan(value).any():
        raise ValueError("costs and values must not be NaN")
    quality = value if greater_is_better else -value
    order = np.lexsort((np.arange(cost.size), -quality, cost))
    best = np.maximum.accumulate(quality[order])
    better = np.ones(cost.size, dtype=bool)
    better[1:] = best[1:] > best[:-1]
    return np.asarray(order[better], dtype=np.intp)
