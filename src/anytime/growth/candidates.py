"""Candidates: every op on every input at every site, trained beside a network that does not notice (Algorithm 9).

Beside each cell's output x_k stands the union ``x_c = sum_ij a_ij op_j(sg(z_i))`` of all candidate shortcuts. It is added as
``x_k + sf(x_c)``: nothing forwards, the whole gradient backwards, so that the weights a_ij and the ops' parameters learn
what gradient boosting would, ``<grad_{x_k} L, x_c>``, while the network learns as if they were not there. Cells of one
pattern share their a_ij, whose gradient is then the sum over the copies; ops are separate.

Work is shared: one op is evaluated on all layers of equal shape in a single call, and all that begin with ReLU get one. As
candidates do not hear each other, they need not be there all the time: ops may take turns, and a share of each batch's rows may
be enough for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from anytime.growth.architecture import PART_OP, STEM
from anytime.growth.cells import GrownNetwork
from anytime.growth.ops import make_op

__all__ = ["MODES", "CandidateSet", "CandidateUnion", "add_candidates", "remove_candidates", "sf", "sg"]

MODES = ("isolated", "joint", "gated")


def sg(v: Tensor) -> Tensor:
    """Forwards ``v``, backwards nothing."""
    return v.detach()


class _Silent(torch.autograd.Function):
    """Forwards the first argument untouched, whatever the second holds; backwards the gradient of their sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, v: Tensor) -> Tensor:
        ctx.rows = len(v)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        share = gradient[: ctx.rows]
        if ctx.rows < len(gradient):  # of fewer rows, as many times as strong
            share = share * (len(gradient) / ctx.rows)
        return gradient, share


def sf(x: Tensor, v: Tensor) -> Tensor:
    """``x + (v - sg(v))``: forwards exactly ``x``, backwards both.

    Nothing is subtracted, so that infinite or missing numbers in ``v`` stay there. ``v`` may have fewer rows than ``x``: it
    then belongs to the first of them.
    """
    silent: Tensor = _Silent.apply(x, v)
    return silent


class _Dense(torch.autograd.Function):
    """Forwards its argument, backwards a gradient that is stored as the argument is: others are slow to normalise."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
        ctx.layout = torch.channels_last if last else torch.contiguous_format
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0].contiguous(memory_format=ctx.layout)


class CandidateUnion(nn.Module):
    """All candidate shortcuts into one output: number ``i * len(ops) + j`` is op j on input i."""

    def __init__(
        self,
        inputs: Sequence[str],
        ops: Sequence[str],
        input_shapes: Mapping[str, Sequence[int]],  # shapes by name
        target: Sequence[int],  # shape of the output
        weights: nn.Parameter,  # (I * J,): the a_ij, shared with the other cells of the pattern
        mode: str = "isolated",  # or "joint", or "gated"
        share: float = 1.0,  # of the rows of a batch on which candidates are trained, in isolated mode
    ) -> None:
        super().__init__()
        self.inputs, self.op_names, self.mode, self.share = tuple(inputs), tuple(ops), mode, share
        self.weights = weights
        self.gate = nn.Parameter(torch.zeros(1)) if mode == "gated" else None
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for i, name in enumerate(inputs):
            by_shape.setdefault(tuple(input_shapes[name]), []).append(i)
        self.groups = list(by_shape.values())  # inputs of equal shape
        self.ops = nn.ModuleList(
            nn.ModuleList(make_op(op, shape, target, copies=len(group)) for op in ops)
            for shape, group in by_shape.items()
        )
        for g, group in enumerate(self.groups):  # numbers of the candidates of each op, (J, inputs)
            numbers = torch.tensor(group)[None, :] * len(ops) + torch.arange(len(ops))[:, None]
            self.register_buffer(f"numbers{g}", numbers, persistent=False)
        self.active = slice(0, len(ops))  # ops that are trained in this step
        self.recorded: list[Tensor] | None = None

    @property
    def shortcuts(self) -> list[tuple[str, str]]:
        """(input, op) of each candidate."""
        return [(name, op) for name in self.inputs for op in self.op_names]

    def forward(self, out: Tensor, layers: Mapping[str, Tensor]) -> Tensor:
        """The output with the union added, as the mode says."""
        if self.mode == "isolated":
            if not torch.is_grad_enabled() and self.recorded is None:
                return out  # the result is the same
            n = len(out) if not self.training else max(min(len(out), 2), round(self.share * len(out)))
            return sf(out, self._sum({name: sg(layers[name][:n]) for name in self.inputs}))
        total = self._sum(layers)
        return out + total if self.gate is None else out + self.gate * total

    def _sum(self, layers: Mapping[str, Tensor]) -> Tensor:
        total: Any = 0
        outputs: dict[int, Tensor] = {}
        for g, (group, ops) in enumerate(zip(self.groups, self.ops, strict=True)):
            numbers: Tensor = getattr(self, f"numbers{g}")
            names = [self.inputs[i] for i in group]
            x = layers[names[0]] if len(group) == 1 else torch.cat([layers[name] for name in names], dim=1)
            positive = torch.relu(x)
            for j in range(len(ops))[self.active]:
                op = ops[j]
                values = _Dense.apply(op.after_relu(positive) if hasattr(op, "after_relu") else op(x))
                split = values.unflatten(1, (len(group), -1))
                weights = self.weights.index_select(0, numbers[j]).to(values.dtype)
                weighted = split * weights.reshape(-1, *[1] * (split.ndim - 2))
                total = total + weighted.sum(dim=1)
                if self.recorded is not None:
                    outputs |= {i * len(ops) + j: split[:, c].detach() for c, i in enumerate(group)}
        if self.recorded is not None:
            self.recorded[:] = [outputs[k] for k in sorted(outputs)]
        summed: Tensor = total
        return summed

    def op_of(self, candidate: int) -> tuple[nn.Module, int, int]:
        """The module of a candidate, which copy in it, and of how many."""
        i, j = divmod(candidate, len(self.op_names))
        for group, ops in zip(self.groups, self.ops, strict=True):
            if i in group:
                return ops[j], group.index(i), len(group)
        raise IndexError(f"there are {len(self.shortcuts)} candidates, not {candidate + 1}")


class CandidateSet:
    """The candidates of a network: their weights, by pattern, and what to do with them between steps.

    Parameters
    ----------
    weights : dict from pattern to Parameter
    unions : dict from pattern to list of CandidateUnion
        One union for each cell of the pattern.
    """

    def __init__(self, weights: dict[str, nn.Parameter], unions: dict[str, list[CandidateUnion]]) -> None:
        self.weights, self.unions = weights, unions

    def l1(self, factor: float) -> Tensor:
        """l_extra = lam1 sum |a_ij| over the ops whose turn it is, with lam1 = ``factor`` / (I J) at each site."""
        parts = []
        for name, a in self.weights.items():
            union = self.unions[name][0]
            own = a.unflatten(0, (-1, len(union.op_names)))[:, union.active]
            parts.append(factor / a.numel() * own.abs().sum())  # abs has the subgradient sign(a), 0 at 0
        return torch.stack(parts).sum()

    def turns(self, n: int) -> list[Callable[[], None]]:
        """What to call before each step so that ops take ``n`` turns, every ``n``-th of them in one."""
        return [partial(self.activate, k, n) for k in range(n)] if n > 1 else []

    def activate(self, turn: int = 0, n: int = 1) -> None:
        """Train only the ops of one turn of ``n`` from now on; a site with fewer ops than turns trains all in each."""
        for unions in self.unions.values():
            for union in unions:
                n_ops = len(union.op_names)
                union.active = slice(turn, n_ops, n) if n <= n_ops else slice(0, n_ops)

    @torch.no_grad()
    def shrink(self, rate: float, factor: float) -> None:
        """A proximal step in place of the subgradient: weights move ``rate * lam1`` towards zero, and stay there."""
        for a in self.weights.values():
            step = rate * factor / a.numel()
            a.copy_(a.sign() * (a.abs() - step).clamp(min=0))

    @torch.no_grad()
    def cap(self, largest: float) -> None:
        """No weight beyond ``largest``: the objective is linear, and would let them grow for ever."""
        for a in self.weights.values():
            a.clamp_(-largest, largest)


def add_candidates(
    network: GrownNetwork, *, mode: str = "isolated", share: float = 1.0, first: float | None = None
) -> CandidateSet:
    """Put candidates beside every output of a network that can grow, and give them.

    Parameters
    ----------
    network : GrownNetwork
        Changed in place; ``remove_candidates`` undoes it.
    mode : {"isolated", "joint", "gated"}
        "joint": candidates are heard and hear. "gated": the same times a number that begins at 0.
    share : float
        Share of the rows of a batch that candidates are trained on, in isolated mode.
    first : float, default=None
        All weights at the beginning. None: 1 / (I J).
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    grown = network.grown
    example = next(network.parameters())
    shapes, weights = grown.layer_shapes(), {}
    for pattern in grown.sites():
        n = len(grown.inputs(pattern)) * (1 if pattern == STEM else len(grown.ops))
        start = 1.0 / n if first is None else first
        weights[pattern] = nn.Parameter(torch.full((n,), start))
    unions: dict[str, list[CandidateUnion]] = {pattern: [] for pattern in weights}
    for place, (pattern, module) in enumerate(network.sites()):
        if pattern not in weights:
            continue
        input_shapes: Mapping[str, tuple[int, ...]]
        ops: tuple[str, ...]
        if pattern == STEM:
            input_shapes = {f"part {k}": (len(part),) for k, part in enumerate(grown.parts)}
            target, ops = shapes[0], (PART_OP,)
        else:
            c = place - (network.sites()[0][0] == STEM)
            input_shapes, target, ops = grown.input_shapes(c), shapes[c + 1], grown.ops
        inputs = grown.inputs(pattern)
        union = CandidateUnion(inputs, ops, input_shapes, target, weights[pattern], mode, share)
        module.union = union
        unions[pattern].append(union)
    network.to(device=example.device, dtype=example.dtype)
    return CandidateSet(weights, unions)


def remove_candidates(network: GrownNetwork) -> None:
    """The network as it was before."""
    for _, module in network.sites():
        module.union = None
