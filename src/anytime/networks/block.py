"""The exits of a network as the stages of a plan: a run keeps the activations of its rows and continues where it stopped."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anytime.blocks import Array, Block, Memory, State
from anytime.networks.devices import is_out_of_memory
from anytime.networks.direct import direct
from anytime.networks.exits import ExitNetwork
from anytime.networks.timing import BatchPace, watch

__all__ = ["MOST_KEPT", "Activations", "NetworkBlock", "bytes_of"]

MOST_KEPT = 1 << 28  # bytes of activations that a run keeps; beyond that rows begin again at the first block
_TIMED = ("cpu", "cuda")  # devices on which blocks can be timed without waiting for each of them
_ANY = 0  # stage under which the times of heads are kept: a run ends at any of them, and they differ little


# A forked process, a server's worker say, has none of the threads that torch has started, and would wait for them.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


class NetworkBlock(Block):
    """Stages that each run one block of a network and its exit.

    Parameters
    ----------
    network : ExitNetwork
    reads : sequence of (m,) int
        Columns that each exit needs, increasing from exit to exit.
    input_shape : sequence of int
        A row of ``X`` becomes an input of this shape.
    centre, spread : float or array
        Inputs are reduced by ``centre`` and divided by ``spread``: one number, one per channel of an image, or one per column.
    temperatures : (L,), default=None
        The output of each exit is divided by its temperature. None: 1.
    offset, unit : (K,), default=None
        Scores are ``offset + unit * output``, for targets that were scaled in training.
    device : str or torch.device, default="cpu"
    batch_rows : int, default=256
        Rows that go through the network together.
    dtype : torch.dtype, default=torch.float32
    width : int, default=None
        Number of outputs of an exit. None: determined with one row.
    """

    kind = "network"
    batch_rows: int

    def __init__(
        self,
        network: ExitNetwork,
        reads: Sequence[ArrayLike],
        input_shape: Sequence[int],
        *,
        centre: ArrayLike = 0.0,
        spread: ArrayLike = 1.0,
        temperatures: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        unit: ArrayLike | None = None,
        device: str | torch.device = "cpu",
        batch_rows: int = 256,
        dtype: torch.dtype = torch.float32,
        width: int | None = None,
    ) -> None:
        self.n_stages = network.n_exits
        if len(reads) != self.n_stages:
            raise ValueError(f"{self.n_stages} exits but columns for {len(reads)}")
        self._reads = [np.unique(np.asarray(columns, dtype=np.int32)) for columns in reads]
        self.input_shape = tuple(int(size) for size in input_shape)
        self.centre, self.spread = (np.array(a, dtype=np.float64, ndmin=1) for a in (centre, spread))
        factors = np.ones(self.n_stages) if temperatures is None else temperatures
        self.temperatures = np.asarray(factors, dtype=np.float64)
        self.offset, self.unit = (
            None if a is None else np.array(a, dtype=np.float64, ndmin=1) for a in (offset, unit)
        )
        self._check_scaling()
        self.batch_rows, self.dtype = batch_rows, dtype
        self.block_pace, self.head_pace = BatchPace(), BatchPace()
        self.device, self._is_placed = torch.device(device), False
        self._network = network.to(dtype=dtype).eval()
        self._blocks: list[Callable[[Any], Any]] = []
        self._heads: list[Callable[[Any], Tensor]] = []
        self.width = self._count_outputs() if width is None else width
        for name, values in (("offset", self.offset), ("unit", self.unit)):
            if values is not None and values.shape != (self.width,):
                raise ValueError(f"{name} has shape {values.shape}, but the network has {self.width} outputs")

    def _check_scaling(self) -> None:
        """Refuse numbers that would spoil all answers."""
        per_input = self.input_shape[0] if self.input_shape else 1
        for name, values in (("centre", self.centre), ("spread", self.spread)):
            if values.ndim != 1 or values.size not in (1, per_input) or not np.isfinite(values).all():
                raise ValueError(f"{name} must be one finite number, or {per_input} of them")
        if not (self.spread > 0).all():
            raise ValueError("spread must be positive")
        values = self.temperatures
        if values.shape != (self.n_stages,) or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError(f"there must be {self.n_stages} temperatures, all positive")
        if (self.offset is None) != (self.unit is None):
            raise ValueError("give offset and unit together")
        if any(values is not None and not np.isfinite(values).all() for values in (self.offset, self.unit)):
            raise ValueError("offset and unit must be finite")

    @property
    def times_itself(self) -> bool:
        return True

    @property
    def can_be_forked(self) -> bool:
        return self.device.type == "cpu"

    @property
    def network(self) -> ExitNetwork:
        """The network, on its device."""
        self._place()
        return self._network

    def _place(self) -> None:
        """Move the network to its device, where that was not done yet.

        It waits for the first use, because a process that has touched a GPU cannot be forked into others that use it.
        """
        if self._is_placed:
            return
        is_image = len(self.input_shape) == 3
        layout = torch.channels_last if self.device.type == "cuda" and is_image else torch.contiguous_format
        self._network.to(device=self.device, memory_format=layout)
        self._centre, self._spread = (self._broadcast(a) for a in (self.centre, self.spread))
        # plain lists: looking into a ModuleList takes as long as some layers do
        self._blocks, self._heads = (
            [direct(m) for m in ms] for ms in (self._network.blocks, self._network.heads)
        )
        self._is_placed = True

    def _broadcast(self, values: NDArray[np.float64]) -> Tensor:
        tensor = torch.as_tensor(values, dtype=self.dtype, device=self.device)
        return tensor[:, None, None] if tensor.ndim == 1 and len(self.input_shape) == 3 else tensor

    def to(self, device: str | torch.device) -> NetworkBlock:
        """The same stages on another device."""
        return self.changed(self._network, device=device)

    def changed(self, network: ExitNetwork, **changes: Any) -> NetworkBlock:
        """The stages of another network, the first exits of this one or all of them after training, read in the same way.

        Parameters
        ----------
        network : ExitNetwork
        **changes
            Other constructor arguments that differ.
        """
        n = network.n_exits
        same = {
            "centre": self.centre,
            "spread": self.spread,
            "temperatures": self.temperatures[:n],
            "offset": self.offset,
            "unit": self.unit,
            "device": self.device,
            "batch_rows": self.batch_rows,
            "dtype": self.dtype,
            "width": self.width,
        }
        return NetworkBlock(network, self._reads[:n], self.input_shape, **(same | changes))

    @torch.inference_mode()
    def _count_outputs(self) -> int:
        row = torch.zeros(1, *self.input_shape, dtype=self.dtype, device=self.device)
        state = self.network.advance(row, 0, 0)
        return int(self.network.heads[0](state).shape[1])

    # ------------------------------------------------------------------ stages

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self._reads[stage]

    def outputs(self, stage: int, X: Array) -> Array:
        return self.proceed(0, stage, X, {})

    def remember(self, n_rows: int) -> Memory:
        return {"activations": Activations(n_rows)}

    @torch.inference_mode()
    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        kept: Activations | None = memory.get("activations")
        out = np.empty((len(X), self.width))
        start, fewer = 0, False
        while start < len(X):
            rows = slice(start, min(start + self.batch_rows, len(X)))
            scores = self._batch(first, stage, X, rows, kept)
            if scores is None:
                self._take_fewer(rows.stop - start)
                fewer = True
                continue
            out[rows] = scores
            start = rows.stop
        if fewer:
            warnings.warn(
                f"rows go through the network {self.batch_rows} at a time: more do not fit into the memory of the GPU",
                RuntimeWarning,
                stacklevel=2,
            )
        return self._scaled(stage, out)

    def _batch(
        self, first: int, stage: int, X: Array, rows: slice, kept: Activations | None
    ) -> NDArray[np.float32] | None:
        """Outputs of the head of ``stage`` for one batch; None if the memory of the device is too small."""
        began = time.perf_counter()
        try:
            state = None if kept is None else kept.take(rows)
            begin = 0 if state is None else first
            if state is None:
                state = self.inputs(X[rows])
            for block in self._blocks[begin : stage + 1]:
                state = block(state)
            scores = self._scores_of(stage, state)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None  # and not tried again here, where the error still holds what was computed
        if kept is not None:
            kept.put(rows, state)
        if begin == stage:
            n, taken = rows.stop - rows.start, time.perf_counter() - began
            self.block_pace.note(stage, n, taken - self.head_pace.seconds(_ANY, n))
        return scores

    def _take_fewer(self, n_rows: int) -> None:
        """Halve the batches."""
        if n_rows < 2:
            raise MemoryError(
                f"the memory of the device {self.device} is too small for one row: free some, or use device='cpu'"
            )
        self.batch_rows = n_rows // 2
        torch.cuda.empty_cache()

    @torch.inference_mode()
    def proceed_while(
        self, first: int, end: int, X: Array, memory: Memory, has_time: Callable[[float], bool]
    ) -> tuple[int, Array | None]:
        """As in every block. The outputs of exits on the way are not used, so only the head behind the last block is computed."""
        if self.device.type in _TIMED:
            try:
                return self._through_blocks(first, end, X, memory["activations"], has_time)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise  # else by halves
            self._take_fewer(len(X))
        return super().proceed_while(first, end, X, memory, has_time)

    def _through_blocks(
        self, first: int, end: int, X: Array, kept: Activations, has_time: Callable[[float], bool]
    ) -> tuple[int, Array | None]:
        if first == end or not self._fits(first, len(X), 0.0, has_time):
            return first, None
        rows = slice(0, len(X))
        state = kept.take(rows)
        if state is None:
            state = self.inputs(X)
            for block in self._blocks[:first]:
                state = block(state)
        stage, watching = first, watch(self.block_pace, len(X), self.device)
        while stage < end and (stage == first or self._fits(stage, len(X), watching.ahead, has_time)):
            state = self._blocks[stage](state)
            watching.begun(stage)
            stage += 1
        watching.finish()
        began = time.perf_counter()
        scores = self._scores_of(stage - 1, state)
        self.head_pace.note(_ANY, len(X), time.perf_counter() - began)
        kept.put(rows, state)
        return stage, self._scaled(stage - 1, scores.astype(np.float64))

    def _fits(self, stage: int, n_rows: int, ahead: float, has_time: Callable[[float], bool]) -> bool:
        """Whether there is time for a stage after what takes ``ahead`` seconds."""
        if has_time(ahead + self.seconds(stage, n_rows)):
            return True
        if has_time(ahead):
            self.block_pace.doubt(stage, n_rows)
        return False

    def _scores_of(self, stage: int, state: Any) -> NDArray[np.float32]:
        """Outputs of the head of a stage."""
        # the last bits of a double depend on how many rows were multiplied together: single precision leaves them out
        scores: NDArray[np.float32] = self._heads[stage](state).float().cpu().numpy()  # waits for the device
        return scores

    def _scaled(self, stage: int, out: Array) -> Array:
        out /= self.temperatures[stage]
        return out if self.unit is None or self.offset is None else self.offset + self.unit * out

    def inputs(self, X: Array) -> Tensor:
        """Rows as the first block reads them, on the device."""
        rows = torch.from_numpy(np.require(X, requirements=["C", "W"])).to(self.device, non_blocking=True)
        x = self.prepared(rows.reshape(-1, *self.input_shape))
        if x.ndim == 4 and self.device.type == "cuda":
            x = x.to(memory_format=torch.channels_last)
        return x

    def prepared(self, x: Tensor) -> Tensor:
        """Inputs on the scale of training."""
        self._place()
        return (x.to(self.dtype) - self._centre) / self._spread

    def head(self, n_stages: int) -> NetworkBlock:
        return self if n_stages == self.n_stages else self.changed(self._network.head(n_stages))

    def state(self) -> State:
        from anytime.networks.stored import state_of  # it knows blocks, to read them

        return state_of(self)

    # ------------------------------------------------------------------ time

    def seconds(self, stage: int, n_rows: int) -> float:
        return self.block_pace.seconds(stage, n_rows) + self.head_pace.seconds(_ANY, n_rows)

    def rows_in_time(self, stage: int, n_rows: int, seconds: float) -> int:
        if seconds < np.inf and not self.block_pace.knows(stage):
            n_rows = min(n_rows, 1)  # the first that go there in a hurry go alone, and say how long it takes
        size = super().rows_in_time(stage, n_rows, seconds)
        if not size and n_rows and seconds > 0:
            self.block_pace.doubt(stage, 1)
        return size

    def measure(self, n_rows: int = 1, n_repeats: int = 3) -> NDArray[np.float64]:
        """(L,) seconds of each stage for ``n_rows`` rows: the median of ``n_repeats`` runs, after one that warms up."""
        X = np.zeros((n_rows, int(np.prod(self.input_shape))))
        whole, heads = np.empty((2, n_repeats + 1, self.n_stages))
        for repeat in range(n_repeats + 1):
            memory = self.remember(n_rows)
            for stage in range(self.n_stages):
                began = time.perf_counter()
                self.proceed(stage, stage, X, memory)
                ended = time.perf_counter()
                self._say_again(stage, memory["activations"])
                whole[repeat, stage], heads[repeat, stage] = ended - began, time.perf_counter() - ended
        median = np.asarray(np.median(whole[1:], axis=0))
        head = float(np.median(heads[1:]))
        self.head_pace.begin_with(_ANY, n_rows, head)
        for stage, taken in enumerate(median.tolist()):
            self.block_pace.begin_with(stage, n_rows, max(taken - head, 0.0))
        return median

    @torch.inference_mode()
    def _say_again(self, stage: int, kept: Activations) -> None:
        """Compute the head of a stage, as far as its batch is kept."""
        state = kept.take(slice(0, min(len(kept), self.batch_rows)))
        if state is not None:
            self._scores_of(stage, state)


class Activations:
    """What blocks have left of each row: whole batches where rows stay together, gathered anew where they part.

    It is indexed by rows, as the arrays are that other blocks remember.
    """

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._together: Any = None  # the state of all rows, in order, as long as they stay together
        self._batch = np.full(n_rows, -1)  # of each row that has parted; -1: nothing is kept
        self._place = np.zeros(n_rows, dtype=np.intp)  # in its batch
        self._states: dict[int, Any] = {}
        self._next = 0

    def __len__(self) -> int:
        return self._n_rows

    def take(self, rows: NDArray[np.intp] | slice) -> Any:
        """The state of rows that are equally far; None where that of one of them is not kept."""
        if self._together is not None and self._are_all(rows):
            return self._together
        self._part()
        rows = np.arange(len(self))[rows]
        batches = self._batch[rows]
        if not len(rows) or batches.min() < 0:
            return None
        numbers = np.unique(batches)
        if len(numbers) == 1:
            return _picked(self._states[int(numbers[0])], self._place[rows])
        order: list[NDArray[np.intp]] = []
        parts = []
        for number in numbers:
            here = np.flatnonzero(batches == number)
            order.append(here)
            parts.append(_picked(self._states[int(number)], self._place[rows[here]]))
        back = np.argsort(np.concatenate(order))
        return _picked(_joined(parts), back)

    def put(self, rows: NDArray[np.intp] | slice, state: Any) -> None:
        """Keep the state of rows, in place of what was kept of them."""
        if self._are_all(rows) and bytes_of(state) <= MOST_KEPT:
            self._together = state
            return
        self._part()
        rows = np.arange(len(self))[rows]
        if bytes_of(state) * (len(self) / max(len(rows), 1)) > MOST_KEPT:
            self._batch[rows] = -1
        else:
            self._states[self._next] = state
            self._batch[rows], self._place[rows] = self._next, np.arange(len(rows))
            self._next += 1
        used = set(np.unique(self._batch).tolist())
        self._states = {number: kept for number, kept in self._states.items() if number in used}

    def copy(self) -> Activations:
        """The same rows, to continue separately; states are never written again and so are shared."""
        other = Activations(len(self))
        other._batch, other._place, other._together = self._batch.copy(), self._place.copy(), self._together
        other._states, other._next = dict(self._states), self._next
        return other

    def __getitem__(self, rows: Any) -> Activations:
        chosen = np.arange(len(self))[rows]
        part = Activations(len(chosen))
        state = self.take(chosen)
        if state is not None:
            part.put(slice(0, len(chosen)), state)
        return part

    def __setitem__(self, rows: Any, part: Activations) -> None:
        chosen = np.arange(len(self))[rows]
        state = part.take(slice(0, len(part)))
        if state is None:
            self._part()
            self._batch[chosen] = -1
        else:
            self.put(chosen, state)

    def _are_all(self, rows: NDArray[np.intp] | slice) -> bool:
        """Whether these are all rows, in order."""
        if isinstance(rows, slice):
            return rows.start == 0 and rows.stop == self._n_rows
        return len(rows) == self._n_rows and bool((rows[1:] > rows[:-1]).all())

    def _part(self) -> None:
        """Rows that shared a state have states of their own from now on."""
        if self._together is not None:
            self._batch[:], self._place[:] = 0, np.arange(len(self))
            self._states, self._next, self._together = {0: self._together}, 1, None


def _picked(state: Any, places: NDArray[np.intp]) -> Any:
    """Some rows of a state; the state itself where these are all."""
    if isinstance(state, tuple):
        return tuple(_picked(part, places) for part in state)
    if not isinstance(state, Tensor) or not state.ndim:
        return state
    if len(places) == len(state) and (places == np.arange(len(places))).all():
        return state
    return state[torch.from_numpy(np.ascontiguousarray(places)).to(state.device)]


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], tuple):
        return tuple(_joined(list(column)) for column in zip(*parts, strict=True))
    return torch.cat(list(parts)) if isinstance(parts[0], Tensor) else parts[0]


def bytes_of(state: Any) -> int:
    """Bytes of what a block leaves for the next."""
    if isinstance(state, tuple):
        return sum(bytes_of(part) for part in state)
    return state.numel() * state.element_size() if isinstance(state, Tensor) else 0
