"""Scene parsing: every pixel of a picture gets a rough label at once and a better one with every stage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from anytime._compat import Interval, Options
from anytime.answer import Answer
from anytime.bounded_runs import Amount, Budget
from anytime.costs import UNLIMITED, FeatureCosts
from anytime.engine import Stop
from anytime.parameters import shared, store
from anytime.plan import Plan
from anytime.structured.block import EntropySelector, StructuredBlock
from anytime.structured.descriptors import DESCRIPTORS, GRID_STEP, LENGTHS, SoftCodes
from anytime.structured.learners import BoostedTreesLearner
from anytime.structured.model import ElementLabels, StructuredModel, class_weights, train_structured
from anytime.structured.pictures import read_label_maps, read_pictures
from anytime.structured.rules import StructuredRules
from anytime.structured.scene_hurry import pictures_in_time
from anytime.structured.scene_profile import measured_prices
from anytime.structured.scene_run import parse_together
from anytime.structured.scenes import Scene, SceneFeatures, Scenes
from anytime.trees.clock import Clock

__all__ = ["SceneParser"]

_FIRST_TREES = 16  # of the first two stages at most, so that the first labels come soon
_TIMED = 3  # pictures from which prices are measured
_DICTIONARY_PICTURES = 60  # pictures of which descriptors are drawn for dictionaries
_DICTIONARY_POINTS = 60_000  # descriptors that are drawn
_DICTIONARY_SHARE = (
    0.3  # of the time of training, for dictionaries; where it ends, later descriptors are done without
)
_POINTS_PER_SECOND = 4000  # of the time of training: the most descriptors that are drawn ...
_LEAST_POINTS = 10  # ... but at least so many for each centre
_FADING = 0.7  # what each stage leaves of ``early_balance``


class SceneParser(StructuredModel):
    """Label all pixels of pictures: uncertain regions are refined first, descriptors and codes are computed when they pay.

    StructuredSpeedBoost on pictures (Grubb, *Anytime Prediction*, 2014, chapter 7, "SIM"). A picture is segmented into nested
    regions of seven levels. A stage selects the regions of one level whose current predictions are uncertain, reads their shape,
    colour and descriptor codes and the current predictions around them, and adds the outputs of trees to the scores of all their
    pixels. Stages are chosen by the reduction of the cross-entropy of all pixels per unit of cost.

    Descriptors are computed at every second pixel of every second row.

    Training cannot be continued: there is neither ``warm_start`` nor ``partial_fit``, and ``fit`` always starts over.

    Parameters
    ----------
    costs : mapping from str to float, default=None
        What columns cost. None: milliseconds of one core, measured on the first training pictures (the same seed then gives the
        same model only if the measured prices are the same). A mapping has the prices of "segments", "shape", each descriptor
        ("texture") and one of its codes ("texture code").
    budget : float, default=None
        Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit. A row is a picture.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    ignore_label : int or str, default=None
        The label that marks unlabelled pixels. None: all pixels have a label.
    descriptors : sequence of str, default=("colour", "texture", "patterns", "edges", "wide_edges", "colour_edges")
        Descriptors to make codes of. The last costs as much as all others together.
    n_centres : int, default=150
        Number of codes per descriptor.
    levels : sequence of int, default=(0, 1, 3, 4, 6)
        Levels of regions that stages may work on; 0 is the finest.
    thresholds : sequence of float, default=(0, 0.2)
        Mean entropies above which regions may be selected, as shares of the greatest; 0: all regions.
    cost_penalties : sequence of float, default=(0.0002, 0.002)
        Share of the total loss that a tree must save per unit of cost; trees are tried for each value. Larger values make the
        most of a few codes, so that labels are good early; smaller ones buy more and are better in the end.
    tried_candidates : int or None, default=6
        Number of random triples of level, threshold and cost penalty tried for each stage. None: all.
    context : bool, default=True
        Whether regions read the current predictions of their surroundings.
    evaluation_cost : float, default=3.0
        Price of evaluating one stage, without its features, in the unit of ``costs``.
    max_stages : int, default=30
        Maximum number of stages.
    trees_per_stage : int, default=64
        Maximum number of trees of a stage, each grown on the residual of those before. The first stage has at most 16, a later
        one at most as many as all before it, so that the first labels come early.
    max_leaf_nodes : int, default=15
        Maximum number of leaves per tree. None: no limit.
    min_samples_leaf : int, default=60
        Minimum number of training rows in a leaf.
    max_features : float, default=0.1
        Random share of the columns not bought yet that each tree may use; of the bought ones, half.
    max_samples : int, default=10000
        Maximum number of regions that a tree is grown on, and approximate number of atoms that measure its gain, drawn anew for
        each stage.
    l2_regularization : float, default=20.0
        Ridge penalty: half of it times the squared weights (of trees: leaf values) is added to the loss. In units of the
        mean weight of a region.
    learning_rate : float, default=0.05
        Factor by which each learner's step is shrunk. The first stages have fewer trees and take larger steps, so that every
        stage can move equally far.
    holdout : float or None, default=None
        Share of the pictures, drawn anew for each stage, on which gains of candidates are measured; trees are grown on the
        others. None: gains are measured on all training pictures, which makes reuse of bought features look better than it is.
    folds : int, default=0
        Number of folds of the training pictures: stages learn from predictions of models not trained on a picture (stacking).
        0: none.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to their frequency. None: 1 each.
    early_balance : float, default=0.5
        How much early answers favour rare classes. This share of the log class frequencies is subtracted from the scores after
        the first stage, and seven tenths of the previous share after each later one: the few trees of early stages hardly move
        scores from these frequencies, so without it rare classes appear late. Only answers change: stages select, buy and add
        the same, and after ten stages hardly anything is subtracted. 0: nothing is.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. If time is short, stages are trained on a random part of the
        pictures, and with the first of ``descriptors`` only; a warning says so.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it.
    verbose : int, default=0
        Whether progress is printed.

    Attributes
    ----------
    plan_ : Plan
    classes_ : (C,) array
    steps_ : list of StructuredStep
        The steps of training.
    features_ : SceneFeatures
        The columns, and the dictionaries of the descriptors.

    See Also
    --------
    SequenceLabeler : For sequences.
    GraphLabeler : For graphs.

    Examples
    --------
    >>> import numpy as np
    >>> import anytime as at
    >>> label = np.repeat([[0, 1]], 24, axis=0).repeat(16, axis=1)       # left and right halves
    >>> picture = np.where(label[:, :, None] == 1, [200, 40, 40], [30, 30, 190]).astype(np.uint8)
    >>> X, y = [picture, picture[:, ::-1]] * 2, [label, label[:, ::-1]] * 2
    >>> model = at.SceneParser(n_centres=4, max_stages=3, min_samples_leaf=1, folds=2, random_state=0).fit(X, y)
    >>> model.score([picture], [label]), model.predict([picture])[0].shape
    (1.0, (24, 32))
    """

    _what, _element = "picture", "pixel"
    _parameter_constraints = shared(
        "costs", "budget", "meter", "evaluation_cost", "max_stages", "max_leaf_nodes", "min_samples_leaf",
        "l2_regularization", "learning_rate", "class_weight", "time_budget", "random_state", "n_jobs", "verbose",
    ) | {
        "ignore_label": "no_validation",
        "descriptors": ["array-like"],
        "n_centres": [Interval(Integral, 2, 10_000, closed="both")],
        "levels": ["array-like"],
        "thresholds": ["array-like"],
        "cost_penalties": ["array-like"],
        "trees_per_stage": [Interval(Integral, 1, 1000, closed="both")],
        "tried_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "context": ["boolean"],
        "max_features": [Interval(Real, 0, 1, closed="right")],
        "max_samples": [Interval(Integral, 1, None, closed="left")],
        "holdout": [Interval(Real, 0, 1, closed="neither"), None],
        "folds": [Options(Integral, {0}), Interval(Integral, 2, None, closed="left")],
        "early_balance": [Interval(Real, 0, 1, closed="left")],
    }  # fmt: skip

    def __init__(
        self,
        *,
        costs: Mapping[str, float] | None = None,
        budget: float | None = None,
        meter: str = "model",
        ignore_label: Any = None,
        descriptors: Sequence[str] = tuple(DESCRIPTORS),
        n_centres: int = 150,
        levels: Sequence[int] = (0, 1, 3, 4, 6),
        thresholds: Sequence[float] = (0.0, 0.2),
        cost_penalties: Sequence[float] = (0.0002, 0.002),
        tried_candidates: int | None = 6,
        context: bool = True,
        evaluation_cost: float = 3.0,
        max_stages: int = 30,
        trees_per_stage: int = 64,
        max_leaf_nodes: int | None = 15,
        min_samples_leaf: int = 60,
        max_features: float = 0.1,
        max_samples: int = 10_000,
        l2_regularization: float = 20.0,
        learning_rate: float = 0.05,
        holdout: float | None = None,
        folds: int = 0,
        class_weight: Any = None,
        early_balance: float = 0.5,
        time_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit the model to pictures and their label maps.

        Parameters
        ----------
        X : list of pictures
            (h, w, 3) bytes, or floats from 0 to 1; grey pictures and a fourth channel are accepted, too. Sizes may differ.
        y : list of (h, w) label maps
            Whole numbers or strings.
        groups : (n,) array-like, default=None
            Pictures of one group are similar, such as frames of one video: they stay in the same fold and are held out together.
            None: pictures are independent.
        """
        self._validate_params()
        clock = Clock(self.time_budget, self.verbose)
        names = self._checked_names()
        pictures = read_pictures(X)
        maps = read_label_maps(y, [picture.shape[:2] for picture in pictures], self.ignore_label)
        group = np.arange(len(pictures)) if groups is None else np.unique(groups, return_inverse=True)[1]
        if group.shape != (len(pictures),):
            raise ValueError(
                f"groups has shape {group.shape}; it is one label for each of {len(pictures)} pictures"
            )
        if self.folds > np.unique(group).size:
            what = "pictures" if groups is None else "groups"
            raise ValueError(f"folds is {self.folds}, but there are {np.unique(group).size} {what}")
        random = check_random_state(self.random_state)
        threads = self._threads()
        features = SceneFeatures(_dictionaries(pictures, names, self.n_centres, random, threads, clock))
        costs = self._price_list(pictures, features, clock)
        labelled = np.array([bool((code >= 0).any()) for code in maps.codes])
        used = pictures_in_time(
            pictures, labelled, group, features, self.levels, self.folds, clock, random, threads
        )
        left_out = [
            f"{done} of {n} {what}"
            for done, n, what in (
                (used.size, len(pictures), "pictures"),
                (len(features.codes), len(names), "descriptors"),
            )
            if done < n
        ]
        clock.tell(f"{len(pictures)} pictures, {features.n_codes} codes")
        with ThreadPoolExecutor(threads) as pool:
            cut = list(pool.map(lambda i: _cut(pictures[i], features), used))
        scenes = Scenes(cut, features)
        clock.tell(f"{scenes.n_elements} atoms")
        labels = _atom_labels(scenes, [maps.codes[i] for i in used], maps.classes, self.class_weight)
        plan, trainer = train_structured(
            scenes,
            labels,
            costs.bind(features.n_columns),
            self._selectors(maps.classes.size),
            [self._learner(penalty) for penalty in self.cost_penalties],
            StructuredRules(
                evaluation_cost=self.evaluation_cost,
                least_cost=1e-3 * max(costs.total, 1e-6),
                folds=self.folds,
                holdout=self.holdout,
                tried_candidates=self.tried_candidates,
                judged_elements=self.max_samples,
            ),
            max_stages=self.max_stages,
            n_iter_no_change=20,
            clock=clock,
            groups=group[used],
            seed=int(random.randint(2**31 - 1)),
            n_threads=threads,
            drawn=f"left time for {' and '.join(left_out)}" if left_out else "",
        )
        self.plan_, self.classes_, self.features_ = (
            _balanced(plan, self.early_balance),
            maps.classes,
            features,
        )
        self.steps_, self.n_features_in_ = trainer.steps, features.n_columns
        return self

    def predict(  # type: ignore[override]  # many labels: there is no matrix of costs
        self, X: Any, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> list[NDArray[Any]]:
        """A label map, (h, w), for each picture. See ``answer`` for the parameters."""
        return super().predict(X, budget, deadline, mean_budget=mean_budget)

    def answer(
        self,
        X: Any,
        budget: Budget = None,
        deadline: Amount = None,
        *,
        mean_budget: Amount = None,
        stop: Stop | None = None,
    ) -> Answer:
        """The best answer within the bounds, with its stage, cost and reason; see ``AnytimeModel.answer``.

        With ``deadline`` or ``stop``, every picture goes through a stage before any continues, and work may end within stages. A
        picture that was not started has the most frequent class everywhere.
        """
        check_is_fitted(self, "plan_")
        due = self._due(time.monotonic(), deadline)
        if due == np.inf and stop is None:
            return super().answer(X, budget, mean_budget=mean_budget)
        pictures = read_pictures(X)
        if not pictures:
            return super().answer(X, budget, deadline, mean_budget=mean_budget, stop=stop)
        stages, cap, _ = self._reach(budget, mean_budget)
        return parse_together(self, pictures, stages, UNLIMITED if cap is None else cap, due, stop)

    def _scores(self, X: Any, budget: Budget, deadline: Amount, mean_budget: Amount = None) -> Any:
        if deadline is None:
            return super()._scores(X, budget, deadline, mean_budget)
        return self.answer(X, budget, deadline, mean_budget=mean_budget).scores

    def _right(self, predicted: list[NDArray[Any]], y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        maps = read_label_maps(y, [labels.shape for labels in predicted], self.ignore_label, self.classes_)
        right = [
            np.sum(self.classes_[c] == s, where=c >= 0) for s, c in zip(predicted, maps.codes, strict=True)
        ]
        return np.array(right), np.array([np.sum(code >= 0) for code in maps.codes])

    # ------------------------------------------------------------------ within

    def _checked_names(self) -> list[str]:
        """Names of the descriptors; settings that cannot be are refused."""
        names = list(self.descriptors)
        for name in names:
            if name not in DESCRIPTORS:
                raise ValueError(f"no descriptor {name!r}; the descriptors are {', '.join(DESCRIPTORS)}")
        for level in self.levels:
            if level not in range(Scenes.n_levels):
                raise ValueError(f"there is no level {level}; the levels are 0 to {Scenes.n_levels - 1}")
        for share in self.thresholds:
            if not 0 <= share < 1:
                raise ValueError(f"a threshold is a share of the greatest entropy, 0 to below 1, not {share}")
        return names

    def _selectors(self, n_classes: int) -> list[EntropySelector]:
        greatest = float(np.log(n_classes))
        return [
            EntropySelector(int(level), share * greatest if share > 0 else -np.inf)
            for level in self.levels
            for share in self.thresholds
        ]

    def _learner(self, penalty: float) -> BoostedTreesLearner:
        return BoostedTreesLearner(
            n_estimators=self.trees_per_stage,
            first_estimators=_FIRST_TREES,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.max_leaf_nodes,
            cost_penalty=float(penalty),
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            use_context=self.context,
            max_features=self.max_features,
            max_samples=self.max_samples,
            n_threads=self._threads(),
        )

    def _price_list(
        self, pictures: list[NDArray[np.uint8]], features: SceneFeatures, clock: Clock
    ) -> FeatureCosts:
        turns = {} if clock.elapsed < _DICTIONARY_SHARE / 2 * clock.seconds else {"turns": 1}
        timed = pictures[: 1 if turns else _TIMED]
        prices = measured_prices(timed, features, **turns) if self.costs is None else self.costs
        return features.costs(prices, "ms" if self.costs is None else None)

    def _structures(self, X: Any) -> Scenes:
        threads = self._threads()
        return Scenes([Scene(rgb, self.features_, threads) for rgb in read_pictures(X)], self.features_)

    def _file_state(self) -> dict[str, Any]:
        codes = self.features_.codes
        return {"dictionaries": {name: [own.weights, own.bias] for name, own in codes.items()}}

    def _restore_file_state(self, state: Any) -> None:
        codes = {name: SoftCodes(*arrays) for name, arrays in state["dictionaries"].items()}
        for name, own in codes.items():
            if name not in LENGTHS or own.weights.shape != (len(own), LENGTHS[name]) or own.bias.ndim != 1:
                raise ValueError(f"the dictionary of {name!r} does not fit the descriptor")
            if own.weights.dtype != np.float32 or own.bias.dtype != np.float32:
                raise ValueError(f"the dictionary of {name!r} is not of float32")
        self.features_ = SceneFeatures(codes)
        if self.features_.n_columns != self.plan_.n_features:
            raise ValueError(
                f"the plan reads {self.plan_.n_features} columns, not {self.features_.n_columns}"
            )
        self._check_stages(self._structures([]))


def _cut(rgb: NDArray[np.uint8], features: SceneFeatures) -> Scene:
    """A picture whose regions are there; its features are read when trees first ask for them."""
    scene = Scene(rgb, features)
    assert scene.hierarchy.n_levels == Scenes.n_levels
    return scene


def _dictionaries(
    pictures: list[NDArray[np.uint8]],
    names: list[str],
    n_centres: int,
    random: Any,
    threads: int,
    clock: Clock,
) -> dict[str, SoftCodes]:
    """Centres of descriptors drawn from some of the pictures; of the first descriptors only, where there is no time for more."""
    chosen = random.permutation(len(pictures))[:_DICTIONARY_PICTURES]
    n_points = _DICTIONARY_POINTS
    if np.isfinite(clock.seconds):
        n_points = min(n_points, max(_LEAST_POINTS * n_centres, int(_POINTS_PER_SECOND * clock.seconds)))
    per_picture = -(-n_points // max(len(chosen), 1))
    empty = SceneFeatures({})
    samples: dict[str, list[NDArray[np.float32]]] = {name: [] for name in names}
    for i in chosen:
        scene = Scene(pictures[i], empty, threads)
        height, width = (-(-n // GRID_STEP) for n in pictures[i].shape[:2])
        points = random.choice(height * width, min(per_picture, height * width), replace=False).astype(
            np.int32
        )
        for name in names:
            samples[name].append(scene.planes(name).at(points))
        if clock.elapsed > _DICTIONARY_SHARE / 2 * clock.seconds:
            break
    seed = int(random.randint(2**31 - 1))
    codes: dict[str, SoftCodes] = {}
    time_is_up = clock.ends(_DICTIONARY_SHARE * clock.seconds)
    for name in names:
        codes[name] = SoftCodes.fit(np.concatenate(samples[name]), n_centres, seed)
        if time_is_up():
            break
    return codes


def _balanced(plan: Plan, share: float) -> Plan:
    """The plan whose early answers have a share of the log frequencies of the classes, its base, taken off."""
    if not share or not plan.n_stages:
        return plan
    (block,) = plan.blocks
    assert isinstance(block, StructuredBlock)
    shares = share * _FADING ** np.arange(plan.n_stages)
    return replace(plan, blocks=[block.with_offsets(-shares[:, None] * plan.base)])


def _atom_labels(
    scenes: Scenes, codes: list[NDArray[np.intp]], classes: NDArray[Any], class_weight: Any
) -> ElementLabels:
    """The distribution of labels in each atom, weighted by its pixels with a label: nothing is lost (4.5)."""
    counts = [
        np.bincount(
            (scene.hierarchy.atom.astype(np.intp) * (classes.size + 1) + code + 1).ravel(),
            minlength=scene.hierarchy.n_atoms * (classes.size + 1),
        ).reshape(-1, classes.size + 1)[:, 1:]
        for scene, code in zip(scenes.scenes, codes, strict=True)
    ]
    mass = np.concatenate(counts) * class_weights(class_weight, classes, np.concatenate(counts).sum(axis=0))
    weight = mass.sum(axis=1)
    truth = np.where(
        weight[:, None] > 0, mass / np.where(weight > 0, weight, 1.0)[:, None], 1.0 / classes.size
    )
    return ElementLabels(classes, truth, weight)
