"""One step of training: the losses of all exits, their gradients, and what can go wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from anytime.networks.devices import is_out_of_memory
from anytime.networks.exits import ExitNetwork
from anytime.networks.processes import average_gradients
from anytime.networks.recipe import TrainingRecipe
from anytime.networks.running_mean import copy_of
from anytime.networks.weights import FirstOrder, LossWeights

__all__ = [
    "TrainingError",
    "TrainingStep",
    "autocast",
    "exit_losses",
    "image_layout",
    "laid_out",
    "make_optimizer",
]


class TrainingError(RuntimeError):
    """Training could not continue; the network is in its last good state."""


def exit_losses(
    outputs: Tensor,
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
    n_exits, n, width = outputs.shape
    if y.dtype.is_floating_point:
        losses = 0.5 * (outputs - y).square().mean(dim=2)
    else:
        repeated = y.expand(n_exits, n).reshape(-1)
        flat = functional.cross_entropy(
            outputs.reshape(-1, width), repeated, reduction="none", label_smoothing=label_smoothing
        )
        losses = flat.reshape(n_exits, n)
    if distillation and n_exits > 1:
        teacher = outputs[-1].detach()
        if y.dtype.is_floating_point:
            taught = 0.5 * (outputs[:-1] - teacher).square().mean(dim=2)
        else:
            taught = -(teacher.softmax(dim=1) * outputs[:-1].log_softmax(dim=2)).sum(dim=2)
        early = (1 - distillation) * losses[:-1] + distillation * taught
        losses = torch.cat([early, losses[-1:]])
    if sample_weight is None:
        return losses.mean(dim=1)
    return (losses * sample_weight).sum(dim=1) / sample_weight.sum().clamp(min=1e-12)


class TrainingStep:
    """One batch: forward, backward and a step of the optimizer. On a GPU the first two are recorded once and replayed.

    Parameters
    ----------
    network : ExitNetwork
    recipe : TrainingRecipe
    scheme : LossWeights
    optimizer : torch.optim.Optimizer
    prepare : callable
        From a batch as it is stored to what the network reads.
    extra_loss : callable, default=None
        Gives what is added to the loss of every batch.
    graph_pool : optional
        Memory of the GPU that recorded steps share which are never replayed at the same time.
    """

    def __init__(
        self,
        network: ExitNetwork,
        recipe: TrainingRecipe,
        scheme: LossWeights,
        optimizer: torch.optim.Optimizer,
        prepare: Callable[[Tensor], Tensor],
        extra_loss: Callable[[], Tensor] | None = None,
        graph_pool: Any = None,
    ) -> None:
        self._network, self._recipe, self._scheme = network, recipe, scheme
        self._extra_loss, self._graph_pool = extra_loss, graph_pool
        self._optimizer, self._prepare = optimizer, prepare
        self._forward: Callable[..., Tensor] = torch.compile(network) if recipe.compile else network
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        self._device = self._parameters[0].device
        self._graph: Any = None
        self._recorded_gradients: list[Tensor | None] = []
        # the first step at which each exit's loss was no number: told by the device, and asked for now and then
        self._spoiled_at = torch.full((network.n_exits,), np.inf, device=self._device)
        self._good: dict[str, Tensor] = {}
        self._good_step = 0

    def __call__(self, x: Tensor, y: Tensor, sample_weight: Tensor | None, step: int) -> Tensor:
        """(L,) the losses of a batch, that of step number ``step``.

        Raises
        ------
        TrainingError
            Where the batch does not fit into the memory of the device.
        """
        scheme = self._scheme
        if scheme.weights is None:
            first = scheme.first(self._network.n_exits)
            scheme.weights = torch.tensor(first, dtype=torch.float32, device=self._device)
        gradients = self._gradients_if_they_fit(x, y, sample_weight)
        if gradients is None:  # not while the error is handled, which holds what was computed
            raise self._too_large(x, y)
        signal, losses = gradients
        average_gradients(self._parameters)
        if self._recipe.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, self._recipe.clip)
        self._optimizer.step()
        scheme(signal)
        spoiled = torch.where(losses.isfinite(), np.inf, float(step))
        torch.minimum(self._spoiled_at, spoiled, out=self._spoiled_at)
        return losses

    def _gradients_if_they_fit(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor] | None:
        """As ``_gradients``; None where the memory of the device is too small."""
        try:
            return self._gradients(x, y, sample_weight, self._scheme.weights)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _gradients(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the scheme learns from, and the losses; gradients are in the parameters."""
        if x.device.type != "cuda" or sample_weight is not None or isinstance(self._scheme, FirstOrder):
            return self._eager(x, y, sample_weight, weights)
        if self._graph is None:
            self._record(x, y, weights)
        static_x, static_y, static_weights, losses = self._tensors
        if x.shape != static_x.shape:
            return self._eager(x, y, None, weights)
        static_x.copy_(x)
        static_y.copy_(y)
        static_weights.copy_(weights)
        for p, gradient in zip(self._parameters, self._recorded_gradients, strict=True):
            p.grad = gradient
        self._graph.replay()
        return losses, losses.clone()

    def _record(self, x: Tensor, y: Tensor, weights: Tensor) -> None:
        static = x.clone(), y.clone(), weights.clone()
        with torch.cuda.device(x.device):
            aside = torch.cuda.Stream()
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # batch statistics move a little while recording is rehearsed
                for _ in range(3):
                    self._eager(*static[:2], None, static[2])
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._graph_pool):
                losses = self._eager(*static[:2], None, static[2])[1]
        self._graph, self._tensors = graph, (*static, losses)
        self._recorded_gradients = [p.grad for p in self._parameters]  # every replay writes them anew

    def _eager(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None, weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        recipe = self._recipe
        for p in self._parameters:
            p.grad = None  # the backward pass leaves tensors of its own: nothing is set to zero and added to
        with autocast(recipe, self._device):
            outputs = self._forward(self._prepare(x), weights if recipe.decoupled else None)
        outputs = outputs.float()
        losses = exit_losses(
            outputs,
            y,
            sample_weight=sample_weight,
            label_smoothing=recipe.label_smoothing,
            distillation=recipe.distillation,
        )
        signal = losses
        if isinstance(self._scheme, FirstOrder):  # norms of the gradients at the exits, one number per exit
            norms = torch.autograd.grad(losses.sum(), outputs, retain_graph=True)[0]
            signal = norms.square().sum(dim=(1, 2)).sqrt()
        total = losses.sum() if recipe.decoupled else (losses * weights.to(losses)).sum()
        (total if self._extra_loss is None else total + self._extra_loss()).backward()
        return signal.detach(), losses.detach()

    def check(self, done: int) -> None:
        """Keep the state after ``done`` steps where all losses were numbers; else go back to the last such state.

        Raises
        ------
        TrainingError
            Where a loss was not a number.
        """
        step, exit = (float(value) for value in self._spoiled_at.min(dim=0))
        if np.isinf(step):
            self._good, self._good_step = copy_of(self._network), done
            return
        if self._good:
            self._network.load_state_dict(self._good)
        kept = (
            f"the network is as it was after step {self._good_step}" if self._good else "nothing was learned"
        )
        raise TrainingError(
            f"the loss of exit {int(exit) + 1} is not a finite number at step {int(step)}; {kept}. "
            f"A learning rate below {self._recipe.learning_rate:g}, or clip=1, usually helps"
        )

    def _too_large(self, x: Tensor, y: Tensor) -> TrainingError:
        """What to say of a batch for which there is too little memory: the next smaller one that fits."""
        statistics = {name: value.clone() for name, value in self._network.named_buffers()}
        size, fits = len(x), False
        while size > 1 and not fits:
            size //= 2
            self._graph = None
            for p in self._parameters:
                p.grad = None
            torch.cuda.empty_cache()
            with suppress(ValueError):  # batch normalisation refuses a single row
                fits = self._gradients_if_they_fit(x[:size], y[:size], None) is not None
        for name, value in self._network.named_buffers():
            value.copy_(statistics[name])
        if fits:
            return TrainingError(f"batch_size {len(x)} does not fit into the memory of the GPU; {size} does")
        return TrainingError("the network does not fit into the memory of the GPU, not even with one row")


def autocast(recipe: TrainingRecipe, device: torch.device) -> Any:
    """The context in which a network computes while it is trained."""
    wanted = device.type == "cuda" if recipe.bfloat16 is None else recipe.bfloat16
    return torch.autocast(device.type, torch.bfloat16, enabled=wanted)


def image_layout(recipe: TrainingRecipe, device: torch.device) -> torch.memory_format:
    """How images and filters are stored while a network is trained."""
    last = device.type == "cuda" if recipe.channels_last is None else recipe.channels_last
    return torch.channels_last if last else torch.contiguous_format


def laid_out(x: Tensor, layout: torch.memory_format) -> Tensor:
    """A batch in that layout, where it holds images."""
    return x.to(memory_format=layout) if x.ndim == 4 else x


def make_optimizer(
    recipe: TrainingRecipe, parameters: Sequence[Tensor], device: torch.device
) -> torch.optim.Optimizer:
    """The optimizer of a recipe; biases and scales of normalisation do not decay."""
    decayed = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": recipe.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = device.type == "cuda"
    if recipe.optimizer == "sgd":
        optimizer = torch.optim.SGD(
            groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=True, fused=fused
        )
        for p in parameters:  # the fused step cannot mix parameters that have moved with those that have not
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
        return optimizer
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, fused=fused)
