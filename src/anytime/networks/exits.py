"""A network cut into blocks with an exit behind each: it can be stopped between blocks, and goes on where it stopped.

``ExitNetwork`` is that network. ``with_exits`` makes one of any module by cutting its forward pass behind layers that are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

__all__ = ["ExitHead", "ExitNetwork", "GridHead", "exit_positions", "with_exits"]

State = Any  # what a block leaves for the next: a tensor, or a tuple of tensors, the first of which the exit reads


def exit_positions(n_units: int, period: int = 1) -> list[int]:
    """Units, counted from 1, behind which exits stand: every ``period``-th, so that the last unit has one.

    >>> exit_positions(16, 2)
    [2, 4, 6, 8, 10, 12, 14, 16]
    >>> exit_positions(82, 14)
    [12, 26, 40, 54, 68, 82]
    """
    if period < 1:
        raise ValueError(
            f"exits stand behind every unit or every few: the period is at least 1, not {period}"
        )
    return [unit for unit in range(1, n_units + 1) if (n_units - unit) % period == 0]


class ExitHead(nn.Module):
    """What an exit says: batch normalisation, ReLU, mean over all positions, a linear layer.

    Parameters
    ----------
    channels : int
    n_outputs : int
    """

    def __init__(self, channels: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm2d(channels), nn.Linear(channels, n_outputs)

    def forward(self, state: State) -> Tensor:
        x = state[0] if isinstance(state, tuple) else state
        return self.linear(torch.relu(self.norm(x)).mean(dim=(2, 3)))


class GridHead(nn.Module):
    """An exit that reads more and so asks less of the blocks: means over a grid of cells, a hidden layer, a linear layer.

    Parameters
    ----------
    channels : int
    n_outputs : int
    side : int
        Of the grid: there are side x side cells.
    hidden : int
    """

    def __init__(self, channels: int, n_outputs: int, side: int = 4, hidden: int = 128) -> None:
        super().__init__()
        self.norm, self.pool = nn.BatchNorm2d(channels), nn.AdaptiveAvgPool2d(side)
        self.enter = nn.Linear(channels * side * side, hidden)
        self.norm2, self.linear = nn.BatchNorm1d(hidden), nn.Linear(hidden, n_outputs)

    def forward(self, state: State) -> Tensor:
        x = state[0] if isinstance(state, tuple) else state
        cells = self.pool(torch.relu(self.norm(x))).flatten(1)
        return self.linear(torch.relu(self.norm2(self.enter(cells))))


class _ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(scale)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (scale,) = ctx.saved_tensors
        return gradients[0] * scale.to(gradients[0].dtype), None


class ExitNetwork(nn.Module):
    """Blocks in a row, and a head behind each of them.

    Parameters
    ----------
    blocks : sequence of modules
        The first takes the input, each other the state that the one before has left.
    heads : sequence of modules
        ExitHead i takes the state after block i and gives (n, K) outputs.
    architecture : dict, default=None
        A name of the registry and the arguments to build the same network again. None: a module of one's own.

    Attributes
    ----------
    n_exits : int
    """

    def __init__(
        self,
        blocks: Iterable[nn.Module],
        heads: Iterable[nn.Module],
        architecture: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.blocks, self.heads = nn.ModuleList(blocks), nn.ModuleList(heads)
        if len(self.blocks) != len(self.heads) or not len(self.blocks):
            raise ValueError(f"{len(self.blocks)} blocks but {len(self.heads)} heads; every block has one")
        self.architecture = architecture

    @property
    def n_exits(self) -> int:
        """Number of exits."""
        return len(self.blocks)

    def forward(self, x: Tensor, trunk: Tensor | None = None, first: int = 0) -> Tensor:
        """(L, n, K) what all exits say.

        Parameters
        ----------
        x : (n, ...)
        trunk : (L,), default=None
            By how much the gradient of each exit's loss is multiplied where it enters the blocks; the heads have all of it.
        first : int, default=0
            The first exit that is asked.
        """
        said = []
        state: State = x
        for i, (block, head) in enumerate(zip(self.blocks, self.heads, strict=True)):
            state = block(state)
            if i >= first:
                said.append(head(state if trunk is None else _scaled(state, trunk[i])))
        return torch.stack(said)

    def advance(self, state: State, first: int, last: int) -> State:
        """The state after blocks ``first`` to ``last``; before block 0 the state is the input."""
        for block in self.blocks[first : last + 1]:
            state = block(state)
        return state

    def head(self, n_exits: int) -> ExitNetwork:
        """The network that ends at exit ``n_exits``; it shares its parameters with this one."""
        architecture = None if self.architecture is None else {**self.architecture, "n_exits": n_exits}
        return ExitNetwork(self.blocks[:n_exits], self.heads[:n_exits], architecture)


def _scaled(state: State, scale: Tensor) -> State:
    if isinstance(state, tuple):
        return (_ScaledGradient.apply(state[0], scale), *state[1:])
    return _ScaledGradient.apply(state, scale)


# ---------------------------------------------------------------------- any module


def with_exits(
    model: nn.Module,
    at: Sequence[str],
    *,
    input_shape: Sequence[int] = (3, 224, 224),
    head: Callable[[Tensor, int], nn.Module] | None = None,
) -> ExitNetwork:
    """Put exits behind named layers of a module, without rewriting it.

    The forward pass is cut behind each of these layers into blocks that can be run one after the other. The module's own
    output is the
    last exit. Layers, weights and buffers are the module's own, not copies.

    Parameters
    ----------
    model : torch.nn.Module
        Its forward takes one tensor and gives (n, K). Outside of its layers it may not branch on values: it is traced.
    at : sequence of str
        Names of layers, as ``model.named_modules()`` tells them, in the order of the forward pass.
    input_shape : sequence of int, default=(3, 224, 224)
        Shape of one input, from which the width of every layer is read.
    head : callable, default=None
        From what a named layer gives for one input, and K, to a module. None: images get normalisation, ReLU, mean over
        positions and a linear layer; sequences of tokens the same over tokens; vectors a linear layer.

    Returns
    -------
    ExitNetwork

    Raises
    ------
    ValueError
        Where a name is not a layer, the order is not that of the forward pass, or the module cannot be traced.
    """
    named = dict(model.named_modules())
    for name in at:
        if name not in named or not name:
            import difflib

            near = (
                difflib.get_close_matches(name, list(named), n=3)
                or [n for n in named if n and "." not in n][:6]
            )
            raise ValueError(f"the module has no layer {name!r}; did you mean {', '.join(map(repr, near))}?")
    if not at or len(set(at)) != len(at):
        raise ValueError("name at least one layer to put an exit behind, each once")
    try:
        graph = _Tracer(at).trace(model)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} cannot be cut into blocks, because its forward pass cannot be traced: {error}"
        ) from error
    blocks = _cut(model, graph, at)
    probe = torch.zeros(2, *input_shape, device=_device_of(model), dtype=_dtype_of(model))
    was_training = model.training
    model.eval()
    with torch.no_grad():
        state: State = probe
        seen = []
        for block in blocks:
            state = block(state)
            seen.append(state[0])
    model.train(was_training)
    n_outputs = int(seen[-1].shape[-1])
    if seen[-1].ndim != 2:
        raise ValueError(f"the module gives shape {tuple(seen[-1].shape)} for two inputs; exits need (n, K)")
    make = _default_head if head is None else head
    heads = [make(x, n_outputs).to(probe.device, probe.dtype) for x in seen[:-1]]
    return ExitNetwork(blocks, [*heads, _First()])


class _Tracer(fx.Tracer):
    """Looks into a module only as far as it has to, to see the named layers: all else may do what it likes."""

    def __init__(self, at: Sequence[str]) -> None:
        super().__init__()
        self.ancestors = {name[:i] for name in at for i in range(len(name)) if name[i] == "."}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self.ancestors


def _cut(model: nn.Module, graph: fx.Graph, at: Sequence[str]) -> list[nn.Module]:
    """The pieces of a forward pass, each from behind one named layer to behind the next; the last one ends with the output."""
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    ends = [
        max((i for i, n in enumerate(nodes) if n.op == "call_module" and n.target == name), default=-1)
        for name in at
    ]
    for name, end in zip(at, ends, strict=True):
        if end < 0:
            raise ValueError(f"the forward pass never calls the layer {name!r}")
    if ends != sorted(ends):
        ordered = [name for _, name in sorted(zip(ends, at, strict=True))]
        raise ValueError(f"name the layers in the order of the forward pass: {ordered}")
    if not isinstance(output, fx.Node):
        raise ValueError("the module must give one tensor")
    ends = [*ends, len(nodes) - 1]
    pieces: list[nn.Module] = []
    first, carried = 0, inputs[:1]
    for end in ends:
        here = nodes[first : end + 1]
        told = nodes[end] if end < len(nodes) - 1 or len(pieces) < len(at) else output
        later = {arg for node in nodes[end + 1 :] for arg in node.all_input_nodes} | (
            {output} if len(pieces) < len(at) else set()
        )
        kept = [n for n in (*carried, *here) if n in later and n is not told]
        leaving = [told, *kept]
        pieces.append(_piece(model, carried, here, leaving, is_first=not pieces))
        first, carried = end + 1, leaving
    return pieces


def _piece(
    model: nn.Module, entering: list[fx.Node], nodes: list[fx.Node], leaving: list[fx.Node], *, is_first: bool
) -> nn.Module:
    graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    if is_first:
        known[entering[0]] = graph.placeholder("x")
    else:
        state = graph.placeholder("state")
        for i, node in enumerate(entering):
            known[node] = graph.call_function(_item, (state, i))
    for node in nodes:
        known[node] = graph.node_copy(node, lambda n: known[n])
    graph.output(tuple(known[node] for node in leaving))
    return fx.GraphModule(model, graph)


def _item(state: tuple[Any, ...], i: int) -> Any:
    return state[i]


class _First(nn.Module):
    """The last block of a module has said it already."""

    def forward(self, state: State) -> Tensor:
        return state[0]


class _TokenHead(nn.Module):
    """Layer normalisation, mean over tokens, a linear layer."""

    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, n_outputs)

    def forward(self, state: State) -> Tensor:
        x = self.norm(state[0])
        return self.linear(x.mean(dim=1) if x.ndim == 3 else x)


def _default_head(x: Tensor, n_outputs: int) -> nn.Module:
    if x.ndim == 4:
        return ExitHead(x.shape[1], n_outputs)
    if x.ndim in (2, 3):
        return _TokenHead(x.shape[-1], n_outputs)
    raise ValueError(f"a layer gives shape {tuple(x.shape)}; give a head of your own for it: head=...")


def _device_of(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _dtype_of(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters()), torch.get_default_dtype())
