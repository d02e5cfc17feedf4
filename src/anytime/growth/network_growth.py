"""Networks as what a search grows: data, recipes and settings on one side, jobs and their outcomes on the other.

A growth step (Petridish, chapter 6): the parent is trained on with all candidates beside it (`candidates`), the strongest
stay (`finalising`), and the child is trained and judged on validation rows. Everything a job depends on is in the job, the
data and the checkpoint that it begins with, so that any worker gives the same outcome.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from anytime.growth.architecture import STEM, Architecture, CellPlan
from anytime.growth.candidates import CandidateSet, add_candidates
from anytime.growth.cells import GrownNetwork, build, parts_of
from anytime.growth.finalising import (
    KeptCandidates,
    child_state,
    choose,
    chosen_growths,
    correlations,
    strengths,
)
from anytime.growth.phases import GrowthSettings, Phases
from anytime.growth.problem import Interrupted, Job, Outcome, whole_file
from anytime.networks.counting import mult_adds
from anytime.networks.devices import chosen_device
from anytime.networks.exits import ExitNetwork
from anytime.networks.recipe import TrainingRecipe
from anytime.networks.stepping import exit_losses
from anytime.networks.training import NetworkTrainer

__all__ = ["UNFINISHED_SEED", "NetworkGrowth", "Scaling", "module_seed"]

UNFINISHED_SEED = "unfinished-seed.pt"  # what an interrupt leaves where there is no model yet
_LOOKED_AT = 64  # rows on which candidates are compared with each other


class Scaling:
    """What is subtracted from inputs, and what they are then divided by.

    Parameters
    ----------
    centre, spread : float or array
        One number, one per channel of an image, or one per column.
    """

    def __init__(self, centre: Any = 0.0, spread: Any = 1.0) -> None:
        self.centre, self.spread = np.asarray(centre, dtype=np.float64), np.asarray(spread, dtype=np.float64)
        self._there: dict[str, tuple[Tensor, Tensor]] = {}  # on the devices where it was used

    def __call__(self, x: Tensor) -> Tensor:
        """A batch on the scale of training."""
        exact = x if x.dtype == torch.float64 else x.float()
        key = f"{x.device} {exact.dtype} {x.ndim}"
        if key not in self._there:
            both = [
                torch.as_tensor(a, dtype=exact.dtype, device=x.device) for a in (self.centre, self.spread)
            ]
            self._there[key] = tuple(a[:, None, None] if x.ndim == 4 and a.ndim == 1 else a for a in both)
        centre, spread = self._there[key]
        return ((exact - centre) / spread).float()

    def __getstate__(self) -> dict[str, Any]:
        return {"centre": self.centre, "spread": self.spread, "_there": {}}


def module_seed(module: ExitNetwork, input_shape: tuple[int, ...]) -> Architecture:
    """The architecture that begins with a module of the user's own, whose every block but the first can grow by itself.

    Parameters
    ----------
    module : ExitNetwork
        As ``anytime.networks.with_exits`` gives it. Only its last exit is used.
    input_shape : tuple of int
        Of one input.
    """
    stem, units, head = parts_of(module)
    example = next(module.parameters())
    state = torch.zeros(2, *input_shape, device=example.device, dtype=example.dtype)
    was_training = module.training
    module.eval()
    shapes = []
    with torch.no_grad():
        for part in (stem, *units):
            state = part(state)
            layer = state[0] if isinstance(state, tuple) else state
            shapes.append(tuple(int(size) for size in layer.shape[1:]))
        n_outputs = int(head(state).shape[1])
    module.train(was_training)
    if len({len(shape) for shape in shapes}) > 1 or len(shapes[0]) not in (1, 3):
        raise ValueError(
            f"blocks have to give vectors or images with channels first, not the shapes {shapes}"
        )
    alone = ExitNetwork([torch.nn.Sequential(stem, *units)], [head])
    parameters = {id(p): p.numel() for p in alone.parameters()}
    return Architecture(
        space="module",
        input_shape=tuple(input_shape),
        n_outputs=n_outputs,
        width=shapes[0][0],
        cells=tuple(CellPlan("normal", f"cell {c}") for c in range(len(units))),
        patterns={f"cell {c}": () for c in range(len(units))},
        shapes=tuple(shapes),
        own=(sum(parameters.values()), mult_adds(alone, input_shape).exits()[0]),
    )


class NetworkGrowth:
    """Networks that grow on given rows: what `GrowthSearch` searches among.

    Parameters
    ----------
    seed : Architecture
        Of `image_seed`, `table_seed` or `module_seed`.
    X, y : arrays
        Training rows, (n, ...), and their classes, (n,) int, or numbers, (n, K) float.
    X_val, y_val : arrays
        Rows on which models are judged.
    phases : Phases
    settings : GrowthSettings, default=None
        None: those of the paper.
    sample_weight, weight_val : (n,), default=None
        Of the training rows, and of those on which models are judged.
    scaling : Scaling, default=None
        None: rows are read as they are.
    prices : callable, default=None
        From the columns that a network reads to what they cost, which is then its cost. None: its mult-adds are.
    module : ExitNetwork, default=None
        The one that the seed was made of.
    start : dict, default=None
        Parameters that the seed begins with. None: new ones, or the module's.
    device : str, default=None
    job_seconds : float, default=None
        The most that each training may take; its schedule is hurried to end well.
    keep_unfinished : bool, default=False
        Whether a job that is interrupted goes on from its last whole epoch when it is run again in the same folder.
    """

    def __init__(
        self,
        seed: Architecture,
        X: Any,
        y: Any,
        X_val: Any,
        y_val: Any,
        *,
        phases: Phases,
        settings: GrowthSettings | None = None,
        sample_weight: ArrayLike | None = None,
        weight_val: ArrayLike | None = None,
        scaling: Scaling | None = None,
        prices: Callable[[tuple[int, ...]], float] | None = None,
        module: ExitNetwork | None = None,
        start: Mapping[str, NDArray[Any]] | None = None,
        device: str | None = None,
        job_seconds: float | None = None,
        keep_unfinished: bool = False,
    ) -> None:
        self.seed, self.phases, self.settings = seed, phases, settings or GrowthSettings()
        self.X, self.y, self.X_val, self.y_val = X, y, X_val, y_val
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float32)
        self.weight_val = None if weight_val is None else np.asarray(weight_val, dtype=np.float64)
        self.scaling, self.prices, self.module = scaling or Scaling(), prices, module
        self.start, self.device, self.job_seconds = start, device, job_seconds
        self.keep_unfinished = keep_unfinished

    def first(self) -> dict[str, Any]:
        """Architecture of the seed, as JSON."""
        return self.seed.to_json()

    def run(self, job: Job, folder: Path, stop: Callable[[], bool]) -> Outcome:
        """Do a job; see `GrowthProblem.run`."""
        began = time.monotonic()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(job.random_state % 2**31)
            network = self._network(job, folder)
            if job.kind == "candidates":
                return self._candidates(job, network, folder, stop, began)
        recipe = self.phases.seed if job.kind == "seed" else self.phases.child
        trainer = self._trainer(network, recipe, job, folder, stop, self.phases.drop_path)
        try:
            self._fit(trainer)
        except (Interrupted, KeyboardInterrupt):
            if job.kind == "seed" and trainer.step:
                _write(folder / UNFINISHED_SEED, network)
            raise
        network.masks.stop()
        _forget(trainer)
        checkpoint = _write(folder / f"model-{job.number}.pt", network)
        counts = network.grown.counts()
        return Outcome(
            architecture=network.grown.to_json(),
            checkpoint=checkpoint,
            cost=self.cost(network.grown),
            error=self._error(trainer),
            seconds=time.monotonic() - began,
            notes={
                "parameters": counts.parameters,
                "mult_adds": counts.mult_adds,
                "loss": trainer.history[-1]["losses"][-1],
                "epochs": trainer.epoch,
            },
        )

    def _error(self, trainer: NetworkTrainer) -> float:
        """Share of wrong classes, or mean squared error, of the rows that judge."""
        outputs, y = trainer.outputs_of(self.X_val)[-1].double().cpu().numpy(), np.asarray(self.y_val)
        wrong = np.square(outputs - y).mean(axis=1) if y.dtype.kind == "f" else outputs.argmax(axis=1) != y
        return float(np.average(wrong, weights=self.weight_val))

    def cost(self, architecture: Architecture) -> float:
        """What a prediction costs: mult-adds, or the price of the columns that are read."""
        if self.prices is None:
            return float(architecture.counts().mult_adds)
        return float(self.prices(architecture.columns()))

    def load(self, architecture: Mapping[str, Any], checkpoint: Path) -> GrownNetwork:
        """A network as a job has left it."""
        network = build(Architecture.from_json(architecture), copy.deepcopy(self.module))
        network.load_state_dict(torch.load(checkpoint, map_location="cpu", weights_only=True))
        return network.eval()

    # ------------------------------------------------------------------ one training

    def _network(self, job: Job, folder: Path) -> GrownNetwork:
        if job.warm_start is not None and not (job.kind == "child" and self.settings.from_scratch):
            return self.load(job.architecture, folder / job.warm_start)
        network = build(Architecture.from_json(job.architecture), copy.deepcopy(self.module))
        if job.kind == "seed" and self.start is not None:
            network.load_state_dict({name: torch.from_numpy(np.array(a)) for name, a in self.start.items()})
        return network

    def _trainer(
        self,
        network: GrownNetwork,
        recipe: TrainingRecipe,
        job: Job,
        folder: Path,
        stop: Callable[[], bool],
        drop_path: float = 0.0,
        candidates: CandidateSet | None = None,
    ) -> NetworkTrainer:
        settings = self.settings
        proximal = settings.l1_step == "proximal"
        seed = job.random_state % 2**31
        turns: list[Callable[[], None]] = []
        if candidates is not None:
            turns = candidates.turns(settings.turns)
        elif drop_path:
            n_steps = recipe.epochs * max(len(self.X) // recipe.batch_size, 1)
            network.masks.start(min(recipe.batch_size, len(self.X)), chosen_device(self.device), seed)
            turns = [lambda: network.masks.draw(drop_path * min(trainer.step / n_steps, 1.0), trainer.step)]

        def after_step(passed: float, rate: float) -> None:
            if stop():
                raise Interrupted
            if candidates is not None:
                if proximal:
                    candidates.shrink(rate, settings.l1_regularization)
                if settings.largest_weight is not None:
                    candidates.cap(settings.largest_weight)

        def tell(epoch: dict[str, Any]) -> None:
            epoch |= {"loss": epoch["losses"][-1], "validation_error": epoch["errors"][-1]}
            if candidates is not None:
                x, y = self._some_rows(np.random.default_rng(job.random_state), trainer.device)
                epoch |= correlations(network, candidates, lambda network: exit_losses(network(x), y).sum())

        penalised = candidates is not None and settings.l1_regularization > 0 and not proximal
        trigger = self.phases.trigger
        trainer = NetworkTrainer(
            network,
            recipe,
            device=self.device,
            seed=seed,
            prepare=self.scaling,
            extra_loss=(lambda: candidates.l1(settings.l1_regularization))
            if candidates is not None and penalised
            else None,
            after_step=after_step,
            turns=turns,
            report=None if trigger is None else tell,
            until=trigger,
            checkpoint=folder / f"unfinished-{job.number}.pt" if self.keep_unfinished else None,
        )
        return trainer

    def _fit(self, trainer: NetworkTrainer) -> None:
        """Train; Ctrl-C is passed on to the caller."""
        began = time.monotonic()
        judged = {} if trainer.until is None else {"X_val": self.X_val, "y_val": self.y_val}
        trainer.fit(self.X, self.y, sample_weight=self.sample_weight, time_budget=self.job_seconds, **judged)
        in_time = self.job_seconds is None or time.monotonic() - began < self.job_seconds
        if trainer.interrupted and in_time:
            raise KeyboardInterrupt

    # ------------------------------------------------------------------ candidates

    def _candidates(
        self, job: Job, network: GrownNetwork, folder: Path, stop: Callable[[], bool], began: float
    ) -> Outcome:
        """Train candidates beside the parent and make the child of the strongest."""
        settings = self.settings
        random = np.random.default_rng(job.random_state)
        candidates = add_candidates(network, mode=settings.mode, share=settings.share)
        trainer = self._trainer(network, self.phases.candidates, job, folder, stop, candidates=candidates)
        losses = []
        if settings.criterion != "random":  # which needs to know nothing
            self._fit(trainer)
            losses = trainer.history[-1]["losses"]
            _forget(trainer)
        candidates.activate()
        choices = self._choices(network, candidates, random)
        grown = chosen_growths(network.grown, choices, settings.merge, settings.projection)
        child = build(grown, copy.deepcopy(self.module))
        child_state(child, network.cpu(), candidates, choices, settings.projection)
        some = self.scaling(torch.as_tensor(np.ascontiguousarray(self.X_val[:_LOOKED_AT])))
        with torch.no_grad():
            moved = float((child.eval()(some) - network.eval()(some)).abs().max())
        return Outcome(
            architecture=grown.to_json(),
            checkpoint=_write(folder / f"start-{job.number}.pt", child),
            cost=self.cost(grown),
            error=float("nan"),
            seconds=time.monotonic() - began,
            notes={
                "chosen": {name: _described(choice) for name, choice in choices.items()},
                "criterion": settings.criterion,
                "loss": losses[-1] if losses else None,
                "moved": moved,  # the most that the child's outputs differ from its parent's where it begins
            },
        )

    def _choices(
        self, network: GrownNetwork, candidates: CandidateSet, random: np.random.Generator
    ) -> dict[str, KeptCandidates]:
        settings = self.settings
        x, y = self._some_rows(random, next(network.parameters()).device)
        strength_by_pattern = strengths(
            network, candidates, settings.criterion, lambda: exit_losses(network(x), y).sum(), random
        )
        outputs = _outputs(network, candidates, x) if settings.decorrelate else {}
        choices = {}
        for name, strength in strength_by_pattern.items():
            shortcuts = candidates.unions[name][0].shortcuts
            kept = 1 if name == STEM else settings.n_shortcuts
            if name == STEM and self.prices is not None:
                strength = strength / self._extra_prices(network.grown, [i for i, _ in shortcuts])
            weights = candidates.weights[name].detach().double().cpu().numpy()
            choices[name] = choose(strength, shortcuts, kept, weights, outputs.get(name))
        return choices

    def _some_rows(self, random: np.random.Generator, device: torch.device) -> tuple[Tensor, Tensor]:
        """Training rows, on the scale of training, on which candidates are compared with each other."""
        rows = random.permutation(len(self.X))[:_LOOKED_AT]
        x, y = (torch.as_tensor(np.ascontiguousarray(a[rows])).to(device) for a in (self.X, self.y))
        return self.scaling(x), y

    def _extra_prices(self, grown: Architecture, parts: list[str]) -> NDArray[np.float64]:
        """What each part would cost beside the columns that are read."""
        assert self.prices is not None
        own = grown.columns()
        paid = self.prices(own)
        prices = [self.prices(tuple(sorted({*own, *grown.parts[int(p.split()[1])]}))) - paid for p in parts]
        return np.maximum(prices, 1e-9)


def _outputs(network: GrownNetwork, candidates: CandidateSet, x: Tensor) -> dict[str, Tensor]:
    """(candidates, values) what candidates give for some rows, by pattern."""
    everything = [union for unions in candidates.unions.values() for union in unions]
    for union in everything:
        union.recorded = []
    with torch.no_grad():
        network.eval()(x)
    outputs = {
        name: torch.cat([torch.stack(union.recorded or []).flatten(1) for union in unions], dim=1)
        for name, unions in candidates.unions.items()
    }
    for union in everything:
        union.recorded = None
    return outputs


def _forget(trainer: NetworkTrainer) -> None:
    """A training is over: its checkpoint is no longer needed."""
    if trainer.checkpoint is not None:
        trainer.checkpoint.unlink(missing_ok=True)


def _described(choice: KeptCandidates) -> list[dict[str, Any]]:
    return [
        {"input": s.input, "op": s.op, "strength": strength, "weight": weight}
        for s, strength, weight in zip(choice.shortcuts, choice.strengths, choice.weights, strict=True)
    ]


def _write(path: Path, network: torch.nn.Module) -> str:
    """The network's parameters in a file; its name."""
    state = {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}
    with whole_file(path) as unfinished:
        torch.save(state, unfinished)
    return path.name
