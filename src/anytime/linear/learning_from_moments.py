"""From second moments to linear stages in the user's units, with what is proved of them: squared loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import LinearBlock
from anytime.greedy import Selection, spectral_gamma
from anytime.greedy.certificate import Certificate, in_units
from anytime.linear.moments import Standardised, submatrix
from anytime.linear.pursuit import GroupedProblem
from anytime.linear.sequencing import Arrangement, Recipe, all_sets, few_sets
from anytime.linear.tuning import fitted_prefixes, order_ridge, tuned

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LearnedSequence:
    """What a learner hands to its estimator."""

    block: LinearBlock  # a stage per group bought, in the user's units
    base: Array  # (K,): scores before the first purchase
    ridges: Array  # (S,): of each prefix
    certificate: Certificate | None
    quality: Array | None = None  # (S + 1,): minus the mean loss on held-out rows

    def with_targets_in(self, centre: Array, spread: Array) -> LearnedSequence:
        """The same, learned from ``(target - centre) / spread``, in the units of the target. Losses stay in deviations."""
        block = self.block
        scaled = LinearBlock(
            block._columns,
            [table * spread for table in block.coefficients],
            intercepts=block.intercepts * spread + centre,
            centres=block.centres,
        )
        return replace(self, block=scaled, base=self.base * spread + centre)


def learn_from_moments(
    source: Standardised,  # of the rows that the order is learned from
    arrangement: Arrangement,
    recipe: Recipe,
    l2_regularization: Any,  # a number, or "auto"
    # of the rows on which it is decided how much each prefix is regularised and where the sequence ends, in the
    # units of ``source``. None: weights are fitted to the rows of ``source``
    held: Standardised | None = None,
    # the moments of some columns, which rise, over all rows: the weights are then fitted to these
    everything: Callable[[NDArray[np.intp]], Standardised] | None = None,
) -> LearnedSequence:
    """Squared loss."""
    source = units = arrange(source, arrangement.columns)
    if l2_regularization == "auto":
        l2_regularization = order_ridge(arrangement.columns.size, source.n_samples)
    sequenced = recipe.sequence(source, arrangement, l2_regularization)
    columns, tables = sequenced.path.columns, sequenced.path.coefficients
    ridges, quality = np.full(len(tables), sequenced.l2_regularization), None
    mean, scale = source.mean[columns], source.scale[columns]
    if held is not None:
        assert everything is not None
        order, whitened = sequenced.selection.order, recipe.whiten == "data"
        held = arrange(held, arrangement.columns)
        refits = tuned(source, held, arrangement.start, order, whitened, l2_regularization, sequenced.path)
        ridges, quality = refits.ridges, -(refits.losses @ source.target_scale**2)
        ends = sequenced.path.ends[: ridges.size]
        columns = columns[: ends[-1]]
        rising = np.sort(arrangement.columns[columns])
        units = arrange(everything(rising), np.searchsorted(rising, arrangement.columns[columns]))
        mean, scale, tables = units.mean, units.scale, fitted_prefixes(units, ends, ridges, whitened)
    per = units.target_scale / scale[:, None]
    block = LinearBlock(
        arrangement.columns[columns],
        [table * per[: len(table)] for table in tables],
        intercepts=np.tile(units.target_mean, (len(tables), 1)),
        centres=mean,
    )
    gamma = partial(
        spectral_gamma,
        source.covariance,
        sequenced.l2_regularization,
        arrangement.start,
        penalty="groups" if recipe.whiten == "data" else "identity",
        criterion=_SPECTRA[recipe.criterion],
    )
    risk = 0.5 * float(source.power.sum())
    problem, selection = sequenced.problem, sequenced.selection
    certificate = replace(
        certified(selection, risk, gamma, arrangement, recipe),
        frontier=partial(_frontier, problem, arrangement) if few_sets(arrangement) else None,
        basis=(problem, selection, arrangement),
    )
    return LearnedSequence(block, units.target_mean, ridges, certificate, quality)


_SPECTRA: dict[str, Any] = {
    "omp": "omp",
    "forward": "forward",
    "norm": "unwhitened",
    "single": "single",
    "forward_single": "single",
}


def arrange(moments: Standardised, columns: NDArray[np.intp]) -> Standardised:
    """The same moments with columns in another order."""
    if np.array_equal(columns, np.arange(columns.size)):
        return moments
    return replace(
        moments,
        covariance=submatrix(moments.covariance, columns),
        correlation=moments.correlation[columns],
        mean=moments.mean[columns],
        scale=moments.scale[columns],
    )


def _frontier(problem: GroupedProblem, arrangement: Arrangement) -> tuple[Array, Array]:
    """Costs at which the best set of groups changes, and its value, by trying all."""
    ticks, values = all_sets(problem, arrangement)
    order = np.lexsort((-values, ticks))
    best = np.maximum.accumulate(values[order])
    better = np.concatenate([[True], best[1:] > best[:-1]])
    return arrangement.costs.costs.amounts(ticks[order][better]), best[better]


def certified(
    selection: Selection,
    risk: float,
    gamma: float | Callable[[], float],
    arrangement: Arrangement,
    recipe: Recipe,
) -> Certificate:
    """The certificate of a run, in units of the prices."""
    costs, prices = arrangement.costs.costs, arrangement.prices()
    by_rate = recipe.cost_aware or np.ptp(prices.prices(np.arange(prices.n_elements))) == 0
    return Certificate(
        in_units(selection, lambda ticks: costs.amounts(np.asarray(ticks))),
        risk,
        gamma,
        costs.unit,
        theory=recipe.theory and bool(by_rate) and not prices.shared,
    )
