"""Architectures: JSON, acyclic graphs, shapes, and counts by closed forms against counts of the built network."""

from __future__ import annotations

import json
import subprocess
import sys
from math import comb

import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from anytime.growth.architecture import STEM, Architecture, GrownLayer, Shortcut, op_counts  # noqa: E402
from anytime.growth.cells import build  # noqa: E402
from anytime.growth.skeletons import doubled, image_seed, scaled, table_seed  # noqa: E402
from anytime.networks.counting import mult_adds  # noqa: E402

TWICE = [
    {
        "normal": GrownLayer(
            (Shortcut("before", "sep3"), Shortcut("a", "max3"), Shortcut("previous", "dil5"))
        ),
        "transition": GrownLayer((Shortcut("before", "identity"), Shortcut("b", "sep5")), merge="sum"),
    },
    {
        "normal": GrownLayer((Shortcut("g1", "identity"), Shortcut("before", "identity")), linear=True),
        "transition": GrownLayer(
            (Shortcut("g1", "dil3"), Shortcut("previous", "avg3"), Shortcut("before", "max3"))
        ),
    },
]


def grown_images(shape=(3, 9, 9), **arguments):
    architecture = image_seed(shape, 5, **{"n": 1, "width": 4, **arguments})
    for growths in TWICE:
        architecture = architecture.grown(growths)
    return architecture


def grown_table():
    architecture = table_seed(6, 3, width=8, parts=[[0, 4], [1], [2, 3, 5]])
    first = GrownLayer((Shortcut("before", "relu"), Shortcut("b", "gate"), Shortcut("a", "identity")))
    bought = GrownLayer((Shortcut("part 2", "linear"),), merge="sum")
    second = GrownLayer((Shortcut("g1", "tanh"), Shortcut("previous", "relu")), merge="sum")
    return architecture.grown({"normal": first, STEM: bought}).grown({"normal": second})


def counted(architecture):
    network = build(architecture)
    operations = mult_adds(network, architecture.input_shape).exits()[0]
    return sum(p.numel() for p in network.parameters()), operations


@pytest.mark.parametrize(("n", "width", "parameters", "millions"), [(6, 32, 0.32, 48), (3, 16, 0.05, 7.7)])
def test_the_seed_has_the_size_that_is_known_of_it(n, width, parameters, millions):
    """growth_and_streaming B.2, sanity numbers: 0.32M parameters and 48M mult-adds at N=6, F=32; 0.05M and 7.7M at N=3, F=16."""
    counts = image_seed(n=n, width=width).counts()
    assert round(counts.parameters / 1e6, 2) == parameters
    assert counts.mult_adds / 1e6 == pytest.approx(millions, rel=0.01)


def test_doubled_separable_layers_would_not_have_that_size():
    """growth_and_streaming B.2: with separable layers applied twice the seed would have 0.66M parameters. Negative control."""
    seed = image_seed(n=6, width=32)
    shapes = seed.layer_shapes()
    twice = sum(op_counts("sep3", shapes[c + 1], shapes[c + 1]).parameters for c in range(len(seed.cells)))
    assert seed.counts().parameters + twice > 600_000


@pytest.mark.parametrize(
    "architecture",
    [
        grown_images(),
        grown_images((1, 40, 24), resolutions=2),
        grown_images((3, 70, 70), width=8),
        doubled(grown_images()),
        grown_images().merged("sum"),
        grown_table(),
        table_seed(5, 1),
    ],
    ids=["images", "larger", "large stem", "doubled", "sums", "table", "seed"],
)
def test_closed_forms_count_what_the_network_has(architecture):
    """growth_and_streaming B.9, cost counter formulas: conv, separable (twice in growth), dilated, projection, classifier."""
    assert counted(architecture) == tuple(architecture.counts())


def test_the_ladder_of_weak_learners_is_as_large_as_printed():
    """growth_and_streaming B.2: C(IJ, I_max) is 3276 for I=4 and 6545 for I=5."""
    seed = image_seed()
    sizes = []
    for _ in range(2):
        sizes.append(comb(len(seed.inputs("normal")) * len(seed.ops), 3))
        seed = seed.grown({"normal": GrownLayer((Shortcut("a", "sep3"),))})
    assert sizes == [3276, 6545]


@pytest.mark.parametrize("architecture", [grown_images(), grown_table()], ids=["images", "table"])
def test_json_yields_an_identical_network(architecture):
    """B-P20: the round trip gives the same architecture, and with the same seed the same outputs."""
    read = Architecture.from_json(json.loads(json.dumps(architecture.to_json())))
    assert read == architecture
    x = torch.randn(4, *architecture.input_shape)
    torch.manual_seed(0)
    one = build(architecture).eval()
    torch.manual_seed(0)
    other = build(read).eval()
    assert torch.equal(one(x), other(x))


def test_another_architecture_is_not_the_same_network():
    """Negative control of B-P20: one op differs, and so do JSON and size."""
    other = image_seed((3, 9, 9), 5, n=1, width=4).grown({"normal": GrownLayer((Shortcut("a", "sep5"),))})
    same = image_seed((3, 9, 9), 5, n=1, width=4).grown({"normal": GrownLayer((Shortcut("a", "sep3"),))})
    assert other.to_json() != same.to_json()
    assert other.counts() != same.counts()


def test_shortcuts_lead_forward_in_the_whole_graph():
    """B-P19: the graph is acyclic: every shortcut ends at a layer that comes after the one it begins with."""
    architecture = grown_images(n=2)
    place = {"stem": -1.0}
    for c in range(len(architecture.cells)):
        inner = {"a": 0.1, "b": 0.2, "g1": 0.3, "g2": 0.4}
        place |= {f"cell {c}.{name}": c + at for name, at in inner.items()} | {f"cell {c}": c + 0.9}
    found = list(architecture.shortcuts())
    assert len(found) == sum(
        len(g.shortcuts) for cell in architecture.cells for g in architecture.patterns[cell.pattern]
    )
    assert all(place[start] < place[end] for start, end, _ in found)


@pytest.mark.parametrize(
    ("shortcut", "said"),
    [
        (Shortcut("g1", "sep3"), "cycle"),
        (Shortcut("g2", "sep3"), "cycle"),
        (Shortcut("c", "sep3"), "there are a, b"),
        (Shortcut("a", "sep7"), "knows no op 'sep7'"),
        (Shortcut("a", "relu"), "knows no op"),
    ],
)
def test_a_shortcut_that_leads_nowhere_is_refused(shortcut, said):
    """B-P19, negative control."""
    with pytest.raises(ValueError, match=said):
        image_seed().grown({"normal": GrownLayer((shortcut,))})


@pytest.mark.parametrize(
    "change",
    [
        {"width": -1},
        {"width": 1 << 40},
        {"cells": [["normal", "nowhere"]]},
        {"patterns": []},
        {"space": "song"},
    ],
)
def test_json_that_is_no_network_is_refused(change):
    with pytest.raises(ValueError, match=r"\w"):
        Architecture.from_json({**grown_images().to_json(), **change})


def test_shapes_fit_from_layer_to_layer():
    """B-P19: what a cell gives has the shape that was inferred, at odd sizes too."""
    architecture = grown_images((2, 37, 11), resolutions=2)
    network = build(architecture).eval()
    state = before = network.stem(torch.randn(3, 2, 37, 11))
    shapes = [tuple(state.shape[1:])]
    for cell in network.cells:
        before, state = state, cell(before, state)
        shapes.append(tuple(state.shape[1:]))
    assert shapes == architecture.layer_shapes()


def test_larger_images_meet_the_found_cells_at_28_or_32():
    """growth_and_streaming B.6: at 224 a stem of F/4 filters, stride 2; two transition cells lead to 28 x 28 and F filters."""
    transfer = scaled(image_seed(n=6, width=32), width=40, input_shape=(3, 224, 224), n_outputs=1000)
    assert transfer.layer_shapes()[:4] == [(10, 112, 112), (20, 56, 56), (40, 28, 28), (40, 28, 28)]
    assert [cell.kind for cell in transfer.cells].count("normal") == 18
    macro = scaled(image_seed(n=1, width=32, tying="macro"), input_shape=(3, 64, 64))
    assert macro.cells[0].pattern == "ahead"
    assert macro.patterns["ahead"] == ()


def test_the_mobile_regime_scales_as_computed():
    """growth_and_streaming B.6: from N=3, F=16 at 32 to N=6, F=40 at 28, mult-adds grow by 2 x (40/16)^2 x (28/32)^2 = 9.6.

    That counts products of channels only, so it is seen where depthwise layers hardly matter: at ten times the channels.
    """
    found = image_seed(n=3, width=160).grown(
        {"normal": GrownLayer(tuple(Shortcut(name, "sep5") for name in ("before", "a", "b")))}
    )
    deep = doubled(scaled(found, width=400, input_shape=(3, 28, 28)))
    assert deep.counts().mult_adds / found.counts().mult_adds == pytest.approx(9.6, rel=0.05)


def test_architectures_and_searches_need_no_torch():
    """What is counted or searched, without training, is there where torch is not installed."""
    code = (
        "import sys; import anytime.growth as g; from anytime.growth import image_seed, GrowthSettings, Phases, PRESETS; "
        "assert image_seed().counts().parameters; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_doubling_repeats_every_normal_cell():
    """growth_and_streaming B.2, macro N=3 -> N=6: each normal cell twice, with its own pattern."""
    macro = image_seed(n=3, tying="macro")
    names = [cell.pattern for cell in doubled(macro).cells if cell.kind == "normal"]
    assert names[:6] == ["cell 0", "cell 0", "cell 1", "cell 1", "cell 2", "cell 2"]
    assert len(names) == 18
