"""Blocks from their JSON and arrays, one reader for each kind that holds no other block or plan.

Constructors check what they are given. Readers check in addition what constructors take on trust from a learner: that columns
exist, that choices are known, and that the work of setting up is in proportion to what is stored.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from anytime.acquisition.margin_block import ACQUISITIONS, DISTANCES, NEIGHBOURHOODS, MarginBlock
from anytime.blocks import Block, LinearBlock
from anytime.costs import BoundCosts
from anytime.files.block_forms import (
    FREE_WORK,
    LONGEST_SHAPE,
    MARGIN_WORK,
    MOST_STAGES,
    TREES,
    WORK_RATIO,
    Arrays,
)
from anytime.files.reading import ArrayShelf, Fields, bad, shown
from anytime.files.structured_plans import read_structured
from anytime.trees.block import TreeBlock


@dataclass(frozen=True)
class StoredBlock:
    """What a file holds of a block, and what it has to go with."""

    fields: Fields
    own: Arrays  # its arrays, by their own names
    prefix: str  # of the names of its arrays in the file
    arrays: ArrayShelf
    costs: BoundCosts
    most_width: int

    @property
    def n_features(self) -> int:
        """Number of columns of the model."""
        return self.costs.column_group.size

    @property
    def n_stored(self) -> int:
        """Number of values in all its arrays."""
        return sum(part.size for part in self.own.values())


def _linear(block: StoredBlock) -> Block:
    own = block.own
    if "ends" in own and own["ends"].size > MOST_STAGES:
        bad(
            f"array '{block.prefix}.ends'",
            f"{own['ends'].size} stages, but at most {MOST_STAGES} are possible",
        )
    return LinearBlock.from_state({}, own)


def _linear_tree(block: StoredBlock) -> Block:
    from anytime.linear.classifier_tree import LinearTreeBlock

    size = block.own["centres"].size
    if size != block.n_features:
        bad(f"array '{block.prefix}.centres'", f"is of {size} columns, not {block.n_features}")
    return LinearTreeBlock.from_state({}, block.own)


def _small_nets(block: StoredBlock) -> Block:
    from anytime.streaming.banks.nets import NetBlock

    n_inputs = block.own["hidden"].shape[2]
    if n_inputs != block.n_features + 1:
        bad(f"array '{block.prefix}.hidden'", f"reads {n_inputs - 1} columns, not {block.n_features}")
    return NetBlock.from_state({"activation": block.fields.text("activation")}, block.own)


def _sensor(block: StoredBlock) -> Block:
    from anytime.sensing.block import SensorBlock

    fields, own, m = block.fields, block.own, block.own["columns"].size
    if len(own["message"]) != m + 1 or own["opening"].size != m + 1 or own["centres"].size != m:
        bad(f"block '{block.prefix}'", f"has coefficients that do not go with {m} columns")
    description = {
        "gate": fields.text("gate", ("sigmoid", "relu")),
        "slope": fields.number("slope", 0),
        "whole": fields.flag("whole"),
    }
    return SensorBlock.from_state(description, own)


def _dense(block: StoredBlock) -> Block:
    from anytime.auto.dense_block import DenseBlock

    columns = block.own["columns"]
    if columns.size and columns.min() < 0:
        bad(f"array '{block.prefix}.columns'", "names a column before the first")
    return DenseBlock.from_state({}, block.own)


def _structured(block: StoredBlock) -> Block:
    most = (block.most_width, MOST_STAGES)
    return read_structured(block.fields, block.prefix, block.arrays, block.n_features, most, TREES)


def _trees(block: StoredBlock) -> Block:
    _check_categories(block.own, f"{block.prefix}.")
    return TreeBlock.from_state(_forest(block.fields, block.n_features, block.most_width), block.own)


def _values(block: StoredBlock) -> Block:
    """Purchases by what they are worth: trees, and what is said in their leaves."""
    from anytime.acquisition.value_block import PurchaseValueBlock

    fields, own, costs = block.fields, block.own, block.costs
    m = len(own["sets"])
    if (
        not m
        or own["sets"].shape[1] != costs.n_groups
        or m * m * costs.n_groups > FREE_WORK + WORK_RATIO * block.n_stored
    ):
        bad(f"array '{block.prefix}.sets'", f"{own['sets'].shape} sets of {costs.n_groups} groups")
    description = {
        "width": fields.integer("width", 1, block.most_width),
        "cost_penalty": fields.number("cost_penalty", 0),
        "unanswered": fields.number("unanswered"),
        "of_options": fields.flag("of_options"),
        "n_stages": fields.integer("n_stages", 0, MOST_STAGES),
        "n_label_classes": fields.integer("n_label_classes", 0, block.most_width),
        **_forest(fields, None, 1),
    }
    return PurchaseValueBlock.from_state(description, own, costs)


def _forest(fields: Fields, n_features: int | None, most_width: int, before: str = "") -> dict[str, Any]:
    """What is said of trees beside their arrays; ``before``: how the names of these begin."""
    most, fewest = (2**31 - 2, 1) if n_features is None else (n_features, n_features)
    return {
        f"{before}n_outputs": fields.integer(f"{before}n_outputs", 1, max(most_width, 1)),
        f"{before}n_features": fields.integer(f"{before}n_features", fewest, most),
        f"{before}float32_input": fields.flag(f"{before}float32_input"),
        f"{before}shift": fields.integer(f"{before}shift", -1000, 1000),
    }


def _neighbours(block: StoredBlock) -> Block:
    """Purchases by neighbours: networks, and the rows that they are judged by."""
    from anytime.acquisition.neighbour_block import MOST_FOLDS, NeighbourBlock

    fields, own, prefix = block.fields, block.own, block.prefix
    n_groups, most_width = block.costs.n_groups, block.most_width
    if n_groups**2 + len(own["rows"]) > FREE_WORK + WORK_RATIO * block.n_stored:
        bad(f"array '{prefix}.rows'", f"too small for {n_groups} groups")
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
        _check_trees(own, prefix, "")
        description |= {
            "tree_share": fields.number("tree_share", 0, 1),
            **_forest(fields, own["columns"].size, most_width),
        }
    if fields.has("values_n_outputs"):
        _check_trees(own, prefix, "values_")
        description |= _forest(fields, None, n_groups, "values_")
    return NeighbourBlock.from_state(description, own, block.costs)


def _costly(block: StoredBlock) -> Block:
    """A model that is not in the file: its name, how it is asked, and what it said of probe rows."""
    from anytime.adaptive.blocks import METHODS, CostlyBlock  # imported only if a file holds such a model

    fields, own, prefix = block.fields, block.own, block.prefix
    description = {
        "name": fields.text("name"),
        "n_classes": fields.integer("n_classes", 2, max(block.most_width, 2)),
        "method": fields.text("method", METHODS),
    }
    columns = own["columns"]
    if not columns.size or np.unique(columns).size < columns.size:
        bad(f"array '{prefix}.columns'", "names no column" if not columns.size else "names a column twice")
    if "probe" in own and own["probe"].shape[1] != block.n_features:
        bad(f"array '{prefix}.probe'", f"has rows of {own['probe'].shape[1]} columns, not {block.n_features}")
    if "probe" in own and not len(own["probe"]):
        bad(f"array '{prefix}.probe'", "has no rows, by which any model would be recognised")
    return CostlyBlock.from_state(description, own)


def _network(block: StoredBlock) -> Block:
    """Exits of a network: how to build it, or that the user has to give it, and its weights."""
    from anytime.networks import block_from_state

    fields, own, prefix, n_features = block.fields, block.own, block.prefix, block.n_features
    names = fields.texts("weights")
    weights = {name: block.arrays.take(f"{prefix}.weight.{i}") for i, name in enumerate(names)}
    if len(weights) < len(names):
        bad(fields.place("weights"), "a name stands twice")
    shape = fields.items("input_shape", LONGEST_SHAPE)
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
        "width": fields.integer("width", 1, max(block.most_width, 1)),
        "batch_rows": fields.integer("batch_rows", 1, 2**20),
        "dtype": fields.text("dtype", ("float32", "float64")),
    }
    read: Block = block_from_state({**description, "weights": names}, own, weights)
    return read


def _margins(block: StoredBlock) -> Block:
    """Purchases by margins of similar rows."""
    fields, costs, reference = block.fields, block.costs, block.own["reference"]
    n_stages = fields.integer("n_stages", 0, MOST_STAGES)
    description = {
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
        "n_stages": n_stages,
    }
    work = len(reference) * costs.n_groups + n_stages * block.n_features
    if work > MARGIN_WORK + WORK_RATIO * reference.size:
        bad(
            f"array '{block.prefix}.reference'",
            f"too small for {costs.n_groups} groups of {block.n_features} columns",
        )
    return MarginBlock.from_state(description, block.own, costs)


def _check_trees(own: Arrays, prefix: str, before: str) -> None:
    """Trees that a block may have are there, and are no trap."""
    if missing := [name for name in TREES if before + name not in own]:
        bad(f"array '{prefix}.{before}{missing[0]}'", "missing, but its trees have a part in the block")
    _check_categories({name: own[before + name] for name in TREES}, f"{prefix}.{before}")


def _check_categories(own: Arrays, prefix: str) -> None:
    """Bound what ranking categories takes: a set that many columns use is copied for each of them."""
    start, node_set = own["category_start"], own["category_set"]
    if start.size < 2 or own["feature"].shape != node_set.shape:
        return  # no set, or sizes that the constructor refuses
    if (np.diff(start) < 0).any() or start[0] != 0 or start[-1] != own["categories"].size:
        bad(f"array '{prefix}category_start'", "is not a list of places in 'categories'")
    used = (node_set >= 0) & (node_set < start.size - 1)
    pairs = np.unique(own["feature"][used].astype(np.int64) * start.size + node_set[used])
    copied = int(np.diff(start)[pairs % start.size].sum())
    if copied > FREE_WORK + WORK_RATIO * own["categories"].size:
        bad(f"array '{prefix}category_set'", "large sets of categories are used with too many columns")


BLOCK_READERS: dict[str, Callable[[StoredBlock], Block]] = {
    "costly": _costly,
    "dense": _dense,
    "linear": _linear,
    "linear tree": _linear_tree,
    "margins": _margins,
    "neighbours": _neighbours,
    "network": _network,
    "sensor": _sensor,
    "small nets": _small_nets,
    "structured": _structured,
    "trees": _trees,
    "values": _values,
}
