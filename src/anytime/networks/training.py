"""Training of a network with exits: data and augmentation on the device, and a model worth having at every moment.

The trainer needs torch and NumPy alone. It can be stopped at any batch (a clock, Ctrl-C, a loss that is not a number), keeps a
state
that is good to use, and goes on from a checkpoint as if nothing had happened: on a CPU to the same bits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from anytime.networks.exits import ExitNetwork
from anytime.networks.weights import ConstantWeights, FirstOrder, HalfEnd, LossWeights, mean_over_processes

__all__ = [
    "CosineSchedule",
    "NetworkTrainer",
    "StepSchedule",
    "TrainingError",
    "TrainingRecipe",
    "auto_weights",
    "default_device",
    "exit_losses",
]

_CHECK_EVERY = 50  # batches between two looks for a loss that is not a number


class TrainingError(RuntimeError):
    """Training could not go on; the network is in the last state that was good."""


# ---------------------------------------------------------------------- schedules, as data


@dataclass(frozen=True)
class CosineSchedule:
    """The learning rate falls to zero along half a cosine, after a linear rise over the share ``warmup``."""

    warmup: float = 0.05

    def __call__(self, progress: float) -> float:
        """The share of the full rate when the share ``progress`` of training is over."""
        if progress < self.warmup:
            return (progress + 1e-3) / (self.warmup + 1e-3)
        return float(0.5 * (1 + np.cos(np.pi * (progress - self.warmup) / max(1 - self.warmup, 1e-9))))


@dataclass(frozen=True)
class StepSchedule:
    """The learning rate is divided by ``factor`` at each of the shares ``at`` of training."""

    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 10.0

    def __call__(self, progress: float) -> float:
        """The share of the full rate when the share ``progress`` of training is over."""
        return float(self.factor ** -sum(progress >= point for point in self.at))


@dataclass(frozen=True)
class TrainingRecipe:
    """How a network is trained.

    Parameters
    ----------
    epochs : int
    batch_size : int
    optimizer : {"sgd", "adamw"}
        "sgd" has Nesterov momentum.
    learning_rate, momentum, weight_decay : float
    schedule : CosineSchedule, StepSchedule or callable
        From the share of training that is over to the share of the learning rate.
    clip : float or None
        Largest norm of the gradient.
    average : float or None
        Momentum of a running mean of all parameters, which is what is kept in the end. None: the last ones are kept.
    augment : {"crop_flip", None}
        "crop_flip": images are padded by 4, cropped at random and mirrored at random.
    label_smoothing : float
    distillation : float
        Share of every exit's loss, but the last's, that compares it with what the last exit says instead of the label.
    decoupled : bool
        Heads learn at full speed; the weights of the scheme say how much of each exit's gradient enters the blocks.
    bfloat16 : bool or None
        Compute in bfloat16 where it is safe. None: on a GPU.
    compile : bool
        Compile the network with ``torch.compile``.
    """

    epochs: int = 60
    batch_size: int = 128
    optimizer: str = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Callable[[float], float] = field(default_factory=CosineSchedule)
    clip: float | None = None
    average: float | None = None
    augment: str | None = None
    label_smoothing: float = 0.0
    distillation: float = 0.0
    decoupled: bool = False
    bfloat16: bool | None = None
    compile: bool = False

    def __post_init__(self) -> None:
        wrong = {
            "epochs must be at least 1": self.epochs < 1,
            "batch_size must be at least 1": self.batch_size < 1,
            "optimizer must be 'sgd' or 'adamw'": self.optimizer not in ("sgd", "adamw"),
            "learning_rate must be above 0": not self.learning_rate > 0,
            "clip must be above 0, or None": self.clip is not None and not self.clip > 0,
            "average must be between 0 and 1, or None": self.average is not None and not 0 < self.average < 1,
            "augment must be 'crop_flip' or None": self.augment not in ("crop_flip", None),
            "label_smoothing must be at least 0 and below 1": not 0 <= self.label_smoothing < 1,
            "distillation must be between 0 and 1": not 0 <= self.distillation <= 1,
        }
        for rule, broken in wrong.items():
            if broken:
                raise ValueError(f"{rule}, not {getattr(self, rule.split()[0])!r}")


def auto_weights(recipe: TrainingRecipe) -> tuple[TrainingRecipe, LossWeights]:
    """The recipe and the scheme of ``loss_weights="auto"``.

    Heads learn at full speed, three quarters of what enters the blocks come from the last exit, and the others learn half from
    it and half from the labels. The shares were chosen on held-out rows of CIFAR-10.
    """
    return replace(recipe, decoupled=True, distillation=0.5), HalfEnd(0.75)


# ---------------------------------------------------------------------- losses


def exit_losses(
    said: Tensor,
    y: Tensor,
    *,
    sample_weight: Tensor | None = None,
    label_smoothing: float = 0.0,
    distillation: float = 0.0,
) -> Tensor:
    """(L,) mean loss of each exit: cross-entropy where ``y`` holds class numbers, else half the squared error.

    Parameters
    ----------
    said : (L, n, K)
    y : (n,) int, or (n, K) float
    sample_weight : (n,), default=None
    label_smoothing, distillation : float
        As in ``TrainingRecipe``.
    """
    n_exits, n, width = said.shape
    if y.dtype.is_floating_point:
        losses = 0.5 * (said - y).square().mean(dim=2)
    else:
        repeated = y.expand(n_exits, n).reshape(-1)
        flat = functional.cross_entropy(
            said.reshape(-1, width), repeated, reduction="none", label_smoothing=label_smoothing
        )
        losses = flat.reshape(n_exits, n)
    if distillation and n_exits > 1:
        teacher = said[-1].detach()
        if y.dtype.is_floating_point:
            taught = 0.5 * (said[:-1] - teacher).square().mean(dim=2)
        else:
            taught = -(teacher.softmax(dim=1) * said[:-1].log_softmax(dim=2)).sum(dim=2)
        early = (1 - distillation) * losses[:-1] + distillation * taught
        losses = torch.cat([early, losses[-1:]])
    if sample_weight is None:
        return losses.mean(dim=1)
    return (losses * sample_weight).sum(dim=1) / sample_weight.sum().clamp(min=1e-12)


# ---------------------------------------------------------------------- the trainer


class NetworkTrainer:
    """Trains one network.

    Parameters
    ----------
    network : ExitNetwork
    recipe : TrainingRecipe
    scheme : LossWeights, default=None
        None: all exits count the same.
    device : str or torch.device, default=None
        None: a GPU where there is one.
    seed : int, default=0
        Of the order of rows and of augmentation.
    prepare : callable, default=None
        From a batch as it is stored to what the network reads, on the device: scaling, for instance.
    checkpoint : path, default=None
        Where the state is written after each epoch. Where the file is there, training goes on from it.
    report : callable, default=None
        Called after each epoch with a dict: epoch, losses, weights, errors, seconds.

    Attributes
    ----------
    network : ExitNetwork
        As trained so far.
    epoch, step : int
        What is done.
    history : list of dict
        What was reported.
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
    ) -> None:
        self.device = torch.device(device) if device is not None else default_device()
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda' was asked for, but torch sees no GPU here; use device='cpu'")
        self.recipe = recipe
        self.scheme = ConstantWeights() if scheme is None else scheme
        layout = torch.channels_last if self.device.type == "cuda" else torch.contiguous_format
        self.network = network.to(self.device, memory_format=layout)
        self.prepare = (lambda x: x.float()) if prepare is None else prepare
        self.seed, self.report = seed, report
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        if self.checkpoint is not None and not self.checkpoint.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {str(self.checkpoint.parent)!r} to write the checkpoint to")
        self.epoch = self.step = 0
        self.history: list[dict[str, Any]] = []
        self.interrupted = False
        self._spent = 0.0  # seconds of training before this call
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        self._optimizer = _optimizer(recipe, parameters, self.device)
        self._average = None if recipe.average is None else _RunningMean(self.network, recipe.average)
        self._before_average: dict[str, Tensor] | None = None
        self._stepper: _Stepper | None = None

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
        """Train until the epochs of the recipe, or the seconds of ``time_budget``, are over; Ctrl-C ends it early.

        Parameters
        ----------
        X : (n, ...) array or tensor
            Stored on the device as it is.
        y : (n,) int, or (n, K) float
        sample_weight : (n,), default=None
        X_val, y_val : arrays, default=None
            Rows on which the error of each exit is told after every epoch.
        time_budget : float, default=None
            The schedule is hurried so that it ends within so many seconds.
        """
        began = time.monotonic()
        X, y, sample_weight = (self._stored(a) for a in (X, y, sample_weight))
        X_val, y_val = self._stored(X_val), self._stored(y_val)
        if self.checkpoint is not None and self.checkpoint.exists() and not self.step:
            self._resume(self.checkpoint)
        if self._before_average is not None:  # training goes on from the parameters, not from their mean
            self.network.load_state_dict(self._before_average)
            self._before_average = None
        if _is_distributed():  # all processes begin with the first one's network
            for value in self.network.state_dict().values():
                dist.broadcast(value, 0)
            if self._average is not None and not self.step:
                self._average.values = _copy_of(self.network)
        self.interrupted = False
        due = np.inf if time_budget is None else began + time_budget
        try:
            while self.epoch < self.recipe.epochs and not self.interrupted:
                self._run_epoch(X, y, sample_weight, X_val, y_val, began, due)
        except KeyboardInterrupt:
            self.interrupted = True
        self._spent += time.monotonic() - began
        if self._average is not None and self.step:
            self._before_average = _copy_of(self.network)
            self.network.load_state_dict(self._average.values)
        self.network.eval()
        return self

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
        rank, size = (dist.get_rank(), dist.get_world_size()) if _is_distributed() else (0, 1)
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
        rows = self._augmented(X, order, generator, rank)
        self.network.train()
        stepper = self._stepper or _Stepper(self)
        self._stepper = stepper
        total = torch.zeros(self.network.n_exits, device=self.device)
        started, done = time.monotonic(), 0
        for i in range(per_epoch):
            passed = (self.epoch * per_epoch + i) / (self.recipe.epochs * per_epoch)
            if np.isfinite(due):
                passed = max(
                    passed, _latest((time.monotonic() - began) / max(due - began, 1e-9), self.device)
                )
                if passed >= 1.0 and self.step:  # a single step is made however short the time is
                    self.interrupted = True
                    break
            for group in self._optimizer.param_groups:
                group["lr"] = self.recipe.learning_rate * self.recipe.schedule(min(passed, 1.0))
            here = slice(i * batch, (i + 1) * batch)
            chosen = order[here]
            losses = stepper(rows(here), y[chosen], None if weight is None else weight[chosen])
            total += losses
            done += 1
            self.step += 1
            if self._average is not None:
                self._average.update(self.network)
            if self.step % _CHECK_EVERY == 0 or i == per_epoch - 1 or self.step == 1:
                stepper.check()
        if not self.interrupted:
            self.epoch += 1
        if _is_distributed():  # batch normalisation saw other rows in every process
            _average_over_processes(self.network.buffers())
            if self._average is not None:
                _average_over_processes(self._average.values.values())
        self._tell(mean_over_processes(total / max(done, 1)), X_val, y_val, time.monotonic() - started)
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
        return array.to(self.device)

    def _augmented(
        self, X: Tensor, order: Tensor, generator: torch.Generator, rank: int
    ) -> Callable[[slice], Tensor]:
        """What gives the rows of a batch, by their places in ``order``."""
        if self.recipe.augment is None:
            return lambda here: X[order[here]]
        if X.ndim != 4:
            raise ValueError(f"augment is for images, (n, channels, height, width), not {tuple(X.shape)}")
        n = len(order)
        shift = torch.randint(
            0, 9, (2, n), generator=generator.manual_seed(generator.initial_seed() + 7 * rank + 1)
        )
        mirror = torch.rand(n, generator=generator) < 0.5
        shift, mirror = shift.to(self.device), mirror.to(self.device)
        size = 8192
        chunk: dict[int, Tensor] = {}

        def rows(here: slice) -> Tensor:
            # cropping thousands of images in one go costs no more than one batch
            start = here.start // size * size
            if here.stop > min(start + size, n):
                return crop_and_flip(X[order[here]], shift[:, here], mirror[here])
            if start not in chunk:
                chunk.clear()
                some = slice(start, start + size)
                chunk[start] = crop_and_flip(X[order[some]], shift[:, some], mirror[some])
            return chunk[start][here.start - start : here.stop - start]

        return rows

    # ------------------------------------------------------------------ looking

    @torch.no_grad()
    def said(self, X: Any, batch_size: int = 1024) -> Tensor:
        """(L, n, K) what every exit says of rows, in evaluation mode and full precision of its last layer."""
        X = X if isinstance(X, Tensor) else torch.from_numpy(np.require(X, requirements=["C", "W"]))
        was_training = self.network.training
        self.network.eval()
        swap = (
            self._average.swapped(self.network)
            if self._average is not None and self._before_average is None and self.step
            else nullcontext()
        )
        with swap, self.autocast():
            parts = [
                self.network(self.prepare(X[i : i + batch_size].to(self.device))).float()
                for i in range(0, len(X), batch_size)
            ]
        self.network.train(was_training)
        return torch.cat(parts, dim=1)

    def errors(self, X: Any, y: Any) -> Tensor:
        """(L,) error of every exit: the share of wrong classes, or the mean squared error."""
        said, y = self.said(X), self._stored(y)
        if y.dtype.is_floating_point:
            return (said - y).square().mean(dim=(1, 2))
        return (said.argmax(dim=2) != y).float().mean(dim=1)

    def autocast(self) -> Any:
        """The context in which the network computes."""
        wanted = self.recipe.bfloat16
        if wanted is None:
            wanted = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=wanted)

    # ------------------------------------------------------------------ state

    def state_dict(self) -> dict[str, Any]:
        """All that training depends on."""
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
        """Take up what ``state_dict`` gave."""
        self.network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.scheme.load_state_dict(state["scheme"])
        if self._average is not None:
            self._average.load_state_dict(state["average"])
        self.epoch, self.step, self.history = state["epoch"], state["step"], list(state["history"])


class _Stepper:
    """One batch: forward, backward and a step of the optimizer. On a GPU the first two are recorded once and replayed."""

    def __init__(self, trainer: NetworkTrainer) -> None:
        self.trainer = trainer
        self.network: Callable[..., Tensor] = trainer.network
        if trainer.recipe.compile:
            self.network = torch.compile(trainer.network)
        self.parameters = [p for p in trainer.network.parameters() if p.requires_grad]
        self.graph: Any = None
        # the first step at which each exit's loss was no number: told by the device, and asked for now and then
        self._spoiled_at = torch.full((trainer.network.n_exits,), np.inf, device=trainer.device)
        self._good: dict[str, Tensor] = {}
        self._good_step = 0

    def __call__(self, x: Tensor, y: Tensor, sample_weight: Tensor | None) -> Tensor:
        """(L,) the losses of this batch."""
        trainer = self.trainer
        if trainer.scheme.weights is None:
            trainer.scheme.weights = torch.tensor(
                trainer.scheme.first(trainer.network.n_exits), dtype=torch.float32, device=trainer.device
            )
        weights = trainer.scheme.weights
        try:
            signal, losses = self._gradients(x, y, sample_weight, weights)
        except torch.cuda.OutOfMemoryError:
            raise self._too_large(x, y) from None
        self._average_gradients()
        if trainer.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.parameters, trainer.recipe.clip)
        trainer._optimizer.step()
        trainer.scheme(signal)
        step = torch.where(losses.isfinite(), np.inf, float(trainer.step + 1))
        torch.minimum(self._spoiled_at, step, out=self._spoiled_at)
        return losses

    def _gradients(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the scheme learns from, and the losses; gradients are in the parameters."""
        if (
            x.device.type != "cuda"
            or sample_weight is not None
            or isinstance(self.trainer.scheme, FirstOrder)
        ):
            return self._eager(x, y, sample_weight, weights)
        if self.graph is None:
            self._record(x, y, weights)
        static_x, static_y, static_weights, losses = self.tensors
        if x.shape != static_x.shape:
            return self._eager(x, y, None, weights)
        static_x.copy_(x)
        static_y.copy_(y)
        static_weights.copy_(weights)
        self.graph.replay()
        return losses, losses.clone()

    def _record(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        self.tensors = (x.clone(), y.clone(), weights.clone(), torch.empty(0))
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # batch statistics move a little while recording is rehearsed
            for _ in range(3):
                self._eager(*self.tensors[:2], None, self.tensors[2])
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            losses = self._eager(*self.tensors[:2], None, self.tensors[2])[1]
        self.tensors = (*self.tensors[:3], losses)

    def _eager(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        trainer, recipe = self.trainer, self.trainer.recipe
        for p in self.parameters:
            p.grad = None if p.grad is None else p.grad.zero_()
        with trainer.autocast():
            said = self.network(trainer.prepare(x), weights if recipe.decoupled else None)
        said = said.float()
        losses = exit_losses(
            said,
            y,
            sample_weight=sample_weight,
            label_smoothing=recipe.label_smoothing,
            distillation=recipe.distillation,
        )
        signal = losses
        if isinstance(trainer.scheme, FirstOrder):  # norms where the exits speak, one number per exit
            norms = torch.autograd.grad(losses.sum(), said, retain_graph=True)[0]
            signal = norms.square().sum(dim=(1, 2)).sqrt()
        (losses.sum() if recipe.decoupled else (losses * weights.to(losses)).sum()).backward()
        return signal.detach(), losses.detach()

    def _average_gradients(self) -> None:
        if not _is_distributed():
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        flat /= dist.get_world_size()
        at = 0
        for g in gradients:
            g.copy_(flat[at : at + g.numel()].view_as(g))
            at += g.numel()

    def check(self) -> None:
        """Keep the state where all losses were numbers; else go back to the last such state and say so."""
        trainer = self.trainer
        step, exit = (float(value) for value in self._spoiled_at.min(dim=0))
        if np.isinf(step):
            self._good, self._good_step = _copy_of(trainer.network), trainer.step
            return
        if self._good:
            trainer.network.load_state_dict(self._good)
        kept = (
            f"the network is as it was after step {self._good_step}" if self._good else "nothing was learned"
        )
        raise TrainingError(
            f"the loss of exit {int(exit) + 1} is not a finite number at step {int(step)}; {kept}. "
            f"A learning rate below {trainer.recipe.learning_rate:g}, or clip=1, usually helps"
        )

    def _too_large(self, x: Tensor, y: Tensor) -> TrainingError:
        size = len(x)
        while size > 1:
            size //= 2
            torch.cuda.empty_cache()
            try:
                with self.trainer.autocast():
                    said = self.trainer.network(self.trainer.prepare(x[:size])).float()
                exit_losses(said, y[:size]).sum().backward()
                del said
                return TrainingError(
                    f"batch_size {len(x)} does not fit into the memory of the GPU; {size} does"
                )
            except torch.cuda.OutOfMemoryError:
                continue
        return TrainingError("the network does not fit into the memory of the GPU, not even with one row")


class _RunningMean:
    """Exponential running mean of the parameters, and of the statistics of batch normalisation."""

    def __init__(self, network: nn.Module, momentum: float) -> None:
        self.momentum = momentum
        self.values = _copy_of(network)
        self.updates = 0

    def update(self, network: nn.Module) -> None:
        self.updates += 1
        share = 1 - min(self.momentum, (1 + self.updates) / (10 + self.updates))
        state = network.state_dict()
        names = [name for name, value in state.items() if value.dtype.is_floating_point]
        torch._foreach_lerp_([self.values[n] for n in names], [state[n].detach() for n in names], share)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values, "updates": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.values, self.updates = dict(state["values"]), state["updates"]

    @contextmanager
    def swapped(self, network: nn.Module) -> Any:
        """The network with the mean in place of its parameters."""
        own = _copy_of(network)
        network.load_state_dict(self.values)
        try:
            yield
        finally:
            network.load_state_dict(own)


def crop_and_flip(images: Tensor, shift: Tensor, mirror: Tensor, pad: int = 4) -> Tensor:
    """Images (n, channels, h, w), padded with zeros, cut out again at ``shift`` (2, n), mirrored where ``mirror`` (n,) is set."""
    n, channels, height, width = images.shape
    padded = functional.pad(images, (pad, pad, pad, pad))
    down = shift[0][:, None] + torch.arange(height, device=images.device)
    across = torch.arange(width, device=images.device).expand(n, width)
    across = torch.where(mirror[:, None], width - 1 - across, across) + shift[1][:, None]
    row = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[row, channel, down[:, None, :, None], across[:, None, None, :]]


def _copy_of(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def default_device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _optimizer(
    recipe: TrainingRecipe, parameters: Sequence[Tensor], device: torch.device
) -> torch.optim.Optimizer:
    decayed = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]  # biases and scales of normalisation
    groups = [
        {"params": decayed, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = device.type == "cuda"
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=True, fused=fused
        )
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=fused)


def _is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _latest(passed: float, device: torch.device) -> float:
    """The share of time that is over by the fastest clock of all processes, so that all of them stop at the same batch."""
    if not _is_distributed():
        return passed
    share = torch.tensor(passed, device=device)
    dist.all_reduce(share, dist.ReduceOp.MAX)
    return float(share)


def _average_over_processes(values: Iterable[Tensor]) -> None:
    for value in values:
        if value.dtype.is_floating_point:
            dist.all_reduce(value)
            value /= dist.get_world_size()


def _write_whole(path: Path, state: Mapping[str, Any]) -> None:
    """A file that is either the old one or the new one, whenever the machine stops."""
    beside = path.with_name(path.name + ".new")
    torch.save(state, beside)
    beside.replace(path)
