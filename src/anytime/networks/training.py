"""Training of a network with exits: data and augmentation stay on the device, and there is a usable model at every moment.

The trainer needs only torch and NumPy. It can stop at any batch (a time limit, Ctrl-C, a NaN loss), keeps a usable state, and
continues from a checkpoint as if it had not been interrupted: on a CPU with identical results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import Tensor

from anytime.networks.augmentation import augmented
from anytime.networks.devices import chosen_device
from anytime.networks.exits import ExitNetwork
from anytime.networks.processes import (
    average_over_processes,
    is_distributed,
    latest,
    rank_and_size,
    share_first,
)
from anytime.networks.recipe import TrainingRecipe
from anytime.networks.running_mean import RunningMean, copy_of
from anytime.networks.stepping import (
    TrainingError,
    TrainingStep,
    autocast,
    image_layout,
    laid_out,
    make_optimizer,
)
from anytime.networks.weights import ConstantWeights, LossWeights, mean_over_processes

__all__ = ["NetworkTrainer"]

_CHECK_EVERY = 50  # batches between two looks for a loss that is not a number


class NetworkTrainer:
    """Trains one network.

    Parameters
    ----------
    network : ExitNetwork
    recipe : TrainingRecipe
    scheme : LossWeights, default=None
        None: equal weights for all exits.
    device : str or torch.device, default=None
        None: a GPU if there is one.
    seed : int, default=0
        Seed of the order of rows and of augmentation.
    prepare : callable, default=None
        Function from a stored batch to the input of the network, on the device, such as scaling.
    checkpoint : path, default=None
        File for the state after each epoch. If it exists, training continues from it.
    report : callable, default=None
        Called after each epoch with a dict: epoch, losses, weights, errors, seconds.
    extra_loss : callable, default=None
        Returns a term that is added to the loss of every batch.
    after_step : callable, default=None
        Called after every batch with the completed share of training and the learning rate of the batch. An exception ends
        training.
    turns : sequence of callables, default=()
        Training modes that alternate from batch to batch: each is called before its batch.
    until : callable, default=None
        Called after each epoch with ``history``; training ends if it returns True. None: after the epochs of the recipe.

    Attributes
    ----------
    network : ExitNetwork
        The network in its current state.
    epoch, step : int
        Completed epochs and steps.
    history : list of dict
        All reports.
    """

    def __init__(
        self,
        network: ExitNetwork,
        recipe: TrainingRecipe,
        scheme: LossWeights | None = None,
        *,
        device: str | torch.device | None = None,
        seed: int = 0,
        prepare: Callable[[Tensor], Tensor] | None = None,
        checkpoint: str | Path | None = None,
        report: Callable[[dict[str, Any]], None] | None = None,
        extra_loss: Callable[[], Tensor] | None = None,
        after_step: Callable[[float, float], None] | None = None,
        turns: Sequence[Callable[[], None]] = (),
        until: Callable[[list[dict[str, Any]]], bool] | None = None,
    ) -> None:
        self.device = chosen_device(device)
        self.recipe = recipe
        self.scheme = ConstantWeights() if scheme is None else scheme
        layout = image_layout(recipe, self.device)
        self.network = network.to(self.device, memory_format=layout)
        scaled = prepare or Tensor.float
        self._prepare = lambda x: laid_out(scaled(x), layout)
        self.seed, self.report, self.after_step, self.until = seed, report, after_step, until
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        if self.checkpoint is not None and not self.checkpoint.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {str(self.checkpoint.parent)!r} to write the checkpoint to")
        self.epoch = self.step = 0
        self.history: list[dict[str, Any]] = []
        self.interrupted = False
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        self._optimizer = make_optimizer(recipe, parameters, self.device)
        self._average = None if recipe.average is None else RunningMean(self.network, recipe.average)
        self._before_average: dict[str, Tensor] | None = None
        self._turns = turns or [lambda: None]
        pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self._steps = [
            TrainingStep(self.network, recipe, self.scheme, self._optimizer, self.prepare, extra_loss, pool)
            for _ in self._turns
        ]

    @property
    def prepare(self) -> Callable[[Tensor], Tensor]:
        """From a batch as it is stored to what the network reads; training and evaluation share it, so it is not changed."""
        return self._prepare

    # ------------------------------------------------------------------ going on

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        time_budget: float | None = None,
    ) -> NetworkTrainer:
        """Train for the epochs of the recipe, or the seconds of ``time_budget``; Ctrl-C ends training early.

        Parameters
        ----------
        X : (n, ...) array or tensor
            Stored on the device as it is.
        y : (n,) int, or (n, K) float
        sample_weight : (n,), default=None
        X_val, y_val : arrays, default=None
            Rows for the error of each exit after every epoch.
        time_budget : float, default=None
            The schedule is compressed so that it ends within this many seconds.
        """
        began = time.monotonic()
        X, y, sample_weight = (self._stored(a) for a in (X, y, sample_weight))
        X_val, y_val = self._stored(X_val), self._stored(y_val)
        if self.checkpoint is not None and self.checkpoint.exists() and not self.step:
            self._resume(self.checkpoint)
        if self._before_average is not None:  # training continues from the parameters, not from their mean
            self.network.load_state_dict(self._before_average)
            self._before_average = None
        if is_distributed():  # all processes begin with the first one's network
            share_first(self.network)
            if self._average is not None and not self.step:
                self._average.values = copy_of(self.network)
        self.interrupted = False
        due = np.inf if time_budget is None else began + time_budget
        try:
            while not (self.interrupted or self._is_over()):
                self._run_epoch(X, y, sample_weight, X_val, y_val, began, due)
        except KeyboardInterrupt:
            self.interrupted = True
        if self._average is not None and self.step:
            self._before_average = copy_of(self.network)
            self.network.load_state_dict(self._average.values)
        self.network.eval()
        return self

    def _is_over(self) -> bool:
        enough = self.until is not None and bool(self.history) and self.until(self.history)
        return enough or self.epoch >= self.recipe.epochs

    def _resume(self, path: Path) -> None:
        try:
            self.load_state_dict(torch.load(path, map_location=self.device, weights_only=True))
        except (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, UnpicklingError) as error:
            raise ValueError(
                f"the checkpoint {str(path)!r} is damaged, or of another network or recipe: remove it, or name another file"
            ) from error

    def _run_epoch(
        self, X: Tensor, y: Tensor, weight: Tensor | None, X_val: Any, y_val: Any, began: float, due: float
    ) -> None:
        rank, size = rank_and_size()
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        order = torch.randperm(len(X), generator=generator)
        per_epoch = max(1, len(X) // self.recipe.batch_size)
        batch = min(self.recipe.batch_size, len(X)) // size
        if not batch:
            raise ValueError(
                f"batch_size {self.recipe.batch_size} is less than one row for each of {size} processes"
            )
        order = (
            order[: per_epoch * batch * size]
            .reshape(per_epoch, size, batch)[:, rank]
            .reshape(-1)
            .to(self.device)
        )
        rows: Callable[[slice], Tensor] = lambda here: X[order[here]]  # noqa: E731
        if self.recipe.augment is not None:
            rows = augmented(X, order, generator, rank, self.recipe.cutout)
        self.network.train()
        total = torch.zeros(self.network.n_exits, device=self.device)
        started, done = time.monotonic(), 0
        for i in range(per_epoch):
            passed = (self.epoch * per_epoch + i) / (self.recipe.epochs * per_epoch)
            if np.isfinite(due):
                passed = max(passed, latest((time.monotonic() - began) / max(due - began, 1e-9), self.device))
                if passed >= 1.0 and self.step:  # a single step is made however short the time is
                    self.interrupted = True
                    break
            rate = self.recipe.learning_rate * self.recipe.schedule(min(passed, 1.0))
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            here = slice(i * batch, (i + 1) * batch)
            chosen = order[here]
            sample_weight = None if weight is None else weight[chosen]
            turn = self.step % len(self._turns)
            self._turns[turn]()
            losses = self._steps[turn](rows(here), y[chosen], sample_weight, self.step + 1)
            total += losses
            done += 1
            self.step += 1
            if self.after_step is not None:
                self.after_step(min(passed, 1.0), rate)
            if self._average is not None:
                self._average.update(self.network)
            if self.step % _CHECK_EVERY == 0 or i == per_epoch - 1 or self.step == 1:
                for step in self._steps:
                    step.check(self.step)
        if not done:  # the time was over between two epochs
            return
        if not self.interrupted:
            self.epoch += 1
        if is_distributed():  # batch normalisation saw other rows in every process
            average_over_processes(self.network.buffers())
            if self._average is not None:
                average_over_processes(self._average.values.values())
        self._tell(mean_over_processes(total / done), X_val, y_val, time.monotonic() - started)
        if self.checkpoint is not None and not self.interrupted and rank == 0:
            _write_whole(self.checkpoint, self.state_dict())

    def _tell(self, losses: Tensor, X_val: Any, y_val: Any, seconds: float) -> None:
        entry: dict[str, Any] = {
            "epoch": self.epoch,
            "losses": losses.tolist(),
            "weights": [] if self.scheme.weights is None else [float(w) for w in self.scheme.weights],
            "seconds": seconds,
        }
        if X_val is not None:
            entry["errors"] = self.errors(X_val, y_val).tolist()
        self.history.append(entry)
        if self.report is not None:
            self.report(entry)

    def _stored(self, array: Any) -> Any:
        if array is None:
            return None
        if not isinstance(array, Tensor):
            array = torch.from_numpy(
                np.require(array, requirements=["C", "W"])
            )  # tensors have to be writable
        with suppress(torch.cuda.OutOfMemoryError):
            return array.to(self.device)
        raise TrainingError(
            f"{len(array)} rows take {array.nbytes / 2**30:.2f} GiB, for which the memory of the GPU is too small: "
            "give fewer, or numbers of fewer bytes (uint8, float32), or use device='cpu'"
        )

    # ------------------------------------------------------------------ looking

    @torch.no_grad()
    def outputs_of(self, X: Any) -> Tensor:
        """(L, n, K) outputs of every exit, in evaluation mode and with full precision of the last layer."""
        batch_size = min(
            4 * self.recipe.batch_size, 1024
        )  # without gradients they take less memory than a batch of training
        X = X if isinstance(X, Tensor) else torch.from_numpy(np.require(X, requirements=["C", "W"]))
        was_training = self.network.training
        self.network.eval()
        swap = (
            self._average.swapped(self.network)
            if self._average is not None and self._before_average is None and self.step
            else nullcontext()
        )
        with swap, autocast(self.recipe, self.device):
            parts = [
                self.network(self.prepare(X[i : i + batch_size].to(self.device))).float()
                for i in range(0, len(X), batch_size)
            ]
        self.network.train(was_training)
        return torch.cat(parts, dim=1)

    def errors(self, X: Any, y: Any) -> Tensor:
        """(L,) error of every exit: the share of wrong classes, or the mean squared error."""
        outputs, y = self.outputs_of(X), self._stored(y)
        if y.dtype.is_floating_point:
            return (outputs - y).square().mean(dim=(1, 2))
        return (outputs.argmax(dim=2) != y).float().mean(dim=1)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """The complete state of training."""
        return {
            "network": self.network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "scheme": self.scheme.state_dict(),
            "average": None if self._average is None else self._average.state_dict(),
            "epoch": self.epoch,
            "step": self.step,
            "history": self.history,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.scheme.load_state_dict(state["scheme"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])
        self.epoch, self.step, self.history = state["epoch"], state["step"], list(state["history"])


def _write_whole(path: Path, state: Mapping[str, Any]) -> None:
    """A file that is either the old one or the new one, whenever the machine stops."""
    beside = path.with_name(path.name + ".new")
    torch.save(state, beside)
    beside.replace(path)
