"""A network cut into blocks with an exit after each: it can stop between blocks and continue later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["ExitHead", "ExitNetwork", "GridHead", "State", "exit_positions"]

State = Any  # what a block leaves for the next: a tensor, or a tuple of tensors, the first of which the exit reads


def exit_positions(n_units: int, period: int = 1) -> list[int]:
    """Units, counted from 1, that have an exit: every ``period``-th, so that the last unit has one.

    >>> exit_positions(16, 2)
    [2, 4, 6, 8, 10, 12, 14, 16]
    >>> exit_positions(82, 14)
    [12, 26, 40, 54, 68, 82]
    """
    if period < 1:
        raise ValueError(f"period is the number of units between exits and must be at least 1, not {period}")
    return [unit for unit in range(1, n_units + 1) if (n_units - unit) % period == 0]


class ExitHead(nn.Module):
    """The plain head of an exit: batch normalisation, ReLU, mean over all positions, a linear layer.

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
    """A head that reads more and so constrains the blocks less: means over a grid of cells, a hidden layer, a linear layer.

    Parameters
    ----------
    channels : int
    n_outputs : int
    side : int
        Side of the grid, which has side x side cells.
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
    """A sequence of blocks with a head after each.

    Parameters
    ----------
    blocks : sequence of modules
        The first takes the input, each later one the state of the one before.
    heads : sequence of modules
        ExitHead i takes the state after block i and gives (n, K) outputs.
    architecture : dict, default=None
        A name of the registry and the arguments to rebuild the network. None: a custom module.

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
        """(L, n, K) outputs of all exits.

        Parameters
        ----------
        x : (n, ...)
        trunk : (L,), default=None
            Factor of the gradient of each exit's loss where it enters the blocks; heads get the full gradient.
        first : int, default=0
            The first exit to evaluate.
        """
        outputs = []
        state: State = x
        for i, (block, head) in enumerate(zip(self.blocks, self.heads, strict=True)):
            state = block(state)
            if i >= first:
                outputs.append(head(state if trunk is None else _scaled(state, trunk[i])))
        return torch.stack(outputs)

    def advance(self, state: State, first: int, last: int) -> State:
        """The state after blocks ``first`` to ``last``; before block 0 the state is the input."""
        for i in range(first, last + 1):  # a slice of a ModuleList would be a new module
            state = self.blocks[i](state)
        return state

    def head(self, n_exits: int) -> ExitNetwork:
        """The network that ends at exit ``n_exits``; it shares its parameters with this one."""
        architecture = None if self.architecture is None else {**self.architecture, "n_exits": n_exits}
        return ExitNetwork(self.blocks[:n_exits], self.heads[:n_exits], architecture)


def _scaled(state: State, scale: Tensor) -> State:
    if isinstance(state, tuple):
        return (_ScaledGradient.apply(state[0], scale), *state[1:])
    return _ScaledGradient.apply(state, scale)
