"""The obvious way to run a plan: one row, one stage at a time, prices added up by hand."""

from collections.abc import Collection

import numpy as np

from anytime.losses import LINKS
from anytime.plan import Plan


def run_row(
    plan: Plan,
    x: np.ndarray,
    *,
    until: int | None = None,
    budget: int | None = None,
    held: np.ndarray | None = None,
    broken: Collection[int] = (),
) -> tuple[np.ndarray, int, int]:
    """Scores, ticks paid and the last stage done for one row. ``budget`` limits realised ticks, ``held`` are its groups.

    A stage that would read a group that is not there is left out, with all that was bought for it; a row that could not pay
    for that group ends before the stage, as a complete row would. Groups ``broken`` are had from extractors, which fail when
    they are first asked: what was bought before that stays paid, and no more is bought for a stage that is known to need it.
    """
    held = np.ones(plan.costs.n_groups, dtype=bool) if held is None else held
    link = LINKS[plan.link]
    row = x[None, :]
    bought: set[int] = set()
    failed: set[int] = set()
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

    names = plan.costs.costs.names

    def closure(group: int) -> set[int]:
        needed = [names.index(name) for name in plan.costs.costs.requires.get(names[group], ())]
        return {group}.union(*(closure(g) for g in needed if held[g] or not held[group]))

    def pay(groups, evaluation: int = 0) -> str:
        nonlocal paid
        wanted = {c for g in groups for c in closure(int(g))}
        price = sum(int(plan.costs.prices[g]) for g in wanted - bought) + evaluation
        if budget is not None and paid + price > budget:
            return "broke"
        if not held[list(groups)].all() or wanted & failed:
            return "lacking"
        in_order = [names.index(name) for g in groups for name in plan.costs.costs.closure([names[g]])]
        for g in in_order:
            if g in wanted - bought:
                bought.add(g)
                paid += int(plan.costs.prices[g])
                if g in broken:
                    failed.add(g)
                    return "lacking"
        paid += evaluation
        return ""

    def pay_path(block, within: int, evaluation: int) -> str:
        nonlocal paid
        before, had = paid, set(bought)
        if trouble := pay([], evaluation):
            return trouble
        while not trouble:
            available = np.isin(np.arange(plan.costs.n_groups), list(bought - failed))
            group = block.forest.need(x, within, available, plan.costs.table)
            if group < 0:
                return ""
            lost = np.array([bool(closure(g) & failed) for g in range(plan.costs.n_groups)]) & ~available
            known = block.forest.need(x, within, available, plan.costs.table, lost)
            trouble = pay([group] if known < 0 else [group, known])
        if trouble == "lacking" and not broken:
            paid = before
            bought.intersection_update(had)
        else:
            paid -= evaluation  # an evaluation that was not completed is not paid; what was bought is
        return trouble

    s, end = 0, plan.n_stages if until is None else until
    while s < end:
        b, within = plan.locate(s)
        block = plan.blocks[b]
        trouble = ""
        if s in plan.passes:
            trouble = pay(plan.costs.groups_of(plan.passes[s].columns()))
            if not trouble and not plan.passes[s].holds(row, scores()[None, :], link)[0]:
                done = s = s + 1
                continue
        evaluation = int(plan.evaluation_ticks[s])
        if not trouble and block.forest is not None:
            trouble = pay_path(block, within, evaluation)
        elif not trouble:
            trouble = pay(plan.costs.groups_of(block.columns(within)), evaluation)
        if trouble == "lacking" and plan.stage_after_leaving_out(s) > s:
            s = plan.stage_after_leaving_out(s)
            continue
        if trouble:
            break
        output = block.outputs(within, row)[0]
        everything.append(output)
        if plan.replaces is not None and plan.replaces[s]:
            outputs, base = [], np.zeros(plan.n_outputs)
        outputs.append(output)
        done = s = s + 1
        if s - 1 in plan.stops:
            trouble = pay(plan.costs.groups_of(plan.stops[s - 1].columns()))
            if trouble == "broke":
                break
            if not trouble and plan.stops[s - 1].holds(row, scores()[None, :], link)[0]:
                break
    return scores(), paid, done
