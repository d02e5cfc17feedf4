"""A plan as JSON and arrays, and back.

The constructors of plans, blocks and cost tables check what they are given. What is checked here in addition is what they
take on trust from a learner: that columns exist, that types are exact, and that the work of setting up is in proportion to
what is stored.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.acquisition.margin_block import ACQUISITIONS, DISTANCES, NEIGHBOURHOODS, MarginBlock
from anytime.blocks import Block, LinearBlock
from anytime.calibration import Calibration
from anytime.costs import BoundCosts
from anytime.files.reading import ArrayShelf, Fields, bad, shown
from anytime.files.structured_plans import read_structured, written_structured
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

Arrays = dict[str, NDArray[Any]]

MOST_STAGES = 100_000
FREE_STAGES = 4096
MOST_BLOCKS = 10_000
MOST_BRANCHES = 1_000
_MOST_TICKS = 2**62  # of a whole plan: a row that pays for everything must not overflow
_FREE_WORK = 1 << 22  # steps of setting up that any file may ask for, and so many times what it stores:
_WORK_RATIO = 4
_MARGIN_WORK = 1 << 26  # a purchase may be of any group, so each stage looks through all columns


def _arrays(**names: str) -> dict[str, tuple[str, int]]:
    """Type and dimensions of arrays: ``f8x2="weights routes"`` are two tables of floats."""
    kinds = {"f8": "<f8", "f4": "<f4", "i8": "<i8", "i4": "<i4", "u1": "|u1", "b1": "|b1"}
    return {
        name: (kinds[kind], int(dimensions))
        for form, listed in names.items()
        for kind, dimensions in [form.split("x")]
        for name in listed.split()
    }


_TREES = _arrays(
    i8x1="tree_start stage_start category_start",
    i4x1="feature left right category_set categories tree_output",
    f8x1="threshold",
    u1x1="default_left missing members_left",
    f8x2="value",
)
_ARRAYS = {  # of each kind of block
    "small nets": _arrays(f8x3="hidden readout"),
    "stream": _arrays(f8x1="steps start offset centres scales", f8x2="box"),
    "linear": _arrays(i4x1="columns", f8x2="coefficients intercepts", i8x1="ends", f8x1="centres"),
    "linear tree": _arrays(f8x3="weights", f8x2="intercepts routes", f8x1="thresholds centres"),
    "network": _arrays(i4x1="reads", i8x1="ends", f8x1="centre spread temperatures offset unit"),
    "margins": _arrays(
        f8x2="reference", b1x1="positive", f8x1="slopes centres thresholds values", i8x1="start"
    ),
    "neighbours": _arrays(
        i4x1="columns kind source fold labels",
        f8x1="centre scale offset unit",
        f4x1="low high",
        f4x3="w1 w2 w3",
        f4x2="b1 b2 b3 rows values",
    )
    | _TREES,
    "sensor": _arrays(i4x1="columns", f8x2="message", f8x1="opening centres"),
    "costly": _arrays(i4x1="columns", f8x2="calibration probe said"),
    "member": _arrays(i8x1="ends"),
    "dense": _arrays(i4x1="columns kind", f8x1="centre scale weights biases", i4x2="pairs", i8x1="sizes"),
    "blend": _arrays(f8x1="shares"),
    "log probabilities": {},
    "structured": {},  # those of its stages: structured_plans
    "values": _arrays(
        i4x1="labels option_groups",
        f8x2="money cost_matrix",
        i4x2="classes_of steps",
        b1x2="sets",
        i8x2="n_trees",
        f4x1="tables",
    )
    | _TREES,
    "trees": _TREES,
}
# the array whose length says how many stages there are
_COUNTED_BY = {
    "stream": "steps",
    "small nets": "readout",
    "linear": "ends",
    "linear tree": "thresholds",
    "member": "ends",
    "network": "temperatures",
    "trees": "stage_start",
}
# kinds whose rooms are imported by those who have such a model only
_MET_LATER = (
    *("blend", "costly", "dense", "linear tree", "log probabilities", "member", "neighbours", "network"),
    *("sensor", "small nets", "stream", "structured", "values"),
)
_MOST_BLENDED = 100
_OPTIONAL = {
    "stream": ("centres", "scales", "box"),
    "linear": ("ends", "intercepts", "centres"),
    "margins": ("slopes", "centres", "start", "thresholds", "values"),
    "costly": ("calibration", "probe", "said"),
    "neighbours": ("labels", "values", "offset", "unit", *_TREES),
    "values": ("cost_matrix", "option_groups"),
    "network": ("offset", "unit"),
}
_NO_LEARNERS = (  # of a stream
    *(
        "blend",
        "costly",
        "dense",
        "log probabilities",
        "margins",
        "member",
        "neighbours",
        "network",
        "stream",
        "structured",
        "values",
    ),
)
_LONGEST_SHAPE = 8
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
    if type(block) not in (TreeBlock, LinearBlock, MarginBlock) and block.kind not in _MET_LATER:
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
        kind = block.text("kind", _ARRAYS)
        own = arrays.get(f"plan.blocks.{b}.{_COUNTED_BY[kind]}") if kind in _COUNTED_BY else None
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
    kind, n_features = fields.text("kind", _ARRAYS), costs.column_group.size
    own = {
        name: arrays.take(f"{prefix}.{name}", *expected)
        for name, expected in _ARRAYS[kind].items()
        if name not in _OPTIONAL.get(kind, ()) or f"{prefix}.{name}" in arrays
    }
    if "columns" in own and own["columns"].size and own["columns"].max() >= n_features:
        bad(f"array '{prefix}.columns'", f"names a column that is not among the {n_features}")
    block: Block
    if kind == "linear":
        if "ends" in own and own["ends"].size > MOST_STAGES:
            bad(
                f"array '{prefix}.ends'", f"{own['ends'].size} stages, but at most {MOST_STAGES} are possible"
            )
        block = LinearBlock.from_state({}, own)
    elif kind == "linear tree":
        from anytime.linear.classifier_tree import LinearTreeBlock

        if own["centres"].size != n_features:
            bad(f"array '{prefix}.centres'", f"is of {own['centres'].size} columns, not {n_features}")
        block = LinearTreeBlock.from_state({}, own)
    elif kind == "margins":
        description = _read_margin_settings(fields)
        n, stored = len(own["reference"]), own["reference"].size
        if n * costs.n_groups + description["n_stages"] * n_features > _MARGIN_WORK + _WORK_RATIO * stored:
            bad(
                f"array '{prefix}.reference'",
                f"too small for {costs.n_groups} groups of {n_features} columns",
            )
        block = MarginBlock.from_state(description, own, costs)
    elif kind == "neighbours":
        block = _read_neighbours(fields, own, prefix, costs, most_width)
    elif kind == "values":
        block = _read_values(fields, own, prefix, costs, most_width)
    elif kind == "small nets":
        from anytime.streaming.banks.nets import NetBlock

        if own["hidden"].shape[2] != n_features + 1:
            bad(f"array '{prefix}.hidden'", f"reads {own['hidden'].shape[2] - 1} columns, not {n_features}")
        block = NetBlock.from_state({"activation": fields.text("activation")}, own)
    elif kind == "stream":
        block = _read_stream(fields, own, prefix, arrays, costs, most_width)
    elif kind == "sensor":
        from anytime.sensing.block import SensorBlock

        m = own["columns"].size
        if len(own["message"]) != m + 1 or own["opening"].size != m + 1 or own["centres"].size != m:
            bad(f"block '{prefix}'", f"has coefficients that do not go with {m} columns")
        description = {
            "gate": fields.text("gate", ("sigmoid", "relu")),
            "slope": fields.number("slope", 0),
            "whole": fields.flag("whole"),
        }
        block = SensorBlock.from_state(description, own)
    elif kind == "member":
        block = _read_member(fields, own, prefix, arrays, costs)
    elif kind in ("dense", "blend", "log probabilities"):
        block = _read_auto(kind, fields, own, prefix, arrays, costs, most_width)
    elif kind == "costly":
        block = _read_costly(fields, own, prefix, n_features, most_width)
    elif kind == "structured":
        sizes = (most_width, MOST_STAGES)
        block = read_structured(fields, prefix, arrays, n_features, sizes, _ARRAYS["trees"])
    elif kind == "network":
        block = _read_network(fields, own, prefix, arrays, n_features, most_width)
    else:
        _check_categories(own, prefix)
        block = TreeBlock.from_state(_read_forest(fields, n_features, most_width), own)
    fields.done()
    return block


def _read_stream(
    fields: Fields, own: Arrays, prefix: str, arrays: ArrayShelf, costs: BoundCosts, most_width: int
) -> Block:
    """Learners of a stream, and how their partial sums become answers."""
    from anytime.streaming.plans import AVERAGINGS, StreamBlock

    written = fields.take("learners")
    if isinstance(written, dict) and written.get("kind") in _NO_LEARNERS:
        bad(fields.place("learners"), f"a {written['kind']!r} is no learner of a stream")
    within = Fields(written, fields.place("learners"))
    learners = _read_block(within, f"{prefix}.learners", arrays, costs, most_width)
    description = {
        "factor": fields.number("factor"),
        "radius": fields.number("radius", 0) if fields.has("radius") else None,
        "averaging": fields.text("averaging", AVERAGINGS),
    }
    if "centres" in own and own["centres"].size != costs.column_group.size:
        bad(f"array '{prefix}.centres'", f"has {own['centres'].size} columns, not {costs.column_group.size}")
    return StreamBlock.from_state(description, own, learners)


def _read_auto(
    kind: str,
    fields: Fields,
    own: Arrays,
    prefix: str,
    arrays: ArrayShelf,
    costs: BoundCosts,
    most_width: int,
) -> Block:
    """Parts of an automatic model: layers, a blend of single stages, or logarithms of what trees say."""
    from anytime.auto.blend_block import BlendBlock, LogProbabilityBlock
    from anytime.auto.dense_block import DenseBlock

    if kind == "dense":
        if own["columns"].size and own["columns"].min() < 0:
            bad(f"array '{prefix}.columns'", "names a column before the first")
        return DenseBlock.from_state({}, own)
    if kind == "log probabilities":
        inner = fields.inner("inner")
        if inner.text_of("kind") != "trees":
            bad(inner.where, "logarithms are of what trees say")
        return LogProbabilityBlock(
            _read_block(inner, f"{prefix}.inner", arrays, costs, max(most_width, 2)),
            fields.integer("width", 1, most_width),
        )
    parts = []
    for k, part in enumerate(fields.each("parts", _MOST_BLENDED)):
        if part.text_of("kind") not in ("trees", "dense", "log probabilities"):
            bad(part.where, "a blend is of trees, layers and forests")
        parts.append(_read_block(part, f"{prefix}.parts.{k}", arrays, costs, most_width))
    return BlendBlock(parts, own["shares"])


def _read_member(fields: Fields, own: Arrays, prefix: str, arrays: ArrayShelf, costs: BoundCosts) -> Block:
    """A whole model within an ensemble."""
    from anytime.networks.member import MemberBlock

    inner = fields.inner("plan")
    plan = _read_stages(inner, f"{prefix}.plan", arrays, costs, MOST_STAGES)
    if any(block.kind == "costly" or block.detached is not None for block in plan.blocks):
        bad(inner.where, "a member is in the file itself")
    if any(
        block.kind in ("margins", "neighbours", "values") and block.n_stages > FREE_STAGES
        for block in plan.blocks
    ):
        bad(inner.where, f"more than {FREE_STAGES} purchases, for which nothing is stored")
    return MemberBlock.from_state({"transformed": fields.flag("transformed")}, own, plan)


def _read_values(fields: Fields, own: Arrays, prefix: str, costs: BoundCosts, most_width: int) -> Block:
    """Purchases by what they are worth: trees, and what is said in their leaves."""
    from anytime.acquisition.value_block import PurchaseValueBlock

    m, stored = len(own["sets"]), sum(part.size for part in own.values())
    if (
        not m
        or own["sets"].shape[1] != costs.n_groups
        or m * m * costs.n_groups > _FREE_WORK + _WORK_RATIO * stored
    ):
        bad(f"array '{prefix}.sets'", f"{own['sets'].shape} sets of {costs.n_groups} groups")
    description = {
        "width": fields.integer("width", 1, most_width),
        "cost_penalty": fields.number("cost_penalty", 0),
        "unanswered": fields.number("unanswered"),
        "of_options": fields.flag("of_options"),
        "n_stages": fields.integer("n_stages", 0, MOST_STAGES),
        "n_label_classes": fields.integer("n_label_classes", 0, most_width),
        **_read_forest(fields, None, 1),
    }
    return PurchaseValueBlock.from_state(description, own, costs)


def _read_forest(fields: Fields, n_features: int | None, most_width: int) -> dict[str, Any]:
    """What is said of trees beside their arrays."""
    most, fewest = (2**31 - 2, 1) if n_features is None else (n_features, n_features)
    return {
        "n_outputs": fields.integer("n_outputs", 1, max(most_width, 1)),
        "n_features": fields.integer("n_features", fewest, most),
        "float32_input": fields.flag("float32_input"),
        "shift": fields.integer("shift", -1000, 1000),
    }


def _read_neighbours(fields: Fields, own: Arrays, prefix: str, costs: BoundCosts, most_width: int) -> Block:
    """Purchases by neighbours: networks, and the rows that they are judged by."""
    from anytime.acquisition.neighbour_block import MOST_FOLDS, NeighbourBlock

    n, stored = len(own["rows"]), sum(part.size for part in own.values())
    if costs.n_groups**2 + n > _FREE_WORK + _WORK_RATIO * stored:
        bad(f"array '{prefix}.rows'", f"too small for {costs.n_groups} groups")
    if ("labels" in own) == ("values" in own):
        bad(f"block '{prefix}'", "reference rows have either labels or values")
    if len(own["b3"]) > MOST_FOLDS:  # each takes room in memory, however few units it has
        bad(f"array '{prefix}.b3'", f"{len(own['b3'])} networks, but there are at most {MOST_FOLDS}")
    if own["b3"].shape[1] > most_width:
        bad(f"array '{prefix}.b3'", f"{own['b3'].shape[1]} outputs, but the plan has {most_width}")
    description = {
        "cost_penalty": fields.number("cost_penalty", 0),
        "confidence": fields.number("confidence", 0, 1) if fields.has("confidence") else None,
        "n_neighbors": fields.integer("n_neighbors", 1, 2**31),
        "price_power": fields.number("price_power", 0, 1),
        "look_ahead": fields.integer("look_ahead", 0, 64),
        "n_stages": fields.integer("n_stages", 0, MOST_STAGES),
    }
    if fields.has("tree_share"):
        if missing := [name for name in _TREES if name not in own]:
            bad(f"array '{prefix}.{missing[0]}'", "missing, but trees have a share of the answers")
        _check_categories(own, prefix)
        n_inputs = own["columns"].size
        description |= {
            "tree_share": fields.number("tree_share", 0, 1),
            **_read_forest(fields, n_inputs, most_width),
        }
    return NeighbourBlock.from_state(description, own, costs)


def _read_costly(fields: Fields, own: Arrays, prefix: str, n_features: int, most_width: int) -> Block:
    """A model that is not in the file: its name, how it is asked, and what it said of probe rows."""
    from anytime.adaptive.blocks import METHODS, CostlyBlock  # met only by those who have such a model

    description = {
        "name": fields.text("name"),
        "n_classes": fields.integer("n_classes", 2, max(most_width, 2)),
        "method": fields.text("method", METHODS),
    }
    columns = own["columns"]
    if not columns.size or np.unique(columns).size < columns.size:
        bad(f"array '{prefix}.columns'", "names no column" if not columns.size else "names a column twice")
    if "probe" in own and own["probe"].shape[1] != n_features:
        bad(f"array '{prefix}.probe'", f"has rows of {own['probe'].shape[1]} columns, not {n_features}")
    if "probe" in own and not len(own["probe"]):
        bad(f"array '{prefix}.probe'", "has no rows, by which any model would be recognised")
    return CostlyBlock.from_state(description, own)


def _read_network(
    fields: Fields, own: Arrays, prefix: str, arrays: ArrayShelf, n_features: int, most_width: int
) -> Block:
    """Exits of a network: how to build it, or that the user has to give it, and its weights."""
    from anytime.networks import block_from_state

    names = fields.texts("weights")
    weights = {name: arrays.take(f"{prefix}.weight.{i}") for i, name in enumerate(names)}
    if len(weights) < len(names):
        bad(fields.place("weights"), "a name stands twice")
    shape = fields.items("input_shape", _LONGEST_SHAPE)
    if (
        not shape
        or any(type(size) is not int or size < 1 for size in shape)
        or math.prod(shape) != n_features
    ):
        bad(fields.place("input_shape"), f"{shown(shape)} does not make {n_features} columns")
    if own["reads"].size and not 0 <= own["reads"].min() <= own["reads"].max() < n_features:
        bad(f"array '{prefix}.reads'", f"names a column that is not among the {n_features}")
    description = {
        "architecture": fields.inner("architecture").rest() if fields.has("architecture") else None,
        "module": fields.text("module"),
        "input_shape": shape,
        "width": fields.integer("width", 1, max(most_width, 1)),
        "batch_rows": fields.integer("batch_rows", 1, 2**20),
        "dtype": fields.text("dtype", ("float32", "float64")),
    }
    block: Block = block_from_state({**description, "weights": names}, own, weights)
    return block


def _read_margin_settings(fields: Fields) -> dict[str, Any]:
    return {
        "classifier": fields.text("classifier", ("linear", "steps")),
        "offset": fields.number("offset"),
        "cost_penalty": fields.number("cost_penalty", 0),
        "confidence": fields.number("confidence", 0, 1) if fields.has("confidence") else None,
        "neighbourhood": fields.text("neighbourhood", NEIGHBOURHOODS),
        "n_neighbors": fields.integer("n_neighbors", 1, 2**31),
        "radius": fields.number("radius", 0),
        "refresh": fields.flag("refresh"),
        "distance": fields.text("distance", DISTANCES),
        "acquisition": fields.text("acquisition", ACQUISITIONS),
        "seed": fields.integer("seed", 0, 2**63 - 1),
        "n_stages": fields.integer("n_stages", 0, MOST_STAGES),
    }


def _check_categories(own: Arrays, prefix: str) -> None:
    """Bound what ranking categories takes: a set that many columns use is copied for each of them."""
    start, node_set = own["category_start"], own["category_set"]
    if start.size < 2 or own["feature"].shape != node_set.shape:
        return  # no set, or sizes that the constructor refuses
    if (np.diff(start) < 0).any() or start[0] != 0 or start[-1] != own["categories"].size:
        bad(f"array '{prefix}.category_start'", "is not a list of places in 'categories'")
    used = (node_set >= 0) & (node_set < start.size - 1)
    pairs = np.unique(own["feature"][used].astype(np.int64) * start.size + node_set[used])
    copied = int(np.diff(start)[pairs % start.size].sum())
    if copied > _FREE_WORK + _WORK_RATIO * own["categories"].size:
        bad(f"array '{prefix}.category_set'", "large sets of categories are used with too many columns")


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
    if closed > _FREE_WORK + _WORK_RATIO * read:
        bad(where, f"{plan.n_stages} stages require too much of {plan.costs.n_groups} groups")
    try:
        ticks, limit = plan.stage_ticks, plan.limit_ticks
    except OverflowError:
        ticks, limit = np.array([_MOST_TICKS + 1]), 0
    if limit < 0 or (ticks.size and ticks[-1] > _MOST_TICKS):
        bad(where, "evaluating all stages costs more than can be counted")
