"""Exits for any module: its forward pass is cut after named layers."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any

import torch
from torch import Tensor, fx, nn

from anytime.networks.exits import ExitHead, ExitNetwork, State

__all__ = ["with_exits"]


def with_exits(
    model: nn.Module,
    at: Sequence[str],
    *,
    input_shape: Sequence[int] = (3, 224, 224),
    head: Callable[[Tensor, int], nn.Module] | None = None,
) -> ExitNetwork:
    """Add exits after named layers of a module, without rewriting it.

    The forward pass is cut after each of these layers into blocks that can run one after the other. The module's own
    output is the last exit. Layers, weights and buffers are the module's own, not copies.

    Parameters
    ----------
    model : torch.nn.Module
        Its forward takes one tensor and returns (n, K); further arguments keep their defaults. It is traced down to the named
        layers, and must not branch on values there. If it behaves differently in training and in evaluation (for example, with
        auxiliary outputs), the exits follow evaluation.
    at : sequence of str
        Names of layers as in ``model.named_modules()`` ("layer2.1", "blocks.3"), in the order of the forward pass. If a layer
        is called several times, the exit follows its last call.
    input_shape : sequence of int, default=(3, 224, 224)
        Shape of one input, which determines the width of every layer.
    head : callable, default=None
        Function of the output of a named layer for two inputs, and K; it returns a module that takes the state, a tuple with
        that output as first entry. None: images get normalisation, ReLU, mean over positions and a linear layer; tokens, and
        images with channels last, layer normalisation, the mean and a linear layer; vectors the same without a mean.

    Returns
    -------
    ExitNetwork

    Raises
    ------
    ValueError
        If a name is not a layer, the order is not that of the forward pass, a layer mixes the rows of a batch, or the module
        cannot be traced.

    Examples
    --------
    >>> import torch
    >>> from anytime.networks import with_exits
    >>> layers = [torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)]
    >>> network = with_exits(torch.nn.Sequential(*layers), at=["1", "3"], input_shape=(8,))
    >>> network(torch.zeros(5, 8)).shape
    torch.Size([3, 5, 3])
    """
    _check_layers(model, at)
    _check_inputs(model)
    graph = _traced(model, at)
    device, dtype = _device_of(model), _dtype_of(model)
    with _mode(model, training=False), torch.no_grad():
        few, more = (torch.zeros(n, *input_shape, device=device, dtype=dtype) for n in (2, 3))
        watched = _Watched(model, graph)
        values = watched.values(few), watched.values(more)
    blocks, exit_inputs = _cut(model, graph, at, values, watched.modified)
    output = exit_inputs[-1]
    if output.ndim != 2:
        raise ValueError(
            f"the module returns shape {tuple(output.shape)} for two inputs; an output must be of shape (n, K)"
        )
    make = _default_head if head is None else head
    heads = [make(x, int(output.shape[1])).to(device, dtype) for x in exit_inputs[:-1]]
    return ExitNetwork(blocks, [*heads, _First()])


def _check_layers(model: nn.Module, at: Sequence[str]) -> None:
    named = dict(model.named_modules())
    if isinstance(at, str) or not at or len(set(at)) != len(at):
        raise ValueError("at must be a list of at least one layer to put an exit after, each named once")
    for name in at:
        if name not in named or not name:
            near = difflib.get_close_matches(name, list(named), n=3)
            near = near or [layer for layer in named if layer and "." not in layer][:6]
            raise ValueError(f"the module has no layer {name!r}; did you mean {', '.join(map(repr, near))}?")


def _check_inputs(model: nn.Module) -> None:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    inputs = inspect.signature(model.forward).parameters.values()
    needed = [p.name for p in inputs if p.default is p.empty and p.kind in (*kinds, p.KEYWORD_ONLY)]
    if len(needed) > 1 or not any(p.kind in (*kinds, p.VAR_POSITIONAL) for p in inputs):
        raise ValueError(
            f"the forward of {type(model).__name__} needs {', '.join(needed) or 'no input'}, and exits go on from one tensor; "
            "wrap it in a module whose forward takes one"
        )


# ---------------------------------------------------------------------- the forward pass as a graph


class _Tracer(fx.Tracer):
    """Looks into a module only as far as it has to, to see the named layers: all else may do what it likes."""

    def __init__(self, at: Sequence[str]) -> None:
        super().__init__()
        self.ancestors = {name[:i] for name in at for i in range(len(name)) if name[i] == "."}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name not in self.ancestors

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The first input is traced; all others keep their defaults."""
        return root_fn, [self.root, self.create_proxy("placeholder", "x", (), {})]


def _traced(model: nn.Module, at: Sequence[str]) -> fx.Graph:
    """The forward pass. What differs between training and evaluation is looked up when it runs.

    Where the two take different ways, as with auxiliary outputs in training, it is that of evaluation.
    """
    try:
        with _mode(model, training=False):
            evaluation = _Tracer(at).trace(model)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} cannot be cut into blocks, because its forward pass cannot be traced: {error}"
        ) from error
    try:
        with _mode(model, training=True):
            training = _Tracer(at).trace(model)
        return _in_both_modes(evaluation, training)
    except Exception:  # whatever a module does in training is not needed to run it
        return evaluation


class _OtherWayError(Exception):
    """Two forward passes do not take the same way."""


def _in_both_modes(evaluation: fx.Graph, training: fx.Graph) -> fx.Graph:
    """One graph of two that differ in constants only, such as whether to drop out."""
    merged = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    partners: dict[fx.Node, fx.Node] = {}

    def both(a: Any, b: Any) -> Any:
        if isinstance(a, fx.Node) and partners.get(a) is b:
            return copies[a]
        if isinstance(a, (tuple, list)) and type(a) is type(b) and len(a) == len(b):
            return type(a)([both(*pair) for pair in zip(a, b, strict=True)])
        if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
            return {key: both(a[key], b[key]) for key in a}
        if isinstance(a, fx.Node) or isinstance(b, fx.Node):
            raise _OtherWayError
        if type(a) is type(b) and a == b:
            return a
        mode = merged.create_node("get_attr", "training")
        return merged.call_function(_by_mode, (mode, b, a))

    if len(evaluation.nodes) != len(training.nodes):
        raise _OtherWayError
    for a, b in zip(evaluation.nodes, training.nodes, strict=True):
        if (a.op, a.target) != (b.op, b.target):
            raise _OtherWayError
        args, kwargs = both(tuple(a.args), tuple(b.args)), both(dict(a.kwargs), dict(b.kwargs))
        copies[a] = merged.create_node(a.op, a.target, args, kwargs, a.name)
        partners[a] = b
    return merged


def _by_mode(training: bool, in_training: Any, in_evaluation: Any) -> Any:
    return in_training if training else in_evaluation


@contextmanager
def _mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    was = {module: module.training for module in model.modules()}
    model.train(training)
    try:
        yield
    finally:
        for module, mode in was.items():
            module.training = mode


class _Watched(fx.Interpreter):
    """Runs a graph and keeps what every node gives, and which of that is changed in place later on."""

    def __init__(self, model: nn.Module, graph: fx.Graph) -> None:
        super().__init__(fx.GraphModule(model, graph), garbage_collect_values=False)
        self.original = dict(zip(self.module.graph.nodes, graph.nodes, strict=True))
        self.modified: set[fx.Node] = set()

    def values(self, x: Tensor) -> dict[fx.Node, Any]:
        """What nodes give for an input."""
        self._seen: dict[fx.Node, Any] = {}
        self._versions: dict[fx.Node, int] = {}
        self.run(x)
        self.modified |= {n for n, version in self._versions.items() if self._seen[n]._version != version}
        return self._seen

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        self._seen[self.original[n]] = value
        if isinstance(value, Tensor):
            self._versions[self.original[n]] = value._version
        return value


# ---------------------------------------------------------------------- the graph cut into blocks


def _cut(
    model: nn.Module,
    graph: fx.Graph,
    at: Sequence[str],
    values: tuple[dict[fx.Node, Any], dict[fx.Node, Any]],
    modified: set[fx.Node],
) -> tuple[list[nn.Module], list[Tensor]]:
    """The pieces of a forward pass, each up to and including one named layer or the output, and what it returns there.

    A piece leaves a tuple of tensors that have a row for every input: first what its exit reads, then what later pieces need.
    Whatever else these need, such as sizes and tables of positions, they work out again.
    """
    nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    if not isinstance(output, fx.Node):
        raise ValueError(f"the module gives {output}, not one tensor")
    ends = _ends(model, nodes, at)
    exits = [*(nodes[end] for end in ends), output]
    rows = {node: _row_dimension(*(seen[node] for seen in values)) for node in (*inputs, *nodes)}
    for name, node in zip((*at, "the output"), exits, strict=True):
        if rows[node] is None:
            raise ValueError(f"no exit can read {name!r}, because {_what(*(seen[node] for seen in values))}")

    def carried(needed: Iterable[fx.Node]) -> Iterator[fx.Node]:
        for node in needed:
            if rows[node] is not None:
                yield node
            elif node.op == "call_module" and node.all_input_nodes:
                raise ValueError(
                    f"an exit cannot come before what reads the layer {node.target!r}, because "
                    f"{_what(*(seen[node] for seen in values))}"
                )
            else:
                yield from carried(node.all_input_nodes)

    pieces: list[nn.Module] = []
    first, entering = 0, inputs[:1]
    for end, node in zip((*ends, len(nodes) - 1), exits, strict=True):
        here, last = nodes[first : end + 1], len(pieces) == len(at)
        done = {*inputs, *nodes[: end + 1]}
        later = [arg for user in nodes[end + 1 :] for arg in user.all_input_nodes if arg in done]
        if not last and output in done:
            later.append(output)
        kept = [] if last else list(dict.fromkeys(n for n in carried(later) if n is not node))
        leaving = [node, *kept]
        pieces.append(_piece(model, entering, here, leaving, rows, modified, is_first=not pieces))
        first, entering = end + 1, leaving
    return pieces, [values[0][node].movedim(rows[node], 0) for node in exits]


def _ends(model: nn.Module, nodes: Sequence[fx.Node], at: Sequence[str]) -> list[int]:
    """Where named layers are called for the last time."""
    calls = {n.target: i for i, n in enumerate(nodes) if n.op == "call_module"}
    for name in at:
        if name not in calls:
            inside = [f"{name}.{child}" for child, _ in model.get_submodule(name).named_children()][:6]
            hint = f"; name a layer in it, such as {', '.join(map(repr, inside))}" if inside else ""
            raise ValueError(f"the forward pass never calls the layer {name!r}{hint}")
    ends = [calls[name] for name in at]
    if ends != sorted(ends):
        raise ValueError(
            f"name the layers in the order of the forward pass: {sorted(at, key=calls.__getitem__)}"
        )
    return ends


def _row_dimension(few: Any, more: Any) -> int | None:
    """The dimension of a tensor that has a place for each of 2 and of 3 inputs; None where there is no such."""
    if not isinstance(few, Tensor) or not isinstance(more, Tensor) or few.ndim != more.ndim:
        return None
    differing = [d for d, sizes in enumerate(zip(few.shape, more.shape, strict=True)) if sizes[0] != sizes[1]]
    return differing[0] if len(differing) == 1 and few.shape[differing[0]] == 2 else None


def _what(few: Any, more: Any) -> str:
    if not isinstance(few, Tensor):
        return f"it gives a {type(few).__name__}, not a tensor"
    return f"it gives shape {tuple(few.shape)} for 2 inputs and {tuple(more.shape)} for 3"


def _piece(
    model: nn.Module,
    entering: Sequence[fx.Node],
    nodes: Sequence[fx.Node],
    leaving: Sequence[fx.Node],
    rows: dict[fx.Node, int | None],
    modified: set[fx.Node],
    *,
    is_first: bool,
) -> nn.Module:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}

    def copied(node: fx.Node) -> fx.Node:
        if node not in copies:
            copies[node] = graph.node_copy(node, copied)
        return copies[node]

    if is_first:
        copies[entering[0]] = graph.placeholder("x")
    else:
        state = graph.placeholder("state")
        for i, node in enumerate(entering):
            item = graph.call_function(getitem, (state, i))
            if (
                node in modified
            ):  # it is kept unchanged, for the gradient of the exit and for another run from here
                item = graph.call_method("clone", (item,))
            copies[node] = graph.call_function(torch.movedim, (item, 0, rows[node])) if rows[node] else item
    for node in nodes:
        copied(node)
    results = [
        graph.call_function(torch.movedim, (copied(n), rows[n], 0)) if rows[n] else copied(n) for n in leaving
    ]
    graph.output(tuple(results))
    return fx.GraphModule(model, graph)


class _First(nn.Module):
    """The last block of a module has said it already."""

    def forward(self, state: State) -> Tensor:
        return state[0]


class _TokenHead(nn.Module):
    """Layer normalisation, mean over all positions, a linear layer; channels are last."""

    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, n_outputs)

    def forward(self, state: State) -> Tensor:
        x = self.norm(state[0])
        return self.linear(x.flatten(1, -2).mean(dim=1) if x.ndim > 2 else x)


def _default_head(x: Tensor, n_outputs: int) -> nn.Module:
    has_channels_last = x.ndim == 4 and x.shape[1] == x.shape[2] != x.shape[3]
    if x.ndim == 4 and not has_channels_last:
        return ExitHead(int(x.shape[1]), n_outputs)
    if x.ndim in (2, 3, 4):
        return _TokenHead(int(x.shape[-1]), n_outputs)
    raise ValueError(f"a layer gives shape {tuple(x.shape)}; give a head of your own for it: head=...")


def _device_of(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def _dtype_of(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters()), torch.get_default_dtype())
