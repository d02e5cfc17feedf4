"""Every bound of theory applied to one run at one budget: a row each, with its numbers, and whether it speaks of this run at all.

Theorems are numbered as in ``bounds``; Corollaries 5.2.7 and 5.3.5 stand for 5.4.5 and 5.4.10 too, which say the same of smooth
losses. Printed forms that are wrong stand beside the corrected ones, and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.greedy import rival_ceiling
from anytime.greedy.certificate import Certificate
from anytime.greedy.prices import rates_of
from anytime_research.greedy.bounds import (
    doubling_bound,
    doubling_bound_elementwise,
    greedy_bound,
    product_bound,
)
from anytime_research.greedy.measured import Measured, measured_of

Array = NDArray[np.float64]
Rows = Iterator[dict[str, Any]]
_EXACTLY = 1 - 1e-9  # a step with this share of the best rate had the best one


def bounds(
    certificate: Certificate, budget: float | None = None, measured: Measured | None = None
) -> list[dict[str, Any]]:
    """Every bound of theory on a certified run, a row each, with its numbers at ``budget``.

    Parameters
    ----------
    certificate : Certificate
    budget : float, default=None
        Positive. None: the cost of the whole sequence.
    measured : Measured, default=None
        Constants of the run; measured where it is known.

    Returns
    -------
    list of dict
        - ``theorem``, ``form``: "printed" as in the books, else a sharper or a corrected form;
        - ``says``: "at most", of any set within ``rival_cost``; or "at least", of the prefix within ``budget``: ``share`` of
          the best set within ``rival_cost``, less ``less``;
        - ``constants``: what it is computed from; ``found``: how, "spectral", "enumerated" or "sampled";
        - ``bound``: the right-hand side as a share of the risk; None where the best set is not known;
        - ``status``: "proved"; "estimated", proved but for a sampled constant, which is optimistic; "unproved"; "refuted",
          for a printed form that is wrong;
        - ``applies``, ``why_not``: whether it speaks of this run.
    """
    if budget is None:
        costs = certificate.selection.costs
        budget = float(costs[-1]) if costs.size else 0.0
        if not budget:
            return []  # what costs nothing has no rival
    if not budget > 0:
        raise ValueError(f"bounds are against sets that cost something; budget is {budget}")
    return AppliedBounds(certificate, float(budget), measured or measured_of(certificate)).rows()


@dataclass(frozen=True, eq=False)
class AppliedBounds:
    """The rows of ``bounds``.

    Parameters
    ----------
    certificate : Certificate
    budget : float
    measured : Measured or None
    """

    certificate: Certificate
    budget: float
    measured: Measured | None = None

    def rows(self) -> list[dict[str, Any]]:
        """What no set can exceed, what a greedy run is worth at least, what a doubling run is, and what is of other runs."""
        sections = (
            self._ceilings,
            self._spectral,
            self._greedy,
            self._nearly_greedy,
            self._doubling,
            self._elementwise,
            self._others,
        )
        return [row for section in sections for row in section()]

    # ------------------------------------------------------------------ what no set can exceed

    def _ceilings(self) -> Rows:
        run, measured = self.certificate.selection, self.measured
        before = np.concatenate([[0.0], run.values])[: run.order.size]
        rates = rates_of(np.diff(run.values, prepend=0.0), run.prices)

        def least(rates: Array, gamma: float, delta: float = 0.0) -> float:
            most = rival_ceiling(before, rates, self.budget, gamma=gamma, delta=delta)
            return float(most.min(initial=np.inf))

        if self.certificate.exact is not None:
            yield self._at_most("all sets", "enumerated", {}, None, self._best(self.budget))
        yield self._at_most(
            "Lemma 4.2.3",
            "spectral",
            {"gamma": self.gamma},
            "spectral",
            float(run.upper_bound(self.budget, self.gamma)),
        )
        yield self._at_most(
            "Lemma 3.3.1",
            "printed",
            {"gamma": self.gamma},
            "spectral",
            least(rates, self.gamma),
            self._not_greedy(),
        )
        if measured is None:
            yield self._unmeasured("Lemma 4.2.3", "measured", says="at most")
            return
        # The best rate was at most that of the step over alpha.
        why, alpha, gamma = self._shared(), measured.alpha, measured.gamma
        names = {"gamma": gamma, "alpha": alpha}
        yield self._at_most("Lemma 4.2.3", "gamma", names, measured.found, least(rates, gamma * alpha), why)
        names = {"gamma": 1.0, "delta": measured.delta, "alpha": alpha}
        most = least(rates / alpha, 1.0, measured.delta) if alpha > 0 else np.inf
        yield self._at_most("Lemma 4.2.3", "delta", names, measured.found, most, why)

    # ------------------------------------------------------------------ at the costs of prefixes

    def _spectral(self) -> Rows:
        gamma, why = self.gamma, self._not_greedy()
        names = {"gamma": gamma}
        yield self._at_least(
            "Theorem 3.3.2",
            "printed",
            names,
            "spectral",
            partial(self._prefix, gamma=gamma),
            why=why,
        )
        yield self._at_least(
            "Theorem 3.3.2",
            "product",
            names,
            "spectral",
            partial(self._product, gamma),
            why=why,
        )
        yield self._at_least(
            "Corollary 5.2.7",
            "OMP, printed",
            names | {"alpha": gamma},
            "spectral",
            partial(self._prefix, gamma=gamma, alpha=gamma),
            why=why,
        )

    def _greedy(self) -> Rows:
        measured = self.measured
        if measured is None:
            yield self._unmeasured("Theorem 4.2.4", "printed")
            return
        why = self._not_greedy(measured.alpha)
        gamma, delta = measured.gamma, measured.delta
        for label, g, d, form in (
            ("printed", gamma, 0.0, "tight"),
            ("delta, tight", 1.0, delta, "tight"),
            ("delta, printed", 1.0, delta, "loose"),
        ):
            yield self._at_least(
                "Theorem 4.2.4",
                label,
                {"gamma": g, "delta": d},
                measured.found,
                partial(self._prefix, gamma=g, delta=d, form=form),
                why=why,
            )
        yield self._at_least(
            "Theorem 4.2.4",
            "product",
            {"gamma": gamma, "delta": 0.0},
            measured.found,
            partial(self._product, gamma),
            why=why,
        )

    def _nearly_greedy(self) -> Rows:
        """Of any order: how greedy it was is measured."""
        measured = self.measured
        if measured is None:
            yield self._unmeasured("Theorem 4.3.3", "corrected")
            return
        gamma, most = measured.gamma, measured.most_elements(self.budget)
        for label, alpha, beta, form in (
            ("alpha, printed", measured.alpha, 0.0, "tight"),
            ("corrected, tight", 1.0, measured.beta, "tight"),
            ("corrected, loose", 1.0, measured.beta, "loose"),
            ("corrected, rate", 1.0, measured.rate_slack, "per_cost"),
            ("printed", 1.0, measured.beta, "printed"),
        ):
            if not np.isfinite(beta):
                yield _row("Theorem 4.3.3", label, why="a group that costs nothing was passed over")
                continue
            yield self._at_least(
                "Theorem 4.3.3",
                label,
                {"gamma": gamma, "alpha": alpha, "beta": beta},
                measured.found,
                partial(self._prefix, gamma=gamma, alpha=alpha, beta=beta, n_rival=most, form=form),
                why=self._shared(),
                status="refuted" if form == "printed" and beta > 0 else "proved",
            )

    # ------------------------------------------------------------------ at every budget

    def _doubling(self) -> Rows:
        measured, gamma, why = self.measured, self.gamma, self._not_doubling()
        for theorem, factor, status in (
            ("Theorem 4.4.4", 6.0, "proved"),
            ("section 4.4", 4.0, "unproved"),
        ):
            yield self._at_least(
                theorem,
                "spectral",
                {"gamma": gamma},
                "spectral",
                partial(doubling_bound, gamma=gamma),
                why=why,
                factor=factor,
                status=status,
            )
        if measured is None:
            yield self._unmeasured("Theorem 4.4.4", "corrected")
            return
        exactly, nearly = self._not_doubling(measured.doubling_alpha), self._not_doubling(0.0, exact=False)
        most = measured.most_elements(self.budget / 6.0)
        alpha, beta = measured.doubling_alpha, measured.doubling_beta
        for form, g, delta, a, b, reason in (
            ("printed", measured.gamma, 0.0, 1.0, 0.0, exactly),
            ("delta, tight", 1.0, measured.delta, 1.0, 0.0, exactly),
            ("delta, printed", 1.0, measured.delta, 1.0, 0.0, exactly),
            ("alpha", measured.gamma, 0.0, alpha, 0.0, nearly),
            ("corrected", measured.gamma, 0.0, 1.0, beta, nearly),
            ("beta, printed", measured.gamma, 0.0, 1.0, beta, nearly),
        ):
            slack: Any = "printed" if form.endswith("printed") else "tight"
            yield self._at_least(
                "Theorem 4.4.4",
                form,
                {"gamma": g, "delta": delta, "alpha": a, "beta": b},
                measured.found,
                partial(doubling_bound, gamma=g, delta=delta, alpha=a, beta=b, n_rival=most, form=slack),
                why=reason,
                factor=6.0,
                status="refuted" if slack == "printed" and b > 0 else "proved",
            )

    def _elementwise(self) -> Rows:
        """Theorem 3.4.3: its proof needs the elementwise ratio, of which the spectral gamma says nothing."""
        measured, first = self.measured, self.certificate.selection.prices[:1]
        small = bool(first.size and self.budget <= 4 * first[0])
        yield self._at_least(
            "Theorem 3.4.3",
            "printed",
            {"gamma": self.gamma},
            "spectral",
            partial(doubling_bound_elementwise, ratio=self.gamma),
            why=self._not_doubling(),
            factor=4.0,
            status="unproved",
        )
        if measured is None:
            yield self._unmeasured("Theorem 3.4.3", "corrected")
            return
        ratio = measured.elementwise
        yield self._at_least(
            "Theorem 3.4.3",
            "corrected, small budget" if small else "corrected",
            {"elementwise": ratio},
            measured.found,
            partial(doubling_bound_elementwise, ratio=ratio, small_budget=small),
            why=self._not_doubling(measured.doubling_alpha),
            factor=4.0,
        )

    # ------------------------------------------------------------------ of other runs

    def _others(self) -> Rows:
        for theorem, form, status, why in (
            (
                "section 4.1",
                "greedy or one group",
                "proved",
                "of a choice for one budget, not of a sequence for all",
            ),
            ("Corollary 5.3.5", "forward, printed", "unproved", "of weights kept within a ball"),
            ("Corollary 5.3.5", "OMP, printed", "refuted", "of weights kept within a ball"),
        ):
            yield _row(theorem, form, status=status, why=why)

    # ------------------------------------------------------------------ where we are

    @property
    def gamma(self) -> float:
        """Of the certificate."""
        return self.certificate.gamma

    def _best(self, cost: float) -> float:
        """The value of the best set within ``cost``; only asked for where all sets were tried."""
        return float(self.certificate.ceiling(cost)) * self.certificate.risk

    def _prefix(self, rival: float, **constants: Any) -> Array:
        """``greedy_bound`` of the prefix within the budget, against a rival of the whole budget."""
        run = self.certificate.selection
        spent = np.concatenate([[0.0], run.costs])[run.n_affordable(self.budget)]
        return greedy_bound(rival, spent, self.budget, **constants)

    def _product(self, gamma: float, rival: float) -> Array:
        run = self.certificate.selection
        paid = np.concatenate([[0.0], run.prices])[: int(run.n_affordable(self.budget)) + 1]
        return np.asarray(product_bound(rival, paid, self.budget, gamma=gamma)[-1])

    def _shared(self) -> str | None:
        shared = self.measured is not None and self.measured.shared
        return "groups share requirements" if shared else None

    def _not_greedy(self, alpha: float | None = None) -> str | None:
        """Why nothing is said of this run as a greedy one; by measured greediness, or by how it was chosen."""
        if self.certificate.selection.schedule == "doubling":
            return "of greedy runs; this one is doubling"
        return self._not_by_rate(alpha)

    def _not_doubling(self, alpha: float | None = None, *, exact: bool = True) -> str | None:
        run = self.certificate.selection
        if run.schedule != "doubling":
            return "of doubling runs; this one is greedy"
        if run.stuck_at is not None:
            return f"doubling got stuck at step {run.stuck_at}"
        if not self.budget > (run.c_min or 0.0):
            return f"the budget must exceed c_min, {run.c_min:g}"
        return self._not_by_rate(alpha) if exact else self._shared()

    def _not_by_rate(self, alpha: float | None) -> str | None:
        if (shared := self._shared()) is not None:
            return shared
        if alpha is None:
            return None if self.certificate.theory else "steps were not chosen by gain per cost"
        return None if alpha >= _EXACTLY else f"a step had only {alpha:.0%} of the best rate"

    # ------------------------------------------------------------------ rows

    def _at_most(
        self,
        theorem: str,
        form: str,
        constants: dict[str, float],
        found: str | None,
        most: float,
        why: str | None = None,
    ) -> dict[str, Any]:
        risk = self.certificate.risk
        return _row(
            theorem,
            form,
            says="at most",
            constants=constants,
            found=found,
            rival_cost=self.budget,
            bound=min(most / risk, 1.0) if risk > 0 else 0.0,
            why=why,
        )

    def _at_least(
        self,
        theorem: str,
        form: str,
        constants: dict[str, float],
        found: str,
        rhs: Callable[[float], Any],
        *,
        why: str | None = None,
        factor: float = 1.0,
        status: str = "proved",
    ) -> dict[str, Any]:
        """``rhs`` is a share of the rival's value, less something."""
        cost, risk = self.budget / factor, self.certificate.risk
        less = 0.0 - float(rhs(0.0))
        known = self.certificate.exact is not None and risk > 0
        return _row(
            theorem,
            form,
            constants=constants,
            found=found,
            rival_cost=cost,
            share=float(rhs(1.0)) + less,
            less=less / risk if risk > 0 else 0.0,
            bound=float(rhs(self._best(cost))) / risk if known else None,
            status=status,
            why=why,
        )

    def _unmeasured(self, theorem: str, form: str, says: str = "at least") -> dict[str, Any]:
        return _row(theorem, form, says=says, why="its constants were not measured")


def _row(
    theorem: str,
    form: str,
    *,
    says: str = "at least",
    constants: dict[str, float] | None = None,
    found: str | None = None,
    rival_cost: float | None = None,
    share: float | None = None,
    less: float | None = None,
    bound: float | None = None,
    status: str = "proved",
    why: str | None = None,
) -> dict[str, Any]:
    return {
        "theorem": theorem,
        "form": form,
        "says": says,
        "constants": dict(constants or {}),
        "found": found,
        "rival_cost": rival_cost,
        "share": share,
        "less": less,
        "bound": bound,
        "status": "estimated" if found == "sampled" and status == "proved" else status,
        "applies": why is None,
        "why_not": why,
    }
