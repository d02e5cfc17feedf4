"""The tables of a plan for the C header."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block, LinearBlock
from anytime.export.nodes import plain_trees
from anytime.export.selection import Exported, named, unsupported
from anytime.plan import Plan
from anytime.rules import EntropyRule, MarginRule, OutsideRule, Rule, ScoreRule
from anytime.trees.block import TreeBlock


class Parts:
    """All that is evaluated: the stages of a plan, then the gates of its rules, as rows of shared tables."""

    def __init__(self, what: Exported) -> None:
        self.what = what
        # of each part, its row in the table of its kind, or -1
        self.forest: list[int] = []
        self.linear: list[int] = []
        self.width: list[int] = []  # numbers that each part gives
        self.trees: list[int] = [0]  # end of each part's trees
        self.units: list[float] = []
        self.roots: list[int] = []
        self.tree_output: list[int] = []
        self.nodes: list[tuple[float, int, int, int, int]] = []
        self.leaves: list[int] = []
        self.linears: list[tuple[int, ...]] = []
        self.numbers: dict[str, list[Any]] = {
            name: [] for name in (*("columns", "centres", "coefficients", "intercepts"),)
        }
        for s in range(what.plan.n_stages):
            b, within = what.plan.locate(s)
            block = what.plan.blocks[b]
            if not self._add(block, within, new=within == 0):
                raise unsupported(what, s, named(block), "C")

    def add_gate(self, block: Block, stage: int) -> int:
        """The number of the part that a gate is."""
        if not self._add(block, 0, new=True):
            raise unsupported(self.what, stage, f"has a gate that {named(block)}", "C")
        return len(self.width) - 1

    def _add(self, block: Block, stage: int, new: bool) -> bool:
        """Append a part; whether its kind is known. ``new``: it begins a block."""
        places = {"forest": -1, "linear": -1}
        if isinstance(block, TreeBlock):
            if new:
                self._block_trees = plain_trees(block, self.what.columns)
                self._at = (len(self.nodes), len(self.leaves), len(self.roots))
                self._add_forest(block.width)
            places["forest"] = len(self.units) - 1
            self.trees.append(self._at[2] + int(self._block_trees.stage_start[stage + 1]))
        elif isinstance(block, LinearBlock):
            if new:
                self._at_columns = (len(self.numbers["columns"]), len(self.numbers["centres"]))
                self.numbers["columns"] += block._columns.tolist()
                self.numbers["centres"] += [] if block.centres is None else block.centres.tolist()
            places["linear"] = len(self.linears)
            self._add_linear(block, stage)
        else:
            return False
        for kind, place in places.items():
            getattr(self, kind).append(place)
        if not isinstance(block, TreeBlock):
            self.trees.append(self.trees[-1])
        self.width.append(block.width)
        return True

    def _add_forest(self, width: int) -> None:
        trees = self._block_trees
        node, leaf, _ = self._at
        w = trees.leaves.shape[1]

        def shifted(to: NDArray[np.int64]) -> list[int]:
            return np.where(to >= 0, to + node, ~(leaf + ~to * w)).tolist()  # type: ignore[no-any-return]

        self.units.append(trees.unit)
        self.roots += shifted(trees.roots)
        self.tree_output += ([-1] * trees.roots.size) if w == width and w > 1 else trees.tree_output.tolist()
        self.leaves += trees.leaves.ravel().tolist()
        self.nodes += zip(
            trees.threshold.tolist(), trees.feature.tolist(), shifted(trees.left), shifted(trees.right),
            trees.missing_left.astype(int).tolist(), strict=True,
        )  # fmt: skip

    def _add_linear(self, block: LinearBlock, stage: int) -> None:
        columns, centres = self._at_columns
        table = block.coefficients[stage]
        self.linears.append((
            len(table), columns, -1 if block.centres is None else centres, len(self.numbers["coefficients"]),
            len(self.numbers["intercepts"]),
        ))  # fmt: skip
        self.numbers["coefficients"] += table.ravel().tolist()
        self.numbers["intercepts"] += block.intercepts[stage].tolist()


class Rules:
    """The rules of a plan as rows (kind, below, part, low, high, doubt); gates become parts."""

    def __init__(self, what: Exported, parts: Parts) -> None:
        plan = what.plan
        self.rows: list[tuple[int, int, int, float, float, float]] = []
        self.passes = [self._add(what, plan.passes.get(s), s, parts) for s in range(plan.n_stages)]
        self.stops = [self._add(what, plan.stops.get(s), s, parts) for s in range(plan.n_stages)]

    def _add(self, what: Exported, rule: Rule | None, stage: int, parts: Parts) -> int:
        if rule is None:
            return -1
        if isinstance(rule, MarginRule):
            row = (0, int(rule.below), -1, 0.0, rule.threshold, 0.0)
        elif isinstance(rule, EntropyRule):
            row = (1, int(rule.below), -1, 0.0, rule.threshold, 0.0)
        elif isinstance(rule, OutsideRule):
            row = (2, 0, -1, rule.low, rule.high, 0.0)
        elif isinstance(rule, ScoreRule):
            part = parts.add_gate(rule.block, stage)
            row = (3, int(rule.below), part, 0.0, rule.threshold, rule.doubt)
        else:
            raise unsupported(what, stage, f"has a {type(rule).__name__}", "C")
        self.rows.append(row)
        return len(self.rows) - 1

    def has(self, *kinds: int) -> bool:
        """Whether a rule is of one of these kinds."""
        return any(row[0] in kinds for row in self.rows)

    @property
    def doubts(self) -> bool:
        """Whether a gate looks at margins."""
        return any(row[5] != 0 for row in self.rows)


def needs(plan: Plan) -> tuple[list[int], list[int]]:
    """Where lists of groups begin, and the lists: of each stage, what it needs beyond the stages before.

    With rules three lists of each stage, of the rule before it, of itself and of the rule after it, all in full: rows may have
    passed over what came before.
    """
    closures = [np.array(plan.costs.table.closure(g), dtype=np.intp) for g in range(plan.costs.n_groups)]
    depth = np.array([closure.size for closure in closures])
    ruled = bool(plan.passes or plan.stops)
    start, lists = [0], []
    bought = np.zeros(plan.costs.n_groups, dtype=bool)
    for s in range(plan.n_stages):
        b, within = plan.locate(s)
        own = plan.blocks[b].columns(within)
        none = np.empty(0, dtype=np.int32)
        reads = [plan.passes[s].columns() if s in plan.passes else none] if ruled else []
        reads += [own]
        reads += [plan.stops[s].columns() if s in plan.stops else none] if ruled else []
        for columns in reads:
            groups = plan.costs.groups_of(columns)
            closed = np.unique(np.concatenate([closures[g] for g in groups])) if groups.size else groups
            if not ruled:
                closed = closed[~bought[closed]]
                bought[closed] = True
            lists += closed[np.argsort(depth[closed], kind="stable")].tolist()
            start.append(len(lists))
    return start, lists
