"""Networks in files: an architecture of the closed registry by name and arguments, and weights as plain arrays.

Nothing of what a stranger's file claims is built before it was compared with what the file holds: the network is made first on
torch's "meta" device, where tensors have shapes and no memory. A module of the user's own has no entry in the registry; of that
a file holds the weights, and the module is given to ``load``.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anytime.blocks import Array, Block, DetachedModelError, State
from anytime.networks.backbones import BACKBONES, build
from anytime.networks.block import MOST_KEPT, NetworkBlock, bytes_of
from anytime.networks.exits import ExitNetwork

__all__ = ["StoredNetworkBlock", "block_from_state", "state_of", "summary_of"]

Weights = dict[str, NDArray[Any]]

_DTYPES = {"float32": torch.float32, "float64": torch.float64}
_LARGEST = 1 << 20  # of any argument: channels, sizes, periods
_MOST_SCALES = 12  # of a multi-scale network, each of which doubles the channels
_GROWN = "grown"  # the name of networks that have grown, which are no backbones
# the arguments that say how many units a network has: a file holds weights of each
_COUNTS = ("n", "layers", "groups")


# ---------------------------------------------------------------------- writing


def state_of(block: NetworkBlock) -> State:
    """What a file keeps of a network's stages."""
    names = {dtype: name for name, dtype in _DTYPES.items()}
    if block.dtype not in names:
        raise TypeError(f"a network of {block.dtype} cannot be saved; files hold {' and '.join(_DTYPES)}")
    weights = {name: _as_array(tensor) for name, tensor in block.network.state_dict().items()}
    ends = np.cumsum([0] + [len(block.columns(s)) for s in range(block.n_stages)])
    architecture = block.network.architecture
    description = {
        "architecture": None if architecture is None else _plain(architecture),
        "module": _name_of(block.network),
        "input_shape": list(block.input_shape),
        "width": block.width,
        "batch_rows": block.batch_rows,
        "dtype": names[block.dtype],
        "weights": list(weights),
    }
    arrays: dict[str, NDArray[Any]] = {
        "reads": np.concatenate([block.columns(s) for s in range(block.n_stages)]).astype(np.int32),
        "ends": ends[1:].astype(np.int64),
        "centre": block.centre,
        "spread": block.spread,
        "temperatures": block.temperatures,
    }
    if block.offset is not None and block.unit is not None:
        arrays |= {"offset": block.offset, "unit": block.unit}
    arrays |= {f"weight.{i}": array for i, array in enumerate(weights.values())}
    return description, arrays


def _as_array(tensor: Tensor) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy()).reshape(tuple(tensor.shape))


def _plain(value: Any) -> Any:
    """Arguments as JSON has them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _name_of(network: ExitNetwork) -> str:
    """What a message calls a network."""
    return "ExitNetwork" if network.architecture is None else str(network.architecture["name"])


# ---------------------------------------------------------------------- reading


def block_from_state(
    description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], weights: Weights
) -> Block:
    """The stages that a file describes; without their module where that is the user's own.

    Parameters
    ----------
    description, arrays : as ``state_of`` gives them
        Types are checked already, contents not.
    weights : dict from name to array
    """
    architecture = description["architecture"]
    if architecture is None:
        return StoredNetworkBlock(description, arrays, weights)
    network = _on_meta(architecture, len(weights))
    dtype = _DTYPES[description["dtype"]]
    _compare(network.to(dtype=dtype), weights)
    if not all(np.isfinite(array).all() for array in weights.values() if array.dtype.kind == "f"):
        raise ValueError("a weight of the network is not finite")
    width = _width_of(network, description["input_shape"], dtype)
    network.load_state_dict({name: _as_tensor(array) for name, array in weights.items()}, assign=True)
    return _block(network, description, arrays, width)


class StoredNetworkBlock(Block):
    """Stages of a network whose module is the user's own: weights and all else are there, the module is not.

    Parameters
    ----------
    description, arrays, weights
        What a file holds, see ``block_from_state``.
    """

    kind = "network"

    def __init__(
        self, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], weights: Weights
    ) -> None:
        self._description, self._arrays, self._weights = dict(description), dict(arrays), weights
        self.reads_of_exits = _reads(arrays)
        self.n_stages, self.width = len(self.reads_of_exits), int(description["width"])
        self.input_shape = tuple(description["input_shape"])
        if arrays["temperatures"].shape != (self.n_stages,):
            raise ValueError(f"{self.n_stages} exits but {arrays['temperatures'].size} temperatures")

    @property
    def detached(self) -> DetachedModelError:
        """What is raised until the module is given."""
        return DetachedModelError(self._description["module"], keyword="module")

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self.reads_of_exits[stage]

    def outputs(self, stage: int, X: Array) -> Array:
        raise self.detached

    def head(self, n_stages: int) -> StoredNetworkBlock:
        if n_stages == self.n_stages:
            return self
        raise self.detached

    def state(self) -> State:
        stored = {f"weight.{i}": array for i, array in enumerate(self._weights.values())}
        return self._description, {**self._arrays, **stored}

    def attached(self, module: ExitNetwork) -> NetworkBlock:
        """The stages with a copy of a module that has the file's weights; ``ValueError`` where these do not fit it."""
        if not isinstance(module, ExitNetwork):
            raise TypeError(
                f"module must be an ExitNetwork, as anytime.networks.with_exits gives it, not a {type(module).__name__}"
            )
        if module.n_exits < self.n_stages:
            raise ValueError(f"the file's network has {self.n_stages} exits, this module {module.n_exits}")
        network = copy.deepcopy(module if module.n_exits == self.n_stages else module.head(self.n_stages))
        network = network.to(dtype=_DTYPES[self._description["dtype"]])
        _compare(network, self._weights)
        network.load_state_dict({name: _as_tensor(array) for name, array in self._weights.items()})
        block = _block(network, self._description, self._arrays, None)
        if block.width != self.width:
            raise ValueError(f"the file's network has {self.width} outputs, this module {block.width}")
        return block


def _block(
    network: ExitNetwork,
    description: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    width: int | None,
) -> NetworkBlock:
    block = NetworkBlock(
        network,
        _reads(arrays),
        description["input_shape"],
        centre=arrays["centre"],
        spread=arrays["spread"],
        temperatures=arrays["temperatures"],
        offset=arrays.get("offset"),
        unit=arrays.get("unit"),
        batch_rows=description["batch_rows"],
        dtype=_DTYPES[description["dtype"]],
        width=width,
    )
    if block.width != description["width"]:
        raise ValueError(f"exits give {block.width} numbers, not {description['width']}")
    for stage, part in enumerate(network.blocks):
        own = getattr(part, "columns", None)  # of a block that takes some columns of a table
        if isinstance(own, Tensor) and not np.isin(own.cpu().numpy(), block.columns(stage)).all():
            raise ValueError(f"block {stage} takes columns that its exit does not name")
    return block


def _reads(arrays: Mapping[str, NDArray[Any]]) -> list[NDArray[np.int32]]:
    """Columns of each exit."""
    ends, reads = arrays["ends"], arrays["reads"]
    if not ends.size or (np.diff(ends, prepend=0) < 0).any() or ends[-1] != reads.size:
        raise ValueError("the columns of a network's exits do not fit")
    return [np.unique(columns) for columns in np.split(reads, ends[:-1])]


def _on_meta(architecture: Mapping[str, Any], n_weights: int) -> ExitNetwork:
    """The network of an architecture, without memory for its weights."""
    arguments = dict(architecture)
    name = arguments.pop("name", None)
    if name == _GROWN:  # growth stands above the networks, so it is met only here, at run time
        grown: ExitNetwork = import_module("anytime.growth.stored").on_meta(arguments, n_weights)
        return grown
    if type(name) is not str or name not in BACKBONES:
        raise ValueError(f"no network of the registry is called {name!r:.60}")
    n_exits = arguments.pop("n_exits", None)
    _check_arguments(name, arguments, n_weights)
    try:
        with torch.device("meta"):
            network = build(name, **arguments)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"no {name!r} can be built of the arguments in the file: {error!s:.200}") from None
    if n_exits is None:
        return network
    if type(n_exits) is not int or not 1 <= n_exits <= network.n_exits:
        raise ValueError(f"a network of {network.n_exits} exits cannot keep the first {n_exits!r:.60}")
    return network.head(n_exits)


def _check_arguments(name: str, arguments: Mapping[str, Any], n_weights: int) -> None:
    """Refuse what a backbone does not have, and more units than there can be weights of."""
    allowed = inspect.signature(BACKBONES[name]).parameters
    for key, value in arguments.items():
        if key not in allowed:
            raise ValueError(f"the network {name!r} has no argument {key!r:.60}")
        default = allowed[key].default
        if value is None and default is None:
            continue
        depth = 0
        while isinstance(default, tuple):
            depth, default = depth + 1, default[0]
        if not _is_nested(value, depth, least=0 if key == "groups" else 1):
            raise ValueError(f"the argument {key!r} of a network cannot be {value!r:.60}")
        units = value if depth == 0 else sum(value) if depth == 1 else len(value)
        if key in _COUNTS and units > n_weights:
            raise ValueError(f"{key}={value!r:.60} asks for more than the {n_weights} weights in the file")
        if key == "layers" and len(value) > _MOST_SCALES:
            raise ValueError(f"a network has at most {_MOST_SCALES} groups of layers, not {len(value)}")


def _is_nested(value: Any, depth: int, least: int) -> bool:
    """Whether a value is a whole number within bounds, or lists of such, ``depth`` deep."""
    if depth:
        return type(value) is list and all(_is_nested(item, depth - 1, least) for item in value)
    return type(value) is int and least <= value <= (_LARGEST if least else 1 << 31)


def _compare(network: ExitNetwork, weights: Weights) -> None:
    """Refuse weights whose names, shapes or types are not those of a network."""
    wanted = network.state_dict()
    for name in [*wanted, *weights]:
        if name not in weights or name not in wanted:
            where = "the file" if name in weights else "the network"
            raise ValueError(f"only {where} has a weight {name!r:.80}")
        tensor, array = wanted[name], weights[name]
        expected = str(tensor.dtype).removeprefix("torch.")
        if tuple(tensor.shape) != array.shape or expected != array.dtype.name:
            raise ValueError(
                f"the weight {name!r:.80} has shape {array.shape} and type {array.dtype.name} in the file, but "
                f"{tuple(tensor.shape)} and {expected} in the network"
            )


def _width_of(network: ExitNetwork, input_shape: Sequence[int], dtype: torch.dtype) -> int:
    """Outputs of all exits, found without computing anything."""
    state: Any = torch.zeros(1, *input_shape, dtype=dtype, device="meta")
    network.eval()
    try:
        with torch.no_grad():
            widths = set()
            for block, head in zip(network.blocks, network.heads, strict=True):
                state = block(state)
                if bytes_of(state) > MOST_KEPT:
                    raise ValueError(f"one row takes {bytes_of(state)} bytes on its way")
                widths.add(tuple(head(state).shape))
    except (ArithmeticError, LookupError, RuntimeError, TypeError, NotImplementedError) as error:
        raise ValueError(f"the network cannot read inputs of shape {input_shape}: {error!s:.200}") from None
    if len(widths) != 1 or len(shape := widths.pop()) != 2:
        raise ValueError("the exits of the network do not give equally many numbers")
    return int(shape[1])


def _as_tensor(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array.copy())


def summary_of(block: Block) -> str:
    """A line about the network of some stages, for people."""
    if isinstance(block, StoredNetworkBlock):
        return f"a module of your own, whose {_count(block._weights.values())} weights the file holds"
    assert isinstance(block, NetworkBlock)
    architecture = dict(block.network.architecture or {"name": "a module of your own"})
    left_out = ("name", "input_shape", "n_outputs", "n_exits", "groups", "network")
    arguments = ", ".join(f"{key}={value}" for key, value in architecture.items() if key not in left_out)
    called = architecture["name"] + (f"({arguments})" if arguments else "")
    size = " x ".join(map(str, block.input_shape))
    kind = str(block.dtype).removeprefix("torch.")
    count = _count(tensor for tensor in block.network.state_dict().values())
    return f"{called} for inputs of {size}, {count} weights of {kind}, on {block.device}"


def _count(weights: Any) -> str:
    return f"{sum(math.prod(weight.shape) for weight in weights):,}"
