"""Drawing curves with matplotlib, in the manner of scikit-learn's displays. Matplotlib is loaded only when something is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from anytime.curves.anytime_curve import AnytimeCurve, Meter
from anytime.curves.evaluate import curve as evaluate

# Okabe and Ito: distinguishable with every common kind of colour blindness, and in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5195", "#555555")

_METERS = {"budget": "Budget", "model": "Cost", "realised": "Mean realised cost", "time": "Time"}


class AnytimeCurveDisplay:
    """Plot of an anytime curve.

    Create it with ``from_estimator`` or ``from_curve``.

    Parameters
    ----------
    curve : AnytimeCurve
        The curve to plot.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The step line.
    band_ : matplotlib FillBetweenPolyCollection or None
        The confidence band.

    See Also
    --------
    AnytimeCurve : The curve.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("agg")
    >>> curve = AnytimeCurve([0, 1, 3], [0.5, 0.8, 0.9], metric="accuracy", unit="ms")
    >>> display = AnytimeCurveDisplay.from_curve(curve)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('Cost (ms)', 'Accuracy')
    """

    def __init__(self, curve: AnytimeCurve) -> None:
        self.curve = curve

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        ax: Any = None,
        log: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ) -> AnytimeCurveDisplay:
        """Evaluate a fitted model and plot its curve.

        Parameters
        ----------
        estimator, X, y
            As in ``anytime.curve``, which ``kwargs`` are for too (``metric``, ``meter``, ``bootstrap``, …).
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        log : bool, default=False
        name : str, default=None
            The name in the legend. None: the estimator's class.
        """
        name = name or type(estimator).__name__
        return cls(evaluate(estimator, X, y, label=name, **kwargs)).plot(ax, log=log, name=name)

    @classmethod
    def from_curve(cls, curve: AnytimeCurve, *, ax: Any = None, **kwargs: Any) -> AnytimeCurveDisplay:
        """Draw a curve; ``kwargs`` are those of ``plot``."""
        return cls(curve).plot(ax, **kwargs)

    def plot(
        self,
        ax: Any = None,
        *,
        log: bool = False,
        name: str | None = None,
        right: float | None = None,
        **kwargs: Any,
    ) -> AnytimeCurveDisplay:
        """Plot the curve as a step function, with its band.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None: a new figure.
        log : bool, default=False
            Logarithmic cost axis. It is linear below the first non-zero cost, so that stage 0 is visible.
        name : str, default=None
            The name in the legend. None: the curve's label.
        right : float, default=None
            Hold the last value up to this cost.
        **kwargs
            Passed to matplotlib's ``plot``.
        """
        plt = _pyplot()
        fresh = ax is None
        if fresh:
            _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        costs, (values, low, high) = self._held_until(right)
        name = name or self.curve.label
        style = {"linewidth": 1.8, "solid_joinstyle": "miter"} | ({"label": name} if name else {}) | kwargs
        (self.line_,) = ax.plot(costs, values, drawstyle="steps-post", **style)
        if costs.size == 1:  # a step of no length cannot be seen
            self.line_.set_marker("o")
        self.band_ = None
        if self.curve.band is not None:
            colour = self.line_.get_color()
            self.band_ = ax.fill_between(costs, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
        _dress(ax, self.curve, log, fresh)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _held_until(self, right: float | None) -> tuple[Any, tuple[Any, Any, Any]]:
        """Costs, and value, low and high there, the last held up to ``right``. What no budget ends at is not drawn."""
        low, high = self.curve.band or (self.curve.values, self.curve.values)
        costs, *rows = (row[self.curve.held] for row in (self.curve.costs, self.curve.values, low, high))
        if right is not None and right > self.curve.total_cost:
            costs, rows = np.append(costs, right), [np.append(row, row[-1]) for row in rows]
        return costs, (rows[0], rows[1], rows[2])


def cost_label(meter: Meter, unit: str | None) -> str:
    """The cost axis in words, with its unit."""
    return _METERS[meter] + (f" ({unit})" if unit else "")


def metric_label(curve: AnytimeCurve) -> str:
    """The metric in words."""
    labels = {"roc_auc": "ROC AUC", "r2": "R²", "f1": "F1"}
    if curve.metric in labels:
        return labels[curve.metric]
    if curve.metric.startswith("ndcg"):
        return curve.metric.upper()
    words = curve.metric.replace("_", " ").strip()
    if words.startswith("neg "):
        return f"Negative {words[4:]}"
    return words[:1].upper() + words[1:]


def _dress(ax: Any, curve: AnytimeCurve, log: bool, fresh: bool) -> None:
    ax.set_xlabel(cost_label(curve.meter, curve.unit))
    ax.set_ylabel(metric_label(curve))
    drawn = np.concatenate([np.asarray(line.get_xdata(), dtype=float) for line in ax.get_lines()])
    positive = drawn[drawn > 0]
    if log and positive.size:  # by all curves on the axes: the cheapest first answer sets the scale
        _log_scale(ax, float(positive.min()), float(positive.max()))
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, loc="best")
    if fresh:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", alpha=0.25, linewidth=0.6)
        ax.margins(x=0.02)


def _log_scale(ax: Any, least: float, most: float) -> None:
    """Logarithmic above ``least``, with plain numbers on the ticks: 1-2-5 where there are few decades, none below ``least``."""
    ax.set_xscale("symlog", linthresh=least, linscale=0.4)
    steps = [1.0] if most > 1000 * least else [1.0, 2.0, 5.0]
    decades = 10.0 ** np.arange(np.floor(np.log10(least)), np.ceil(np.log10(most)) + 1)
    ticks = np.outer(decades, steps).ravel()
    ax.set_xticks([0.0, *ticks[(ticks >= least) & (ticks <= 1.2 * most)]])
    ax.xaxis.set_major_formatter(lambda cost, _: f"{cost:g}")


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install anytime[plot]") from error
    return plt
