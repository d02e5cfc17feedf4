"""Networks with exits, built by name: residual, densely connected, multi-scale, and fully connected.

The residual and dense ones are those of Hu, chapter 4 (ResANN and DenseANN), the multi-scale one is MSDNet (Huang et al.
2018). The fully connected one reads groups of columns block by block, so that it buys features like any other learner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anytime.networks.exits import ExitHead, ExitNetwork, GridHead, exit_positions

__all__ = ["BACKBONES", "ResidualUnit", "build", "denseann", "halved", "mlp", "msdnet", "resann"]


def resann(
    *,
    n: int = 9,
    c: int = 16,
    period: int | None = None,
    side: int = 1,
    hidden: int = 128,
    input_shape: Sequence[int] = (3, 32, 32),
    n_outputs: int = 10,
) -> ExitNetwork:
    """A residual network for small images: three groups of ``n`` units, ``c`` channels in the first; 6n + 2 layers.

    Parameters
    ----------
    n, c : int
    period : int, default=None
        There is an exit after every ``period``-th unit. None: after every unit, from n = 25 on after every third.
    input_shape : (channels, height, width)
    n_outputs : int
    """
    widths = [c, 2 * c, 4 * c]
    units: list[nn.Module] = []
    for g, width in enumerate(widths):
        for u in range(n):
            came = widths[g - 1] if g and not u else width
            units.append(ResidualUnit(came, width))
    stem = nn.Conv2d(input_shape[0], c, 3, padding=1, bias=False)
    exits = exit_positions(len(units), period or (1 if n < 25 else 3))
    blocks = _grouped([stem], units, exits)
    heads: list[nn.Module] = [ExitHead(widths[(unit - 1) // n], n_outputs) for unit in exits]
    if side > 1:
        heads = [GridHead(widths[(unit - 1) // n], n_outputs, side, hidden) for unit in exits]
    return _initialised(ExitNetwork(blocks, heads))


class ResidualUnit(nn.Module):
    """BN, ReLU, 3 x 3 convolution, twice, added to the input; when channels double, the image is halved."""

    def __init__(self, came: int, width: int) -> None:
        super().__init__()
        self.grows = width - came
        self.norm1, self.norm2 = nn.BatchNorm2d(came), nn.BatchNorm2d(width)
        self.conv1 = nn.Conv2d(came, width, 3, stride=2 if self.grows else 1, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(torch.relu(self.norm1(x)))
        y = self.conv2(torch.relu(self.norm2(y)))
        return (halved(x, self.grows) if self.grows else x) + y


def halved(x: Tensor, more: int) -> Tensor:
    """Images of half the height and width, with ``more`` channels of zeros around theirs."""
    return functional.pad(functional.avg_pool2d(x, 2), (0, 0, 0, 0, more // 2, more - more // 2))


def denseann(
    *,
    layers: Sequence[int] = (12, 12, 12),
    growth: int = 12,
    period: int = 6,
    input_shape: Sequence[int] = (3, 32, 32),
    n_outputs: int = 10,
) -> ExitNetwork:
    """A densely connected network: every layer reads all layers before it in its group.

    Parameters
    ----------
    layers : sequence of int
        Layers of each group; (6, 12, 32, 32) with growth 32 are those of DenseNet169.
    growth : int
        Channels that a layer adds.
    period : int
        There is an exit after every ``period``-th layer.
    input_shape : (channels, height, width)
    n_outputs : int
    """
    width = 2 * growth
    stem = nn.Conv2d(input_shape[0], width, 3, padding=1, bias=False)
    units: list[nn.Module] = []
    widths: list[int] = []
    for g, size in enumerate(layers):
        for u in range(size):
            unit: nn.Module = _DenseLayer(width, growth)
            if g and not u:
                halved = width // 2
                unit = nn.Sequential(_Transition(width, halved), _DenseLayer(halved, growth))
                width = halved
            width += growth
            units.append(unit)
            widths.append(width)
    exits = exit_positions(len(units), period)
    heads = [ExitHead(widths[unit - 1], n_outputs) for unit in exits]
    return _initialised(ExitNetwork(_grouped([stem], units, exits), heads))


class _DenseLayer(nn.Module):
    """BN, ReLU, 1 x 1 convolution to 4k channels, BN, ReLU, 3 x 3 convolution to k, put beside the input."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(4 * growth)
        self.conv1 = nn.Conv2d(width, 4 * growth, 1, bias=False)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(torch.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(torch.relu(self.norm2(y)))], dim=1)


class _Transition(nn.Module):
    """1 x 1 convolution, BN, ReLU, mean over 2 x 2: height, width and channels are halved."""

    def __init__(self, came: int, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(came, width, 1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(torch.relu(self.norm(self.conv(x))), 2)


def msdnet(
    *,
    layers: Sequence[int] = (7, 7, 7),
    base: int = 16,
    growth: int = 6,
    period: int = 3,
    input_shape: Sequence[int] = (3, 32, 32),
    n_outputs: int = 10,
) -> ExitNetwork:
    """A multi-scale dense network: coarse features from the first layer on, which early exits need.

    Every scale s has half the resolution of the one before and ``2^s`` times its channels. The finest scale is dropped after
    each group of layers. Exits read the coarsest.

    Parameters
    ----------
    layers : sequence of int
        Layers of each group; there are as many scales as groups.
    base : int
        Channels of the finest scale after the first layer.
    growth : int
        Channels that a layer adds to the finest scale.
    period : int
        There is an exit after every ``period``-th layer.
    input_shape : (channels, height, width)
    n_outputs : int
    """
    n_scales = len(layers)
    widths = [base * 2**s for s in range(n_scales)]
    stem = _MultiScaleStem(input_shape[0], widths)
    units: list[nn.Module] = []
    coarsest: list[int] = []
    finest = 0
    for g, size in enumerate(layers):
        for u in range(size):
            parts: list[nn.Module] = []
            if g and not u:
                finest += 1
                parts.append(_DropFinest(widths[finest:]))
                widths[finest:] = [width // 2 for width in widths[finest:]]
            parts.append(
                _MultiScaleLayer(
                    widths[finest:], [growth * 2**s for s in range(finest, n_scales)], finest > 0
                )
            )
            widths[finest:] = [w + growth * 2**s for s, w in enumerate(widths) if s >= finest]
            units.append(nn.Sequential(*parts) if len(parts) > 1 else parts[0])
            coarsest.append(widths[-1])
    exits = exit_positions(len(units), period)
    side = min(input_shape[1:]) >> (n_scales - 1)
    heads = [_MultiScaleHead(coarsest[unit - 1], n_outputs, side) for unit in exits]
    return _initialised(ExitNetwork(_grouped([stem], units, exits), heads))


def _conv_bn_relu(came: int, width: int, size: int, stride: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(came, width, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width), nn.ReLU())


class _MultiScaleStem(nn.Module):
    def __init__(self, channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        came = [channels, *widths[:-1]]
        self.scales = nn.ModuleList(
            _conv_bn_relu(c, w, 3, stride=2 if s else 1)
            for s, (c, w) in enumerate(zip(came, widths, strict=True))
        )

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        out = []
        for scale in self.scales:
            x = scale(x)
            out.append(x)
        return tuple(reversed(out))  # the coarsest first: that is what exits read


class _MultiScaleLayer(nn.Module):
    """Adds to every scale half from itself and half from the next finer one."""

    def __init__(self, widths: Sequence[int], growths: Sequence[int], finer_was_dropped: bool) -> None:
        super().__init__()
        self.same = nn.ModuleList()
        self.finer = nn.ModuleList()
        for s, (width, growth) in enumerate(zip(widths, growths, strict=True)):
            halves = s > 0
            own = growth - growth // 2 if halves else growth
            self.same.append(self._step(width, own, 1))
            if halves:
                self.finer.append(self._step(widths[s - 1], growth // 2, 2))
        self.finer_was_dropped = finer_was_dropped

    @staticmethod
    def _step(came: int, width: int, stride: int) -> nn.Sequential:
        between = min(came, 4 * width)
        return nn.Sequential(_conv_bn_relu(came, between, 1), _conv_bn_relu(between, width, 3, stride))

    def forward(self, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        scales = state[::-1]
        out = []
        for s, x in enumerate(scales):
            new = [x, self.same[s](x)]
            if s:
                new.append(self.finer[s - 1](scales[s - 1]))
            out.append(torch.cat(new, dim=1))
        return tuple(reversed(out))


class _DropFinest(nn.Module):
    """Leaves out the finest scale and halves the channels of the others."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.scales = nn.ModuleList(_conv_bn_relu(width, width // 2, 1) for width in widths)

    def forward(self, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        kept = state[: len(self.scales)][::-1]
        return tuple(reversed([scale(x) for scale, x in zip(self.scales, kept, strict=True)]))


class _MultiScaleHead(nn.Module):
    """Two convolutions that halve the image where it is large enough, mean over positions, a linear layer."""

    def __init__(self, channels: int, n_outputs: int, side: int, width: int = 128) -> None:
        super().__init__()
        strides = [2 if side >= 4 else 1, 2 if side >= 8 else 1]
        self.convs = nn.Sequential(
            _conv_bn_relu(channels, width, 3, strides[0]), _conv_bn_relu(width, width, 3, strides[1])
        )
        self.linear = nn.Linear(width, n_outputs)

    def forward(self, state: tuple[Tensor, ...]) -> Tensor:
        return self.linear(self.convs(state[0]).mean(dim=(2, 3)))


def mlp(
    *,
    groups: Sequence[Sequence[int]] = ((0,),),
    width: int = 64,
    input_shape: Sequence[int] = (1,),
    n_outputs: int = 1,
) -> ExitNetwork:
    """Fully connected residual blocks that read columns as they are bought: block i reads ``groups[i]`` and the state.

    Parameters
    ----------
    groups : sequence of sequences of int
        Columns that enter with each block; a block may have none.
    width : int
        Width of the hidden layers.
    input_shape : (d,)
    n_outputs : int
    """
    blocks = [_PurchaseBlock(columns, width, is_first=not i) for i, columns in enumerate(groups)]
    heads = [_VectorHead(width, n_outputs) for _ in groups]
    return ExitNetwork(blocks, heads)


class _PurchaseBlock(nn.Module):
    """h + W2 relu(W1 norm(h, new columns)); a missing value counts as the mean, and an indicator marks it."""

    def __init__(self, columns: Sequence[int], width: int, *, is_first: bool) -> None:
        super().__init__()
        self.register_buffer("columns", torch.as_tensor(list(columns), dtype=torch.long))
        self.is_first = is_first
        came = 2 * len(columns) + (0 if is_first else width)
        self.enter = nn.Linear(max(came, 1), width)
        self.norm = nn.LayerNorm(width)
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, state: Any) -> tuple[Tensor, Tensor]:
        h, x = (None, state) if self.is_first else state
        new = x[:, self.columns]
        missing = torch.isnan(new)
        parts = [torch.where(missing, 0.0, new), missing.to(new.dtype)]
        if h is not None:
            parts.insert(0, h)
        entered = torch.cat(parts, dim=1)
        if not entered.shape[1]:
            entered = x.new_zeros(len(x), 1)
        entered = self.enter(entered)
        h = entered if h is None else h + entered
        h = h + self.out(torch.relu(self.hidden(torch.relu(self.norm(h)))))
        return h, x


class _VectorHead(nn.Module):
    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, n_outputs)

    def forward(self, state: tuple[Tensor, ...]) -> Tensor:
        return self.linear(torch.relu(self.norm(state[0])))


BACKBONES: dict[str, Callable[..., ExitNetwork]] = {
    "mlp": mlp,
    "resann": resann,
    "denseann": denseann,
    "msdnet": msdnet,
}


def build(name: str, **arguments: Any) -> ExitNetwork:
    """Build the network ``name``, which stores its architecture; ``n_exits`` keeps only its first exits."""
    if name not in BACKBONES:
        raise ValueError(f"no backbone {name!r}; the backbones are {', '.join(BACKBONES)}")
    kept = {key: value for key, value in arguments.items() if key != "n_exits"}
    network = BACKBONES[name](**kept)
    network.architecture = {"name": name, **kept}
    return network.head(arguments["n_exits"]) if "n_exits" in arguments else network


def _grouped(first: Sequence[nn.Module], units: Sequence[nn.Module], exits: Sequence[int]) -> list[nn.Module]:
    """Units from one exit to the next as one block; the first block begins with ``first``."""
    starts = [0, *exits[:-1]]
    blocks: list[nn.Module] = []
    for start, end in zip(starts, exits, strict=True):
        parts = [*(first if not start else ()), *units[start:end]]
        blocks.append(parts[0] if len(parts) == 1 else nn.Sequential(*parts))
    return blocks


def _initialised(network: ExitNetwork) -> ExitNetwork:
    """Convolutions by He et al. (2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
            nn.init.normal_(module.weight, 0.0, float(np.sqrt(2.0 / fan_out)))
    return network
