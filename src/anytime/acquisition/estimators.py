"""The estimators: the next group of each row depends on the values seen so far."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from anytime._compat import Interval, StrOptions
from anytime.acquisition.inputs import Inputs, ValueSteps
from anytime.acquisition.masked_networks import MaskedNetworks, Masks, Targets, train_networks
from anytime.acquisition.masked_trees import train_trees
from anytime.acquisition.neighbour_block import FLOOR, MOST_FOLDS, NeighbourBlock, Reference
from anytime.acquisition.purchase_block import FINISHED
from anytime.acquisition.rowwise import RowwiseModel
from anytime.acquisition.value_trees import train_values
from anytime.advice import Offer, follow, offer_of
from anytime.calibrated import holding_out
from anytime.faces import ClassifierFace, RegressorFace
from anytime.parameters import declared, store, without
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.clock import Clock
from anytime.validation import class_labels, numbered_classes, target_numbers, weighed_by_class

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["AcquisitionClassifier", "AcquisitionRegressor"]

_MOST_REFERENCE = 20_000  # rows among which neighbours are looked for; of more, a sample
_MOST_LEVELS = 32  # of a categorical column that become inputs; the rarer ones count as none of them
_PRICE_POWER = 0.7  # gains are compared per this power of the price: a budget is not to be spent on what is cheapest alone
# Rows whose purchases say which sets will be asked for; fewer where that would take more decisions than the second number. Their
# budgets are this power of an even share of everything
_FOLLOWED, _MOST_DECISIONS, _THRIFT = 400, 20_000, 2.5
_LARGEST = 1e30  # numbers beyond which nothing can be standardised
_SMALLEST = 1e-15  # spread of a target beside the largest, whose square still counts in single precision
_SPREADS = float(np.finfo(np.float64).tiny), 1e150  # of targets: their squares are numbers too


class _AcquisitionModel(RowwiseModel):
    """What both estimators share."""

    cost_penalty: float
    n_neighbors: int
    look_ahead: int
    policy: str
    hidden_layer_sizes: tuple[int, int]
    folds: int
    time_budget: float | None
    random_state: Any
    verbose: int
    confidence: float | None = None  # of classifiers
    class_weight: Any = None  # of classifiers
    _block_type = NeighbourBlock

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "confidence": [Interval(Real, 0, 1, closed="both"), None],
        "look_ahead": [Interval(Integral, 0, 64, closed="both")],
        "policy": [StrOptions({"auto", "neighbours", "value"})],
        "hidden_layer_sizes": ["array-like"],
        "folds": [Interval(Integral, 2, MOST_FOLDS, closed="both")],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        budget: float | None = None,
        mean_budget: float | None = None,
        cost_penalty: float = 0.0,
        confidence: float | None = None,
        n_neighbors: int = 20,
        look_ahead: int = 12,
        policy: str = "auto",
        hidden_layer_sizes: tuple[int, int] = (128, 64),
        folds: int = 4,
        class_weight: dict[Any, float] | str | None = None,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "realised",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    # ------------------------------------------------------------------ learning

    @holding_out
    def fit(self, X: Any, y: Any) -> Self:
        """Train the networks, and keep the rows that will be neighbours. A fit that fails leaves the model as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, NaN where one is missing; columns of a table may be categories.
        y : (n,), or (n, k) for a regressor with several targets
        """
        self._validate_params()
        trained = copy.copy(self)
        trained._learn(X, y)
        self.__dict__ = trained.__dict__
        return self

    def _learn(self, X: Any, y: Any) -> None:
        clock, hidden = Clock(self.time_budget, int(self.verbose)), tuple(self.hidden_layer_sizes)
        if len(hidden) != 2 or not all(isinstance(size, Integral) and size > 0 for size in hidden):
            raise ValueError(f"hidden_layer_sizes must be two numbers of units, not {hidden!r}")
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        numbers, y = self._read_rows(X, y)
        if np.nanmax(np.abs(numbers), initial=0.0) > _LARGEST:
            raise ValueError(f"X has numbers beyond {_LARGEST:g}, which cannot be standardised; rescale them")
        random, costs = check_random_state(self.random_state), self._bound_costs()
        targets, offset, unit = self._targets(y)
        # networks compute in single precision: targets that would be nothing in it beside the largest have a unit of their own
        common = 2.0 ** np.round(np.log2(unit.max()))
        relative = np.maximum(unit / common, _SMALLEST)
        unit = np.where(relative > _SMALLEST, common, unit / _SMALLEST)
        inputs = _inputs_of(numbers, self.columns_.categories)
        Z = inputs.matrix(numbers).astype(np.float32)
        steps = ValueSteps.of(Z, inputs)
        group = costs.column_group[inputs.column]
        group = np.concatenate([group, group[steps.source]]).astype(np.int32)
        fold = _folds(targets, min(self.folds, len(Z)), random)
        kept = _sampled(targets, random)
        reference = Reference(
            Z[kept],
            fold[kept],
            targets.values[kept].astype(np.int32) if targets.are_classes else None,
            None if targets.are_classes else (targets.values[kept] * relative).astype(np.float32),
            *((None, None) if targets.are_classes else (offset, unit)),
        )
        data = (steps.expanded(Z), group, targets, fold)
        seed = int(random.randint(2**31 - 1))
        training: dict[str, Any] = {"clock": clock, "n_jobs": self.n_jobs}
        networks = train_networks(*data, Masks(costs), hidden, seed=seed, time_share=0.4, **training)
        block = self._block_of(inputs, steps, _scaled(networks, relative), reference, costs)
        if block.n_stages and not clock.over:
            masks = Masks(costs, _visited(block, numbers[kept], random, clock))
            networks = train_networks(
                *data, masks, hidden, seed=seed + 1, time_share=0.7, earlier=networks, **training
            )
            block = self._block_of(inputs, steps, _scaled(networks, relative), reference, costs)
            if not clock.over:
                shared = {
                    "n_read": Z.shape[1],
                    "n_threads": self._threads(),
                    "clock": clock,
                    "seed": seed + 2,
                }
                trees = train_trees(*data, masks, networks=networks, **shared)
                block = block.changed(trees=None if trees is None else trees.scaled(relative))
                if self.policy != "neighbours" and not clock.over:
                    block = self._with_values(block, data, masks, shared, relative, numbers[kept], random)
        base = block.score(numbers[:1], np.zeros((1, costs.n_groups), dtype=bool))[0]
        link = "softmax" if targets.are_classes else "identity"
        block.begin()
        self.plan_ = self._plan_of(block, base, link=link)

    def _with_values(
        self,
        block: NeighbourBlock,
        data: Any,
        masks: Masks,
        shared: dict[str, Any],
        unit: Array,
        X: Array,
        random: np.random.RandomState,
    ) -> NeighbourBlock:
        """The block with a learned policy, if that is wanted, or buys what is better for held-out rows."""
        Z, group, targets, fold = data
        if not targets.are_classes:  # losses are in the units of the block
            targets = targets._replace(values=(targets.values * unit).astype(np.float32))
        of_block: dict[str, Any] = {
            "networks": block.networks,
            "candidates": block.candidates,
            "required": block.required,
        }
        values = train_values(Z, group, targets, fold, masks, floor=FLOOR, **of_block, **shared)
        if values is None:
            return block
        chosen = self.policy == "value" or _is_better(values.honest, block, X, random, shared["clock"])
        return block.changed(values=values.of_all) if chosen else block

    def _block_of(self, *parts: Any) -> NeighbourBlock:
        return NeighbourBlock(
            *parts,
            cost_penalty=self.cost_penalty,
            confidence=self.confidence,
            n_neighbors=self.n_neighbors,
            price_power=1.0 if self.cost_penalty else _PRICE_POWER,  # a penalty is on the price itself
            look_ahead=self.look_ahead,
            n_threads=self._threads(),
        )

    def _without_stops(self, plan: Plan) -> Plan:
        blocks = [block.changed(confidence=None) for block in plan.blocks]  # type: ignore[attr-defined]
        return replace(plan, blocks=blocks, stops={})

    def _targets(self, y: Any) -> tuple[Targets, Array, Array]:
        """Targets as networks learn them, and what turns what they say into answers: times the last, plus the second."""
        raise NotImplementedError

    # ------------------------------------------------------------------ advice

    def _offers(self, plan: Plan, X: Array, owned: NDArray[np.bool_], cap: int) -> Sequence[Offer]:
        block = self._block
        if block is None:
            return ()
        ruled = plan.passes or plan.stops or plan.n_stages < block.candidates.size
        if ruled and not follow(plan, X, owned, cap)[1]:
            return ()
        read = block.required[block.candidates].any(
            axis=0
        )  # networks have never met a mask with other groups
        left = cap - int(owned @ block.costs.prices)
        owned = owned & read
        _, gains, changes = block.expectations(X, owned)
        memory = block.remember(1)
        memory["owned"][0], memory["cap"][0] = owned, left + int(owned @ block.costs.prices)
        block.choose(X, memory)
        prices = (block.required & ~owned) @ block.costs.prices
        first, affordable = int(memory["next"][0]), prices <= left
        if first < 0 or not affordable[first]:  # sure enough, or nothing is worth its price, or can be paid
            return ()
        offers = [
            offer_of(plan, int(g), owned, gain=float(gains[g]), change=float(changes[g]))
            for g in np.flatnonzero(~np.isnan(gains) & affordable)
        ]
        name = self.costs_.names[first]
        offers.sort(key=lambda o: (o.group != name, -(o.gain or 0.0) / max(o.price, 1e-300), o.price))
        return offers

    # ------------------------------------------------------------------ files and conventions

    @property
    def _block(self) -> NeighbourBlock | None:
        """What decides, with the threads of today; None where no column tells anything."""
        block: NeighbourBlock | None = super()._block
        if block is not None:
            block.n_threads = self._threads()
        return block

    def _restore_file_state(self, state: Any) -> None:
        super()._restore_file_state(state)
        if (block := self._block) is not None:
            block.begin()


@declared()
class AcquisitionClassifier(ClassifierFace, _AcquisitionModel):
    """A classifier that chooses purchases row by row: the next group depends on the values seen so far.

    Small networks, trained with randomly hidden groups, answer from any set of groups. The neighbours of a row are the training
    rows closest to it in the values seen so far. The next group is the one that lowers their loss most per price, by networks not
    trained on them (price to the power 0.7, so that not only the cheapest groups are bought). If no single group helps clearly,
    pairs and triples are tried (after Valancius et al., *Acquisition conditioned oracle for nongreedy active
    feature acquisition*, 2023). Boosted trees have a share of the answers, and say what groups are worth, if held-out rows are
    better off with them.

    Parameters
    ----------
    budget : float, default=None
        A row chooses only among groups that it can pay for.
    mean_budget : float, default=None
        The mean over the rows of a call never exceeds it; money goes first to the rows that gain most.
    cost_penalty : float, default=0
        0: rows buy as long as the budget lasts.
    confidence : float, default=None
        A row stops buying once its leading class has this probability. None: rows buy as long as the budget lasts.
    look_ahead : int, default=12
        Number of promising groups whose pairs and triples are tried at the beginning, and whenever no single group clearly
        lowers the loss. 0: none.
    policy : {"auto", "neighbours", "value"}, default="auto"
        What says how much a group lowers the loss: the row's neighbours, or boosted trees that have learned it from all rows.
        "auto": whichever buys what lowers the loss of held-out rows more. Without enough rows or time for trees, neighbours do.
    hidden_layer_sizes : (int, int), default=(128, 64)
        Units of the two hidden layers.
    folds : int, default=4
        Number of networks, each trained without its own share of the rows.
    class_weight : dict, "balanced" or None, default=None
        They apply to training the networks; neighbours have equal weights.
    time_budget : float, default=None
        Networks are then trained on fewer rows.
    meter : {"realised", "model"}, default="realised"
        By the latter the first purchase costs as much as everything.

    Attributes
    ----------
    plan_ : Plan
        Stage t is a row's t-th purchase.
    classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`. Purchases differ from row to row, so the order has no meaning.

    See Also
    --------
    AcquisitionRegressor : The same for regression.
    MarginAcquisitionClassifier : For linear classifiers, with a reason for each purchase.
    ExpectedCostClassifier : Exact planning over a few groups.
    SpeedBoostClassifier : One order of purchases for all rows.

    Notes
    -----
    With more than 20,000 training rows, neighbours come from a sample of that size; networks are trained on all rows.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.AcquisitionClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool(model.cost(X, budget=13).max() <= 13), bool(model.score(X, y, budget=13) > 0.9)
    (True, True)
    """

    def _targets(self, y: Any) -> tuple[Targets, Array, Array]:
        labels = class_labels(y)
        self.classes_, numbers = numbered_classes(labels)
        n_classes, weight = len(self.classes_), weighed_by_class(None, self.class_weight, labels)
        relative = None if weight is None else (weight / weight.mean()).astype(np.float32)
        targets = Targets(numbers, n_classes, relative)
        return targets, np.zeros(n_classes), np.ones(n_classes)


@declared(like=AcquisitionClassifier)
@without("class_weight", "confidence")
class AcquisitionRegressor(RegressorFace, _AcquisitionModel):
    """A regressor that chooses purchases row by row: the next group lowers the squared error most per price.

    Parameters
    ----------
    cost_penalty : float, default=0
        The loss is the squared error. 0: rows buy as long as the budget lasts.

    Attributes
    ----------
    plan_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AcquisitionClassifier`.

    See Also
    --------
    AcquisitionClassifier : The same for classification.
    SpeedBoostRegressor : One order of purchases for all rows.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.AcquisitionRegressor(costs=costs, random_state=0).fit(X, y)
    >>> bool(model.cost(X, budget=5).max() <= 5), bool(model.score(X, y, budget=5) > 0.3)
    (True, True)
    """

    def _targets(self, y: Any) -> tuple[Targets, Array, Array]:
        numbers = target_numbers(y)
        several = numbers.ndim == 2 and numbers.shape[1] > 1
        values = np.asarray(numbers if several else column_or_1d(numbers, warn=True), dtype=np.float64)
        values = values.reshape(len(values), -1)
        # of size 1, by powers of two: squares then neither vanish nor overflow, and no digit is lost
        power = np.frexp(np.abs(values).max(axis=0))[1]
        values = np.ldexp(values, -power)
        mean, spread = values.mean(axis=0), values.std(axis=0)
        unit, varies = np.ldexp(spread, power), spread > 0
        beyond = varies & ((unit < _SPREADS[0]) | (unit >= _SPREADS[1]))
        if beyond.any():
            raise ValueError(
                f"y has a spread of {unit[beyond][0]:.3g}, but it must be between {_SPREADS[0]:.0g} and {_SPREADS[1]:.0g}; "
                "rescale it"
            )
        scaled = ((values - mean) / np.where(varies, spread, 1.0)).astype(np.float32)
        return (
            Targets(scaled, values.shape[1], None),
            np.ldexp(mean, power),
            np.where(varies, unit, unit.max() or 1.0),
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _inputs_of(X: Array, categories: Any) -> Inputs:
    """Inputs of all columns that say anything: constant ones are left out."""
    codes = {}
    for column in categories:
        x = X[:, column]
        levels, counts = np.unique(x[~np.isnan(x)], return_counts=True)
        codes[column] = sorted(levels[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]].astype(int).tolist())
    inputs = Inputs.of(X, range(X.shape[1]), codes, products=False)
    Z = inputs.matrix(X)
    return inputs.taken((Z[:1] != Z).any(axis=0)) if inputs.column.size else inputs


def _scaled(networks: MaskedNetworks, unit: Array) -> MaskedNetworks:
    """Networks that answer in other units."""
    return networks._replace(
        w3=(networks.w3 * unit).astype(np.float32), b3=(networks.b3 * unit).astype(np.float32)
    )


def _visited(
    block: NeighbourBlock, X: Array, random: np.random.RandomState, clock: Clock
) -> NDArray[np.bool_]:
    """(s, G) sets of groups that some rows have after each of their purchases, with budgets of all sizes."""
    own = random.permutation(len(X))[: _n_followed(block)]
    return np.concatenate(_followed(block, X, own, _budgets(block, own.size, random), clock)[0])


def _n_followed(block: NeighbourBlock) -> int:
    return min(_FOLLOWED, max(_MOST_DECISIONS // block.n_stages, 1))


def _budgets(block: NeighbourBlock, n: int, random: np.random.RandomState) -> NDArray[np.int64]:
    return np.asarray(block.costs.prices.sum() * random.uniform(size=n) ** _THRIFT, dtype=np.int64)


def _followed(
    block: NeighbourBlock, X: Array, own: NDArray[np.intp], money: NDArray[np.int64], clock: Clock
) -> tuple[list[NDArray[np.bool_]], NDArray[np.bool_]]:
    """The sets that reference rows ``own`` have on their way, and (n, G) what each has in the end."""
    rows, memory = X[own], block.remember(own.size)
    block.bound(memory, money, None)
    visited = [np.zeros((1, block.costs.n_groups), dtype=bool)]
    go_on = None if np.isinf(clock.seconds) else lambda: not clock.over
    for _ in range(block.n_stages):
        in_time = block.choose(rows, memory, own.astype(np.int64), go_on)
        after = memory["owned"] | block.purchases(memory)
        memory["next"][after @ block.costs.prices > memory["cap"]] = FINISHED
        buying = memory["next"] >= 0
        if not buying.any() or not in_time:
            break
        block.buy(memory)
        visited.append(memory["owned"][buying].copy())
    return visited, memory["owned"]


def _is_better(
    honest: TreeBlock,
    block: NeighbourBlock,
    X: Array,
    random: np.random.RandomState,
    clock: Clock,
) -> bool:
    """Whether reference rows of the first fold, which these values have not seen, lose less with what they buy by them."""
    own = random.permutation(np.flatnonzero(block.reference.fold == 0))[: _n_followed(block)]
    money = _budgets(block, own.size, random)
    losses = []
    for deciding in (block, block.changed(values=honest)):
        owned = _followed(deciding, X, own, money, clock)[1]
        losses.append(block.held_out_losses(own, owned, 0).mean())
    return bool(not clock.over and losses[1] < losses[0])


def _folds(targets: Targets, n_folds: int, random: np.random.RandomState) -> NDArray[np.int32]:
    """(n,) folds of rows, drawn within classes."""
    n = len(targets.values)
    drawn = random.permutation(n)
    if targets.are_classes:
        drawn = drawn[np.argsort(targets.values[drawn], kind="stable")]
    fold = np.empty(n, dtype=np.int32)
    fold[drawn] = np.arange(n) % n_folds
    return fold


def _sampled(targets: Targets, random: np.random.RandomState) -> NDArray[np.intp]:
    """Rows among which neighbours are looked for, every class as often as among all."""
    n = len(targets.values)
    if n <= _MOST_REFERENCE:
        return np.arange(n)
    drawn = random.permutation(n)
    if targets.are_classes:
        drawn = drawn[np.argsort(targets.values[drawn], kind="stable")]
    return np.sort(drawn[np.linspace(0, n - 1, _MOST_REFERENCE).astype(np.intp)])
