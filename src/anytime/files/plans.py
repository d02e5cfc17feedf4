"""A plan as JSON and arrays, and back.

The constructors of plans and cost tables check what they are given. What is checked here in addition is what they take on trust
from a learner: that columns exist, that types are exact, and that the work of setting up is in proportion to what is stored.
Most kinds of blocks are read by ``block_readers``; here are those that hold other blocks, or a plan.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.acquisition.margin_block import MarginBlock
from anytime.blocks import Block, LinearBlock
from anytime.calibration import Calibration
from anytime.costs import BoundCosts
from anytime.files.block_forms import (
    ARRAYS,
    COUNTED_BY,
    FREE_STAGES,
    FREE_WORK,
    MET_LATER,
    MOST_BLENDED,
    MOST_BLOCKS,
    MOST_BRANCHES,
    MOST_STAGES,
    MOST_TICKS,
    NO_LEARNERS,
    OPTIONAL,
    WORK_RATIO,
    Arrays,
)
from anytime.files.block_readers import BLOCK_READERS, StoredBlock
from anytime.files.reading import ArrayShelf, Fields, bad
from anytime.files.structured_plans import written_structured
from anytime.files.values import read_costs, write_costs, write_number
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rules import (
    EntropyRule,
    FunctionRule,
    LikelyRule,
    MarginRule,
    OutsideRule,
    Rule,
    ScoreRule,
    StopTable,
    ThresholdRule,
)
from anytime.trees.block import TreeBlock

_CALIBRATION = {  # arrays of a plan's calibration: type and dimensions
    "power": ("<f8", 2),
    "floor": ("<f8", 1),
    "stop_thresholds": ("<f8", 2),
    "stop_stages": ("<i8", 1),
    "reach": ("<i8", 1),
    "quantiles": ("<f8", 2),
    "levels": ("<f8", 1),
}


# ---------------------------------------------------------------------- writing


def write_plan(plan: Plan) -> tuple[dict[str, Any], Arrays]:
    """JSON and arrays of a plan."""
    arrays: Arrays = {"plan.column_group": np.asarray(plan.costs.column_group, dtype=np.int32)}
    description = {
        "limit": write_number(plan.limit),
        "costs": write_costs(plan.costs.costs),
        **_write_stages(plan, "plan", arrays),
    }
    if plan.branches:
        description["branches"] = [
            _write_stages(branch, f"plan.branches.{number}", arrays)
            for number, branch in enumerate(plan.branches)
        ]
    return description, arrays


def _write_stages(plan: Plan, prefix: str, arrays: Arrays) -> dict[str, Any]:
    """All of a plan but its prices."""
    arrays[f"{prefix}.base"] = plan.base
    optional = {
        "evaluation_costs": np.float64,
        "expected_costs": np.float64,
        "quality": np.float64,
        "replaces": np.bool_,
        "cost_matrix": np.float64,
    }
    for name, dtype in optional.items():
        if getattr(plan, name) is not None:
            arrays[f"{prefix}.{name}"] = np.asarray(getattr(plan, name), dtype=dtype)
    if plan.stop_table is not None:
        arrays[f"{prefix}.stop_table.margins"] = plan.stop_table.margins
        arrays[f"{prefix}.stop_table.leaving"] = plan.stop_table.leaving
    if plan.calibration is not None:
        for name in _CALIBRATION:
            arrays[f"{prefix}.calibration.{name}"] = getattr(plan.calibration, name)
    if plan.weights is not None:
        rows = [np.asarray(row, dtype=np.float64) for row in plan.weights]
        arrays[f"{prefix}.weights"] = np.concatenate([np.empty(0), *[row.ravel() for row in rows]])
        arrays[f"{prefix}.weights_scaling"] = np.array([row.ndim == 1 for row in rows], dtype=bool)
        if plan.intercepts is not None:
            arrays[f"{prefix}.intercepts"] = np.asarray(plan.intercepts, dtype=np.float64)
    by_budget = plan.calibration is not None and plan.calibration.by_budget
    return {
        **({"calibrated_by_budget": True} if by_budget else {}),
        "link": plan.link,
        "combine": plan.combine,
        "blocks": [
            _write_block(block, f"{prefix}.blocks.{b}", arrays) for b, block in enumerate(plan.blocks)
        ],
        "passes": _write_rules(plan.passes, f"{prefix}.passes", arrays),
        "stops": _write_rules(plan.stops, f"{prefix}.stops", arrays),
    }


def _write_block(block: Block, prefix: str, arrays: Arrays) -> dict[str, Any]:
    if type(block) not in (TreeBlock, LinearBlock, MarginBlock) and block.kind not in MET_LATER:
        block.state()  # says why, where it cannot be saved
        raise TypeError(f"a {type(block).__name__} cannot be saved to a file")
    description, own = block.state()
    if block.kind == "structured":
        description = written_structured(description)
    if block.kind == "stream":
        description["learners"] = _write_block(block.learners, f"{prefix}.learners", arrays)  # type: ignore[attr-defined]
    if block.kind == "blend":
        parts: list[Block] = block.parts  # type: ignore[attr-defined]
        description["parts"] = [
            _write_block(part, f"{prefix}.parts.{k}", arrays) for k, part in enumerate(parts)
        ]
    if block.kind == "log probabilities":
        description["inner"] = _write_block(block.inner, f"{prefix}.inner", arrays)  # type: ignore[attr-defined]
    if block.kind == "member":
        inner: Plan = block.plan  # type: ignore[attr-defined]
        description["plan"] = _write_stages(inner, f"{prefix}.plan", arrays)
        for part in description["plan"]["blocks"]:
            if part["kind"] == "costly" or part.get("architecture", "known") is None:
                raise TypeError(
                    "a member that asks a model of another library, or is a network of one's own, cannot be saved to a file"
                )
    arrays.update({f"{prefix}.{name}": array for name, array in own.items()})
    return {"kind": block.kind, **description}


def _write_rules(rules: Mapping[int, Rule], prefix: str, arrays: Arrays) -> list[dict[str, Any]]:
    out = []
    for stage, rule in sorted(rules.items()):
        entry: dict[str, Any] = {"stage": int(stage), "kind": rule.kind}
        if isinstance(rule, FunctionRule):
            raise TypeError("a FunctionRule holds a Python function and cannot be saved to a file")
        if type(rule) not in (EntropyRule, LikelyRule, MarginRule, OutsideRule, ScoreRule):
            raise TypeError(f"a {type(rule).__name__} cannot be saved to a file")
        if isinstance(rule, OutsideRule):
            entry |= {"low": write_number(rule.low), "high": write_number(rule.high)}
        if isinstance(rule, ThresholdRule | ScoreRule):
            entry |= {"threshold": write_number(rule.threshold), "below": bool(rule.below)}
        if isinstance(rule, LikelyRule):
            entry["floor"] = write_number(rule.floor)
            arrays[f"{prefix}.{stage}.power"] = np.array(rule.power)
        if isinstance(rule, ScoreRule):
            if rule.doubt:
                entry["doubt"] = write_number(rule.doubt)
            entry["block"] = _write_block(rule.block, f"{prefix}.{stage}", arrays)
        out.append(entry)
    return out


# ---------------------------------------------------------------------- reading


def read_plan(
    fields: Fields, arrays: ArrayShelf, n_features: int, names: list[str] | None, file_bytes: int
) -> Plan:
    """Build the plan again, or raise ``BadFileError`` (here) or ``ValueError`` (in a constructor)."""
    bound = _read_bound_costs(fields.inner("costs"), arrays, n_features, names)
    most_stages = min(MOST_STAGES, FREE_STAGES + file_bytes // 4)  # even a stage that does nothing takes time
    branches = [
        _read_stages(branch, f"plan.branches.{number}", arrays, bound, most_stages)
        for number, branch in enumerate(
            fields.each("branches", MOST_BRANCHES) if fields.has("branches") else ()
        )
    ]
    plan = _read_stages(
        fields, "plan", arrays, bound, most_stages, limit=fields.number("limit", 0), branches=branches
    )
    for part in (plan, *branches):
        _check_setting_up(part, fields.where)
    return plan


def _read_stages(
    fields: Fields, prefix: str, arrays: ArrayShelf, costs: BoundCosts, most_stages: int, **more: Any
) -> Plan:
    """What ``_write_stages`` wrote, as a plan with ``costs``."""
    base = arrays.take(f"{prefix}.base", "<f8", 1)
    if not base.size:
        bad(f"array '{prefix}.base'", "is empty")
    table = arrays.take(f"{prefix}.weights", "<f8", 1) if f"{prefix}.weights" in arrays else None
    most_width = base.size if table is None else max(base.size, table.size // base.size)
    blocks = [
        _read_block(block, f"{prefix}.blocks.{b}", arrays, costs, most_width)
        for b, block in enumerate(fields.each("blocks", MOST_BLOCKS))
    ]
    n_stages = sum(block.n_stages for block in blocks)
    if n_stages > most_stages:
        bad(fields.place("blocks"), f"{n_stages} stages, but at most {most_stages} are possible in this file")
    weights = intercepts = None
    if table is not None:
        scaling = arrays.take(f"{prefix}.weights_scaling", "|b1", shape=(n_stages,))
        weights = _cut_table(table, scaling, blocks, base.size, f"{prefix}.weights")
        if f"{prefix}.intercepts" in arrays:
            intercepts = _finite(arrays, f"{prefix}.intercepts", (n_stages, base.size))
    plan = Plan(
        blocks=blocks,
        costs=costs,
        base=base,
        link=fields.text("link", LINKS),
        combine="mean" if fields.text("combine", ("sum", "mean")) == "mean" else "sum",
        weights=weights,
        intercepts=intercepts,
        evaluation_costs=_optional(arrays, f"{prefix}.evaluation_costs", "<f8", n_stages),
        replaces=_optional(arrays, f"{prefix}.replaces", "|b1", n_stages),
        quality=_optional(arrays, f"{prefix}.quality", "<f8", n_stages + 1),
        expected_costs=_optional(arrays, f"{prefix}.expected_costs", "<f8", n_stages),
        stop_table=_read_stop_table(arrays, f"{prefix}.stop_table"),
        calibration=_read_calibration(fields, arrays, f"{prefix}.calibration"),
        cost_matrix=arrays.take(f"{prefix}.cost_matrix", "<f8", 2)
        if f"{prefix}.cost_matrix" in arrays
        else None,
        passes=_read_rules(fields, "passes", prefix, arrays, costs, n_stages),
        stops=_read_rules(fields, "stops", prefix, arrays, costs, n_stages),
        **more,
    )
    fields.done()
    return plan


def count_stages(fields: Fields, arrays: Mapping[str, NDArray[Any]]) -> list[tuple[str, int]]:
    """Kind and number of stages of every block, without building any."""
    out = []
    for b, block in enumerate(fields.each("blocks", MOST_BLOCKS)):
        kind = block.text("kind", ARRAYS)
        own = arrays.get(f"plan.blocks.{b}.{COUNTED_BY[kind]}") if kind in COUNTED_BY else None
        if kind in ("margins", "neighbours", "values"):
            stages = block.integer("n_stages", 0, MOST_STAGES)
        elif kind == "structured":
            stages = len(block.items("stages", MOST_STAGES))
        elif kind in ("costly", "sensor", "dense", "blend", "log probabilities"):
            stages = 1
        elif own is None:
            stages = int(kind in ("linear", "trees"))
        elif kind == "linear tree":
            stages = own.size.bit_length()
        else:
            stages = max(len(own) - 1, 0) if kind == "trees" else len(own)
        out.append((kind, stages))
    return out


def _read_stop_table(arrays: ArrayShelf, name: str) -> StopTable | None:
    if f"{name}.margins" not in arrays:
        return None
    return StopTable(*(arrays.take(f"{name}.{part}", "<f8", 2) for part in ("margins", "leaving")))


def _read_calibration(fields: Fields, arrays: ArrayShelf, name: str) -> Calibration | None:
    if f"{name}.power" not in arrays:
        return None
    own = {part: arrays.take(f"{name}.{part}", dtype, dims) for part, (dtype, dims) in _CALIBRATION.items()}
    return Calibration(
        **own, by_budget=fields.has("calibrated_by_budget") and fields.flag("calibrated_by_budget")
    )


def _optional(arrays: ArrayShelf, name: str, dtype: str, size: int) -> NDArray[Any] | None:
    return arrays.take(name, dtype, shape=(size,)) if name in arrays else None


def _finite(arrays: ArrayShelf, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    array = arrays.take(name, "<f8", shape=shape)
    if not np.isfinite(array).all():
        bad(f"array {name!r}", "holds a number that is not finite")
    return array


# ---------------------------------------------------------------------- reading: costs


def _read_bound_costs(
    fields: Fields, arrays: ArrayShelf, n_features: int, names: list[str] | None
) -> BoundCosts:
    """The prices, with the columns bound to groups as they were when the model was fitted."""
    column_group = arrays.take("plan.column_group", "<i4", shape=(n_features,))
    where = fields.where
    costs = read_costs(fields)
    n_groups = len(costs.names)
    if n_features and (column_group.min() < 0 or column_group.max() >= n_groups):
        bad("array 'plan.column_group'", f"names a group that is not among the {n_groups}")
    counts = np.bincount(column_group, minlength=n_groups)
    position = {} if names is None else {name: j for j, name in enumerate(names)}
    for g, (group, columns) in enumerate(costs.groups.items()):
        if counts[g] != len(columns):
            bad(where, f"group {group!r} lists {len(columns)} columns, but {counts[g]} belong to it")
        for column in columns:
            j = column if isinstance(column, int) else position.get(column)
            if j is not None and not (0 <= j < n_features and column_group[j] == g):
                bad(where, f"group {group!r} lists column {column!r}, which does not belong to it")
    return BoundCosts(costs, column_group)


# ---------------------------------------------------------------------- reading: blocks and rules


def _read_block(fields: Fields, prefix: str, arrays: ArrayShelf, costs: BoundCosts, most_width: int) -> Block:
    kind, n_features = fields.text("kind", ARRAYS), costs.column_group.size
    own = {
        name: arrays.take(f"{prefix}.{name}", *expected)
        for name, expected in ARRAYS[kind].items()
        if name not in OPTIONAL.get(kind, ()) or f"{prefix}.{name}" in arrays
    }
    if "columns" in own and own["columns"].size and own["columns"].max() >= n_features:
        bad(f"array '{prefix}.columns'", f"names a column that is not among the {n_features}")
    read = BLOCK_READERS[kind] if kind in BLOCK_READERS else _READERS_OF_PARTS[kind]
    block = read(StoredBlock(fields, own, prefix, arrays, costs, most_width))
    fields.done()
    return block


def _part(block: StoredBlock, fields: Fields, name: str, most_width: int | None = None) -> Block:
    """A block within another."""
    width = block.most_width if most_width is None else most_width
    return _read_block(fields, f"{block.prefix}.{name}", block.arrays, block.costs, width)


def _stream(block: StoredBlock) -> Block:
    """Learners of a stream, and how their partial sums become answers."""
    from anytime.streaming.plans import AVERAGINGS, StreamBlock

    fields, own = block.fields, block.own
    written = fields.take("learners")
    if isinstance(written, dict) and written.get("kind") in NO_LEARNERS:
        bad(fields.place("learners"), f"a {written['kind']!r} is no learner of a stream")
    learners = _part(block, Fields(written, fields.place("learners")), "learners")
    description = {
        "factor": fields.number("factor"),
        "radius": fields.number("radius", 0) if fields.has("radius") else None,
        "averaging": fields.text("averaging", AVERAGINGS),
    }
    if "centres" in own and own["centres"].size != block.n_features:
        bad(f"array '{block.prefix}.centres'", f"has {own['centres'].size} columns, not {block.n_features}")
    return StreamBlock.from_state(description, own, learners)


def _log_probabilities(block: StoredBlock) -> Block:
    """Logarithms of the probabilities of trees, within an automatic model."""
    from anytime.auto.blend_block import LogProbabilityBlock

    inner = block.fields.inner("inner")
    if inner.text_of("kind") != "trees":
        bad(inner.where, "only trees give logarithms")
    trees = _part(block, inner, "inner", max(block.most_width, 2))
    return LogProbabilityBlock(trees, block.fields.integer("width", 1, block.most_width))


def _blend(block: StoredBlock) -> Block:
    """Single stages of an automatic model, and their shares."""
    from anytime.auto.blend_block import BlendBlock

    parts = []
    for k, part in enumerate(block.fields.each("parts", MOST_BLENDED)):
        if part.text_of("kind") not in ("trees", "dense", "log probabilities"):
            bad(part.where, "a blend holds trees, layers and forests only")
        parts.append(_part(block, part, f"parts.{k}"))
    return BlendBlock(parts, block.own["shares"])


def _member(block: StoredBlock) -> Block:
    """A whole model within an ensemble."""
    from anytime.networks.member import MemberBlock

    inner = block.fields.inner("plan")
    plan = _read_stages(inner, f"{block.prefix}.plan", block.arrays, block.costs, MOST_STAGES)
    if any(part.kind == "costly" or part.detached is not None for part in plan.blocks):
        bad(inner.where, "a member is in the file itself")
    if any(
        part.kind in ("margins", "neighbours", "values") and part.n_stages > FREE_STAGES
        for part in plan.blocks
    ):
        bad(inner.where, f"more than {FREE_STAGES} purchases, for which nothing is stored")
    return MemberBlock.from_state({"transformed": block.fields.flag("transformed")}, block.own, plan)


_READERS_OF_PARTS = {
    "blend": _blend,
    "log probabilities": _log_probabilities,
    "member": _member,
    "stream": _stream,
}


def _read_rules(
    fields: Fields, name: str, prefix: str, arrays: ArrayShelf, costs: BoundCosts, n_stages: int
) -> dict[int, Rule]:
    rules: dict[int, Rule] = {}
    for entry in fields.each(name, n_stages):
        stage = entry.integer("stage", 0, n_stages - 1)
        if stage in rules:
            bad(entry.where, f"stage {stage} has two rules")
        rules[stage] = _read_rule(entry, f"{prefix}.{name}.{stage}", arrays, costs)
        entry.done()
    return rules


def _read_rule(entry: Fields, prefix: str, arrays: ArrayShelf, costs: BoundCosts) -> Rule:
    kind = entry.text("kind", ("margin", "entropy", "likely", "outside", "score"))
    if kind == "outside":
        return OutsideRule(entry.number("low"), entry.number("high"))
    threshold, below = entry.number("threshold"), entry.flag("below")
    if kind == "margin":
        return MarginRule(threshold, below)
    if kind == "entropy":
        return EntropyRule(threshold, below)
    if kind == "likely":
        power = tuple(arrays.take(f"{prefix}.power", "<f8", 1).tolist())
        return LikelyRule(threshold, below, power=power, floor=entry.number("floor", 0))
    gate = entry.inner("block")
    block = _read_block(gate, prefix, arrays, costs, 1)
    if block.detached is not None:
        bad(gate.where, "a gate is in the file itself")
    if block.n_stages != 1 or block.width != 1:
        bad(entry.where, f"a gate has one stage and one output, not {block.n_stages} and {block.width}")
    doubt = entry.number("doubt", 0, np.finfo(np.float64).max) if entry.has("doubt") else 0.0
    return ScoreRule(block, threshold, below, doubt)


def _cut_table(
    table: NDArray[np.float64], scaling: NDArray[np.bool_], blocks: list[Block], n_outputs: int, name: str
) -> list[NDArray[np.float64]]:
    """The rows of a refitted table: row t has t + 1 numbers, or n_outputs for each number that stages 0..t give."""
    if not np.isfinite(table).all():
        bad(f"array {name!r}", "holds a number that is not finite")
    rows, at, kept = [], 0, 0
    widths = [block.width for block in blocks for _ in range(block.n_stages)]
    for t, width in enumerate(widths):
        kept += width
        shape = (t + 1,) if scaling[t] else (kept, n_outputs)
        size = math.prod(shape)
        if at + size > table.size:
            break
        rows.append(table[at : at + size].reshape(shape))
        at += size
    if len(rows) < len(widths) or at != table.size:
        bad(f"array {name!r}", f"{table.size} numbers do not make a table for {len(widths)} stages")
    return rows


# ---------------------------------------------------------------------- reading: what a plan works out later


def _check_setting_up(plan: Plan, where: str) -> None:
    """Work out now what a plan works out at first use, so that a bad price shows here and not in ``predict``.

    A stage's groups are closed under requirements one after the other; that work is bounded first.
    """
    closure = np.array([len(plan.costs.table.closure(g)) for g in range(plan.costs.n_groups)], dtype=np.int64)
    read = sum(groups.size for groups in plan.stage_groups)
    closed = sum(int(closure[groups].sum()) for groups in plan.stage_groups)
    if closed > FREE_WORK + WORK_RATIO * read:
        bad(where, f"{plan.n_stages} stages require too much of {plan.costs.n_groups} groups")
    try:
        ticks, limit = plan.stage_ticks, plan.limit_ticks
    except OverflowError:
        ticks, limit = np.array([MOST_TICKS + 1]), 0
    if limit < 0 or (ticks.size and ticks[-1] > MOST_TICKS):
        bad(where, "evaluating all stages costs more than can be counted")
