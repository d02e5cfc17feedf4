"""A plan of trees on held-out rows: its stages sorted by what they gain per cost, and its quality noted."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.engine import Run
from anytime.losses import loss_for
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.ordering import OrderingLog, order_stages

_MOST_NUMBERS = 40_000_000  # stages x rows x outputs: 320 MB
_FEWEST_ROWS = 200


def ordered(plan: Plan, X: Array, target: NDArray[Any], weight: Array | None) -> tuple[Plan, OrderingLog]:
    """The plan of one block with its stages in the best order found, and how that was found.

    ``X`` (n, d) is as the trees read it; the ``target`` is (n,) class numbers or targets, or (n, K) targets.
    """
    most = max(_FEWEST_ROWS, _MOST_NUMBERS // (plan.n_stages * plan.n_outputs))
    if len(X) > most:
        chosen = np.random.RandomState(0).permutation(len(X))[:most]
        X, target, weight = X[chosen], target[chosen], None if weight is None else weight[chosen]
    block = plan.blocks[0]
    assert isinstance(block, TreeBlock)
    order, log = order_stages(
        block.forest.stage_outputs(X, np.arange(plan.n_stages)),
        base=plan.base,
        combine=plan.combine,
        loss=loss_for(plan.link),
        y=target,
        sample_weight=weight,
        needs=np.array([plan.costs.closure(groups) for groups in plan.stage_groups]),
        prices=plan.costs.prices,
        evaluation=plan.evaluation_ticks,
    )
    evaluation = None if plan.evaluation_costs is None else plan.evaluation_costs[order]
    plan = replace(plan, blocks=[block.select(order)], evaluation_costs=evaluation)
    return judged(plan, X, target, weight), log


def judged(
    plan: Plan, X: Array, target: NDArray[Any] | None, weight: Array | None, error_weight: Array | None = None
) -> Plan:
    """The plan with what validation rows pay on average, and, where their truth is known, its quality: minus their loss.

    ``error_weight`` (n,): weights of the rows in the loss, where they differ from those in the mean cost.
    """
    error_weight = weight if error_weight is None else error_weight
    run, loss = Run(plan, X, metered=True), loss_for(plan.link)
    means, quality = np.empty(plan.n_stages), np.empty(plan.n_stages + 1)
    for stage in range(plan.n_stages + 1):
        run.advance(stage)
        assert run.ledger is not None
        if stage:
            means[stage - 1] = np.average(run.ledger.paid, weights=weight)
        if target is not None:
            quality[stage] = -loss(run.scores(), target, error_weight)
    paid = np.maximum.accumulate(means) * plan.costs.costs.amount(1)  # a mean may fall by a last digit
    return replace(plan, expected_costs=paid, quality=None if target is None else quality)
