"""A network as ONNX graphs: the outputs of its exits, or block by block."""

from __future__ import annotations

import inspect
import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anytime.networks.block import NetworkBlock

__all__ = ["block_graph", "exits_graph"]

_OPSET = 17


def exits_graph(block: NetworkBlock, stages: Sequence[int], dtype: str) -> bytes:
    """A graph from ``X``, (n, ...), to ``said_0`` and so on, (n, K): the outputs of the exits of ``stages``, counted from 0.

    Parameters
    ----------
    block : NetworkBlock
    stages : sequence of int
    dtype : {"float64", "float32"}
        Of ``X``.
    """
    x = _example(block, dtype)
    return _exported(_Exits(block, stages), (x,), ["X"], [f"said_{stage}" for stage in stages])


def block_graph(block: NetworkBlock, stage: int, dtype: str) -> bytes:
    """A graph of one block and its exit.

    From ``X``, or from ``state_0`` and so on, to ``next_0`` and so on, which are the states for the graph after, and ``said``.
    """
    names, inputs = ["X"], (_example(block, dtype),)
    network = block.network
    state: Any = block.prepared(inputs[0])
    with torch.inference_mode():
        if stage:
            state = network.advance(state, 0, stage - 1)
            inputs = state if isinstance(state, tuple) else (state,)
            names = [f"state_{i}" for i in range(len(inputs))]
        after = network.advance(state, stage, stage)
    is_last = stage == block.n_stages - 1
    n_after = 0 if is_last else len(after) if isinstance(after, tuple) else 1
    piece = _Piece(block, stage, isinstance(state, tuple))
    inputs = tuple(tensor.clone() for tensor in inputs)
    return _exported(piece, inputs, names, [*(f"next_{i}" for i in range(n_after)), "said"])


def _example(block: NetworkBlock, dtype: str) -> Tensor:
    numbers = np.random.default_rng(0).normal(size=(2, *block.input_shape))
    return torch.from_numpy(numbers.astype(dtype)).to(block.device)


class _Exits(nn.Module):
    """From raw rows to the outputs of some exits."""

    def __init__(self, block: NetworkBlock, stages: Sequence[int]) -> None:
        super().__init__()
        self.network, self.stages, self.prepared = block.network, list(stages), block.prepared

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        state: Any = self.prepared(x)
        outputs = {}
        for i in range(max(self.stages) + 1):
            state = self.network.blocks[i](state)
            if i in self.stages:
                outputs[i] = self.network.heads[i](state)
        return tuple(outputs[i] for i in self.stages)


class _Piece(nn.Module):
    """From tensors to tensors: what a block has left goes into the next."""

    def __init__(self, block: NetworkBlock, stage: int, takes_tuple: bool) -> None:
        super().__init__()
        self.block, self.head = block.network.blocks[stage], block.network.heads[stage]
        self.prepared = None if stage else block.prepared
        self.takes_tuple, self.is_last = takes_tuple, stage == block.n_stages - 1

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        state: Any = tensors if self.takes_tuple else tensors[0]
        state = self.block(state if self.prepared is None else self.prepared(state))
        output = self.head(state)
        if self.is_last:
            return (output,)
        return (*state, output) if isinstance(state, tuple) else (state, output)


def _exported(
    module: nn.Module, inputs: tuple[Tensor, ...], names: Sequence[str], outputs: Sequence[str]
) -> bytes:
    file = io.BytesIO()
    # the exporter by tracing: it is in all versions of torch and needs nothing else
    chosen = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    had_fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its kernel has no counterpart in ONNX
    try:
        with warnings.catch_warnings(), torch.no_grad(), _plain_pooling(module.eval(), inputs):
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module,
                inputs,
                file,
                input_names=list(names),
                output_names=list(outputs),
                dynamic_axes={name: {0: "rows"} for name in (*names, *outputs)},
                opset_version=_OPSET,
                **chosen,
            )
    finally:
        torch.backends.mha.set_fastpath_enabled(had_fast_path)
    return file.getvalue()


@contextmanager
def _plain_pooling(module: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[None]:
    """Means over a grid of equal cells, written as what they are: the exporter loses the sizes that it would need."""
    sizes: dict[nn.AdaptiveAvgPool2d, torch.Size] = {}

    def note(pool: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        assert isinstance(pool, nn.AdaptiveAvgPool2d)
        sizes[pool] = arguments[0].shape[-2:]

    hooks = [
        m.register_forward_pre_hook(note) for m in module.modules() if isinstance(m, nn.AdaptiveAvgPool2d)
    ]
    module(*inputs)
    for hook in hooks:
        hook.remove()
    changed = []
    for pool, size in sizes.items():
        cells = pool.output_size if isinstance(pool.output_size, tuple) else (pool.output_size,) * 2
        if all(count and not length % count for length, count in zip(size, cells, strict=True)):
            kernel = [length // count for length, count in zip(size, cells, strict=True) if count]
            pool.__dict__["forward"] = partial(functional.avg_pool2d, kernel_size=kernel)
            changed.append(pool)
    try:
        yield
    finally:
        for pool in changed:
            del pool.__dict__["forward"]
