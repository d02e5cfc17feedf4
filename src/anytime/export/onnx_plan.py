"""A plan in ONNX: the scores after some of its stages, with everything that several answers share computed once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from anytime.blocks import Block
from anytime.export.graph import Graph, onnx
from anytime.export.nodes import PlainTrees, plain_trees
from anytime.export.onnx_blocks import block_outputs, margin, rule_holds, zero_per_row
from anytime.export.onnx_trees import stage_units, summed_units
from anytime.export.selection import Exported, full_table, named, unsupported
from anytime.rules import Rule, ScoreRule
from anytime.streaming.plans import StreamBlock
from anytime.trees.block import TreeBlock


class PlanGraph:
    """Writes a plan into a graph, whose value called ``X`` holds (n, d) doubles."""

    def __init__(self, graph: Graph, X: str, what: Exported) -> None:
        self.graph, self.X, self.what, self.plan = graph, X, what, what.plan
        plan = what.plan
        self.ends = sorted(set(what.stages))
        self.cuts = sorted({*self.ends, *(int(plan.fresh_start[end]) for end in self.ends)})
        self._trees: dict[int, PlainTrees] = {}
        self._sums: dict[tuple[int, int, int], str] = {}
        self._histories: dict[tuple[int, int, int], str] = {}
        self._streams: dict[int, _Stream] = {}

    def scores(self) -> dict[int, str]:
        """(n, K) raw scores after each number of stages that a budget reaches."""
        plan = self.plan
        if plan.passes or plan.stops:
            walk = self._walk_weighted if plan.weights is not None else self._walk
            return walk()
        if plan.weights is not None:
            return {end: self._weighted(end) for end in self.ends}
        return {end: self._plain(end) for end in self.ends}

    # ------------------------------------------------------------------ all rows go the same way

    def _plain(self, end: int) -> str:
        """The stages since the last that replaced the answer, added as the engine adds them."""
        plan, graph = self.plan, self.graph
        start = int(plan.fresh_start[end])
        rebased = plan.replaces is not None and bool(np.any(plan.replaces[:end]))
        singles, forests = [], []
        for b, block in enumerate(plan.blocks):
            first, last = max(start, plan.block_start[b]), min(end, plan.block_start[b + 1])
            if first >= last:
                continue
            if isinstance(block, TreeBlock):
                forests.append(self._value(self._added(b, first, last), b))
            else:
                singles += [self._outputs(s) for s in range(first, last)]
        total = graph.sum([*singles, *forests])
        if plan.combine == "mean":
            return graph.add("Div", total, graph.constant(float(end - start)))
        return total if rebased else graph.add("Add", graph.constant(plan.base[None]), total)

    def _added(self, b: int, first: int, last: int) -> str:
        """(n, K) units that stages of a block of trees add; what lies between two cuts is one ensemble."""
        if (b, first, last) not in self._sums:
            cut = max((c for c in self.cuts if first < c < last), default=None)
            if cut is None:
                at = self.plan.block_start[b]
                units = summed_units(
                    self.graph, self.X, self._plain_trees(b), first - at, last - at, self.plan.n_outputs
                )
            else:
                units = self.graph.add("Add", self._added(b, first, cut), self._added(b, cut, last))
            self._sums[b, first, last] = units
        return self._sums[b, first, last]

    def _value(self, units: str, b: int) -> str:
        whole = self.graph.add("Cast", units, to=onnx.TensorProto.DOUBLE)
        return self.graph.add("Mul", whole, self.graph.constant(self._plain_trees(b).unit))

    def _plain_trees(self, b: int) -> PlainTrees:
        block = self.plan.blocks[b]
        assert isinstance(block, TreeBlock)
        if b not in self._trees:
            self._trees[b] = plain_trees(block, self.what.columns)
        return self._trees[b]

    # ------------------------------------------------------------------ one stage

    def _outputs(self, s: int) -> str:
        """(n, width) what stage ``s`` gives."""
        b, within = self.plan.locate(s)
        block = self.plan.blocks[b]
        if isinstance(block, TreeBlock):
            return self._value(self._units(s), b)
        if isinstance(block, StreamBlock):
            if b not in self._streams:
                self._streams[b] = _Stream(self.graph, self.X, block, self._single)
            outputs = self._streams[b].outputs(within)
        else:
            outputs = self._single(self.X, block, within)
        if outputs is None:
            stages = range(self.plan.n_stages)  # an earlier one may be replaced, but is no better
            first = next(t for t in stages if type(self.plan.blocks[self.plan.locate(t)[0]]) is type(block))
            raise unsupported(self.what, first, named(block), "ONNX")
        return outputs

    def _single(self, X: str, block: Block, stage: int) -> str | None:
        if not isinstance(block, TreeBlock):
            return block_outputs(self.graph, X, block, stage)
        trees = plain_trees(block.select([stage]), self.what.columns)
        units = summed_units(self.graph, X, trees, 0, 1, block.width)
        whole = self.graph.add("Cast", units, to=onnx.TensorProto.DOUBLE)
        return self.graph.add("Mul", whole, self.graph.constant(trees.unit))

    def _units(self, s: int) -> str:
        """(n, K) what a stage of trees adds; the stages between two cuts come from one ensemble."""
        b, _ = self.plan.locate(s)
        start, end = self.plan.block_start[b : b + 2]
        at = bisect_right(self.cuts, s)
        first = max(start, self.cuts[at - 1] if at else start)
        last = min(end, self.cuts[at])
        if (b, first, last) not in self._histories:
            trees, width = self._plain_trees(b), self.plan.blocks[b].width
            self._histories[b, first, last] = stage_units(
                self.graph, self.X, trees, first - start, last - start, width
            )
        which = self.graph.constant(s - first, np.int64)
        return self.graph.add("Gather", self._histories[b, first, last], which, axis=1)

    # ------------------------------------------------------------------ refitted tables

    def _weighted(self, end: int) -> str:
        plan, graph = self.plan, self.graph
        assert plan.weights is not None
        table = full_table(plan.weights[end - 1], plan.n_outputs)
        intercept = plan.base if plan.intercepts is None else plan.intercepts[end - 1]
        kept = [self._outputs_cached(s) for s in range(end)]
        history = graph.add("Concat", *kept, axis=1) if len(kept) > 1 else kept[0]
        return graph.add(
            "Add", graph.constant(intercept[None]), graph.add("MatMul", history, graph.constant(table))
        )

    def _outputs_cached(self, s: int) -> str:
        key = (-1, s, s + 1)
        if key not in self._sums:
            self._sums[key] = self._outputs(s)
        return self._sums[key]

    def _walk_weighted(self) -> dict[int, str]:
        """Rows whose stopping rule holds keep the answer of the prefix that they have reached."""
        plan, graph = self.plan, self.graph
        scores, finished, out = "", "", {}
        for s in range(self.ends[-1]):
            new = self._weighted(s + 1)
            scores = graph.add("Where", finished, scores, new) if finished else new
            if s in plan.stops:
                satisfied = self._holds(plan.stops[s], scores, s)
                finished = graph.add("Or", finished, satisfied) if finished else satisfied
            if s + 1 in self.ends:
                out[s + 1] = scores
        return out

    # ------------------------------------------------------------------ rows that stop, or are passed over

    def _walk(self) -> dict[int, str]:
        """Stage by stage, as the engine does it: what a stage does not work on stays as it was."""
        plan, graph = self.plan, self.graph
        state = _State(self)
        finished, out = "", {}
        for s in range(self.ends[-1]):
            works = graph.add("Not", finished) if finished else ""
            if s in plan.passes:
                held = self._holds(plan.passes[s], state.scores(), s)
                works = graph.add("And", works, held) if works else held
            state = state.after(s, works)
            if s in plan.stops:
                satisfied = self._holds(plan.stops[s], state.scores(), s)
                satisfied = graph.add("And", satisfied, works) if works else satisfied
                finished = graph.add("Or", finished, satisfied) if finished else satisfied
            if s + 1 in self.ends:
                out[s + 1] = state.scores()
        return out

    def _holds(self, rule: Rule, scores: str, s: int) -> str:
        graph, n_outputs = self.graph, self.plan.n_outputs
        if isinstance(rule, ScoreRule):
            measure = self._single(self.X, rule.block, 0)
            if measure is None:
                raise unsupported(self.what, s, f"has a gate that {named(rule.block)}", "ONNX")
            if rule.doubt:
                doubt = graph.add("Mul", graph.constant(rule.doubt), margin(graph, scores, n_outputs))
                measure = graph.add("Sub", measure, doubt)
            above = graph.add("Greater", measure, graph.constant(rule.threshold))
            return graph.add("Not", above) if rule.below else above
        held = rule_holds(graph, rule, scores, self.what.link, n_outputs)
        if held is None:
            raise unsupported(self.what, s, f"has a {type(rule).__name__}", "ONNX")
        return held


@dataclass
class _State:
    """The state of rows between two stages: names of tensors, (n, K) or (n, 1). Empty: zero, or False."""

    of: PlanGraph
    sums: str = ""
    trees: dict[int, str] = field(default_factory=dict)
    applied: str = ""
    rebased: str = ""

    def scores(self) -> str:
        plan, graph = self.of.plan, self.of.graph
        base = graph.constant(plan.base[None])
        parts = [self.sums] if self.sums else []
        parts += [self.of._value(units, b) for b, units in sorted(self.trees.items())]
        if not parts:
            return graph.add("Add", zero_per_row(graph, self.of.X), base)
        total = graph.sum(parts)
        if plan.combine == "mean":
            some = graph.add("Greater", self.applied, graph.constant(0.0))
            count = graph.add("Max", self.applied, graph.constant(1.0))
            return graph.add("Where", some, graph.add("Div", total, count), base)
        if self.rebased:
            base = graph.add("Where", self.rebased, graph.constant(0.0), base)
        return graph.add("Add", base, total)

    def after(self, s: int, works: str) -> _State:
        """After stage ``s`` has worked on the rows of ``works`` (n, 1); empty: on all."""
        plan, graph = self.of.plan, self.of.graph
        b, _ = plan.locate(s)
        replaces = plan.replaces is not None and bool(plan.replaces[s])
        one, zero = graph.constant(1.0), graph.constant(0.0)
        true = graph.constant([[True]], np.bool_)

        def kept(old: str, new: str, nothing: str) -> str:
            """``new`` where rows are worked on."""
            if not works:
                return new
            return graph.add("Where", works, new or nothing, old or nothing)

        out = _State(self.of, self.sums, dict(self.trees), self.applied, self.rebased)
        if isinstance(plan.blocks[b], TreeBlock):
            none = graph.constant([[0] * plan.n_outputs], np.int64)
            new, old = self.of._units(s), self.trees.get(b, "")
            out.trees[b] = kept(old, graph.add("Add", old, new) if old and not replaces else new, none)
        else:
            none = graph.constant([[0.0] * plan.n_outputs])
            new = self.of._outputs(s)
            out.sums = kept(
                self.sums, graph.add("Add", self.sums, new) if self.sums and not replaces else new, none
            )
        if replaces:
            out._forget(b, works)
        if plan.combine == "mean":
            count = one if replaces or not self.applied else graph.add("Add", self.applied, one)
            out.applied = kept(self.applied, count, zero)
        elif replaces:
            out.rebased = graph.add("Or", works, self.rebased) if works and self.rebased else works or true
        return out

    def _forget(self, b: int, works: str) -> None:
        """Outputs of other blocks for rows whose answer block ``b`` has replaced."""
        graph, forest = self.of.graph, isinstance(self.of.plan.blocks[b], TreeBlock)
        others = [c for c in self.trees if c != b]
        if not works:
            self.sums = "" if forest else self.sums
            self.trees = {c: units for c, units in self.trees.items() if c == b}
            return
        if forest and self.sums:
            self.sums = graph.add("Where", works, graph.constant(0.0), self.sums)
        for c in others:
            self.trees[c] = graph.add("Where", works, graph.constant(0, np.int64), self.trees[c])


class _Stream:
    """The partial sums of a ``StreamBlock``, one after the other."""

    def __init__(
        self, graph: Graph, X: str, block: StreamBlock, speak: Callable[[str, Block, int], str | None]
    ) -> None:
        self.graph, self.block, self.speak = graph, block, speak
        self.rows = X
        if block.centres is not None and block.scales is not None:
            away = graph.add("Sub", X, graph.constant(block.centres))
            self.rows = graph.or_zero(graph.add("Div", away, graph.constant(block.scales)))
        start = graph.add("Add", zero_per_row(graph, X), graph.constant(block.start[None]))
        self.sum = start
        self.total = "" if block.averaging == "post" else start
        self.answers: list[str] = []

    def outputs(self, stage: int) -> str | None:
        while len(self.answers) <= stage:
            answer = self._step(len(self.answers))
            if answer is None:
                return None
            scaled = self.graph.add("Mul", answer, self.graph.constant(self.block.factor))
            self.answers.append(self.graph.add("Add", self.graph.constant(self.block.offset[None]), scaled))
        return self.answers[stage]

    def _step(self, s: int) -> str | None:
        """The answer after learner ``s``."""
        graph, block = self.graph, self.block
        output = self.speak(self.rows, block.learners, s)
        if output is None:
            return None
        moved = graph.add("Add", self.sum, graph.add("Mul", output, graph.constant(block.steps[s])))
        self.sum = self._projected(moved)
        if block.averaging == "last":
            return self.sum
        before = self.total
        self.total = graph.add("Add", before, self.sum) if before else self.sum
        summed = before if block.averaging == "theory" else self.total
        count = s + 2 if block.averaging == "all" else s + 1
        return graph.add("Div", summed, graph.constant(float(count)))

    def _projected(self, y: str) -> str:
        graph, block = self.graph, self.block
        if block.box is not None:
            y = graph.add(
                "Max", graph.add("Min", y, graph.constant(block.box[:, 1])), graph.constant(block.box[:, 0])
            )
        if block.radius is not None:
            norm = graph.add(
                "Sqrt", graph.add("ReduceSum", graph.add("Mul", y, y), graph.whole(1), keepdims=1)
            )
            far = graph.add("Max", norm, graph.constant(block.radius))
            y = graph.add("Mul", y, graph.add("Div", graph.constant(block.radius), far))
        return y
