"""Trees in which every node asks one question, ``x <= threshold``: all that other runtimes know.

The native trees also look up categories, take zeros or a chosen number as missing, and some round what they read to float32.
Every such test is constant between a few bounds, so that a chain of plain questions answers it for every double exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.trees.arrays import LEAF, MISSING_NAN_OR_ZERO, MISSING_NEVER, NUMERIC
from anytime.trees.block import TreeBlock
from anytime.trees.importers.columns import Columns

Array = NDArray[np.float64]
_ZERO = float(np.float32(1e-35))  # up to this a number counts as zero where zero means missing
_ROUNDS_TO_INFINITY = 2.0**128 - 2.0**103  # the least double that float32 cannot hold
_Segments = list[tuple[float, bool]]  # up to which bound, and whether a value there goes left


@dataclass(frozen=True, eq=False)
class PlainTrees:
    """``T`` trees of ``M`` questions with ``L`` leaves. Where a node leads: a question's number, or ``~leaf``.

    Questions of a tree stand together, its root first; so do its leaves. Several may lead to the same place, along ``left`` only.
    """

    stage_start: NDArray[np.int64]  # (S + 1,): first tree of each stage
    roots: NDArray[np.int64]  # (T,)
    node_start: NDArray[np.int64]  # (T + 1,)
    leaf_start: NDArray[np.int64]  # (T + 1,)
    feature: NDArray[np.int64]  # (M,)
    threshold: Array  # (M,)
    missing_left: NDArray[np.bool_]  # (M,): whether NaN goes left
    left: NDArray[np.int64]  # (M,)
    right: NDArray[np.int64]  # (M,)
    # (L, W): what a leaf adds, in units. ``W`` is 1, or the number of outputs where every tree answers for all
    leaves: NDArray[np.int64]
    tree_output: NDArray[np.int64]  # (T,): output that a tree adds to where ``W`` is 1
    unit: float  # a power of two


def plain_trees(block: TreeBlock, columns: Columns | None = None) -> PlainTrees:
    """The trees of a block; ``columns`` says how the model reads rows before its trees do."""
    arrays: dict[str, Any] = dict(block.forest.arrays())
    start = arrays["tree_start"]
    tree = np.repeat(np.arange(start.size - 1), np.diff(start))
    is_leaf = arrays["feature"] == LEAF
    number = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)

    inner = ~is_leaf
    at = start[tree[inner]]
    feature = arrays["feature"][inner].astype(np.int64)
    threshold = arrays["threshold"][inner].astype(np.float64)
    never = arrays["missing"][inner] == MISSING_NEVER  # NaN is then read as 0
    special = (arrays["category_set"][inner] != NUMERIC) | (arrays["missing"][inner] == MISSING_NAN_OR_ZERO)
    if columns is not None and not np.isnan(columns.missing_value):
        special[:] = True
    chains = _Chains(
        tree[inner],
        feature,
        threshold,
        np.where(never, threshold >= 0, arrays["default_left"][inner] != 0),
        number[at + arrays["left"][inner]],
        number[at + arrays["right"][inner]],
    )
    rows = np.flatnonzero(inner)
    for node in np.flatnonzero(special).tolist():
        chains.replace(node, *_asked(arrays, int(rows[node]), columns))
    questions = chains.gathered()
    threshold = questions["threshold"]
    units = np.rint(arrays["value"][is_leaf] * (1.0 / block.forest.unit)).astype(np.int64)
    return PlainTrees(
        stage_start=arrays["stage_start"],
        roots=chains.moved(number[start[:-1]]),
        node_start=np.searchsorted(questions["tree"], np.arange(start.size)),
        leaf_start=np.searchsorted(tree[is_leaf], np.arange(start.size)),
        feature=questions["feature"],
        threshold=_before_rounding(threshold) if arrays["float32_input"] else threshold,
        missing_left=questions["missing_left"],
        left=questions["left"],
        right=questions["right"],
        leaves=units,
        tree_output=arrays["tree_output"].astype(np.int64),
        unit=block.forest.unit,
    )


class _Chains:
    """Questions by number, some of which become several."""

    def __init__(
        self,
        tree: NDArray[np.int64],
        feature: NDArray[np.int64],
        threshold: Array,
        missing_left: NDArray[np.bool_],
        left: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> None:
        self.fields = {"tree": tree, "feature": feature, "threshold": threshold, "missing_left": missing_left}
        self.fields |= {"left": left.copy(), "right": right.copy()}
        self.more: dict[str, list[Any]] = {name: [] for name in self.fields}
        self._place = np.empty(0, dtype=np.int64)  # where each question stands in the end

    def replace(self, node: int, segments: _Segments, missing_left: bool) -> None:
        """Let ``node`` lead left or right by segments, from low to high; the bound of the last is infinite."""
        child = {True: int(self.fields["left"][node]), False: int(self.fields["right"][node])}
        labels = [label for _, label in segments]
        if missing_left not in labels or len(segments) == 1:
            segments = [*segments, (np.inf, missing_left)]  # which only NaN reaches
        path, last = segments[:-1], segments[-1][1]
        unmet = True  # NaN takes the first exit that is its own
        number, added = node, self.fields["tree"].size + len(self.more["tree"])
        for i, (bound, label) in enumerate(path):
            exits = unmet and label == missing_left
            unmet = unmet and not exits
            following = child[last] if i == len(path) - 1 else added + i
            row = {
                "tree": self.fields["tree"][node], "feature": self.fields["feature"][node], "threshold": bound,
                "missing_left": exits, "left": child[label], "right": following,
            }  # fmt: skip
            for name, value in row.items():
                if number == node:
                    self.fields[name][node] = value
                else:
                    self.more[name].append(value)
            number = following

    def gathered(self) -> dict[str, NDArray[Any]]:
        """All questions, tree by tree."""
        fields = {
            name: np.concatenate([array, np.array(self.more[name], dtype=array.dtype)])
            for name, array in self.fields.items()
        }
        order = np.argsort(fields["tree"], kind="stable")
        self._place = np.argsort(order, kind="stable")
        fields |= {name: self.moved(fields[name]) for name in ("left", "right")}
        return {name: array[order] for name, array in fields.items()}

    def moved(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Questions by where they stand in the end; leaves stay."""
        out = numbers.copy()
        out[numbers >= 0] = self._place[numbers[numbers >= 0]]
        return out


def _asked(arrays: dict[str, Any], node: int, columns: Columns | None) -> tuple[_Segments, bool]:
    """Where values go from a node, from low to high, and whether NaN goes left."""
    feature, threshold = int(arrays["feature"][node]), float(arrays["threshold"][node])
    missing_left = bool(arrays["default_left"][node])
    which = int(arrays["category_set"][node])
    if which != NUMERIC:
        start = arrays["category_start"]
        members = arrays["categories"][start[which] : start[which + 1]].tolist()
        inside = bool(arrays["members_left"][node])
        floored = columns is not None and feature in columns.rounded_down
        segments = _by_membership(members, inside, floored)
    else:
        segments = [(threshold, True), (np.inf, False)]
        if arrays["missing"][node] == MISSING_NEVER:
            missing_left = threshold >= 0
        if arrays["missing"][node] == MISSING_NAN_OR_ZERO:
            segments = _overlaid(segments, -_ZERO, _ZERO, missing_left)
    if columns is not None and not np.isnan(columns.missing_value):
        value = float(np.float32(columns.missing_value))
        rounded = bool(arrays["float32_input"])  # bounds are then of rounded numbers
        low, high = (value, value) if rounded else _rounding_to(value)
        segments = _overlaid(segments, low, high, missing_left)
    return _merged(segments), missing_left


def _by_membership(members: Sequence[int], inside: bool, floored: bool) -> _Segments:
    """Runs of categories; a value is cut towards zero, so that -0.5 is category 0 unless values are ``floored``."""
    segments: _Segments = []
    for category in members:
        low = -1.0 if category == 0 and not floored else float(np.nextafter(category, -np.inf))
        segments += [(low, not inside), (float(np.nextafter(category + 1.0, -np.inf)), inside)]
    return [*segments, (np.inf, not inside)]


def _overlaid(segments: _Segments, low: float, high: float, label: bool) -> _Segments:
    """The same with ``label`` for values from ``low`` to ``high``, both included."""
    below = float(np.nextafter(low, -np.inf))
    out = [(bound, side) for bound, side in segments if bound < below]
    at = next(side for bound, side in segments if bound >= below)
    after = [(bound, side) for bound, side in segments if bound > high]
    before = [*out, (below, at)] if low > -np.inf else []
    return [*before, (high, label), *after]


def _merged(segments: _Segments) -> _Segments:
    """Without empty segments and bounds between equals."""
    out: _Segments = []
    for bound, label in segments:
        if out and bound <= out[-1][0]:
            continue
        if out and out[-1][1] == label:
            out.pop()
        out.append((bound, label))
    return out


def _rounding_to(value: float) -> tuple[float, float]:
    """The least and the largest double whose float32 is ``value``."""
    high = float(_before_rounding(np.array([value]))[0])
    if value == -np.inf:
        return value, high
    lower = float(np.nextafter(np.float32(value), np.float32(-np.inf)))
    return float(np.nextafter(_before_rounding(np.array([lower]))[0], np.inf)), high


def _before_rounding(threshold: Array) -> Array:
    """The largest doubles that are not above ``threshold`` once rounded to float32."""
    with np.errstate(over="ignore"):
        below = threshold.astype(np.float32)
        below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf)).astype(np.float64)
        lower = below.astype(np.float64)
        with np.errstate(invalid="ignore"):
            middle = (lower + np.where(np.isinf(above), 2.0**128, above)) / 2
            middle = np.where(middle.astype(np.float32) == below, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isfinite(lower), middle, np.where(lower > 0, np.inf, -_ROUNDS_TO_INFINITY))
