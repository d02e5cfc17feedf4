"""The obvious way to run a plan: one row, one stage at a time, prices added up by hand."""

import numpy as np

from anytime.losses import LINKS
from anytime.plan import Plan


def run_row(
    plan: Plan, x: np.ndarray, *, until: int | None = None, budget: int | None = None
) -> tuple[np.ndarray, int, int]:
    """Scores, ticks paid and stages done for one row. ``budget`` is a limit on realised ticks."""
    link = LINKS[plan.link]
    row = x[None, :]
    bought: set[int] = set()
    paid = 0
    outputs: list[np.ndarray] = []  # of the stages that are in the answer, for sum and mean
    everything: list[np.ndarray] = []  # of all stages, for a refitted table
    base = plan.base
    done = 0

    def scores() -> np.ndarray:
        if plan.weights is not None:
            if not everything:
                return plan.base
            start = plan.base if plan.intercepts is None else plan.intercepts[done - 1]
            table = plan.weights[done - 1]
            if table.ndim == 1:
                return start + sum(w * h for w, h in zip(table, everything, strict=True))
            return start + np.concatenate(everything) @ table
        if plan.combine == "mean":
            return np.mean(outputs, axis=0) if outputs else base
        return base + sum(outputs, np.zeros(plan.n_outputs))

    def pay(groups, evaluation: int = 0) -> bool:
        nonlocal paid
        wanted = {c for g in groups for c in plan.costs.table.closure(int(g))} - bought
        price = sum(int(plan.costs.prices[g]) for g in wanted) + evaluation
        if budget is not None and paid + price > budget:
            return False
        bought.update(wanted)
        paid += price
        return True

    def pay_path(block, within: int, evaluation: int) -> bool:
        nonlocal paid
        if not pay([], evaluation):
            return False
        while True:
            available = np.zeros(plan.costs.n_groups, dtype=bool)
            available[list(bought)] = True
            group = block.forest.need(x, within, available, plan.costs.table)
            if group < 0:
                return True
            if not pay([group]):
                paid -= evaluation  # an evaluation that was not completed is not paid; what was bought is
                return False

    for s in range(plan.n_stages if until is None else until):
        b, within = plan.locate(s)
        block = plan.blocks[b]
        if s in plan.passes:
            if not pay(plan.costs.groups_of(plan.passes[s].columns())):
                break
            if not plan.passes[s].holds(row, scores()[None, :], link)[0]:
                done = s + 1
                continue
        evaluation = int(plan.evaluation_ticks[s])
        if block.forest is not None:
            if not pay_path(block, within, evaluation):
                break
        elif not pay(plan.costs.groups_of(block.columns(within)), evaluation):
            break
        output = block.outputs(within, row)[0]
        everything.append(output)
        if plan.replaces is not None and plan.replaces[s]:
            outputs, base = [], np.zeros(plan.n_outputs)
        outputs.append(output)
        done = s + 1
        if s in plan.stops:
            if not pay(plan.costs.groups_of(plan.stops[s].columns())):
                break
            if plan.stops[s].holds(row, scores()[None, :], link)[0]:
                break
    return scores(), paid, done
