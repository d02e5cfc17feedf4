"""Ops of shortcuts as torch modules: seven for images, five for tables. All end in normalisation without scale and shift.

An op may have several *copies*, side by side in its channels: one call then evaluates the same op on several layers of equal
shape, with separate parameters. Each parameter and buffer holds its copies one after the other in its first dimension, so that
``state_of_copy`` can take one of them out. Outputs have mean 0 and variance 1, so that weights of candidates can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["make_op", "state_of_copy"]


def make_op(op: str, source: Sequence[int], target: Sequence[int], copies: int = 1) -> nn.Module:
    """An op of ``IMAGE_OPS`` or ``TABLE_OPS``, or "linear", from layers of shape ``source`` to one of shape ``target``.

    With ``copies``, the input holds the channels of so many layers, the output those of so many results.
    """
    c_in, c_out = source[0], target[0]
    if len(target) == 1:
        if op == "identity" and c_in == c_out:
            return _Identity(nn.BatchNorm1d(c_out * copies, affine=False))
        return _LinearOp("linear" if op == "identity" else op, c_in, c_out, copies)
    stride = max(-(-source[1] // target[1]), -(-source[2] // target[2]))
    if op.startswith("sep"):
        return _SeparableOp(int(op[3:]), c_in, c_out, stride, copies)
    if op.startswith("dil"):
        return _DilatedOp(int(op[3:]), c_in, c_out, stride, copies)
    if op in ("max3", "avg3"):
        return _PoolingOp(op == "max3", c_in, c_out, stride, copies)
    if tuple(source) == tuple(target):
        return _Identity(nn.BatchNorm2d(c_out * copies, affine=False))
    return _ReducingOp(c_in, c_out, stride, copies)


def state_of_copy(state: Mapping[str, Tensor], copy: int, copies: int) -> dict[str, Tensor]:
    """The state of one copy of an op, as that of an op of its own."""
    return {
        name: value.clone() if not value.ndim else value.chunk(copies)[copy].clone()
        for name, value in state.items()
    }


def _depthwise(channels: int, kernel: int, stride: int = 1, dilation: int = 1) -> nn.Conv2d:
    padding = dilation * (kernel // 2)
    return nn.Conv2d(channels, channels, kernel, stride, padding, dilation, groups=channels, bias=False)


def _pointwise(c_in: int, c_out: int, copies: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(c_in * copies, c_out * copies, 1, stride, groups=copies, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, affine=False)


class _AfterRelu(nn.Module):
    """An op that begins with ReLU. For several ops on one input, compute ReLU once and call ``after_relu`` of each."""

    def forward(self, x: Tensor) -> Tensor:
        return self.after_relu(torch.relu(x))

    def after_relu(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class _Identity(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        normal: Tensor = self.norm(x)
        return normal


class _SeparableOp(_AfterRelu):
    """Twice ReLU, depthwise and pointwise convolution and normalisation; the stride is in the first."""

    def __init__(self, kernel: int, c_in: int, c_out: int, stride: int, copies: int) -> None:
        super().__init__()
        self.depth1, self.point1 = _depthwise(c_in * copies, kernel, stride), _pointwise(c_in, c_out, copies)
        self.depth2, self.point2 = _depthwise(c_out * copies, kernel), _pointwise(c_out, c_out, copies)
        self.norm1, self.norm2 = _norm(c_out * copies), _norm(c_out * copies)

    def after_relu(self, x: Tensor) -> Tensor:
        x = self.norm1(self.point1(self.depth1(x)))
        normal: Tensor = self.norm2(self.point2(self.depth2(functional.relu(x, inplace=True))))
        return normal


class _DilatedOp(_AfterRelu):
    """ReLU, depthwise convolution of every second position, pointwise convolution, normalisation."""

    def __init__(self, kernel: int, c_in: int, c_out: int, stride: int, copies: int) -> None:
        super().__init__()
        self.depth = _depthwise(c_in * copies, kernel, stride, dilation=2)
        self.point, self.norm = _pointwise(c_in, c_out, copies), _norm(c_out * copies)

    def after_relu(self, x: Tensor) -> Tensor:
        normal: Tensor = self.norm(self.point(self.depth(x)))
        return normal


class _PoolingOp(nn.Module):
    """Pooling over 3 x 3 and normalisation, with a 1 x 1 convolution between them where channels differ."""

    def __init__(self, largest: bool, c_in: int, c_out: int, stride: int, copies: int) -> None:
        super().__init__()
        self.largest, self.stride = largest, stride
        self.point = nn.Identity() if c_in == c_out else _pointwise(c_in, c_out, copies)
        self.norm = _norm(c_out * copies)

    def forward(self, x: Tensor) -> Tensor:
        if self.largest:
            x = functional.max_pool2d(x, 3, self.stride, 1)
        else:
            x = functional.avg_pool2d(x, 3, self.stride, 1, count_include_pad=False)
        normal: Tensor = self.norm(self.point(x))
        return normal


class _ReducingOp(_AfterRelu):
    """The identity between layers of different shapes: 1 x 1 convolutions, half of them of positions shifted by one."""

    def __init__(self, c_in: int, c_out: int, stride: int, copies: int) -> None:
        super().__init__()
        self.copies, self.shifts = copies, stride > 1
        here = c_out // 2 if self.shifts else c_out
        self.here = _pointwise(c_in, here, copies, stride) if here else None
        self.shifted = _pointwise(c_in, c_out - here, copies, stride) if self.shifts else None
        self.norm = _norm(c_out * copies)

    def after_relu(self, x: Tensor) -> Tensor:
        parts = [] if self.here is None else [self.here(x)]
        if self.shifted is not None:
            parts.append(self.shifted(functional.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]))
        n, _, height, width = parts[0].shape
        split = [part.reshape(n, self.copies, -1, height, width) for part in parts]
        normal: Tensor = self.norm(torch.cat(split, dim=2).flatten(1, 2))
        return normal


_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class _LinearOp(nn.Module):
    """A linear layer and normalisation; behind them ReLU, tanh or, as a gate of the input, a sigmoid, and normalisation."""

    def __init__(self, kind: str, c_in: int, c_out: int, copies: int) -> None:
        super().__init__()
        if kind == "gate" and c_in != c_out:
            kind = "tanh"  # nothing to open or close
        self.kind, self.copies = kind, copies
        self.weight = nn.Parameter(torch.empty(copies * c_out, c_in))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        self.inner = nn.BatchNorm1d(c_out * copies, affine=False)
        self.norm = None if kind == "linear" else nn.BatchNorm1d(c_out * copies, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.copies == 1:
            y = functional.linear(x, self.weight)
        else:
            split = x.unflatten(1, (self.copies, -1)).transpose(0, 1)
            weight = self.weight.unflatten(0, (self.copies, -1))
            y = torch.bmm(split, weight.transpose(1, 2)).transpose(0, 1).flatten(1)
        y = self.inner(y)
        if self.norm is None:
            return y
        y = x * torch.sigmoid(y) if self.kind == "gate" else _ACTIVATIONS[self.kind](y)
        normal: Tensor = self.norm(y)
        return normal
