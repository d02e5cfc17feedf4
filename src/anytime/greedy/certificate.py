"""Certificates of fitted sequences: how close each prefix is to the best set at the same price."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.greedy.prices import SUM_SLACK
from anytime.greedy.selection import Selection

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A guarantee for every budget, on the rows that the sequence was chosen on.

    Values are shares of the initial risk; for squared loss, of the variance. They refer to the maximised objective, ridge
    included, and say nothing about new rows.

    Parameters
    ----------
    selection : Selection
        Costs in the unit of the prices.
    risk : float
        Risk before anything is bought.
    constant : float or callable
        ``gamma``, or a function that computes it on first use by an eigenvalue problem.
    unit : str, default=None
    theory : bool, default=True
        Whether the theorems on greedy sequences apply: every step had the best rate, and groups share no requirements. The
        bound from the run holds for any order.
    frontier : pair of (m,) float, or callable, default=None
        Increasing costs and the best value at each, if all sets can be tried; a callable computes them on first use.
    basis : tuple, default=None
        Problem, run and arrangement of columns, for further measurements. Not saved to files.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> certificate = at.GroupPursuitRegressor(costs=costs, selection="forward", l2_regularization=0.1).fit(X, y).certificate_
    >>> bool(certificate.reached(20) <= certificate.ceiling(20)), 0 < certificate.gamma <= 1
    (True, True)
    """

    selection: Selection
    risk: float
    constant: float | Callable[[], float] = 1.0
    unit: str | None = None
    theory: bool = True
    frontier: tuple[Array, Array] | Callable[[], tuple[Array, Array]] | None = None
    basis: tuple[Any, ...] | None = None

    @property
    def gamma(self) -> float:
        """How close to submodular the objective is, between 0 (no guarantee) and 1."""
        if callable(self.constant):
            object.__setattr__(self, "constant", float(self.constant()))  # what it took is no longer needed
        return float(self.constant)  # type: ignore[arg-type]

    @property
    def exact(self) -> tuple[Array, Array] | None:
        """The frontier of all sets of groups, if they are few enough to be tried."""
        if callable(self.frontier):
            object.__setattr__(self, "frontier", self.frontier())
        return self.frontier  # type: ignore[return-value]

    def reached(self, budget: ArrayLike) -> Array:
        """Share of the initial risk that the prefix within ``budget`` removes."""
        return self.selection.value_at(budget) / self.risk if self.risk > 0 else np.zeros(np.shape(budget))

    def ceiling(self, budget: ArrayLike) -> Array:
        """Upper bound on the value of any set of groups within ``budget``.

        The value of the best set if all can be tried (squared loss and few groups); otherwise the online bound of Lemma 4.2.3,
        derived from the run.
        """
        if self.risk <= 0:
            return np.zeros(np.shape(budget))
        if self.exact is None:
            most = self.selection.upper_bound(budget, self.gamma)
        else:
            costs, values = self.exact
            allowed = np.asarray(budget, dtype=np.float64) * (1 + SUM_SLACK)
            reached = self.selection.value_at(budget)  # rounding must not put it above what can be
            most = np.maximum(values[np.searchsorted(costs, allowed, side="right") - 1], reached)
        return np.asarray(np.minimum(most / self.risk, 1.0))

    def share(self, budget: ArrayLike) -> Array:
        """Certified share of the best possible value within ``budget``; 1 if nothing can be gained."""
        reached, ceiling = self.reached(budget), self.ceiling(budget)
        return np.asarray(
            np.where(ceiling > 0, np.minimum(reached / np.where(ceiling > 0, ceiling, 1.0), 1.0), 1.0)
        )

    def promised(self, budget: float, rival: float | None = None) -> float:
        """Guaranteed share, before any data is seen, of the best set that costs ``rival``, at the prefix within ``budget``.

        Greedy: ``1 - exp(-gamma * spent / rival)`` (Theorem 3.3.2), with what the prefix actually spent. Doubling: a rival
        of a sixth of the budget, at any budget above ``c_min`` (Theorem 4.4.4), and no other. 0 without a guarantee: groups share
        requirements, steps did not follow the rate, or a doubling run got stuck.
        """
        if not self.theory or not self.selection.order.size:
            return 0.0
        if self.selection.schedule == "doubling" and rival is None:
            first = self.selection.c_min or 0.0
            capable = self.selection.doubling_capable and budget > first
            return -math.expm1(-self.gamma) if capable else 0.0
        if self.selection.schedule == "doubling":
            return 0.0
        spent = np.concatenate([[0.0], self.selection.costs])[self.selection.n_affordable(budget)]
        against = float(budget if rival is None else rival)
        return -math.expm1(-self.gamma * float(spent) / against) if against > 0 else 0.0

    def summary(self, budgets: ArrayLike | None = None) -> list[dict[str, float]]:
        """One entry per budget: the value reached, the ceiling, the certified share and the guaranteed one."""
        total = float(self.selection.costs[-1]) if self.selection.costs.size else 0.0
        amounts = np.array([0.1, 0.25, 0.5, 0.75, 1.0]) * total if budgets is None else np.atleast_1d(budgets)
        return [
            {
                "budget": float(b),
                "reached": float(self.reached(b)),
                "ceiling": float(self.ceiling(b)),
                "certified": float(self.share(b)),
                "promised": self.promised(float(b)),
            }
            for b in amounts
        ]

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        entries = self.summary()
        parts = [f"{entry['certified']:.0%} with {entry['budget']:.4g}{unit}" for entry in entries]
        text = f"of what any choice of groups could explain, at least {', '.join(parts)} (gamma {self.gamma:.3g})"
        if self.selection.schedule == "doubling":
            stuck = self.selection.stuck_at
            text += (
                "; doubling: near the best at every budget"
                if stuck is None
                else f"; doubling got stuck at step {stuck}"
            )
        return text

    def __repr__(self) -> str:
        return f"Certificate({self.selection.order.size} purchases, gamma {self.gamma:.3g})"

    # ------------------------------------------------------------------ keeping it

    def head(self, n_purchases: int) -> Certificate:
        """The certificate of the sequence that ends after this many purchases."""
        selection = self.selection
        kept = {
            name: getattr(selection, name)[:n_purchases]
            for name in ("order", "prices", "costs", "values", "best_rates")
        }
        rooms = None if selection.rooms is None else selection.rooms[:n_purchases]
        return replace(self, selection=replace(selection, **kept, rooms=rooms))

    def __getstate__(self) -> dict[str, Any]:
        self.gamma, self.exact  # noqa: B018  # found now: the matrix they are found from is large
        return self.__dict__ | {"basis": None}

    def to_dict(self) -> dict[str, Any]:
        """Plain values and arrays, for ``from_dict``."""
        selection = self.selection
        return {
            "gamma": self.gamma,
            "risk": float(self.risk),
            "unit": self.unit,
            "theory": bool(self.theory),
            "frontier": None if self.exact is None else list(self.exact),
            "order": np.asarray(selection.order, dtype=np.int64),
            "prices": selection.prices,
            "costs": selection.costs,  # exact, as no sum of rounded prices is
            "values": selection.values,
            "best_rates": np.nan_to_num(selection.best_rates, posinf=-1.0),
            "rooms": selection.rooms,
            "room_budgets": selection.room_budgets,
            "n_elements": int(selection.n_elements),
            "schedule": selection.schedule,
            "c_min": selection.c_min,
            "stuck_at": selection.stuck_at,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Certificate:
        """Restore the result of ``to_dict``; ``ValueError`` if it is invalid."""
        arrays = {
            name: np.asarray(data[name], dtype=np.float64)
            for name in ("prices", "costs", "values", "best_rates")
        }
        order = np.asarray(data["order"], dtype=np.intp)
        if order.ndim != 1 or any(array.shape != order.shape for array in arrays.values()):
            raise ValueError("the parts of a certificate do not have the same length")
        if (
            len(set(order.tolist())) < order.size
            or (order < 0).any()
            or (order >= int(data["n_elements"])).any()
        ):
            raise ValueError("a certificate's order must list elements, each at most once")
        if (arrays["values"] < 0).any() or (np.diff(arrays["values"]) < 0).any():
            raise ValueError("a certificate's values must start at 0 or above and must not decrease")
        if not all(np.isfinite(array).all() for array in arrays.values()) or (arrays["prices"] < 0).any():
            raise ValueError("a certificate holds a number that is not finite, or a negative price")
        if (np.diff(arrays["costs"], prepend=0.0) < 0).any():
            raise ValueError("a certificate's costs must not decrease")
        gamma, risk = float(data["gamma"]), float(data["risk"])
        if not 0 <= gamma <= 1 or not 0 <= risk < np.inf or data["schedule"] not in ("greedy", "doubling"):
            raise ValueError("a certificate's constants are out of range")
        rates, rooms, budgets = arrays["best_rates"], data["rooms"], data["room_budgets"]
        if rooms is not None:
            rooms, budgets = np.asarray(rooms, dtype=np.float64), np.asarray(budgets, dtype=np.float64)
            if budgets.ndim != 1 or not budgets.size or rooms.shape != (order.size, budgets.size):
                raise ValueError(
                    "a certificate's rooms must have one row per element and one column per budget"
                )
            if np.isnan(rooms).any() or not (np.diff(budgets) >= 0).all():
                raise ValueError("a certificate's rooms must not be NaN, and their budgets must not decrease")
        selection = Selection(
            order=order,
            prices=arrays["prices"],
            costs=arrays["costs"],
            values=arrays["values"],
            best_rates=np.where(rates < 0, np.inf, rates),
            n_elements=int(data["n_elements"]),
            schedule=data["schedule"],
            c_min=None if data["c_min"] is None else float(data["c_min"]),
            stuck_at=None if data["stuck_at"] is None else int(data["stuck_at"]),
            rooms=rooms,
            room_budgets=budgets,
        )
        unit, frontier = data["unit"], data["frontier"]
        if frontier is not None:
            costs, values = (np.asarray(part, dtype=np.float64) for part in frontier)
            sizes = costs.ndim == 1 and costs.size > 0 and costs.shape == values.shape
            if (
                not sizes
                or costs[0] > 0
                or not np.isfinite([costs, values]).all()
                or (np.diff(costs) < 0).any()
            ):
                raise ValueError(
                    "a certificate's frontier must start at cost 0, with costs that do not decrease"
                )
            frontier = costs, values
        unit = None if unit is None else str(unit)
        return cls(selection, risk, gamma, unit, bool(data["theory"]), frontier)


def in_units(selection: Selection, amounts: Callable[[Array], Array]) -> Selection:
    """The same run with its prices in units instead of ticks."""
    one = float(amounts(np.array([1.0]))[0])
    return replace(
        selection,
        prices=amounts(selection.prices),
        costs=amounts(selection.costs),
        best_rates=selection.best_rates / one if one > 0 else selection.best_rates,
        c_min=None if selection.c_min is None else float(amounts(np.array([selection.c_min]))[0]),
        room_budgets=None if selection.room_budgets is None else amounts(selection.room_budgets),
    )
