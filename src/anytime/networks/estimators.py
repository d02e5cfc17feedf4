"""Networks with exits as scikit-learn estimators: every exit is a stage of the one plan."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from anytime.costs import FeatureCosts
from anytime.estimator import AnytimeModel, ClassifierFace, RegressorFace
from anytime.linear import GroupPursuitClassifier, GroupPursuitRegressor
from anytime.losses import LINKS
from anytime.networks.backbones import BACKBONES, build
from anytime.networks.block import NetworkBlock
from anytime.networks.counting import mult_adds
from anytime.networks.exits import ExitNetwork
from anytime.networks.images import ImageRows
from anytime.networks.stopping import exits_taken, stopping_thresholds
from anytime.networks.stored import StoredNetworkBlock
from anytime.networks.training import NetworkTrainer, TrainingRecipe, auto_weights, default_device
from anytime.networks.weights import SCHEMES, LossWeights, loss_weights
from anytime.parameters import not_negative, shared, store
from anytime.plan import Array, Plan
from anytime.rows import Rows
from anytime.rules import MarginRule
from anytime.trees.rows import checked_weights, split_rows
from anytime.validation import target_numbers, validated

__all__ = ["AnytimeNetworkClassifier", "AnytimeNetworkRegressor", "temperature"]

_CHANNELS = (1, 3, 4)  # of an image: grey, colours, colours with transparency
_FOR_TABLES = TrainingRecipe(
    epochs=100, batch_size=64, optimizer="adamw", learning_rate=2e-3, weight_decay=1e-2
)
_FOR_IMAGES = TrainingRecipe(epochs=60, batch_size=128, augment="crop_flip")
_LEAST_BLOCKS = 2
_DEVICES = ("cpu", "cuda", "mps", "xpu")  # that a file may name


class _NetworkModel(AnytimeModel):
    """What both estimators share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **shared("costs", "budget", "meter", "max_stages", "validation_fraction", "time_budget"),
        **shared("warm_start", "random_state", "n_jobs", "verbose"),
        "backbone": [StrOptions(set(BACKBONES)), ExitNetwork],
        "backbone_arguments": [Mapping, None],
        "loss_weights": [StrOptions({"auto", *SCHEMES}), LossWeights],
        "order": [StrOptions({"pursuit"}), "array-like", AnytimeModel],
        "evaluation_cost": [StrOptions({"mult_adds", "ms"}), not_negative, None],
        "recipe": [TrainingRecipe, None],
        "device": [str, None],
        "checkpoint": [str, Path, None],
    }

    _link: ClassVar[str]
    _attaches: ClassVar[str] = "module"  # by which ``load`` takes what a file does not hold
    _largest_seen: float = np.inf
    input_shape_: tuple[int, ...]

    def __init__(
        self,
        *,
        backbone: str | ExitNetwork = "mlp",
        backbone_arguments: Mapping[str, Any] | None = None,
        costs: Any = None,
        order: Any = "pursuit",
        max_stages: int = 16,
        budget: float | None = None,
        meter: str = "model",
        evaluation_cost: float | Literal["mult_adds", "ms"] | None = None,
        loss_weights: str | LossWeights = "auto",
        recipe: TrainingRecipe | None = None,
        validation_fraction: float | None = 0.1,
        time_budget: float | None = None,
        checkpoint: str | Path | None = None,
        warm_start: bool = False,
        device: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    # ------------------------------------------------------------------ fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : (n, d) table, (n, channels, height, width) or (n, height, width, channels) images, or torch Dataset
            A data set gives pairs of an input and its label.
        y : (n,)
            None for a data set.
        sample_weight : (n,), default=None
        X_val, y_val : default=None
            Rows on which exits are judged and their confidence is calibrated. None: ``validation_fraction`` of the rows.
        """
        began = time.monotonic()
        self._validate_params()
        if y is None:
            X, y = _from_dataset(X, type(self).__name__)
        if y_val is None and X_val is not None and not hasattr(X_val, "shape"):
            X_val, y_val = _from_dataset(X_val, type(self).__name__)
        previous = self._previous() if self.warm_start else None
        rows, y = self._read_training(X, y)
        weight = None if sample_weight is None else checked_weights(sample_weight, rows)
        targets, weight = self._encode(y, weight)
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        held = self._held_out(rows, targets, weight, X_val, y_val, random)
        rows, targets, weight, rows_val, targets_val = held
        self._train(rows, targets, weight, rows_val, targets_val, seed, began, previous)
        return self

    def _train(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        weight: Array | None,
        rows_val: NDArray[Any] | None,
        targets_val: NDArray[Any] | None,
        seed: int,
        began: float,
        previous: NetworkBlock | None,
    ) -> None:
        recipe, scheme = self._settings()
        bound = self._prices()
        device = torch.device(self.device) if self.device is not None else default_device()
        if previous is not None:
            network = copy.deepcopy(previous.network).to(dtype=torch.float32)
            reads: list[NDArray[Any]] = [previous.columns(s) for s in range(previous.n_stages)]
            centre, spread = previous.centre, previous.spread
        else:
            groups = self._groups(rows, targets, bound) if self._is_table else []
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = self._build(groups)
            reads = list(self._columns_of_exits(network, groups))
            centre, spread = _moments(rows, self.input_shape_)
        dtype = torch.float64 if self._is_table else torch.float32
        offset, unit = self._units(targets)
        batch_rows = min(recipe.batch_size * 4, 1024)
        block = NetworkBlock(
            network,
            reads,
            self.input_shape_,
            centre=centre,
            spread=spread,
            offset=offset,
            unit=unit,
            device=device,
            batch_rows=batch_rows,
        )
        trainer = NetworkTrainer(
            network,
            recipe,
            scheme,
            device=device,
            seed=seed,
            prepare=lambda x: (x.reshape(len(x), *self.input_shape_).float() - block._centre) / block._spread,
            checkpoint=self.checkpoint,
            report=self._progress(recipe) if self.verbose else None,
        )
        left = None if self.time_budget is None else max(self.time_budget - (time.monotonic() - began), 1e-3)
        scaled = self._scaled_targets(targets, offset, unit)
        told = None if targets_val is None else self._scaled_targets(targets_val, offset, unit)
        shape = (len(rows), *self.input_shape_)
        shape_val = None if rows_val is None else (len(rows_val), *self.input_shape_)
        trainer.fit(
            rows.reshape(shape),
            scaled,
            sample_weight=None if weight is None else weight.astype(np.float32),
            X_val=None if rows_val is None or not self.verbose else rows_val.reshape(shape_val),
            y_val=told if self.verbose else None,
            time_budget=left,
        )
        if not trainer.step:
            raise KeyboardInterrupt
        temperatures = np.ones(network.n_exits)
        if rows_val is not None and len(rows_val) and self._link == "softmax":
            assert targets_val is not None
            said = trainer.said(rows_val.reshape(shape_val)).double().cpu().numpy()
            temperatures = np.array([temperature(exit, targets_val) for exit in said])
        block = NetworkBlock(
            trainer.network,
            reads,
            self.input_shape_,
            centre=centre,
            spread=spread,
            temperatures=temperatures,
            offset=offset,
            unit=unit,
            device=device,
            batch_rows=batch_rows,
            dtype=dtype,
        )
        self.history_ = trainer.history
        self.n_epochs_ = trainer.epoch
        self.plan_ = Plan(
            blocks=[block],
            costs=bound,
            base=self._base(targets, weight, offset),
            link=self._link,
            replaces=np.ones(block.n_stages, dtype=bool),
            evaluation_costs=self._evaluation_costs(block),
        )

    def _settings(self) -> tuple[TrainingRecipe, LossWeights]:
        recipe = self.recipe or (_FOR_TABLES if self._is_table else _FOR_IMAGES)
        if isinstance(self.loss_weights, str) and self.loss_weights == "auto":
            return auto_weights(recipe)
        return recipe, copy.deepcopy(loss_weights(self.loss_weights))

    def _previous(self) -> NetworkBlock | None:
        plan = getattr(self, "plan_", None)
        if plan is None:
            return None
        block = plan.blocks[0]
        return block if isinstance(block, NetworkBlock) else None

    def _build(self, groups: Sequence[NDArray[np.intp]]) -> ExitNetwork:
        arguments = dict(self.backbone_arguments or {})
        if isinstance(self.backbone, ExitNetwork):
            if arguments:
                raise ValueError("backbone_arguments are for a backbone that is given by its name")
            return copy.deepcopy(self.backbone)
        arguments = {"input_shape": list(self.input_shape_), "n_outputs": self._n_outputs, **arguments}
        if self.backbone == "mlp":
            arguments["groups"] = [list(map(int, columns)) for columns in groups]
        elif self.backbone == "resann" and self.loss_weights == "auto":
            arguments.setdefault("side", 4)
        return build(self.backbone, **arguments)

    def _progress(self, recipe: TrainingRecipe) -> Any:
        def tell(entry: Mapping[str, Any]) -> None:
            errors = entry.get("errors", entry["losses"])
            chosen = [errors[round(share * (len(errors) - 1))] for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
            what = "validation error" if "errors" in entry else "training loss"
            print(
                f"epoch {entry['epoch']:>3}/{recipe.epochs}  {what} of exits at 0, 1/4, 1/2, 3/4, 1: "
                f"{'  '.join(f'{value:.4f}' for value in chosen)}  {entry['seconds']:.1f} s",
                flush=True,
            )

        return tell

    # ------------------------------------------------------------------ rows

    @property
    def _is_table(self) -> bool:
        return len(self.input_shape_) == 1

    def _read_training(self, X: Any, y: Any) -> tuple[NDArray[Any], Any]:
        """(n, d) rows as the plan reads them."""
        needs_images = isinstance(self.backbone, str) and self.backbone != "mlp"
        if _n_axes(X) > 2 or isinstance(X, torch.Tensor):
            images = _as_array(X)
            if images.ndim > 2:
                if self.backbone == "mlp":
                    raise ValueError(
                        f"the backbone 'mlp' reads tables, (n, columns), and X has shape {images.shape}; "
                        "for images use backbone='resann', 'denseann' or 'msdnet'"
                    )
                self.input_shape_ = _image_shape(images)
                self.n_features_in_ = int(np.prod(self.input_shape_))
                rows = ImageRows(self.input_shape_)(images)
                if len(rows) != len(y):
                    raise ValueError(f"{len(rows)} images but {len(y)} labels")
                self._largest_seen = float(np.abs(rows).max(initial=0))
                return rows, np.asarray(y)
            X = images
        if needs_images:
            raise ValueError(
                f"the backbone {self.backbone!r} reads images, (n, channels, height, width) or (n, height, width, "
                f"channels), and X has shape {np.shape(X)}; for tables use backbone='mlp'"
            )
        rows, y = validated(
            self, X, y, dtype=np.float64, order="C", ensure_all_finite="allow-nan", multi_output=True
        )
        self.input_shape_ = (rows.shape[1],)
        return rows, y

    @property
    def _flattened(self) -> ImageRows | None:
        """What makes rows of images; None for tables."""
        return None if self._is_table else ImageRows(self.input_shape_, self._largest_seen)

    @property
    def _takes_missing(self) -> bool:
        return self._is_table and super()._takes_missing

    def _read_in(self, X: Any) -> Rows:
        if not hasattr(self, "plan_"):  # check_is_fitted takes several times as long to ask
            check_is_fitted(self, "plan_")
        if self._is_table:
            return super()._read_in(_as_array(X) if isinstance(X, torch.Tensor) else X)
        if hasattr(X, "__getitem__") and not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
            X = _from_dataset(X, type(self).__name__)[0]
        images = _as_array(X)
        if images.ndim == 3 and images.shape == self.input_shape_ and self.input_shape_[0] != 1:
            raise ValueError(
                f"expected several images, not one of shape {images.shape}: use predict_one, or X[None]"
            )
        return Rows(ImageRows(self.input_shape_, self._largest_seen)(images))

    def predict_one(
        self,
        x: Any,
        budget: float | None = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """The prediction for one row or one image. See ``answer`` for the bounds."""
        if getattr(self, "plan_", None) is None or self._is_table:
            return super().predict_one(x, budget, deadline, mean_budget=mean_budget)
        due = self._due(time.monotonic(), deadline)
        rows = self._read_in(_as_array(x)[None])
        return self._decide(self._run_plan(rows, budget, mean_budget, due).scores())[0]

    def _held_out(
        self,
        rows: NDArray[Any],
        targets: NDArray[Any],
        weight: Array | None,
        X_val: Any,
        y_val: Any,
        random: np.random.RandomState,
    ) -> tuple[NDArray[Any], NDArray[Any], Array | None, NDArray[Any] | None, NDArray[Any] | None]:
        if X_val is not None:
            images = _n_axes(X_val) > 2 or not self._is_table
            rows_val = ImageRows(self.input_shape_)(_as_array(X_val)) if images else self._as_numbers(X_val)
            return rows, targets, weight, rows_val, self._encode_more(y_val)
        if self.validation_fraction is None or len(rows) < 20:
            return rows, targets, weight, None, None
        strata = targets if self._link == "softmax" else np.zeros(len(rows), dtype=np.intp)
        if self._is_table:
            fit, held = split_rows(rows, strata.astype(np.intp), self.validation_fraction, random)
        else:
            order = random.permutation(len(rows))
            cut = int(self.validation_fraction * len(rows))
            held, fit = np.sort(order[:cut]), np.sort(order[cut:])
        kept = None if weight is None else weight[fit]
        return rows[fit], targets[fit], kept, rows[held], targets[held]

    # ------------------------------------------------------------------ prices

    def _prices(self) -> Any:
        names = getattr(self, "feature_names_in_", None)
        listed = None if names is None else list(map(str, names))
        if self.costs is None and not self._is_table:
            d = self.n_features_in_
            unit = "ms" if self.evaluation_cost == "ms" else "mult-adds"
            return FeatureCosts(groups={"image": list(range(d))}, prices={"image": 0.0}, unit=unit).bind(d)
        return FeatureCosts.coerce(self.costs, self.n_features_in_, listed).bind(self.n_features_in_, listed)

    def _evaluation_costs(self, block: NetworkBlock) -> Array | None:
        how = self.evaluation_cost
        if how is None:
            if self._is_table or self.costs is not None:
                return None
            how = "mult_adds"
        if how == "mult_adds":
            return np.array(mult_adds(block.network, self.input_shape_).stages(), dtype=np.float64)
        if how == "ms":
            return np.round(1e3 * block.measure(), 6)
        return np.full(block.n_stages, float(how))

    def profile(self, batch_size: int = 1, repeats: int = 9) -> Self:
        """The same model with prices in milliseconds per row, as measured on this machine for batches of this size.

        Parameters
        ----------
        batch_size : int, default=1
        repeats : int, default=9
            Runs of which the median counts.
        """
        block = self.plan_.blocks[0]
        assert isinstance(block, NetworkBlock)
        taken = np.round(1e3 * block.measure(batch_size, repeats) / batch_size, 6)
        d = self.n_features_in_
        costs = FeatureCosts(groups={"input": list(range(d))}, prices={"input": 0.0}, unit="ms")
        measured = copy.copy(self)
        measured.plan_ = replace(self.plan_, costs=costs.bind(d), evaluation_costs=taken, expected_costs=None)
        return measured

    def to_onnx_blocks(self, folder: str | Path, *, dtype: str = "float32") -> list[Path]:
        """One ONNX model per block, for runtimes that want to stop in between; needs ``anytime[onnx]``.

        The first file reads ``X``, (rows, ...) in the shape of ``input_shape_``. Each gives ``prediction`` and, of a classifier,
        ``probability``. All but the last also give ``next_0``, ``next_1`` and so on, the inputs ``state_0``, ``state_1``
        and so on of the file after, as far as it has them. The number of rows is free.

        Parameters
        ----------
        folder : str or Path
            Made where it is not there.
        dtype : {"float32", "float64"}, default="float32"
            Type of ``X``.

        Returns
        -------
        list of Path
            ``block_1.onnx`` and so on, one for each stage within the model's budget.

        Raises
        ------
        ExportError
            Where torch cannot write the network, or rows leave it one by one.
        """
        from importlib import import_module

        # export stands above the models, so it is met only here, at run time
        paths: list[Path] = import_module("anytime.export").to_onnx_blocks(self, folder, dtype=dtype)
        return paths

    def _groups(self, rows: Array, targets: NDArray[Any], bound: Any) -> list[NDArray[np.intp]]:
        """Columns that enter with each block, in the order of purchase."""
        names = list(bound.costs.names)
        columns = {name: np.flatnonzero(bound.column_group == g) for g, name in enumerate(names)}
        ordered = [name for name in self._ordered(rows, targets, bound) if columns[name].size]
        rest = [name for name in names if name not in ordered and columns[name].size]
        ordered += sorted(rest, key=lambda name: bound.costs.price([name]))
        parts = np.array_split(np.arange(len(ordered)), min(self.max_stages, max(len(ordered), 1)))
        groups = [np.concatenate([columns[ordered[i]] for i in part]) for part in parts if part.size]
        while len(groups) < min(_LEAST_BLOCKS, self.max_stages):
            groups.append(np.zeros(0, dtype=np.intp))
        return groups

    def _ordered(self, rows: Array, targets: NDArray[Any], bound: Any) -> list[str]:
        order = self.order
        if isinstance(order, AnytimeModel):
            order = order.order_
        if not isinstance(order, str):
            wrong = [name for name in order if name not in bound.costs.names]
            if wrong:
                raise ValueError(f"order names the group {wrong[0]!r}, which costs does not have")
            return list(order)
        filled = np.where(np.isnan(rows), np.nan_to_num(np.nanmean(rows, axis=0)), rows)
        some = slice(None, None, max(len(rows) // 20_000, 1))
        pursuit = self._pursuit()(costs=bound.costs, ridge=1e-3)
        if bound.n_groups < 2:
            return list(bound.costs.names)
        names = getattr(self, "feature_names_in_", None)
        table: Any = filled[some]
        if names is not None:
            import pandas as pd

            table = pd.DataFrame(table, columns=names)
        return list(pursuit.fit(table, targets[some]).order_)

    def _columns_of_exits(
        self, network: ExitNetwork, groups: Sequence[NDArray[np.intp]]
    ) -> list[NDArray[np.intp]]:
        if not groups or not (isinstance(self.backbone, str) and self.backbone == "mlp"):
            return [np.arange(self.n_features_in_)] * network.n_exits
        return [np.concatenate(groups[: i + 1]) for i in range(network.n_exits)]

    # ------------------------------------------------------------------ files

    def attach(self, module: ExitNetwork) -> Self:
        """Give the module of a model that was loaded without it; its copy gets the weights of the file.

        Parameters
        ----------
        module : ExitNetwork
            With the same blocks and heads as the one that was trained, whatever its weights.

        Raises
        ------
        ValueError
            Where names, shapes or types of weights differ, or nothing is missing.
        """
        check_is_fitted(self, "plan_")
        if self.detached_ is None:
            raise ValueError("the network of this model is there: there is nothing to attach")
        blocks = [
            block.attached(module).to(self._available_device())
            if isinstance(block, StoredNetworkBlock)
            else block
            for block in self.plan_.blocks
        ]
        self.plan_ = replace(self.plan_, blocks=blocks)
        self.backbone = module
        return self

    @property
    def detached_(self) -> str | None:
        """The name of the module where it has to be given with ``attach``; None where all is there."""
        lost = [block.detached.name for block in self._plan.blocks if block.detached is not None]
        return lost[0] if lost else None

    def _available_device(self) -> torch.device:
        """Where the network is computed: the device of the constructor, if this machine has it."""
        if self.device is None or (self.device.startswith("cuda") and not torch.cuda.is_available()):
            return default_device()
        return torch.device(self.device)

    def _file_state(self) -> dict[str, Any]:
        return {
            "input_shape": list(self.input_shape_),
            "largest_seen": float(self._largest_seen),
            "n_epochs": int(self.n_epochs_),
            "history": _plain(self.history_),
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        shape, blocks = tuple(state["input_shape"]), self.plan_.blocks
        if (
            not 1 <= len(shape) <= 3
            or any(type(size) is not int or size < 1 for size in shape)
            or len(shape) == 2
        ):
            raise ValueError(f"a network reads tables or images, not inputs of shape {shape}")
        if math.prod(shape) != self.n_features_in_:
            raise ValueError(f"inputs of shape {shape} are not {self.n_features_in_} columns")
        networks = [block for block in blocks if isinstance(block, (NetworkBlock, StoredNetworkBlock))]
        if len(blocks) > 1 or len(networks) < len(blocks):
            raise ValueError(f"the stages of a {type(self).__name__} are the exits of one network")
        if any(block.input_shape != shape for block in networks):
            raise ValueError(f"the network reads inputs of another shape than {shape}")
        if type(state["largest_seen"]) is not float or type(state["n_epochs"]) is not int:
            raise ValueError("largest_seen and n_epochs are numbers")
        device = self.device
        if device is not None and (type(device) is not str or device.partition(":")[0] not in _DEVICES):
            raise ValueError(f"no device is called {device!r:.60}")
        self.input_shape_, self._largest_seen = shape, state["largest_seen"]
        self.n_epochs_, self.history_ = state["n_epochs"], state["history"]
        moved = [
            block.to(self._available_device()) if isinstance(block, NetworkBlock) else block
            for block in blocks
        ]
        self.plan_ = replace(self.plan_, blocks=moved)

    # ------------------------------------------------------------------ what a classifier and a regressor do differently

    @property
    def _n_outputs(self) -> int:
        raise NotImplementedError

    def _pursuit(self) -> type[AnytimeModel]:
        raise NotImplementedError

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        raise NotImplementedError

    def _encode_more(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _units(self, targets: NDArray[Any]) -> tuple[Array | None, Array | None]:
        return None, None

    def _scaled_targets(
        self, targets: NDArray[Any], offset: Array | None, unit: Array | None
    ) -> NDArray[Any]:
        return targets

    def _base(self, targets: NDArray[Any], weight: Array | None, offset: Array | None) -> Array:
        raise NotImplementedError


class AnytimeNetworkClassifier(ClassifierFace, _NetworkModel):
    """A neural network that answers at every depth: exits behind its blocks, each a stage that replaces the answer before.

    Anytime neural networks of Hu (2019, chapter 4): residual, dense and multi-scale networks for images, and fully connected
    ones for tables, whose blocks take groups of columns one after the other, so that a network buys features as any other
    learner does.

    Parameters
    ----------
    backbone : {"mlp", "resann", "denseann", "msdnet"} or ExitNetwork, default="mlp"
        "mlp" is for tables, the others for images. Any module with exits can be given, see ``anytime.networks.with_exits``.
    backbone_arguments : dict, default=None
        For the backbone, for instance ``{"n": 9, "c": 16}``; see ``anytime.networks.resann`` and its neighbours.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column. For images None is 0, and evaluating the stages is what costs.
    order : "pursuit", sequence of group names, or fitted model, default="pursuit"
        In which order groups enter the network: as group pursuit buys them, as listed, or as a model does that is fitted.
    max_stages : int, default=16
        The most stages that the plan may have. Tables: groups enter in so many blocks at most.
    budget : float, default=None
        The most that any row may pay in a prediction that names no bound. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    evaluation_cost : float, "mult_adds", "ms" or None, default=None
        Price of evaluating one stage, features apart, in the unit of ``costs``. "mult_adds": counted multiplications with
        additions. "ms": milliseconds measured here for one row. None: "mult_adds" for images without ``costs``, else 0.
    loss_weights : {"auto", "constant", "linear", "half_end", "one_exit", "adaloss", "once", "first_order"} or \
LossWeights, default="auto"
        How much each exit counts in training. "auto": heads learn at full speed, the last exit has most of the say in the
        blocks, early exits learn from it, and heads of residual networks read more than one mean per channel.
    recipe : TrainingRecipe, default=None
        Epochs, batches, optimizer and all else; see ``anytime.networks.TrainingRecipe``. None: one for tables, one for images.
    validation_fraction : float or None, default=0.1
        Share of the training rows held out to decide on. None: none are. Confidence is calibrated on them, by a temperature
        per exit.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. The learning rate falls by the clock, so that training ends well.
    checkpoint : path, default=None
        Where training is saved after each epoch, and goes on from where the file is there.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the fitted model.
    device : str, default=None
        "cpu", "cuda" and so on. None: a GPU where there is one.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it. torch has its own setting.
    verbose : int, default=0
        Whether progress is printed. 1: a line per epoch, with the validation error of five exits.

    Attributes
    ----------
    plan_, stage_costs_, order_, classes_, n_features_in_, feature_names_in_
        As in :class:`AnytimeClassifier`.
    input_shape_ : tuple
        Of one row or image, channels first.
    history_ : list of dict
        What every epoch told: losses, weights and seconds.
    n_epochs_ : int

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.networks import TrainingRecipe
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> recipe = TrainingRecipe(epochs=10, batch_size=64, optimizer="adamw", learning_rate=5e-3)
    >>> model = at.AnytimeNetworkClassifier(costs=costs, max_stages=4, recipe=recipe, random_state=0).fit(X, y)
    >>> model.n_stages_, bool(model.score(X, y) > 0.9)
    (4, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_NetworkModel._parameter_constraints,
        **shared("class_weight"),
    }
    _link = "softmax"

    def __init__(
        self,
        *,
        backbone: str | ExitNetwork = "mlp",
        backbone_arguments: Mapping[str, Any] | None = None,
        costs: Any = None,
        order: Any = "pursuit",
        max_stages: int = 16,
        budget: float | None = None,
        meter: str = "model",
        evaluation_cost: float | Literal["mult_adds", "ms"] | None = None,
        loss_weights: str | LossWeights = "auto",
        recipe: TrainingRecipe | None = None,
        validation_fraction: float | None = 0.1,
        time_budget: float | None = None,
        checkpoint: str | Path | None = None,
        warm_start: bool = False,
        device: str | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def leave_early(self, X_val: Any, *, mean_budget: float) -> Self:
        """A model of its own in which rows leave as soon as they are sure enough, so that the mean cost is at most a budget.

        Hard rows go deeper than ``predict(X, mean_budget=...)`` could let all rows go. Every exit has a threshold on the margin,
        see ``anytime.networks.stopping_thresholds``. No labels are needed.

        Parameters
        ----------
        X_val : rows or images
            Validation rows, on which the mean is taken.
        mean_budget : float

        Returns
        -------
        AnytimeNetworkClassifier
            Its plan has stopping rules; ``cost`` says what each row pays.

        Raises
        ------
        ValueError
            Where not even the first exit is affordable, or exits cost nothing.
        """
        plan, rows = self._plan, self._checked(X_val)
        costs, link, block = plan.stage_costs, LINKS[plan.link], plan.blocks[0]
        if not len(rows) or costs[0] > mean_budget:
            raise ValueError(
                f"a mean budget of {mean_budget:g} buys no stage for {len(rows)} rows: the first costs {costs[0]:g}"
            )
        memory = block.remember(len(rows)) or {}
        scores = [block.proceed(stage, stage, rows, memory) for stage in range(plan.n_stages)]
        margins = np.array([link.margin(exit) for exit in scores])
        confidence = np.array([link.transform(exit).max(axis=1) for exit in scores])
        thresholds = stopping_thresholds(confidence, costs, mean_budget, margins)
        n_stages = int(np.flatnonzero(np.isneginf(thresholds))[0]) + 1  # no row comes further
        taken = np.minimum(exits_taken(margins, thresholds), n_stages - 1)
        spent = np.array([costs[np.minimum(taken, stage)].mean() for stage in range(n_stages)])
        rules = {s: MarginRule(float(thresholds[s]), below=False) for s in range(n_stages - 1)}
        finite = {s: rule for s, rule in rules.items() if np.isfinite(rule.threshold)}
        leaving = copy.copy(self)
        leaving.plan_ = replace(plan.head(n_stages), stops=finite, expected_costs=spent)
        return leaving

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _pursuit(self) -> type[AnytimeModel]:
        return GroupPursuitClassifier

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()[0]!r}: there is nothing to tell apart"
            )
        self._check_heads()
        if self.class_weight is not None:
            balance = compute_sample_weight(self.class_weight, y)
            weight = balance if weight is None else weight * balance
        return codes.astype(np.int64), weight

    def _check_heads(self) -> None:
        if isinstance(self.backbone, ExitNetwork):
            last = [m for m in self.backbone.modules() if isinstance(m, torch.nn.Linear)]
            if last and last[-1].out_features < len(self.classes_):
                raise ValueError(
                    f"y has {len(self.classes_)} classes, but the network's last layer has {last[-1].out_features} outputs"
                )

    def _encode_more(self, y: Any) -> NDArray[Any]:
        y = np.asarray(y).ravel()
        order = np.argsort(self.classes_)  # a module's outputs need not be in the order of the labels
        codes = order[np.searchsorted(self.classes_, y, sorter=order).clip(0, len(order) - 1)]
        wrong = self.classes_[codes] != y
        if wrong.any():
            raise ValueError(
                f"y_val holds the label {y[wrong].tolist()[0]!r}, which is no class of the model"
            )
        return codes.astype(np.int64)

    def _base(self, targets: NDArray[Any], weight: Array | None, offset: Array | None) -> Array:
        counts = np.bincount(targets, weights=weight, minlength=len(self.classes_))
        return np.log(np.maximum(counts, 1e-12) / counts.sum())


class AnytimeNetworkRegressor(RegressorFace, _NetworkModel):
    """A neural network that predicts numbers at every depth; see :class:`AnytimeNetworkClassifier`.

    Parameters
    ----------
    backbone : {"mlp", "resann", "denseann", "msdnet"} or ExitNetwork, default="mlp"
        "mlp" is for tables, the others for images. Any module with exits can be given, see ``anytime.networks.with_exits``.
    backbone_arguments : dict, default=None
        For the backbone; see ``anytime.networks.resann`` and its neighbours.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column. For images None is 0, and evaluating the stages is what costs.
    order : "pursuit", sequence of group names, or fitted model, default="pursuit"
        In which order groups enter the network: as group pursuit buys them, as listed, or as a model does that is fitted.
    max_stages : int, default=16
        The most stages that the plan may have. Tables: groups enter in so many blocks at most.
    budget : float, default=None
        The most that any row may pay in a prediction that names no bound. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    evaluation_cost : float, "mult_adds", "ms" or None, default=None
        Price of evaluating one stage, features apart, in the unit of ``costs``. "mult_adds": counted multiplications with
        additions. "ms": milliseconds measured here for one row. None: "mult_adds" for images without ``costs``, else 0.
    loss_weights : {"auto", "constant", "linear", "half_end", "one_exit", "adaloss", "once", "first_order"} or \
LossWeights, default="auto"
        How much each exit counts in training.
    recipe : TrainingRecipe, default=None
        Epochs, batches, optimizer and all else; see ``anytime.networks.TrainingRecipe``. None: one for tables, one for images.
    validation_fraction : float or None, default=0.1
        Share of the training rows held out to decide on. None: none are.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. The learning rate falls by the clock, so that training ends well.
    checkpoint : path, default=None
        Where training is saved after each epoch, and goes on from where the file is there.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the fitted model.
    device : str, default=None
        "cpu", "cuda" and so on. None: a GPU where there is one.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it. torch has its own setting.
    verbose : int, default=0
        Whether progress is printed.

    Attributes
    ----------
    plan_, stage_costs_, order_, n_features_in_, feature_names_in_
        As in :class:`AnytimeRegressor`.
    input_shape_, history_, n_epochs_
        As in :class:`AnytimeNetworkClassifier`.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.networks import TrainingRecipe
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> recipe = TrainingRecipe(epochs=30, batch_size=64, optimizer="adamw", learning_rate=5e-3)
    >>> model = at.AnytimeNetworkRegressor(costs=costs, recipe=recipe, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True
    """

    _link = "identity"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @property
    def _n_outputs(self) -> int:
        return self._n_targets

    def _pursuit(self) -> type[AnytimeModel]:
        return GroupPursuitRegressor

    def _encode(self, y: Any, weight: Array | None) -> tuple[NDArray[Any], Array | None]:
        targets = self._encode_more(y)
        self._n_targets = targets.shape[1]
        return targets, weight

    def _encode_more(self, y: Any) -> NDArray[Any]:
        numbers = target_numbers(y)
        if numbers.ndim == 2 and numbers.shape[1] == 1:
            numbers = column_or_1d(numbers, warn=True)
        return numbers[:, None] if numbers.ndim == 1 else numbers

    def _units(self, targets: NDArray[Any]) -> tuple[Array | None, Array | None]:
        spread = targets.std(axis=0)
        return targets.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def _scaled_targets(
        self, targets: NDArray[Any], offset: Array | None, unit: Array | None
    ) -> NDArray[Any]:
        assert offset is not None
        assert unit is not None
        return ((targets - offset) / unit).astype(np.float32)

    def _base(self, targets: NDArray[Any], weight: Array | None, offset: Array | None) -> Array:
        return np.asarray(np.average(targets, axis=0, weights=weight))


# ---------------------------------------------------------------------- helpers


def _from_dataset(data: Any, estimator: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairs of a torch data set, stacked."""
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) or hasattr(data, "shape"):
        raise ValueError(
            f"{estimator} requires y to be passed, but the target y is None; only a torch Dataset, which gives pairs of an "
            "input and its label, has its own"
        )
    pairs = [data[i] for i in range(len(data))]
    if not pairs or not isinstance(pairs[0], (tuple, list)) or len(pairs[0]) != 2:
        raise ValueError("a data set has to give pairs of an input and its label")
    inputs = np.stack([_as_array(x) for x, _ in pairs])
    return inputs, np.array([label.item() if hasattr(label, "item") else label for _, label in pairs])


def _n_axes(X: Any) -> int:
    shape = getattr(X, "shape", None)
    return np.asarray(X).ndim if shape is None else len(shape)


def _plain(value: Any) -> Any:
    """Numbers, lists and dicts as a file holds them."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _as_array(X: Any) -> NDArray[Any]:
    return X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else np.asarray(X)


def _image_shape(images: NDArray[Any]) -> tuple[int, int, int]:
    """Channels, height and width of images with channels first, last or left out."""
    if images.ndim == 3:
        return (1, int(images.shape[1]), int(images.shape[2]))
    if images.ndim != 4:
        raise ValueError(f"images have shape (n, channels, height, width); X has shape {images.shape}")
    _, a, b, c = (int(size) for size in images.shape)
    if a in _CHANNELS or c not in _CHANNELS:
        return (a, b, c)
    return (c, a, b)


def _moments(rows: NDArray[Any], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Means and deviations: of each column of a table, of each channel of images."""
    if len(shape) == 1:
        centre = np.nan_to_num(np.nanmean(rows, axis=0)) if len(rows) else np.zeros(shape)
        spread = np.nan_to_num(np.nanstd(rows, axis=0))
    else:
        some = rows[:: max(len(rows) // 5000, 1)].reshape(-1, *shape)
        centre, spread = (
            some.mean(axis=(0, 2, 3), dtype=np.float64),
            some.std(axis=(0, 2, 3), dtype=np.float64),
        )
    return centre, np.where(spread > 0, spread, 1.0)


def temperature(said: Array, codes: NDArray[Any], weight: Array | None = None) -> float:
    """What (n, K) scores have to be divided by so that probabilities are most likely to be right (Guo et al. 2017)."""
    own = said[np.arange(len(said)), codes]

    def loss(logarithm: float) -> float:
        scale = np.exp(-logarithm)
        return float(np.average(logsumexp(scale * said, axis=1) - scale * own, weights=weight))

    return float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
