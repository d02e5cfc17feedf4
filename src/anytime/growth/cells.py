"""A network that grows: stem, cells and head, each cell a residual unit with its growths.

Names of parameters do not change as cells grow, so that a child takes over all that its parent has learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from anytime.growth.architecture import STEM, Architecture, GrownLayer
from anytime.growth.ops import make_op
from anytime.networks.exits import ExitHead, ExitNetwork

__all__ = ["Cell", "GrownNetwork", "PathMasks", "ShortcutMerge", "build"]


def build(architecture: Architecture, module: ExitNetwork | None = None) -> GrownNetwork:
    """The network of an architecture, with new parameters.

    Parameters
    ----------
    architecture : Architecture
    module : ExitNetwork, default=None
        For the space "module": the stem is its first block, the units of cells are the others, and its last head is the head.
        Its parameters become the network's own.
    """
    shapes = architecture.layer_shapes()
    if architecture.space == "module":
        if module is None:
            raise ValueError("this architecture grows on a module of your own: pass that module")
        stem, units, head = parts_of(module)
    elif architecture.space == "images":
        stem, head = (
            _ImageStem(architecture),
            ExitHead(shapes[-1][0], architecture.n_outputs),
        )
        units = [_SeparableUnit(shapes[c][0], shapes[c + 1][0]) for c in range(len(shapes) - 1)]
    else:
        stem, head = _TableStem(architecture), _TableHead(architecture.width, architecture.n_outputs)
        units = [_LinearUnit(architecture.width) for _ in architecture.cells]
    cells = []
    for c, unit in enumerate(units):
        input_shapes = architecture.input_shapes(c)
        growths = architecture.patterns[architecture.cells[c].pattern]
        cells.append(Cell(unit, [ShortcutMerge(growth, input_shapes, shapes[c + 1]) for growth in growths]))
    return GrownNetwork(stem, cells, head, architecture)


def parts_of(module: ExitNetwork) -> tuple[nn.Module, list[nn.Module], nn.Module]:
    """Stem, units and head of a module with exits; the last block is no unit where it says the answer itself."""
    blocks, head = list(module.blocks), module.heads[-1]
    if not any(True for _ in head.parameters()):
        head, blocks = nn.Sequential(blocks[-1], head), blocks[:-1]
    if len(blocks) < 2:
        raise ValueError("a module needs two blocks at least: behind the first nothing can grow")
    return blocks[0], blocks[1:], head


class GrownNetwork(ExitNetwork):
    """Stem, cells and head: a network of a single exit, so that trainers and plans take it as any other.

    Parameters
    ----------
    stem : Module
    cells : sequence of Cell
    head : Module
    grown : Architecture
    """

    def __init__(self, stem: nn.Module, cells: Sequence[Cell], head: nn.Module, grown: Architecture) -> None:
        super().__init__([_Trunk(stem, cells)], [head], {"name": "grown", "network": grown.to_json()})
        self.grown = grown
        self.masks = PathMasks()
        for cell in self.cells:
            cell.number_paths(self.masks)

    @property
    def stem(self) -> nn.Module:
        """What reads the input."""
        stem: nn.Module = self.blocks[0].stem
        return stem

    @property
    def cells(self) -> list[Cell]:
        """The cells, in order."""
        return list(self.blocks[0].cells)

    def sites(self) -> list[tuple[str, Any]]:
        """(pattern, module) of all outputs that something can grow beside: cells, and a table's stem."""
        cells = self.grown.cells
        stems = [(STEM, self.stem)] if STEM in self.grown.patterns else []
        return stems + [(plan.pattern, cell) for plan, cell in zip(cells, self.cells, strict=True)]


class _Trunk(nn.Module):
    """A grown network without its head."""

    def __init__(self, stem: nn.Module, cells: Sequence[Cell]) -> None:
        super().__init__()
        self.stem, self.cells = stem, nn.ModuleList(cells)

    def forward(self, x: Tensor) -> Any:
        before = previous = self.stem(x)
        for cell in self.cells:
            before, previous = previous, cell(before, previous)
        return previous


class Cell(nn.Module):
    """A residual unit, its growths, and, while candidates are trained, their union.

    Parameters
    ----------
    unit : Module
        From the output of the cell before to its own, with its inner layers; a module of the user's own gives the output alone.
    learners : sequence of ShortcutMerge
    """

    def __init__(self, unit: nn.Module, learners: Sequence[ShortcutMerge]) -> None:
        super().__init__()
        self.unit, self.learners = unit, nn.ModuleList(learners)
        self.union: Any = None
        self._masks: PathMasks | None = None
        self._first_path = 0

    def number_paths(self, masks: PathMasks) -> None:
        """Give a number to each path that may be dropped."""
        self._masks, self._first_path = masks, masks.n_paths
        masks.n_paths += 1 + len(self.learners)

    def forward(self, before: Any, previous: Any) -> Any:
        """The cell's output, from those of the two cells before."""
        layers = {"before": _layer(before), "previous": _layer(previous)}
        rest: tuple[Any, ...] | None = (
            None  # of a state that is a tuple: what later blocks read beside its layer
        )
        if isinstance(self.unit, _SeedUnit):
            kept, layers["a"], layers["b"] = self.unit(previous)
            out = kept + self._masked(layers["b"], 0)
        else:
            state = self.unit(previous)
            out, rest = _layer(state), state[1:] if isinstance(state, tuple) else None
        for k, learner in enumerate(self.learners):
            grown = learner(layers)
            layers[f"g{k + 1}"] = grown
            out = out + self._masked(grown, 1 + k)
        if self.union is not None:
            out = self.union(out, layers)
        return out if rest is None else (out, *rest)

    def _masked(self, x: Tensor, path: int) -> Tensor:
        masks = self._masks
        return x if masks is None or not self.training else masks.applied(x, self._first_path + path)


def _layer(state: Any) -> Tensor:
    """What shortcuts read of a state."""
    layer: Tensor = state[0] if isinstance(state, tuple) else state
    return layer


class PathMasks:
    """Drop-path: in training each path is left out for some rows, others are scaled up for it (Larsson et al. 2017).

    Masks are drawn between steps from a generator of their own, so that nothing else disturbs them, and are read in place. They
    depend on the seed and the number of the step alone: a training that goes on from a checkpoint has the same.
    """

    def __init__(self) -> None:
        self.n_paths = 0
        self._masks: Tensor | None = None
        self._generator: torch.Generator | None = None
        self._seed = 0

    def start(self, n_rows: int, device: torch.device, seed: int) -> None:
        """Begin with masks that drop nothing, for batches of so many rows."""
        self._masks = torch.ones(self.n_paths, n_rows, device=device)
        self._generator, self._seed = torch.Generator(device=device), seed

    def draw(self, rate: float, step: int) -> None:
        """Masks of step number ``step``: each path is dropped with probability ``rate``."""
        if self._masks is not None and self._generator is not None:
            self._generator.manual_seed(self._seed * 1_000_003 + step)
            self._masks.bernoulli_(1.0 - rate, generator=self._generator).div_(1.0 - rate)

    def stop(self) -> None:
        """From now on all paths are taken."""
        self._masks = self._generator = None

    def applied(self, x: Tensor, path: int) -> Tensor:
        """``x`` (n, ...) without the rows that go without this path."""
        if self._masks is None:
            return x
        return x * self._masks[path, : len(x)].to(x.dtype).reshape(-1, *[1] * (x.ndim - 1))


class ShortcutMerge(nn.Module):
    """What a growth computes: ops side by side, merged into one layer of shape ``target``.

    ``known`` has the shapes of the layers that it may read.
    """

    def __init__(
        self, growth: GrownLayer, input_shapes: Mapping[str, Sequence[int]], target: Sequence[int]
    ) -> None:
        super().__init__()
        self.inputs = [s.input for s in growth.shortcuts]
        self.ops = nn.ModuleList(make_op(s.op, input_shapes[s.input], target) for s in growth.shortcuts)
        n, channels, flat = len(self.ops), target[0], len(target) == 1
        self.linear, self.sums = growth.linear, growth.merge == "sum"
        if self.sums:
            self.weights, self.gate = nn.Parameter(torch.full((n,), 1.0 / n)), nn.Parameter(torch.ones(1))
            return
        self.project: nn.Module = (
            nn.Linear(n * channels, channels, bias=False)
            if flat
            else nn.Conv2d(n * channels, channels, 1, bias=False)
        )
        if not growth.linear:
            self.norm = nn.BatchNorm1d(channels) if flat else nn.BatchNorm2d(channels)

    def forward(self, layers: Mapping[str, Tensor]) -> Tensor:
        """The new layer, from those before it by name."""
        outputs = [op(layers[name]) for op, name in zip(self.ops, self.inputs, strict=True)]
        if self.sums:
            total = sum(weight * output for weight, output in zip(self.weights, outputs, strict=True))
            assert isinstance(total, Tensor)
            return self.gate * total
        if self.linear:
            return self.project(torch.cat(outputs, dim=1))
        # ReLU of each: its gradient is stored densely, a slice of that of the joined layer would be slow to normalise
        return self.norm(self.project(torch.cat([torch.relu(output) for output in outputs], dim=1)))


# ---------------------------------------------------------------------- seed units


class _SeedUnit(nn.Module):
    """What the built-in units share: they give the kept input and their two layers."""


class _SeparableUnit(_SeedUnit):
    """Twice ReLU, separable 3 x 3 convolution, normalisation; where channels double the image is halved."""

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        self.more = c_out - c_in
        self.first = _separable(c_in, c_out, 2 if self.more else 1)
        self.second = _separable(c_out, c_out, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = self.first(torch.relu(x))
        b = self.second(torch.relu(a))
        if self.more:
            x = functional.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False)
            x = functional.pad(x, (0, 0, 0, 0, 0, self.more))
        return x, a, b


def _separable(c_in: int, c_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(c_in, c_in, 3, stride, 1, groups=c_in, bias=False),
        nn.Conv2d(c_in, c_out, 1, bias=False),
        nn.BatchNorm2d(c_out),
    )


class _LinearUnit(_SeedUnit):
    """Twice ReLU, linear layer, normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Sequential(nn.Linear(width, width, bias=False), nn.BatchNorm1d(width)) for _ in range(2)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a = self.first(torch.relu(x))
        return x, a, self.second(torch.relu(a))


class _ImageStem(nn.Module):
    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        channels, width = architecture.input_shape[0], architecture.width
        self.conv = nn.Conv2d(channels, width, 3, architecture.stem_stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        normal: Tensor = self.norm(self.conv(x))
        return normal


class _TableStem(nn.Module):
    """A linear layer of the first columns, and others of the columns that were bought since; missing values count as 0."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.parts = architecture.parts
        self.linear = nn.Linear(len(self.parts[0]), architecture.width, bias=False)
        self.norm = nn.BatchNorm1d(architecture.width)
        input_shapes = {f"part {k}": (len(part),) for k, part in enumerate(self.parts)}
        growths = architecture.patterns.get(STEM, ())
        self.learners = nn.ModuleList(
            ShortcutMerge(growth, input_shapes, (architecture.width,)) for growth in growths
        )
        self.union: Any = None
        self._places: dict[tuple[int, str], Tensor] = {}

    def read(self, x: Tensor, k: int) -> Tensor:
        """The columns of part ``k``."""
        if self.parts[k] == tuple(range(x.shape[1])):
            return torch.nan_to_num(x)
        key = k, str(x.device)
        if key not in self._places:
            self._places[key] = torch.tensor(self.parts[k], device=x.device)
        return torch.nan_to_num(x[:, self._places[key]])

    def _layers(self, x: Tensor, inputs: Sequence[str]) -> dict[str, Tensor]:
        return {name: self.read(x, int(name.split()[1])) for name in inputs}

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(self.linear(self.read(x, 0)))
        for learner in self.learners:
            out = out + learner(self._layers(x, learner.inputs))
        if self.union is not None:
            out = self.union(out, self._layers(x, self.union.inputs))
        return out


class _TableHead(nn.Module):
    def __init__(self, width: int, n_outputs: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(width), nn.Linear(width, n_outputs)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.linear(torch.relu(self.norm(x)))
        return scores
