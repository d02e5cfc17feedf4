"""Which arrays each kind of block has in a file, and how large a plan in a file may be."""

from typing import Any

from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

MOST_STAGES = 100_000
FREE_STAGES = 4096
MOST_BLOCKS = 10_000
MOST_BRANCHES = 1_000
MOST_TICKS = 2**62  # of a whole plan: a row that pays for everything must not overflow
FREE_WORK = 1 << 22  # steps of setting up that any file may ask for, and so many times what it stores:
WORK_RATIO = 4
MARGIN_WORK = 1 << 26  # a purchase may be of any group, so each stage looks through all columns


def _arrays(**names: str) -> dict[str, tuple[str, int]]:
    """Type and dimensions of arrays: ``f8x2="weights routes"`` are two tables of floats."""
    kinds = {"f8": "<f8", "f4": "<f4", "i8": "<i8", "i4": "<i4", "u1": "|u1", "b1": "|b1"}
    return {
        name: (kinds[kind], int(dimensions))
        for form, listed in names.items()
        for kind, dimensions in [form.split("x")]
        for name in listed.split()
    }


TREES = _arrays(
    i8x1="tree_start stage_start category_start",
    i4x1="feature left right category_set categories tree_output",
    f8x1="threshold",
    u1x1="default_left missing members_left",
    f8x2="value",
)
ARRAYS = {  # of each kind of block
    "small nets": _arrays(f8x3="hidden readout"),
    "stream": _arrays(f8x1="steps start offset centres scales", f8x2="box"),
    "linear": _arrays(i4x1="columns", f8x2="coefficients intercepts", i8x1="ends", f8x1="centres"),
    "linear tree": _arrays(f8x3="weights", f8x2="intercepts routes", f8x1="thresholds centres"),
    "network": _arrays(i4x1="reads", i8x1="ends", f8x1="centre spread temperatures offset unit"),
    "margins": _arrays(
        f8x2="reference", b1x1="positive", f8x1="slopes centres thresholds values", i8x1="start"
    ),
    "neighbours": _arrays(
        i4x1="columns kind source fold labels",
        f8x1="centre scale offset unit",
        f4x1="low high",
        f4x3="w1 w2 w3",
        f4x2="b1 b2 b3 rows values",
    )
    | TREES
    | {f"values_{name}": kind for name, kind in TREES.items()},
    "sensor": _arrays(i4x1="columns", f8x2="message", f8x1="opening centres"),
    "costly": _arrays(i4x1="columns", f8x2="calibration probe said"),
    "member": _arrays(i8x1="ends"),
    "dense": _arrays(i4x1="columns kind", f8x1="centre scale weights biases", i4x2="pairs", i8x1="sizes"),
    "blend": _arrays(f8x1="shares"),
    "log probabilities": {},
    "structured": {},  # those of its stages: structured_plans
    "values": _arrays(
        i4x1="labels option_groups",
        f8x2="money cost_matrix",
        i4x2="classes_of steps",
        b1x2="sets",
        i8x2="n_trees",
        f4x1="tables",
    )
    | TREES,
    "trees": TREES,
}
# the array whose length says how many stages there are
COUNTED_BY = {
    "stream": "steps",
    "small nets": "readout",
    "linear": "ends",
    "linear tree": "thresholds",
    "member": "ends",
    "network": "temperatures",
    "trees": "stage_start",
}
# kinds whose rooms are imported only if a file holds such a model
MET_LATER = (
    *("blend", "costly", "dense", "linear tree", "log probabilities", "member", "neighbours", "network"),
    *("sensor", "small nets", "stream", "structured", "values"),
)
MOST_BLENDED = 100
OPTIONAL = {
    "stream": ("centres", "scales", "box"),
    "linear": ("ends", "intercepts", "centres"),
    "margins": ("slopes", "centres", "start", "thresholds", "values"),
    "costly": ("calibration", "probe", "said"),
    "neighbours": ("labels", "values", "offset", "unit", *TREES, *(f"values_{name}" for name in TREES)),
    "values": ("cost_matrix", "option_groups"),
    "network": ("offset", "unit"),
}
NO_LEARNERS = (  # of a stream
    *("blend", "costly", "dense", "log probabilities", "margins", "member", "neighbours", "network"),
    *("stream", "structured", "values"),
)
LONGEST_SHAPE = 8
