"""Which plans can be run: what a ``Plan`` checks when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from anytime.blocks import Block
from anytime.costs import UNLIMITED
from anytime.losses import LINKS

if TYPE_CHECKING:
    from anytime.plan import Plan


def check_plan(plan: Plan) -> None:
    """Raise ``ValueError`` for a plan that could not be run."""
    n_stages, n_outputs = plan.n_stages, plan.n_outputs
    if plan.link not in LINKS:
        raise ValueError(f"no link {plan.link!r}; the links are {', '.join(LINKS)}")
    if plan.combine not in ("sum", "mean"):
        raise ValueError(f"combine must be 'sum' or 'mean', not {plan.combine!r}")
    if plan.base.ndim != 1 or not plan.base.size or not np.isfinite(plan.base).all():
        raise ValueError("base must be a vector of finite scores")
    if LINKS[plan.link].binary and n_outputs != 1:
        raise ValueError(
            f"the link {plan.link!r} is for one output, not {n_outputs}; 'softmax' is for several"
        )
    if np.isnan(plan.limit) or plan.limit < 0:
        raise ValueError(f"limit must be a non-negative number, not {plan.limit}")
    if plan.cost_matrix is not None:
        n_classes = LINKS[plan.link].n_classes(n_outputs) if LINKS[plan.link].classifies else 0
        if np.shape(plan.cost_matrix) != (n_classes, n_classes) or not np.isfinite(plan.cost_matrix).all():
            raise ValueError(f"the cost matrix must hold {n_classes} x {n_classes} finite numbers")
    for b, block in enumerate(plan.blocks):
        if plan.weights is None and block.width != n_outputs:
            raise ValueError(
                f"block {b} gives {block.width} numbers per row, but the plan has {n_outputs} outputs"
            )
        _check_columns(plan, f"block {b}", block)
    if plan.intercepts is not None and plan.weights is None:
        raise ValueError("intercepts belong to a refitted table, but there are no weights")
    lengths = {
        "evaluation_costs": n_stages,
        "replaces": n_stages,
        "quality": n_stages + 1,
        "expected_costs": n_stages,
    }
    for name, length in lengths.items():
        values = getattr(plan, name)
        if values is not None and np.shape(values) != (length,):
            raise ValueError(f"{name} has shape {np.shape(values)}, but the plan needs ({length},)")
    if plan.quality is not None and not np.isfinite(plan.quality).all():
        raise ValueError("quality must be finite")
    if plan.expected_costs is not None:
        expected = np.asarray(plan.expected_costs, dtype=np.float64)
        rising = np.isfinite(expected).all() and (np.diff(expected, prepend=0.0) >= 0).all()
        if not rising or (expected.size and plan.costs.costs.budget_ticks(expected[-1]) == UNLIMITED):
            raise ValueError(
                "expected costs must be finite and not negative, and must not decrease from stage to stage"
            )
    if plan.evaluation_costs is not None:
        costs = np.asarray(plan.evaluation_costs, dtype=np.float64)
        if not np.isfinite(costs).all() or (costs < 0).any():
            raise ValueError("evaluation costs must be finite and not negative")
        if plan.costs.costs.budget_ticks(2 * costs.sum() + plan.costs.costs.total) == UNLIMITED:
            raise ValueError(
                "the evaluation costs are too large relative to the prices to count both exactly; leave one of them out"
            )
    if any(not 0 <= s < n_stages for rules in (plan.passes, plan.stops) for s in rules):
        raise ValueError(f"a rule belongs to a stage that does not exist; the plan has {n_stages} stages")
    for rule in (*plan.passes.values(), *plan.stops.values()):
        rule.check(LINKS[plan.link], n_outputs)
    if plan.stop_table is not None:
        if plan.passes or plan.stops or not LINKS[plan.link].classifies:
            raise ValueError("a table of stops is for classifiers whose plan has no rules of its own")
        if plan.stop_table.margins.shape[1] != n_stages:
            raise ValueError(
                f"the table of stops is for {plan.stop_table.margins.shape[1]} stages, but the plan has {n_stages}"
            )
    link = LINKS[plan.link]
    if plan.calibration is not None and link.classifies:
        n_classes = plan.calibration.power.shape[1]
        if n_classes != link.n_classes(n_outputs):
            raise ValueError(
                f"the calibration is for {n_classes} classes, but the plan has {link.n_classes(n_outputs)}"
            )
    if plan.calibration is not None and plan.calibration.n_stages != n_stages:
        raise ValueError(
            f"the calibration is for {plan.calibration.n_stages} stages, but the plan has {n_stages}"
        )
    if plan.weights is not None:
        _check_weights(plan)
    if plan.branches and (plan.quality is None or plan.weights is not None):
        raise ValueError(
            "a plan with branches needs the quality of its prefixes, and cannot have a refitted table"
        )
    if plan.branches and (plan.passes or plan.stops):
        raise ValueError("a plan with branches cannot have filters or gates")
    for number, branch in enumerate(plan.branches):
        _check_branch(plan, f"branch {number}", branch)


def _check_branch(plan: Plan, name: str, branch: Plan) -> None:
    if branch.costs is not plan.costs or branch.link != plan.link or branch.n_outputs != plan.n_outputs:
        raise ValueError(f"{name} must have the costs, the link and the outputs of the plan")
    if branch.branches or branch.weights is not None or branch.passes or branch.stops:
        raise ValueError(f"{name} must have no branches, refitted table or rules of its own")
    if np.isfinite(branch.limit) or branch.expected_costs is not None or branch.stop_table is not None:
        raise ValueError(f"{name} must have no limit, table of stops or expected costs of its own")
    if not np.array_equal(branch.base, plan.base):
        raise ValueError(f"{name} must begin with the base of the plan")
    if not branch.n_stages or branch.replaces is None or not branch.replaces[0]:
        raise ValueError(f"the first stage of {name} must replace the base")
    if branch.combine != plan.combine or branch.quality is None:
        raise ValueError(f"{name} must combine stages as the plan does, and have a quality")


def _check_columns(plan: Plan, name: str, block: Block) -> None:
    if block.forest is not None:
        if block.forest.n_features != plan.n_features:
            raise ValueError(
                f"{name} has {block.forest.n_features} columns, but the costs have {plan.n_features}"
            )
        return
    for stage in range(block.n_stages):
        columns = block.columns(stage)
        if columns.size and not 0 <= columns.min() <= columns.max() < plan.n_features:
            raise ValueError(f"{name} reads column {columns.max()}, but there are {plan.n_features}")


def _check_weights(plan: Plan) -> None:
    assert plan.weights is not None
    if plan.combine != "sum" or plan.passes or (plan.replaces is not None and np.any(plan.replaces)):
        raise ValueError(
            "a refitted table needs combine='sum', no replacing stage and no filter, because row t uses stages 1..t"
        )
    if len(plan.weights) != plan.n_stages:
        raise ValueError(f"the table has {len(plan.weights)} rows, but the plan has {plan.n_stages} stages")
    if plan.intercepts is not None and np.shape(plan.intercepts) != (plan.n_stages, plan.n_outputs):
        raise ValueError(f"intercepts must have shape ({plan.n_stages}, {plan.n_outputs})")
    for t, row in enumerate(plan.weights):
        if not np.isfinite(row).all():
            raise ValueError(f"the table must be finite; row {t + 1} is not")
        full = (int(plan.output_start[t + 1]), plan.n_outputs)
        scaling = row.ndim == 1 and all(block.width == plan.n_outputs for block in plan.blocks)
        if row.shape != full and not (scaling and row.shape == (t + 1,)):
            raise ValueError(f"row {t + 1} of the table has shape {row.shape}, but needs {full}")
