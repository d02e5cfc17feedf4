"""What ``fuzz_files.py`` throws at the loader: small valid files that use all a file can hold, and ways to spoil them."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import random
import struct
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from anytime import files
from anytime.acquisition import AcquisitionClassifier, LinearTerms, MarginAcquisitionClassifier, StepTerms
from anytime.acquisition.masked_trees import MaskedTrees
from anytime.adaptive import AdaptiveClassifier, CostlyBlock
from anytime.auto import AutoClassifier
from anytime.auto.blend_block import BlendBlock, LogProbabilityBlock
from anytime.auto.dense_block import DenseBlock, Inputs
from anytime.blocks import LinearBlock
from anytime.costs import FeatureCosts
from anytime.files import container
from anytime.networks.ensemble import ExponentialEnsembleClassifier
from anytime.networks.member import MemberBlock
from anytime.plan import Plan
from anytime.rules import EntropyRule, MarginRule, OutsideRule, ScoreRule
from anytime.streaming import HoeffdingTree, SmallNet, StreamingBoostClassifier, StreamingBoostRegressor
from anytime.trees.arrays import LEAF, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.imported_models import AnytimeClassifier, AnytimeRegressor
from anytime.trees.importers.columns import Columns

__all__ = ["KINDS", "Cases", "Elsewhere", "Parts", "assembled", "packed", "sample_models", "small_trees"]

COLUMNS = 4
KINDS = ("bytes", "zip", "json", "arrays")
SHARES = (25, 15, 30, 30)


# ---------------------------------------------------------------------- valid files to start from


def small_trees(
    seed: int,
    stages: list[int],
    n_outputs: int = 1,
    *,
    wide: bool = False,
    categories: bool = False,
    **options: Any,
) -> TreeArrays:
    """Trees of at most seven nodes; ``stages`` gives the number of trees in each."""
    rng = np.random.default_rng(seed)
    shapes = [[(1, 2), None, None], [(1, 2), (3, 4), None, None, None], [None]]
    trees = [shapes[rng.integers(len(shapes))] for _ in range(sum(stages))]
    nodes = [children for tree in trees for children in tree]
    size, inner = len(nodes), np.array([children is not None for children in nodes], dtype=bool)
    category_set = np.full(size, NUMERIC, dtype=np.int32)
    if categories:
        category_set[inner & (rng.random(size) < 0.5)] = rng.integers(2)
    return TreeArrays(
        tree_start=np.cumsum([0, *map(len, trees)]).astype(np.int64),
        stage_start=np.cumsum([0, *stages]).astype(np.int64),
        feature=np.where(inner, rng.integers(0, COLUMNS, size), LEAF).astype(np.int32),
        threshold=np.where(inner, rng.normal(size=size).round(1), 0.0),
        left=np.array([LEAF if c is None else c[0] for c in nodes], dtype=np.int32),
        right=np.array([LEAF if c is None else c[1] for c in nodes], dtype=np.int32),
        default_left=rng.integers(0, 2, size).astype(np.uint8),
        missing=rng.integers(0, 3, size).astype(np.uint8),
        category_set=category_set,
        members_left=rng.integers(0, 2, size).astype(np.uint8),
        category_start=np.array([0, 2, 5] if categories else [0], dtype=np.int64),
        categories=np.array([0, 3, 1, 2, 40] if categories else [], dtype=np.int32),
        value=rng.normal(size=(size, n_outputs if wide else 1)),
        tree_output=(np.zeros(len(trees)) if wide else np.arange(len(trees)) % n_outputs).astype(np.int32),
        n_outputs=n_outputs,
        n_features=COLUMNS,
        **options,
    )


def small_costs() -> FeatureCosts:
    """Four columns in three groups and a step without columns that two of them require."""
    return FeatureCosts(
        groups={"draw": [], "b": [1], "a": [0, 2], "c": [3]},
        prices={"draw": 2.1, "b": 5.17, "a": 0.0, "c": 15.5},
        requires={"b": ["draw"], "c": ["draw", "b"]},
        unit="CAD",
        tails={"draw": 3.0, "b": 6.0, "a": 0.5, "c": 20.0},
    )


def fitted(
    face: Any, plan: Plan, classes: Any = None, names: list[str] | None = None, **parameters: Any
) -> Any:
    """A model of ours around a plan, as if it had been fitted."""
    model = face(**parameters)
    model.plan_, model.n_features_in_ = plan, plan.n_features
    model.columns_, model.source_, model.ordering_ = Columns(plan.n_features), "made for a test", None
    if classes is not None:
        model.classes_ = np.asarray(classes)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def sample_models() -> dict[str, Any]:
    """Small models that together use all that a file can hold."""
    rng = np.random.default_rng(0)
    costs, names = small_costs(), ["eins", "zwei", "drei", "vier\u00e9"]
    named = FeatureCosts(dict.fromkeys(names, 1.5))
    bound = costs.bind(COLUMNS)
    plain = FeatureCosts([1.0, 2.0, 0.1, 0.2]).bind(COLUMNS)
    boosted = Plan(
        blocks=[TreeBlock(small_trees(1, [1, 2, 1, 0, 1]))],
        costs=bound,
        base=np.array([0.25]),
        link="logistic",
        evaluation_costs=np.array([0.1, 0.2, 0.1, 0.0, 0.1]),
        quality=np.array([-1.0, -0.7, -0.8, -1e300, -0.4, -0.3]),
    )
    forest = Plan(
        blocks=[TreeBlock(small_trees(2, [1, 1, 1], 3, wide=True, categories=True))],
        costs=named.bind(COLUMNS, names),
        base=np.full(3, 1 / 3),
        link="probability",
        combine="mean",
    )
    capped = Plan(
        blocks=[TreeBlock(small_trees(3, [1, 1, 2], float32_input=True))],
        costs=bound,
        base=np.array([7.5]),
        link="exp",
        limit=9.5,
    )
    steps = [
        LinearBlock([0], [[1.0, 0.5]]),
        LinearBlock([2, 1], rng.normal(size=(2, 2))),
        LinearBlock([3], [[2.0, 1.0]]),
    ]
    refitted = Plan(
        blocks=steps,
        costs=plain,
        base=np.array([0.0, 1.0]),
        link="identity",
        weights=[rng.normal(size=(2 * (t + 1), 2)) for t in range(3)],
        intercepts=rng.normal(size=(3, 2)),
    )
    scaled = Plan(
        blocks=[TreeBlock(small_trees(4, [1, 2], 2)), LinearBlock([0, 3], rng.normal(size=(2, 2)))],
        costs=plain,
        base=np.zeros(2),
        link="softmax",
        weights=[rng.normal(size=t + 1) for t in range(3)],
        stops={1: MarginRule(0.8, below=False)},
    )
    gated = Plan(
        blocks=[
            LinearBlock([0], [[0.3]]),
            TreeBlock(small_trees(5, [1, 1])),
            LinearBlock([1, 2, 3], rng.normal(size=(3, 1))),
        ],
        costs=bound,
        base=np.zeros(1),
        link="logistic",
        passes={
            0: EntropyRule(0.1),
            1: MarginRule(2.0),
            3: ScoreRule(LinearBlock([3], [[1.0]]), 0.1, below=True),
        },
        stops={
            0: OutsideRule(-5.0),
            2: ScoreRule(TreeBlock(small_trees(6, [1])), -0.5),
            3: MarginRule(np.inf, below=False),
        },
    )
    ladder = Plan(
        blocks=[TreeBlock(small_trees(7 + i, [2], 3)) for i in range(3)],
        costs=plain,
        base=np.zeros(3),
        link="ova",
        replaces=np.array([True, True, False]),
        evaluation_costs=np.array([1.0, 2.0, 3.0]),
    )
    inputs = Inputs.of(rng.normal(size=(5, COLUMNS)), [0, 2], {}, products=True)
    dense = DenseBlock(
        inputs, [(rng.normal(size=(5, 3)), np.zeros(3)), (rng.normal(size=(3, 1)), np.ones(1))]
    )
    odds = LogProbabilityBlock(TreeBlock(small_trees(11, [2], 2)), 1)
    blend = BlendBlock([TreeBlock(small_trees(12, [1])), dense, odds], [0.5, 0.3, 0.2])
    own = {"costs": bound, "base": np.zeros(1), "link": "logistic"}
    beside = Plan(blocks=[dense], replaces=np.array([True]), quality=np.array([-1.0, -0.6]), **own)
    automatic = Plan(
        blocks=[TreeBlock(small_trees(13, [1])), blend],
        replaces=np.ones(2, dtype=bool),
        quality=np.array([-1.0, -0.7, -0.5]),
        branches=[beside],
        **own,
    )
    members = [MemberBlock(boosted, [1, 4], transformed=True), MemberBlock(gated, [2, 4], transformed=True)]
    ensemble = fitted(
        ExponentialEnsembleClassifier,
        Plan(
            blocks=members,
            costs=bound,
            base=np.array([0.6, 0.4]),
            link="probability",
            replaces=np.ones(4, dtype=bool),
            evaluation_costs=np.array([0.1, 0.3, 1.0, 2.0]),
            quality=np.array([-0.5, -0.4, -0.3, -0.2, -0.1]),
        ),
        ["no", "yes"],
    )
    ensemble.adopted_ = [np.array([True, False, False, True, False]), np.array([False, True, False, True])]
    ensemble.validation_errors_ = [np.array([0.4, 0.4, 0.5, 0.3, 0.3]), np.array([0.3, 0.2, 0.2, 0.1])]
    ensemble.images_ = None
    del ensemble.source_, ensemble.ordering_
    adaptive = fitted(
        AdaptiveClassifier,
        _sent_on(bound),
        ["no", "yes"],
        costs=costs,
        costly=DummyClassifier(),
        mean_budget=20.0,
    )
    (
        adaptive.cost_penalty_,
        adaptive.costly_fraction_,
        adaptive.threshold_,
        adaptive.sent_,
        adaptive.doubt_,
    ) = (
        0.1,
        0.3,
        0.2,
        0.4,
        0.7,
    )
    del adaptive.source_, adaptive.ordering_
    labelled = fitted(
        AnytimeClassifier, forest, np.array(["yes", "n\u00f6", "17"], dtype=object), names, costs=named
    )
    labelled.columns_ = Columns(
        COLUMNS, {0: ["red", "green", math.nan], 2: [1, 2.5, "x", None]}, rounded_down=(2,)
    )
    limited = fitted(AnytimeRegressor, capped, costs=costs, meter="realised", budget=8, n_jobs=2)
    limited.columns_ = Columns(COLUMNS, {1: [0, 1, 2]}, arrays_hold_codes=False, missing_value=-1.0)
    rows, labels = rng.normal(size=(12, COLUMNS)), np.arange(12) % 2
    steps = StepTerms(0.1, [0, 1, 3, 3, 3], [0.0, -1.0, 1.0], [0.5, -0.5, 1.0, 0.0, -1.0, 0.0, 0.0])
    margins = MarginAcquisitionClassifier(
        LinearTerms(0.2, rng.normal(size=COLUMNS)), costs=costs, confidence=0.9, n_neighbors=3
    ).fit(rows, labels)
    stepped = MarginAcquisitionClassifier(steps, acquisition="random", random_state=1).fit(rows, labels)
    small = {"n_estimators": 2, "random_state": 0, "costs": costs}
    trees = StreamingBoostClassifier(learner=HoeffdingTree(stagger=1), drift="adwin", **small)
    nets = StreamingBoostRegressor(
        learner=SmallNet(hidden=2), loss="absolute", categorical_features=[2], **small
    )
    coded = rows.copy()
    coded[:, 2] = np.arange(12) % 3
    return {
        "adaptive": adaptive,
        "automatic": _automatic(automatic, costs),
        "ensemble": ensemble,
        "streamed trees": trees.fit(rows, np.array(["a", "b", "c"])[np.arange(12) % 3]),
        "streamed nets": nets.fit(coded, rows[:, 0]),
        "neighbours": _neighbours(costs, rows, labels),
        "masked trees": _with_trees(_neighbours(costs, rows, labels)),
        "margins": margins.set_params(classifier=None),  # a file has no room for it
        "stepped": stepped.set_params(classifier=None),
        "boosted": fitted(AnytimeClassifier, boosted, ["no", "yes"], names, costs=costs, evaluation_cost=0.1),
        "forest": labelled,
        "capped": limited,
        "refitted": fitted(AnytimeRegressor, refitted, random_state=3),
        "scaled": fitted(AnytimeClassifier, scaled, np.array([False, True]), costs=plain.costs),
        "gated": fitted(AnytimeClassifier, gated, np.array([-1, 1], dtype=np.int8), meter="realised"),
        "ladder": fitted(
            AnytimeClassifier,
            ladder,
            np.array([0.5, 1.5, 2.5], dtype=np.float32),
            estimator=DummyClassifier(),
        ),
    }


def _neighbours(costs: FeatureCosts, rows: Any, labels: Any) -> AcquisitionClassifier:
    settings: dict[str, Any] = {
        "hidden_layer_sizes": (3, 2),
        "folds": 2,
        "n_neighbors": 3,
        "random_state": 0,
    }
    return AcquisitionClassifier(costs=costs, confidence=0.9, cost_penalty=0.01, **settings).fit(rows, labels)


def _with_trees(model: AcquisitionClassifier) -> AcquisitionClassifier:
    """The same, with trees that have a share of the answers, and others that say what groups are worth."""
    trees = MaskedTrees(TreeBlock(small_trees(14, [1], 2, wide=True)), 0.5)
    block: Any = model.plan_.blocks[0]
    n_seen = COLUMNS + 2 + block.costs.n_groups
    values = TreeBlock(replace(small_trees(15, [1], block.candidates.size, wide=True), n_features=n_seen))
    model.plan_ = replace(model.plan_, blocks=[block.changed(trees=trees, values=values)])
    return model


def _automatic(plan: Plan, costs: FeatureCosts) -> AutoClassifier:
    model = fitted(AutoClassifier, plan, ["no", "yes"], costs=costs)
    del model.source_, model.ordering_
    return model


class Elsewhere:
    """A costly model, which no file holds: of two columns it takes the difference, a missing number for 0."""

    def decision_function(self, X: Any) -> Any:
        """(n,) Decision values."""
        return np.nan_to_num(X[:, 0]) - np.nan_to_num(X[:, 1])


def _sent_on(costs: Any) -> Plan:
    """Trees, a gate, and a costly model."""
    rng = np.random.default_rng(1)
    costly = CostlyBlock(
        "Elsewhere",
        [3, 1],
        lambda X: Elsewhere().decision_function(X[:, [3, 1]])[:, None],
        2,
        method="decision_function",
        calibration=[[1.5], [-0.5]],
        probe=rng.normal(size=(3, COLUMNS)),
    )
    return Plan(
        blocks=[TreeBlock(small_trees(11, [2])), costly],
        costs=costs,
        base=np.array([0.1]),
        link="logistic",
        replaces=np.ones(2, dtype=bool),
        passes={1: ScoreRule(LinearBlock([0], [[1.0]]), 0.2, doubt=0.7)},
        evaluation_costs=np.array([0.1, 2.0]),
        expected_costs=np.array([3.0, 11.0]),
        quality=np.array([0.5, 0.8, 0.9]),
    )


def packed(model: Any) -> bytes:
    """The bytes of the model's file."""
    out = io.BytesIO()
    container.write_archive(out, *files._pack(model))
    return out.getvalue()


# ---------------------------------------------------------------------- files taken apart and put together


class Parts:
    """A file in pieces that can be changed one by one and put together again with right checksums."""

    def __init__(self, raw: bytes) -> None:
        archive = container.Archive(io.BytesIO(raw), 1 << 30)
        self.manifest = json.loads(bytes(archive.manifest()))
        self.arrays = {name: archive.array(name)[0] for name in archive.array_names}
        del self.manifest["sha256"], self.manifest["arrays"]

    def assembled(self) -> bytes:
        """The bytes of a file."""
        members = container.pack_arrays(self.arrays)
        return assembled(self.manifest, members)


def assembled(manifest: Any, members: list[container.Packed]) -> bytes:
    """A file of these members, checksums right, names whatever they are."""
    sums = {member.name.removeprefix("arrays/").removesuffix(".npy"): member.sha256 for member in members}
    body = json.dumps({**manifest, "arrays": sums}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sealed = body.encode("utf-8", "surrogatepass")[:-1]
    sealed += b',"sha256":"%s"}' % hashlib.sha256(sealed).hexdigest().encode()
    out = io.BytesIO()
    container.write_archive(out, sealed, members)
    return out.getvalue()


# ---------------------------------------------------------------------- changes


NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    255,
    2**15,
    2**31 - 1,
    2**31,
    -(2**31),
    2**53,
    2**62,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
)
FLOATS = (0.0, -0.0, 0.5, -0.5, 1e-320, 1e-9, 1e18, 1e300, -1e300, 1.7976931348623157e308, 3.5)
TEXTS = (
    "",
    "inf",
    "-inf",
    "nan",
    "plan",
    "trees",
    "linear",
    "score",
    "margin",
    "mean",
    "softmax",
    "a" * 300,
    "\ud800",
    "\0",
    "é",
)


def any_value(rnd: random.Random) -> Any:
    """A value that a manifest should rarely have."""
    choice = rnd.randrange(9)
    if choice == 0:
        return rnd.choice([None, True, False])
    if choice <= 2:
        return rnd.choice(NUMBERS)
    if choice <= 4:
        return rnd.choice(FLOATS)
    if choice <= 6:
        return rnd.choice(TEXTS)
    if choice == 7:
        return rnd.choice(
            [[], {}, [0], [[]], [None] * 70, {"is": "array", "of": "plan.base"}, {"is": "tuple", "of": [1]}]
        )
    deep: Any = []
    for _ in range(rnd.choice([3, 20, 60])):
        deep = [deep] if rnd.random() < 0.5 else {"is": "tuple", "of": [deep]}
    return deep


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a JSON tree."""
    out: list[tuple[Any, Any]] = []
    pending = [node]
    while pending:
        at = pending.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in keys:
            out.append((at, key))
            pending.append(at[key])
    return out


def change_json(rnd: random.Random, parts: Parts) -> None:
    """One change somewhere in the manifest."""
    found = places(parts.manifest)
    holder, key = rnd.choice(found)
    choice = rnd.randrange(8)
    value = holder[key]
    if choice == 0:
        del holder[key]
    elif choice == 1 and isinstance(value, (int, float)) and not isinstance(value, bool):
        holder[key] = value + rnd.choice([-1, 1, 0.5, 1e9])
    elif choice == 2 and isinstance(value, list) and value:
        value.insert(rnd.randrange(len(value) + 1), copy.deepcopy(rnd.choice(value)))
    elif choice == 3 and isinstance(holder, dict):
        holder[rnd.choice(["kind", "is", "x", key + "s", "width"])] = copy.deepcopy(value)
    elif choice == 4:
        other, place = rnd.choice(found)
        holder[key] = copy.deepcopy(other[place]) if place in other or isinstance(other, list) else None
    elif choice == 5 and isinstance(value, list):
        rnd.shuffle(value)
    elif choice == 6 and isinstance(value, str):
        holder[key] = rnd.choice(value) * rnd.randrange(3) if value else "x"
    else:
        holder[key] = any_value(rnd)


def change_array(rnd: random.Random, parts: Parts) -> None:
    """One change to one array."""
    name = rnd.choice(sorted(parts.arrays))
    array = parts.arrays[name].copy()
    choice = rnd.randrange(10)
    if choice <= 4 and array.size:
        for _ in range(rnd.choice([1, 1, 2, 5])):
            poke(rnd, array)
    elif choice == 5:
        array = resized(rnd, array)
    elif choice == 6:
        array = array.astype(rnd.choice(["<f8", "<i8", "<i4", "|u1", "|b1", "<f4", "<u8"]))
    elif choice == 7:
        shapes = [(1, *array.shape), (*array.shape, 1), (array.size,), (array.size, 1, 1), array.shape[::-1]]
        array = array.reshape(rnd.choice(shapes))
    elif choice == 8:
        other = rnd.choice(sorted(parts.arrays))
        parts.arrays[other], array = array, parts.arrays[other]
    elif rnd.random() < 0.5:
        del parts.arrays[name]
        return
    else:
        parts.arrays[
            rnd.choice(["plan.quality", "plan.replaces", "plan.weights", "values.0", "zzz", name + ".0"])
        ] = array
        return
    parts.arrays[name] = array


def poke(rnd: random.Random, array: Any) -> None:
    """Change one number."""
    at = rnd.randrange(array.size)
    flat = array.reshape(-1)
    if array.dtype.kind == "f":
        flat[at] = rnd.choice([*FLOATS, math.nan, math.inf, -math.inf])
    elif array.dtype.kind == "b":
        flat[at] = not flat[at]
    else:
        limits = np.iinfo(array.dtype)
        near = int(flat[at]) + rnd.choice([-1, 1, 2, -2])
        wild = rnd.choice([0, 1, -1, 2, 3, 7, array.size, limits.max, limits.min, 2**24, 2**24 + 1, 2**30])
        flat[at] = min(max(rnd.choice([near, wild]), int(limits.min)), int(limits.max))


def resized(rnd: random.Random, array: Any) -> Any:
    """The array with more or fewer rows."""
    size = len(array) if array.ndim else 0
    wanted = rnd.choice([0, 1, max(size - 1, 0), size + 1, 2 * size, 100_000, 1_000_000])
    if wanted >= 1000 and rnd.random() < 0.7:  # large ones are slow to make, and a few are enough
        wanted = size + 2
    if wanted * (array.nbytes / max(size, 1)) > 64 << 20:  # more than the process that makes it may hold
        wanted = size + 2
    if not array.ndim or not size:
        return np.zeros(wanted, dtype=array.dtype)
    return np.resize(array, (wanted, *array.shape[1:]))


def changed_bytes(rnd: random.Random, raw: bytes, other: bytes) -> bytes:
    """Damage that knows nothing of the format."""
    data = bytearray(raw)
    for _ in range(rnd.choice([1, 1, 1, 2, 4])):
        choice, size = rnd.randrange(8), len(data)
        if not size:
            break
        begin = rnd.randrange(size)
        end = min(size, begin + rnd.choice([1, 2, 4, 16, 200]))
        if choice == 0:
            data[begin] ^= 1 << rnd.randrange(8)
        elif choice == 1:
            data[begin] = rnd.randrange(256)
        elif choice == 2:
            del data[begin:]
        elif choice == 3:
            del data[begin:end]
        elif choice == 4:
            data[begin:begin] = data[begin:end]
        elif choice == 5:
            place = rnd.randrange(len(other))
            data[begin:end] = other[place : place + end - begin]
        elif choice == 6:
            data[begin:end] = rnd.choice([b"\0", b"\xff"]) * (end - begin)
        else:
            data += rnd.randbytes(rnd.choice([1, 22, 100]))
    return bytes(data)


def changed_zip(rnd: random.Random, raw: bytes) -> bytes:
    """A lie about the container, told consistently where that is possible."""
    if rnd.random() < 0.4:
        return _changed_header(rnd, raw)
    parts = Parts(raw)
    members = container.pack_arrays(parts.arrays)
    at = rnd.randrange(len(members))
    member = members[at]
    data = member.data if not member.method else zlib.decompress(member.data, -15)
    choice = rnd.randrange(8)
    if choice == 0:  # a bomb, with a header that tells the truth about it
        count = rnd.choice([1 << 16, 1 << 20, 1 << 24, 20 << 20])
        header = container._npy_header("|u1", (count,))
        members[at] = container._pack(member.name, header + bytes(count), squeeze=True)
    elif choice == 1:  # a claim without anything behind it
        size = rnd.choice([0, 1, 2**24, 2**31, 2**32 - 2**20, member.size - 1, member.size + 1])
        members[at] = container.Packed(member.name, member.method, member.crc, size, member.data)
    elif choice == 2:  # numpy's header says something else
        begin = rnd.randrange(min(128, len(data)))
        changed = data[:begin] + rnd.choice([b"9", b"(", b"|O", b"-", rnd.randbytes(2)]) + data[begin + 1 :]
        members[at] = container._pack(member.name, changed, squeeze=rnd.random() < 0.5)
    elif choice == 3:
        shape = rnd.choice(
            [(2**31,), (10**10,), (2**40, 2**40), (0,), (1, 1, 1, 1, 1, 1, 1, 1, 1), (-1,), (10**30,)]
        )
        header = container._npy_header(rnd.choice(["<f8", "|O", "<U9", ">f8", "|V8", "<M8[s]"]), shape)
        members[at] = container._pack(member.name, header + data[128:], squeeze=True)
    elif choice == 4:
        members.insert(at, members[rnd.randrange(len(members))])
    elif choice == 5:
        names = [
            "/etc/passwd",
            "../x.npy",
            "arrays/../x.npy",
            "manifest.json",
            "arrays/x.npy",
            "arrays\\x.npy",
            "arrays/.npy",
        ]
        members[at] = container.Packed(rnd.choice(names), member.method, member.crc, member.size, member.data)
    elif choice == 6:
        members[at] = container.Packed(
            member.name, rnd.choice([1, 8, 0, 9, 12, 14, 93]), member.crc, member.size, member.data
        )
    else:  # a deflated stream that ends early, or goes on
        cut = (
            member.data[: rnd.randrange(len(member.data))] if rnd.random() < 0.5 else member.data + b"\0" * 9
        )
        members[at] = container.Packed(member.name, 8, member.crc, member.size, cut)
    return assembled(parts.manifest, members)


def _changed_header(rnd: random.Random, raw: bytes) -> bytes:
    """One field of a member changed in the member's own header and in the directory alike."""
    data = bytearray(raw)
    begin = int.from_bytes(raw[-6:-2], "little")
    entries, at = [], begin
    while raw[at : at + 4] == b"PK\1\2":
        length = int.from_bytes(raw[at + 28 : at + 30], "little")
        entries.append((at, int.from_bytes(raw[at + 42 : at + 46], "little")))
        at += 46 + length
    central, local = rnd.choice(entries)
    place, size = rnd.choice(
        [(4, 2), (6, 2), (8, 2), (10, 2), (12, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)]
    )
    wild = struct.pack(
        "<Q", rnd.choice([0, 1, 8, 64, 0x800, 0xFFFF, 0xFFFFFFFF, 2**31, rnd.getrandbits(32)])
    )[:size]
    if rnd.random() < 0.8:
        data[local + place : local + place + size] = wild
    data[central + place + 2 : central + place + 2 + size] = wild
    if rnd.random() < 0.3:
        place = rnd.choice([4, 32, 34, 36, 38, 42])
        data[central + place : central + place + 2] = wild[:2]
    if rnd.random() < 0.2:
        data[-rnd.randrange(1, 19)] = rnd.choice([0, 1, 255])
    return bytes(data)


class Cases:
    """Cases by number."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.names, self.raw = zip(
            *((name, packed(model)) for name, model in sample_models().items()), strict=True
        )
        self.parts = [Parts(raw) for raw in self.raw]

    def make(self, number: int) -> tuple[str, bytes]:
        """The kind and the bytes of a case."""
        rnd = random.Random(f"{self.seed}:{number}")
        kind = rnd.choices(KINDS, SHARES)[0]
        which = rnd.randrange(len(self.raw))
        if kind == "bytes":
            return kind, changed_bytes(rnd, self.raw[which], rnd.choice(self.raw))
        if kind == "zip":
            return kind, changed_zip(rnd, self.raw[which])
        parts = copy.copy(self.parts[which])
        parts.manifest, parts.arrays = copy.deepcopy(parts.manifest), dict(parts.arrays)
        for _ in range(rnd.choice([1, 1, 1, 2, 3])):
            (change_json if kind == "json" else change_array)(rnd, parts)
            if not parts.arrays or not places(parts.manifest):
                break
        return kind, parts.assembled()
