"""Native core of anytime: tree ensembles that can be interrupted, and the ledger of what a row has paid.

Arrays are taken as they are, never converted: type, number of dimensions and C order must be those stated.
"""

from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

_Floating = TypeVar("_Floating", np.float32, np.float64)

class _Stop(Protocol):
    def is_set(self) -> bool: ...

def vectors() -> list[str]: ...
def vectors_in_use() -> str: ...
def use_vectors(name: str) -> None: ...
def softmax_pull(
    scores: NDArray[_Floating], classes: NDArray[np.int64], weight: NDArray[_Floating]
) -> NDArray[_Floating]: ...
def is_within(X: NDArray[np.float64], largest: float, missing: bool) -> bool: ...
def forest_scores(
    forest: Forest,
    X: NDArray[np.float64],
    until: int,
    base: NDArray[np.float64],
    mean: bool,
    threads: int = 1,
    table: CostTable | None = None,
    evaluation: NDArray[np.int64] | None = None,
    budget: int = 0,
) -> NDArray[np.float64]: ...
def logistic(log_odds: NDArray[np.float64]) -> NDArray[np.float64]: ...

class StopFlag:
    """A flag that native loops read without holding the interpreter's lock."""

    def __init__(self) -> None: ...
    def set(self) -> None:
        """Ask every run that was given this flag to stop."""
    def clear(self) -> None:
        """Take the request back."""
    def is_set(self) -> bool:
        """Whether a stop has been asked for."""

class CostTable:
    """Groups of columns, their prices in ticks, and the groups each requires.

    ``require[require_start[g]:require_start[g + 1]]`` are the direct requirements of group ``g``; ``column_group[j]``
    is the group of column ``j``. A cycle, a bad index, a negative price or a total over ``2**62`` is a ``ValueError``.
    """

    def __init__(
        self,
        prices: NDArray[np.int64],
        require_start: NDArray[np.int64],
        require: NDArray[np.int32],
        column_group: NDArray[np.int32],
    ) -> None: ...
    @property
    def n_groups(self) -> int:
        """Number of groups."""
    @property
    def n_columns(self) -> int:
        """Number of columns."""
    def closure(self, group: int) -> list[int]:
        """The group and all it needs, directly or not, ascending."""
    def price(self, groups: NDArray[np.int32]) -> int:
        """Ticks for the groups and all they need, each counted once."""
    def __getstate__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

class Ledger:
    """Per row: the groups bought, each once with what it requires, and the ticks paid."""

    def __init__(self, table: CostTable, n_rows: int) -> None: ...
    @property
    def n_rows(self) -> int:
        """Number of rows."""
    @property
    def table(self) -> CostTable:
        """The prices it charges."""
    def buy(self, groups: NDArray[np.int32], rows: NDArray[np.int64] | None = None) -> None:
        """Pay, in the rows (all if None), for the groups and all they need that the row does not have yet."""
    def quote(self, groups: NDArray[np.int32], rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """What ``buy`` would charge each row, without buying."""
    def charge(self, ticks: int, rows: NDArray[np.int64] | None = None) -> None:
        """Add an evaluation cost to the rows."""
    @property
    def paid(self) -> NDArray[np.int64]:
        """(n_rows,) ticks paid, a copy."""
    @property
    def bought(self) -> NDArray[np.bool_]:
        """(n_rows, n_groups) which groups each row has, a copy."""
    def copy(self) -> Ledger:
        """A ledger of its own in the same state."""
    def __getstate__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: tuple[Any, ...]) -> None: ...

class _ForestArrays(TypedDict):
    tree_start: NDArray[np.int64]
    stage_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    default_left: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    category_set: NDArray[np.int32]
    members_left: NDArray[np.uint8]
    category_start: NDArray[np.int64]
    categories: NDArray[np.int32]
    value: NDArray[np.float64]
    tree_output: NDArray[np.int32]
    n_outputs: int
    n_features: int
    float32_input: bool
    shift: int

class Forest:
    """An ensemble of trees, checked and immutable. Takes the fields of ``anytime.trees.TreeArrays``.

    Sums are whole multiples of ``unit`` = ``2.0**-shift``, hence the same bits in any order. Without ``shift`` the finest
    unit that cannot overflow is chosen. Arrays that are not a forest are a ``ValueError`` that names tree and node.
    """

    def __init__(
        self,
        *,
        tree_start: NDArray[np.int64],
        stage_start: NDArray[np.int64],
        feature: NDArray[np.int32],
        threshold: NDArray[np.float64],
        left: NDArray[np.int32],
        right: NDArray[np.int32],
        default_left: NDArray[np.uint8],
        missing: NDArray[np.uint8],
        category_set: NDArray[np.int32],
        members_left: NDArray[np.uint8],
        category_start: NDArray[np.int64],
        categories: NDArray[np.int32],
        value: NDArray[np.float64],
        tree_output: NDArray[np.int32],
        n_outputs: int,
        n_features: int,
        float32_input: bool = False,
        shift: int | None = None,
    ) -> None: ...
    @property
    def n_trees(self) -> int:
        """Number of trees."""
    @property
    def n_stages(self) -> int:
        """Number of stages."""
    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
    @property
    def n_features(self) -> int:
        """Number of columns a row has."""
    @property
    def unit(self) -> float:
        """What one in a sum is worth: ``2.0**-shift``."""
    @property
    def shift(self) -> int:
        """Binary digits after the point of the sums."""
    def run(
        self,
        X: NDArray[np.float64],
        acc: NDArray[np.int64],
        done: NDArray[np.int32],
        until: NDArray[np.int32],
        deadline: float = ...,
        stop: _Stop | None = None,
        threads: int = 1,
    ) -> bool:
        """Take row i of ``X`` (n, d) from ``done[i]`` to ``until[i]`` stages, adding to ``acc`` (n, K); True when all got there.

        All rows advance through early stages before late ones. When the deadline (``time.monotonic`` seconds) or ``stop``
        (a ``StopFlag``, or anything with ``is_set()``, asked once a millisecond) cuts it short, ``acc`` holds exactly
        the first ``done[i]`` stages of row i.
        """
    def run_one(self, x: NDArray[np.float64], until: int, deadline: float, acc: NDArray[np.int64]) -> int:
        """One row (d,) from the start: overwrites ``acc`` (K,), returns the stages done by the deadline."""
    def run_metered(
        self,
        X: NDArray[np.float64],
        acc: NDArray[np.int64],
        done: NDArray[np.int32],
        until: NDArray[np.int32],
        ledger: Ledger,
        evaluation: NDArray[np.int64],
        budget: NDArray[np.int64],
        deadline: float = ...,
        stop: _Stop | None = None,
    ) -> bool:
        """Like ``run``, but a row buys the groups its path tests; False when the clock or a stop cut it short.

        A row that cannot pay stays at its last complete stage. The groups that an abandoned stage bought stay paid, its
        evaluation does not.
        """
    def run_filtered(
        self,
        X: NDArray[np.float64],
        acc: NDArray[np.int64],
        done: NDArray[np.int32],
        until: NDArray[np.int32],
        threshold: NDArray[np.float64],
        below: NDArray[np.bool_],
        start: NDArray[np.float64],
        rest: NDArray[np.float64],
        worked: NDArray[np.int32],
        updates: NDArray[np.int64],
        left_out: NDArray[np.int32],
        last: NDArray[np.int32],
        ledger: Ledger | None,
        evaluation: NDArray[np.int64],
        budget: NDArray[np.int64],
        absent: NDArray[np.bool_] | None = None,
        deadline: float = ...,
        stop: _Stop | None = None,
    ) -> bool:
        """Like ``run``, and with a ledger like ``run_metered``, but a stage works only on rows whose margin passes.

        A threshold of NaN is open to all. Scores are ``start + (rest + acc * unit)``. Counts up the stages that have worked
        on each row, and the rows that each stage has worked on. A stage that would read one of the groups ``absent`` of a row
        is left out, counted in ``left_out``, and nothing of it is paid; a row that could not pay for the group ends there.
        ``last`` is the last stage that was not left out.
        """

    def need(
        self,
        x: NDArray[np.float64],
        stage: int,
        available: NDArray[np.bool_],
        table: CostTable,
        lost: NDArray[np.bool_] | None = None,
    ) -> int:
        """First group that the row's path through the stage tests and that is not available, else -1.

        With ``lost``, the first of those groups that the trees are known to test, by what is available.
        """

    def stage_columns(self, stage: int) -> NDArray[np.int32]:
        """Columns that the stage may test, ascending."""
    def stage_outputs(self, X: NDArray[np.float64], stages: NDArray[np.int64]) -> NDArray[np.float64]:
        """(len(stages), n, K) what each of the stages adds by itself."""
    def select(self, stages: NDArray[np.int64]) -> Forest:
        """A forest of those stages in that order, with the same unit."""
    @property
    def frozen_size(self) -> int:
        """Bytes that ``freeze`` needs."""

    def freeze(self, into: NDArray[np.uint8]) -> None:
        """Write everything into one piece of memory: see ``thawed``."""

    @staticmethod
    def thawed(frozen: NDArray[np.uint8]) -> Forest:
        """The forest that lies in a piece of memory, which is not copied: processes that map the same file share it.

        For memory that another process of the same build wrote by ``freeze``; its contents are trusted.
        """

    def arrays(self) -> _ForestArrays:
        """The constructor's arguments: the fields of TreeArrays exactly as they were given, and ``shift``."""
    def __getstate__(self) -> _ForestArrays: ...
    def __setstate__(self, state: _ForestArrays) -> None: ...

def row_products(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``left @ right``, each row with the same bits whatever rows stand beside it."""

def linear_outputs(
    X: NDArray[np.float64],
    columns: NDArray[np.int32],
    centres: NDArray[np.float64] | None,
    coefficients: NDArray[np.float64],
    intercept: NDArray[np.float64],
) -> NDArray[np.float64]:
    """``intercept + (X[:, columns] - centres) @ coefficients``; with centres a missing value adds nothing."""

def block_gains(
    start: NDArray[np.int64],
    place: NDArray[np.int64],
    blocks: NDArray[np.float64],
    b: NDArray[np.float64],
    floor: NDArray[np.float64],
    groups: NDArray[np.int64],
) -> NDArray[np.float64]:
    """``b' A^-1 b / 2`` for the diagonal blocks of the groups, directions with no more variance than ``floor`` left out."""

def buy_group(
    start: NDArray[np.int64],
    place: NDArray[np.int64],
    blocks: NDArray[np.float64] | None,
    left: NDArray[np.int64],
    panel: NDArray[np.float64],
    group: int,
    b: NDArray[np.float64],
    floor: NDArray[np.float64],
    z: NDArray[np.float64],
) -> int:
    """One step of a block Cholesky factorisation, in place: ``panel`` becomes rows of the factor, ``b`` loses their effect.

    Returns how many of the group's directions were not dependent on others.
    """

def group_lasso_descend(
    gram: NDArray[np.float64],
    start: NDArray[np.int64],
    limits: NDArray[np.float64],
    curvature: NDArray[np.float64],
    weights: NDArray[np.float64],
    gradient: NDArray[np.float64],
    tolerance: NDArray[np.float64],
    max_sweeps: int,
) -> bool:
    """Sweeps of block coordinate descent over ``weights`` (p, m) and ``gradient`` (p, m), in place.

    The group lasso with Gram matrix ``gram`` (m, m) and penalties ``limits`` (J,); ``curvature`` (J,) bounds the eigenvalues
    of each group's block. True when the last sweep went over all groups and violated no condition by more than ``tolerance``.
    """

class Bins:
    """A matrix whose values are bins: what trees are grown on. Immutable."""

    @staticmethod
    def fit(
        X: NDArray[np.float64],
        categorical: NDArray[np.bool_],
        max_bins: int,
        exact: bool,
        sample: int,
        threads: int,
    ) -> Bins:
        """Find the cuts of every column and bin the rows."""
    @staticmethod
    def of_cuts(columns: list[tuple[bool, int, float, NDArray[Any]]], n_rows: int) -> Bins:
        """Rows with the cuts of ``columns()`` that ``fill_rows`` fills in."""
    def columns(self) -> list[tuple[bool, int, float, NDArray[Any]]]:
        """The cuts of every column, to be sent elsewhere."""
    def transform(self, X: NDArray[np.float64], threads: int) -> Bins:
        """Bin other rows by the same cuts."""
    @property
    def n_rows(self) -> int:
        """Number of rows."""
    @property
    def n_columns(self) -> int:
        """Number of columns."""
    def empty(self, n_rows: int) -> Bins:
        """Rows with the same cuts that ``fill_rows`` fills in."""
    def fill_rows(self, first: int, X: NDArray[np.float64], threads: int) -> None:
        """Put values into the rows from ``first`` on."""
    def refill(self, first: int, X: NDArray[np.float64], threads: int) -> None:
        """Put other values into the columns from ``first`` on."""
    @property
    def n_slots(self) -> int:
        """Numbers kept per row: columns that exclude each other share one."""
    def thresholds(self, column: int) -> NDArray[np.float64]:
        """The cuts of a column: bin b holds what is above cut ``b - 1`` and at most cut ``b``."""
    def bins(self) -> NDArray[np.int32]:
        """(n, d) the bins, a copy."""

class GrowOptions:
    """How a tree is grown; see ``anytime.trees.growing.TreeGrower``. No limit of leaves or depth is 0."""

    def __init__(
        self,
        *,
        max_leaves: int,
        max_depth: int,
        min_rows: int,
        min_weight: float,
        l2: float,
        min_gain: float,
        penalty: float,
        mean_scale: bool,
        vote: bool,
        threads: int,
    ) -> None: ...

class GrownTree:
    """A tree as it was grown, on bins."""

    @property
    def arrays(self) -> dict[str, Any]:
        """The fields of ``TreeArrays``."""
    @property
    def leaf(self) -> NDArray[np.int32]:
        """(n,) the leaf of every row of its data."""
    @property
    def values(self) -> NDArray[np.float64]:
        """(n_leaves, K) what the leaves answer."""
    @property
    def gain(self) -> float:
        """Impurity decrease, prices not counted."""
    @property
    def ticks(self) -> int:
        """What its columns cost beyond what was bought."""
    def leaf_of(self, bins: Bins, threads: int) -> NDArray[np.int32]:
        """(m,) the leaf of every row of other data with the same cuts."""

def sampled_rows(n: int, size: int) -> NDArray[np.int64]:
    """The rows from which ``Bins.fit`` finds the cuts of n rows."""

def grow_tree(
    bins: Bins,
    target: NDArray[np.floating[Any]],
    weight: NDArray[np.floating[Any]] | None,
    newton: bool,
    rows: NDArray[np.int64] | None,
    columns: NDArray[np.bool_] | None,
    table: CostTable | None,
    tick: float,
    bought: NDArray[np.bool_] | None,
    options: GrowOptions,
    peers: Any = None,
) -> GrownTree:
    """Grow one tree; with ``peers`` (rank, size, exchange), one of everyone's rows.

    Numbers that cannot be used are a ``ValueError`` that names the row.
    """

def coded_scores(
    X: NDArray[np.float64],
    sizes: NDArray[np.int32],
    starts: NDArray[np.int64],
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    threads: int,
) -> NDArray[np.float64]:
    """Linear scores of rows whose columns hold numbers or codes of categories."""

def coded_softmax_fit(
    X: NDArray[np.float64],
    sizes: NDArray[np.int32],
    starts: NDArray[np.int64],
    scales: NDArray[np.float64],
    offset: NDArray[np.float64],
    y: NDArray[np.int32],
    weight: NDArray[np.float64],
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    epochs: int,
    rate: float,
    l2: float,
    seed: int,
) -> None:
    """Multinomial logistic regression beside scores that are there already; weights and bias are changed."""

class ClassGrowOptions:
    """How a tree is grown; see ``anytime.forests.growing.ClassTreeGrower``. All columns are 0, no limit of depth is -1."""

    def __init__(
        self,
        *,
        expected: bool,
        multiway: bool,
        random: bool,
        max_features: int,
        max_depth: int,
        min_rows: int,
        min_impurity: float,
        discount_reused: bool,
        threads: int,
    ) -> None: ...

def grow_class_trees(
    bins: Bins,
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    n_classes: int,
    rows: NDArray[np.int64] | None,
    columns: NDArray[np.bool_] | None,
    table: CostTable | None,
    impurity: str,
    parameter: Any,
    options: ClassGrowOptions,
    seed: int,
    first_tree: int,
    n_trees: int,
    bootstrap: bool,
) -> list[tuple[dict[str, Any], NDArray[np.float64], NDArray[np.float64], int]]:
    """Grow trees of classes, or of numbers when ``n_classes`` is 0; tree t depends on ``seed`` and t only.

    Of each tree the fields of ``TreeArrays``, its statistics (M, C), the risk of the test that begins at each node in ticks, and
    its depth. Numbers that cannot be used are a ``ValueError``.
    """

def bootstrap_counts(n: int, seed: int, tree: int) -> NDArray[np.int32]:
    """(n,) how often a tree draws each of n rows."""

def loss_derivatives(
    kind: str,
    scores: NDArray[np.float64],
    y: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    gradient: NDArray[np.float32],
    hessian: NDArray[np.float32],
    threads: int,
) -> None:
    """First and second derivatives by the scores (n, K), written to ``gradient`` and ``hessian`` (K, n)."""

def largest_parts(
    parts: NDArray[np.floating[Any]], rows: NDArray[np.int64], threads: int
) -> NDArray[np.float64]:
    """(K,) largest absolute values of ``parts``, (n, K) of float32 or float64, over the rows."""

def leaf_sums(
    parts: NDArray[np.floating[Any]],
    leaf: NDArray[np.int32],
    rows: NDArray[np.int64],
    n_leaves: int,
    scale: NDArray[np.float64],
    threads: int,
) -> NDArray[np.float64]:
    """(n_leaves, K) sums of ``parts * scale``, (n, K), each rounded to a whole number, over the rows of each leaf."""

def update_scores(
    scores: NDArray[np.float64],
    leaf: NDArray[np.int32],
    values: NDArray[np.float64],
    rate: float,
    output: int,
    threads: int,
) -> None:
    """``scores[:, output] += rate * values[leaf]``, in place; every output when ``output`` is -1."""

class Neighbours:
    """Reference points of whose losses rows learn what to buy next, and networks that were trained without them.

    ``inputs`` (N, m) float32, of which the first ``n_measured`` make up distances, ``input_group`` (m,), ``fold`` (N,) the
    network of each point; ``labels`` (N,) or ``values`` (N, K).
    ``w1`` (F, m + G, h1) to ``b3`` (F, K) are the layers. ``floor`` is added to the probability of a true class before its
    logarithm is taken; gains are compared per ``price_power`` of the price; ``look_ahead`` is the number of promising groups
    whose pairs and triples are tried.

    Rows are given by their inputs, of which only those of ``owned`` groups, (n, G), are read.
    """

    def __init__(
        self,
        table: CostTable,
        inputs: NDArray[np.float32],
        input_group: NDArray[np.int32],
        n_measured: int,
        fold: NDArray[np.int32],
        labels: NDArray[np.int32] | None,
        values: NDArray[np.float32] | None,
        w1: NDArray[np.float32],
        b1: NDArray[np.float32],
        w2: NDArray[np.float32],
        b2: NDArray[np.float32],
        w3: NDArray[np.float32],
        b3: NDArray[np.float32],
        *,
        n_neighbours: int,
        floor: float,
        price_power: float,
        look_ahead: int,
    ) -> None: ...
    def choose(
        self,
        inputs: NDArray[np.float32],
        owned: NDArray[np.bool_],
        barred: NDArray[np.bool_],
        left: NDArray[np.int64],
        own: NDArray[np.int64] | None = None,
        *,
        all_gains: bool = False,
        threads: int = 1,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64] | None]:
        """The group that each row buys next (-1: none), price and gain of the set that it begins; gains of all, (n, G)."""
    def nearest(
        self, inputs: NDArray[np.float32], owned: NDArray[np.bool_], *, threads: int = 1
    ) -> NDArray[np.int32]:
        """(n, k) places of the nearest points, increasing."""
    def scores(
        self, inputs: NDArray[np.float32], owned: NDArray[np.bool_], *, threads: int = 1
    ) -> NDArray[np.float64]:
        """(n, K) the mean of what the networks say."""

class Margins:
    """Reference points by whose margins rows decide what to buy next.

    ``start`` is label times offset, (n,); ``contributions`` label times what a group adds to the score, (n, G);
    ``coordinates`` where points stand, (d, n); ``candidate`` the groups to choose from, (G,). ``neighbourhood`` is 0 for the
    nearest points, 1 for those within ``radius``, 2 for those exactly alike.

    The state of rows is held by the caller: ``order`` (m, G) groups in the order of purchase, ``owned`` (m,) how many, ``next``
    (m,) the group to buy (-2: not decided, -1: none), ``estimate`` and ``promise`` (m,) the share of neighbours on the right side
    now and with the next group, ``margins`` and ``distances`` (m, n) running sums, which may be None and are then made again.
    """

    def __init__(
        self,
        table: CostTable,
        start: NDArray[np.float64],
        contributions: NDArray[np.float64],
        coordinates: NDArray[np.float64],
        candidate: NDArray[np.bool_],
        *,
        neighbourhood: int,
        n_neighbours: int,
        radius: float,
        tick_weight: float,
        enough: float,
        refresh: bool,
        random: bool,
        seed: int,
    ) -> None: ...
    def choose(
        self,
        coordinates: NDArray[np.float64],
        order: NDArray[np.int32],
        owned: NDArray[np.int32],
        next: NDArray[np.int32],
        estimate: NDArray[np.float64],
        promise: NDArray[np.float64],
        margins: NDArray[np.float64] | None,
        distances: NDArray[np.float64] | None,
        *,
        threads: int = 1,
    ) -> None:
        """Decide, for every row that has not, what to buy next."""
    def proceed(
        self,
        coordinates: NDArray[np.float64],
        order: NDArray[np.int32],
        owned: NDArray[np.int32],
        next: NDArray[np.int32],
        estimate: NDArray[np.float64],
        promise: NDArray[np.float64],
        margins: NDArray[np.float64] | None,
        distances: NDArray[np.float64] | None,
        *,
        purchases: int,
        threads: int = 1,
    ) -> None:
        """Make so many purchases in every row, or as many as are left."""

def play_requests(
    totals: NDArray[np.float64],
    asks: NDArray[np.bool_],
    losses: NDArray[np.float64] | None,
    chance: NDArray[np.float64],
    learning: NDArray[np.float64],
    exploration: NDArray[np.float64],
    charged: float = -1.0,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Rounds of experts who show all losses when they ask and none otherwise: who was drawn, and the chance of seeing.

    ``totals`` (K,) follows in place, unless ``losses`` is None. ``asks`` and ``losses`` are (n, K), the rest (n,).
    """

def play_graphs(
    totals: NDArray[np.float64],
    shows: NDArray[np.bool_],
    explorers: NDArray[np.bool_],
    which: NDArray[np.int32],
    losses: NDArray[np.float64] | None,
    chance: NDArray[np.float64],
    learning: NDArray[np.float64],
    exploration: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Rounds of EXP3.G on the graphs ``shows`` (G, K, K), of which ``which`` (n,) names one per round: who was drawn.

    ``totals`` (K,) follows in place, unless ``losses`` is None.
    """

def refit_leaves(
    leaf: NDArray[np.int32],
    ends: NDArray[np.int32],
    tree_start: NDArray[np.int64],
    value: NDArray[np.float64],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    unseen: NDArray[np.uint8],
    caution: float,
    sweeps: int,
) -> NDArray[np.float64]:
    """(M, K) answers of nodes, corrected so that the forest of a pruning fits ``target`` (n, K).

    ``leaf`` (T, n) are leaves of the whole forest, ``ends`` (M,) where walks to them end in the pruning.
    """

class PruneGraph:
    """A ``PruningProblem`` as a graph: splits (nodes with children) and the pairs (group, row) that they need. Immutable.

    Rows that reach the same leaves are one row. Arrays over splits have ``N`` entries.
    """

    def __init__(
        self,
        *,
        parent: NDArray[np.int32],
        tree_start: NDArray[np.int64],
        group_start: NDArray[np.int64],
        node_groups: NDArray[np.int32],
        prices: NDArray[np.float64],
        leaf: NDArray[np.int32],
        weight: NDArray[np.float64] | None,
    ) -> None: ...
    @property
    def nodes(self) -> NDArray[np.int32]:
        """(N,) the nodes with children, ascending."""
    @property
    def n_rows(self) -> int:
        """Number of different cost rows."""
    @property
    def n_links(self) -> int:
        """Number of links between splits and pairs."""
    def cut(
        self, gain: NDArray[np.int64], rate: NDArray[np.float64], fate: NDArray[np.uint8]
    ) -> tuple[int, int, int, int, int]:
        """Settle every fate (0 open, 1 pruned, 2 internal) as in the best pruning with the fewest splits.

        A pair of group g and a row of weight w costs ``ceil(rate[g] * w)``. Returns how many splits and links were open after
        what was easy, and how many pushes, relabels and searches the rest has taken.
        """
    def dual(
        self,
        gain: NDArray[np.float64],
        all_pruned: float,
        lam: float,
        *,
        step: str,
        first: float,
        tolerance: float,
        max_iterations: int,
        start: NDArray[np.float64] | None,
        threads: int,
    ) -> tuple[NDArray[np.uint8], float, int, NDArray[np.float64]]:
        """The primal-dual method: splits kept, bound, iterations, and the state to start from next time."""
    def prune_trees(
        self, gain: NDArray[np.float64], charge: NDArray[np.float64]
    ) -> tuple[NDArray[np.uint8], float]:
        """Prune each tree by itself, every split charged for its pairs: splits kept, gains less charges."""
    def charges(
        self, kept: NDArray[np.uint8], paid: NDArray[np.uint8], power: float = 1.0, threads: int = 1
    ) -> NDArray[np.float64]:
        """(N,) what each kept split owes where n that need a pair are charged its price by ``n ** power`` each.

        Pairs that a split of ``paid`` needs are free. With power 1, the sum is what ``kept`` costs more than ``paid``.
        """
    def feature_cost(self, kept: NDArray[np.uint8], threads: int = 1) -> float:
        """Mean price of the groups that the cost rows need."""

class StreamBank:
    """Learners on a stream, side by side: N of them, with d columns and m outputs. Made as one of its kinds."""

    @property
    def n_learners(self) -> int: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    def predict(self, X: NDArray[np.float64], threads: int = 1) -> NDArray[np.float64]:
        """(N, n, m) what every learner says of the rows."""

    def update(
        self,
        X: NDArray[np.float64],
        targets: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
        threads: int = 1,
    ) -> None:
        """One round: a step of every learner towards its ``targets`` (N, n, m), rows in order."""

    def rounds(
        self,
        X: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None,
        *,
        loss: str,
        rho: float,
        residual: bool,
        averaging: str,
        start: NDArray[np.float64],
        steps: NDArray[np.float64],
        low: NDArray[np.float64] | None,
        high: NDArray[np.float64] | None,
        radius: float,
        gate: str | None,
        warm_up: int,
        open: NDArray[np.float64] | None,
        batch: int,
        sums: NDArray[np.float64],
        recent: NDArray[np.float64],
        discount: float,
        rows: NDArray[np.int64],
        losses: NDArray[np.float64] | None = None,
        prefixes: bool = False,
        threads: int = 1,
    ) -> NDArray[np.float64]:
        """Rounds of boosting: (n, m) what was answered before learning, or (n, N + 1, m) for all prefixes.

        ``sums`` and ``recent`` (4, N) follow in place, and ``losses`` (2, N + 1): discounted losses of prefixes and the weight
        behind each. ``rows`` (N,) were seen before.
        """

    def read(
        self,
        X: NDArray[np.float64],
        *,
        recent: NDArray[np.float64],
        rows: NDArray[np.int64],
        prefixes: bool = False,
        threads: int = 1,
        **rules: Any,
    ) -> NDArray[np.float64]:
        """What a round with such rules (see ``rounds``) would answer; nothing is learned."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that was learned, as arrays."""

    def load(self, state: dict[str, NDArray[Any]]) -> None:
        """Take what ``state`` gave, in a bank of as many learners."""

class StreamTrees(StreamBank):
    """Trees that grow on a stream, with bins in common. ``width``: columns of a tree; ``memory`` 0: all rows count alike."""

    def __init__(
        self,
        *,
        n_learners: int,
        n_features: int,
        n_outputs: int,
        max_depth: int,
        max_leaves: int,
        grace: int,
        confidence: float,
        tie: float,
        n_bins: int,
        width: int,
        memory: float,
        fade: float,
        stagger: int,
        seed: int,
    ) -> None: ...
    def append(self, n: int) -> None:
        """Add trees without splits."""

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked trees begin anew, at once."""

    def columns(self, i: int) -> NDArray[np.int32]:
        """Columns that a tree may split, increasing."""

    def nodes(self) -> dict[str, NDArray[Any]]:
        """What ``state`` says of splits and values: all that it takes to answer."""

class StreamRidge(StreamBank):
    """Ridge regressions by recursive least squares."""

    def __init__(self, *, n_learners: int, n_features: int, n_outputs: int, penalty: float) -> None: ...
    def append(self, n: int) -> None:
        """Add learners that begin at zero."""

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked learners begin anew."""

    def track(self) -> None:
        """Keep means of the coefficients from now on."""

class StreamNets(StreamBank):
    """Linear functions of columns (activation "none"), random cosines, or hidden units ("sigmoid", "leaky_relu").

    ``places`` (p, w): the columns that every hidden unit sees at each of p places, -1: none. None: one place, all columns.
    """

    def __init__(
        self,
        *,
        n_features: int,
        n_outputs: int,
        activation: str,
        hidden: int,
        method: str,
        step: float,
        places: NDArray[np.int32] | None = None,
    ) -> None: ...
    @property
    def size(self) -> int:
        """Parameters of a learner."""

    def append(self, parameters: NDArray[np.float64]) -> None:
        """Add learners with their first parameters (n, size): hidden weights, then outputs."""

    def restart(self, learners: NDArray[np.bool_], parameters: NDArray[np.float64]) -> None:
        """Let the marked learners begin anew, with their rows of ``parameters`` (N, size)."""

    def track(self) -> None:
        """Keep means of the parameters from now on."""

def region_means(
    start: NDArray[np.int64],
    element: NDArray[np.int64],
    share: NDArray[np.float64],
    values: NDArray[np.float64],
    wanted: NDArray[np.bool_] | None,
    means: NDArray[np.float64],
) -> None:
    """Write into ``means`` (R, K) the means of values (E, K) over regions; those that are not ``wanted`` stay as they are.

    ``element[start[r]:start[r + 1]]`` are the elements of region ``r``, ``share`` how much of it each makes up.
    """

# Work on pictures ends at ``deadline`` (on the clock of time.monotonic()) or once ``stop`` is set: it then gives None.

def segment(
    rgb: NDArray[np.uint8],
    sigma: float,
    scales: NDArray[np.float64],
    least: NDArray[np.int64],
    *,
    deadline: float = ...,
    stop: _Stop | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]] | None:
    """(h, w) the atom of every pixel, (L, A) the region of every atom at each level, (L,) how many regions levels have."""

def atom_moments(
    atom: NDArray[np.int32], n_atoms: int, *, deadline: float = ..., stop: _Stop | None = None
) -> NDArray[np.float64] | None:
    """(A, 10) pixels; sums of x, y, xx, yy, xy; least and greatest x; least and greatest y."""

def atom_borders(
    atom: NDArray[np.int32], n_atoms: int, *, deadline: float = ..., stop: _Stop | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]] | None:
    """Pairs of atoms with pixels side by side, the smaller number first, increasing; and how many."""

def atom_cells(
    atom: NDArray[np.int32],
    n_atoms: int,
    rows: int,
    columns: int,
    *,
    deadline: float = ...,
    stop: _Stop | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]] | None:
    """Pairs of a cell of a grid over the picture and an atom, increasing; and how many pixels that has there.

    Every second pixel of every second row is counted.
    """

def atom_points(
    atom: NDArray[np.int32], n_atoms: int, *, deadline: float = ..., stop: _Stop | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32]] | None:
    """(A + 1,) where the list of each atom's grid points starts, and the lists.

    An atom between the grid points has the point before its first pixel.
    """

def lab_planes(
    rgb: NDArray[np.uint8], *, deadline: float = ..., stop: _Stop | None = None
) -> NDArray[np.float32] | None:
    """(3, h, w) CIELAB, divided by 100."""

def thin_planes(
    planes: NDArray[np.float32], *, deadline: float = ..., stop: _Stop | None = None
) -> NDArray[np.float32] | None:
    """Means of two by two pixels: one per grid point."""

def texture_planes(
    lab: NDArray[np.float32], *, deadline: float = ..., stop: _Stop | None = None, threads: int = 1
) -> NDArray[np.float32] | None:
    """(17, grid) responses of a filter bank."""

def pattern_planes(
    lightness: NDArray[np.float32], *, deadline: float = ..., stop: _Stop | None = None
) -> NDArray[np.float32] | None:
    """(20, grid) square roots of the frequencies of binary patterns around each point."""

def edge_planes(
    planes: NDArray[np.float32], *, deadline: float = ..., stop: _Stop | None = None, threads: int = 1
) -> NDArray[np.float32] | None:
    """(8 p, grid with a margin of four) strength of edges in eight directions, in cells of four by four pixels."""

def inverse_lengths(
    planes: NDArray[np.float32],
    shifts: NDArray[np.int64],
    height: int,
    width: int,
    floor: float,
    *,
    deadline: float = ...,
    stop: _Stop | None = None,
) -> NDArray[np.float32] | None:
    """(grid) 1 / (length + floor) of each point's descriptor, whose numbers stand ``shifts`` behind it in the planes."""

def point_means(
    planes: NDArray[np.float32],
    start: NDArray[np.int64],
    points: NDArray[np.int32],
    *,
    deadline: float = ...,
    stop: _Stop | None = None,
) -> NDArray[np.float64] | None:
    """(A, 2 p) means over the grid points of each atom of planes, and of their squares."""

def code_means(
    planes: NDArray[np.float32],
    shifts: NDArray[np.int64],
    scale: NDArray[np.float32] | None,
    height: int,
    width: int,
    weights: NDArray[np.float32],
    bias: NDArray[np.float32],
    start: NDArray[np.int64],
    points: NDArray[np.int32],
    wanted: NDArray[np.bool_] | None,
    means: NDArray[np.float32],
    *,
    deadline: float = ...,
    stop: _Stop | None = None,
    threads: int = 1,
) -> bool:
    """Means over atoms of ``max(0, bias + <weights, descriptor>)``, (C, A); False: stopped before the end.

    ``points[start[a]:start[a + 1]]`` are the grid points of atom ``a``. What is not ``wanted`` is 0.
    """

def descriptors_at(
    planes: NDArray[np.float32],
    shifts: NDArray[np.int64],
    scale: NDArray[np.float32] | None,
    height: int,
    width: int,
    points: NDArray[np.int32],
) -> NDArray[np.float32]:
    """(m, d) the descriptors of some grid points."""
