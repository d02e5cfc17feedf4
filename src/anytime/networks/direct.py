"""Modules in evaluation mode without the cost of calling them: one image through a small network is mostly such calls.

What is computed is the same, to the last bit. Tensors are those that the module holds when it is taken: parameters that change in
place are followed, others that take their place are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from anytime.networks.backbones import ResidualUnit, halved
from anytime.networks.exits import ExitHead

__all__ = ["direct"]


def direct(module: nn.Module) -> Callable[[Any], Any]:
    """What computes the same as ``module`` in evaluation mode; the module itself where its kind is unknown."""
    kind = _KINDS.get(type(module))
    return module if kind is None else kind(module)


class _Direct(ABC):
    """Stands for a module, and calls it where it or a part of it has hooks."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.hooks = [hooks for m in module.modules() for hooks in (m._forward_hooks, m._forward_pre_hooks)]

    def __call__(self, x: Any) -> Any:
        return self.module(x) if any(self.hooks) else self.computed(x)

    @abstractmethod
    def computed(self, x: Any) -> Any:
        """What the module gives."""


class _Chain(_Direct):
    def __init__(self, module: nn.Sequential) -> None:
        super().__init__(module)
        self.parts = [direct(part) for part in module]

    def computed(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


class _Unit(_Direct):
    def __init__(self, unit: ResidualUnit) -> None:
        super().__init__(unit)
        self.norm1, self.norm2 = _normalisation(unit.norm1), _normalisation(unit.norm2)
        self.conv1 = unit.conv1.weight, None, unit.conv1.stride, unit.conv1.padding
        self.conv2 = unit.conv2.weight, None, unit.conv2.stride, unit.conv2.padding
        self.grows = unit.grows

    def computed(self, x: Any) -> Tensor:
        y = torch.conv2d(torch.relu(torch.batch_norm(x, *self.norm1)), *self.conv1)
        y = torch.conv2d(torch.relu(torch.batch_norm(y, *self.norm2)), *self.conv2)
        return (halved(x, self.grows) if self.grows else x) + y


class _Head(_Direct):
    def __init__(self, head: ExitHead) -> None:
        super().__init__(head)
        self.norm, self.linear = _normalisation(head.norm), (head.linear.weight, head.linear.bias)

    def computed(self, x: Any) -> Tensor:
        x = x[0] if isinstance(x, tuple) else x
        means = torch.relu(torch.batch_norm(x, *self.norm)).mean(dim=(2, 3))
        return functional.linear(means, *self.linear)


def _normalisation(norm: nn.BatchNorm2d) -> tuple[Any, ...]:
    """Arguments of ``torch.batch_norm`` after the first."""
    return norm.weight, norm.bias, norm.running_mean, norm.running_var, False, 0.0, norm.eps, True


_KINDS: dict[type, Callable[[Any], _Direct]] = {nn.Sequential: _Chain, ResidualUnit: _Unit, ExitHead: _Head}
