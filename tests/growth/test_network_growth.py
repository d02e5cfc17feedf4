"""Jobs of a search on networks: seed, candidates, child; the same outcome whoever runs them; a planted shortcut is found."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from torch import nn  # noqa: E402

from anytime.growth import FixedEpochs, GradientEvidence, GrowthSearch, Interrupted, Job, Plateau  # noqa: E402
from anytime.growth.architecture import IMAGE_OPS, TABLE_OPS, Architecture, GrownLayer, Shortcut  # noqa: E402
from anytime.growth.cells import build  # noqa: E402
from anytime.growth.network_growth import UNFINISHED_SEED, NetworkGrowth, module_seed  # noqa: E402
from anytime.growth.phases import (  # noqa: E402
    FINAL_RECIPE,
    PRESETS,
    TRANSFER_RECIPE,
    GrowthSettings,
    Phases,
    for_tables,
)
from anytime.growth.skeletons import image_seed, table_seed  # noqa: E402
from anytime.networks import TrainingRecipe, with_exits  # noqa: E402
from anytime.networks.augmentation import augmented, cut_out  # noqa: E402

torch.set_num_threads(1)
SMALL = replace(for_tables(epochs=6, batch_size=32, learning_rate=1e-2))


def never():
    return False


def of_rings(rings, *, phases=SMALL, tying="cell", **settings):
    X, y = rings
    seed = table_seed(6, 3, width=8, tying=tying)
    return NetworkGrowth(
        seed,
        X[:300],
        y[:300],
        X[300:],
        y[300:],
        phases=phases,
        settings=GrowthSettings(**settings),
        device="cpu",
    )


def grow(problem, folder, steps=1, stop=never):
    """The seed, and children of children."""
    outcomes = [problem.run(Job(0, "seed", None, problem.first(), None, 7), folder, stop)]
    for k in range(steps):
        last = outcomes[-1]
        job = Job(2 * k + 1, "candidates", 2 * k, last.architecture, last.checkpoint, 11 + k)
        found = problem.run(job, folder, stop)
        job = Job(2 * k + 2, "child", 2 * k, found.architecture, found.checkpoint, 21 + k)
        outcomes += [found, problem.run(job, folder, stop)]
    return outcomes


def test_a_seed_grows_into_a_child(rings, tmp_path):
    problem = pickle.loads(pickle.dumps(of_rings(rings)))
    seed, found, child = grow(problem, tmp_path)
    growths = Architecture.from_json(child.architecture).patterns["normal"]
    assert len(growths) == 1
    assert len(growths[0].shortcuts) == 3
    assert child.cost > seed.cost == table_seed(6, 3, width=8).counts().mult_adds
    assert 0 <= child.error <= seed.error + 0.1 < 0.7
    told = found.notes["chosen"]["normal"]
    assert [(entry["input"], entry["op"]) for entry in told] == [
        (s.input, s.op) for s in growths[0].shortcuts
    ]
    assert told[0]["strength"] >= told[2]["strength"] > 0
    assert found.notes["moved"] == 0.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model-0.pt", "model-2.pt", "start-1.pt"]


def test_grown_networks_are_better_than_their_seed(rings, tmp_path):
    """growth_and_streaming B.9: the error of grown models is lower than the seed's by a standard error over 3 seeds."""
    phases = Phases(
        *[TrainingRecipe(epochs=n, batch_size=32, optimizer="adamw", learning_rate=1e-2) for n in (6, 3, 10)]
    )
    X, y = rings
    gains = []
    for s in range(3):
        folder = tmp_path / str(s)
        folder.mkdir()
        rows = np.random.default_rng(s).permutation(400)
        fit, val = rows[:300], rows[300:]
        problem = NetworkGrowth(
            table_seed(6, 3, n=1, width=6), X[fit], y[fit], X[val], y[val], phases=phases, device="cpu"
        )
        seed, _, _, _, last = grow(problem, folder, steps=2)
        gains.append(seed.error - last.error)
    assert np.mean(gains) > np.std(gains, ddof=1) / np.sqrt(3)


@pytest.mark.parametrize("kind", ["seed", "candidates", "child"])
def test_a_job_gives_the_same_whoever_runs_it(rings, tmp_path, kind):
    """growth_and_streaming B.5: results are idempotent, keyed by the job; another seed of random numbers gives another model."""
    problem = of_rings(rings)
    seed, found, _ = grow(problem, tmp_path)
    warm = {"seed": None, "candidates": seed.checkpoint, "child": found.checkpoint}[kind]
    architecture = {"seed": problem.first(), "candidates": seed.architecture, "child": found.architecture}[
        kind
    ]
    states = []
    for place, state in (("one", 5), ("two", 5), ("three", 6)):
        folder = tmp_path / place
        folder.mkdir()
        if warm is not None:
            (folder / warm).write_bytes((tmp_path / warm).read_bytes())
        torch.rand(3)  # whatever else draws random numbers here
        outcome = problem.run(Job(9, kind, None, architecture, warm, state), folder, never)
        states.append((outcome.architecture, torch.load(folder / outcome.checkpoint, weights_only=True)))
    (one, first), (two, second), (_, third) = states
    assert one == two
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert first.keys() != third.keys() or any(not torch.equal(first[name], third[name]) for name in first)


def test_a_trigger_ends_a_training_before_its_epochs_are_over(rings, tmp_path):
    """growth_and_streaming C.2: by a number of epochs, or by a loss that stands still; without one all epochs are taken."""
    taken = [
        grow(of_rings(rings, phases=replace(SMALL, trigger=trigger)), tmp_path, steps=0)[0].notes["epochs"]
        for trigger in (None, FixedEpochs(2), Plateau(n_iter_no_change=1, min_delta=9.0), Plateau(50))
    ]
    assert taken == [6, 2, 2, 6]


def test_evidence_of_gradients_ends_the_training_of_candidates(rings, tmp_path):
    """growth_and_streaming C.2: both correlations are told, and decide; other trainings, which have none, go on."""
    recipe, told = replace(SMALL.seed, epochs=4), []

    def noting(trigger):
        return lambda history: told.append(dict(history[-1])) or trigger(history)

    for margin, epochs in ((-1.0, 2), (1.0, 4)):
        told.clear()
        phases = Phases(recipe, recipe, recipe, trigger=noting(GradientEvidence(2, margin)))
        grow(of_rings(rings, phases=phases, turns=3), tmp_path)
        with_candidates = [e for e in told if "candidate_correlation" in e]
        assert (len(with_candidates), len(told)) == (epochs, 4 + epochs + 4)
        assert all(0 < e["candidate_correlation"] < 1 for e in with_candidates)
        assert all(0 < e["parent_correlation"] < 1 for e in with_candidates)
    alone = tmp_path / "alone"
    alone.mkdir()
    grow(of_rings(rings, phases=Phases(recipe, recipe, recipe), turns=3), alone)
    for name in ("start-1.pt", "model-2.pt"):  # asking has changed nothing
        one, other = (torch.load(folder / name, weights_only=True) for folder in (tmp_path, alone))
        assert all(torch.equal(one[key], value) for key, value in other.items())


def test_a_job_stops_within_a_batch(rings, tmp_path):
    """C-P1: an interrupt is answered within one mini-batch; what the seed has learned by then is kept apart."""
    asked = []

    def stop():
        asked.append(1)
        return len(asked) == 5

    problem = of_rings(rings)
    with pytest.raises(Interrupted):
        problem.run(Job(0, "seed", None, problem.first(), None, 1), tmp_path, stop)
    assert len(asked) == 5
    assert [path.name for path in tmp_path.iterdir()] == [UNFINISHED_SEED]


@pytest.mark.parametrize("kind", ["seed", "candidates"])
def test_a_job_that_goes_on_ends_as_if_it_had_not_been_interrupted(rings, tmp_path, kind):
    """C-P3, within a job: with drop-path and turns, from its last whole epoch."""
    recipe = TrainingRecipe(epochs=3, batch_size=50, optimizer="adamw", learning_rate=1e-2)
    X, y = rings
    states = []
    for place, interrupts in (("whole", ()), ("parts", (5, 5))):
        folder = tmp_path / place
        folder.mkdir()
        problem = NetworkGrowth(
            table_seed(6, 3, n=1, width=8),
            *(X[:200], y[:200], X[200:], y[200:]),
            phases=Phases(recipe, recipe, recipe, drop_path=0.3),
            settings=GrowthSettings(turns=3),
            device="cpu",
            keep_unfinished=True,
        )
        torch.manual_seed(1)
        torch.save(build(problem.seed).state_dict(), folder / "parent.pt")
        job = Job(5, kind, None, problem.first(), None if kind == "seed" else "parent.pt", 3)
        for batches in interrupts:
            left = iter(range(batches))
            with pytest.raises(Interrupted):
                problem.run(job, folder, lambda left=left: next(left, None) is None)
        outcome = problem.run(job, folder, never)
        states.append(torch.load(folder / outcome.checkpoint, weights_only=True))
        assert not list(folder.glob("unfinished-5*"))
    one, other = states
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_ctrl_c_leaves_what_the_seed_has_learned(rings, tmp_path):
    """C-P1: where there is no model yet, the seed as it is."""
    problem = of_rings(rings)
    asked = []

    def pressed():
        asked.append(1)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        problem.run(Job(0, "seed", None, problem.first(), None, 1), tmp_path, pressed)
    network = problem.load(problem.first(), tmp_path / UNFINISHED_SEED)
    assert network(torch.zeros(2, 6)).shape == (1, 2, 3)


def test_a_gallery_can_be_asked_and_exported(rings, tmp_path):
    """C-P5: best_under(cost), and a folder from which each network of the hull can be built again."""
    problem = of_rings(rings)
    search = GrowthSearch(problem, tmp_path / "search", random_state=0).run(max_models=3)
    cheapest = min(search.models, key=lambda model: model.cost)
    assert search.best_under(cheapest.cost).number == cheapest.number
    assert search.best_under(float("inf")).error == min(model.error for model in search.models)
    with pytest.raises(ValueError, match="no model that costs at most"):
        search.best_under(cheapest.cost - 1)
    folder = search.export(tmp_path / "gallery")
    for model in search.hull():
        network = problem.load(model.architecture, folder / model.checkpoint)
        wrong = network(torch.tensor(problem.X_val))[0].argmax(dim=1).numpy() != problem.y_val
        assert np.mean(wrong) == pytest.approx(model.error)


def test_an_error_comes_of_a_file_of_another_network(rings, tmp_path):
    problem = of_rings(rings)
    seed, found, _ = grow(problem, tmp_path)
    with pytest.raises(RuntimeError, match=r"Missing key|state_dict"):
        problem.run(Job(9, "child", 0, found.architecture, seed.checkpoint, 1), tmp_path, never)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "joint"},
        {"mode": "gated"},
        {"l1_step": "proximal", "l1_regularization": 0.1},
        {"merge": "sum"},
        {"projection": "alpha"},
        {"projection": "random", "from_scratch": True},
        {"criterion": "gradient"},
        {"criterion": "cosine", "decorrelate": True},
        {"criterion": "magnitude"},
        {"criterion": "random", "n_shortcuts": 2},
        {"share": 0.25, "largest_weight": 0.05},
        {"turns": 3},
    ],
    ids=str,
)
def test_every_setting_leads_to_a_child(rings, tmp_path, settings):
    """growth_and_streaming B.8: what is offered for comparison runs through the same steps."""
    one = TrainingRecipe(epochs=1, batch_size=50, optimizer="adamw", learning_rate=1e-2)
    problem = of_rings(rings, phases=Phases(one, one, one, drop_path=0.2), **settings)
    _, found, child = grow(problem, tmp_path)
    kept = settings.get("n_shortcuts", 3)
    assert len(found.notes["chosen"]["normal"]) == kept
    assert np.isfinite(child.error)
    network = problem.load(child.architecture, tmp_path / child.checkpoint)
    assert network.grown.counts().mult_adds == child.cost
    if settings.get("largest_weight"):
        assert all(abs(entry["weight"]) <= 0.05 + 1e-7 for entry in found.notes["chosen"]["normal"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "loud"},
        {"merge": "product"},
        {"n_shortcuts": 0},
        {"share": 0.0},
        {"criterion": "taste"},
        {"turns": 0},
        {"mode": "joint", "turns": 2},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GrowthSettings(**wrong)


def test_images_grow_by_the_same_steps(stripes, tmp_path):
    """growth_and_streaming B.9: tiny vision, two resolutions, the seven ops, cutout and drop-path."""
    X, y = stripes
    recipe = TrainingRecipe(epochs=2, batch_size=20, learning_rate=0.05, augment="crop_flip", cutout=3)
    problem = NetworkGrowth(
        image_seed((2, 9, 9), 3, n=1, width=4, resolutions=2),
        *(X[:100], y[:100], X[100:], y[100:]),
        phases=Phases(recipe, replace(recipe, epochs=1), recipe, drop_path=0.3),
        device="cpu",
    )
    seed, found, child = grow(problem, tmp_path)
    assert set(found.notes["chosen"]) == {"normal", "transition"}
    assert child.cost > seed.cost


def test_a_module_of_ones_own_grows(rings, tmp_path):
    """C-P4: its blocks become sites; the child begins with what the module says."""
    X, y = rings
    layers = [
        nn.Linear(6, 10),
        nn.ReLU(),
        nn.Linear(10, 12),
        nn.Tanh(),
        nn.Linear(12, 12),
        nn.ReLU(),
        nn.Linear(12, 3),
    ]
    torch.manual_seed(3)
    module = with_exits(nn.Sequential(*layers), at=["1", "3", "5"], input_shape=(6,))
    before = copy.deepcopy(module.state_dict())
    seed = module_seed(module, (6,))
    assert seed.shapes == ((10,), (12,), (12,))
    assert seed.inputs("cell 1") == ("before", "previous")
    parameters = sum(p.numel() for layer in layers for p in layer.parameters())
    assert seed.counts() == (parameters, 6 * 10 + 10 * 12 + 12 * 12 + 12 * 3)
    problem = NetworkGrowth(
        seed, X[:300], y[:300], X[300:], y[300:], phases=SMALL, module=module, device="cpu"
    )
    network = build(seed, copy.deepcopy(module))
    assert torch.equal(network(torch.tensor(X))[0], module(torch.tensor(X))[-1])
    torch.manual_seed(4)  # negative control: a module of the same layers that has learned something else
    other = with_exits(
        nn.Sequential(*(copy.deepcopy(layer) for layer in layers)), at=["1", "3", "5"], input_shape=(6,)
    )
    for p in other.parameters():
        nn.init.normal_(p)
    assert not torch.allclose(network(torch.tensor(X))[0], build(seed, other)(torch.tensor(X))[0])
    outcomes = grow(problem, tmp_path, steps=2)
    assert outcomes[4].cost > outcomes[2].cost > outcomes[0].cost
    assert outcomes[4].error < 0.6
    assert all(
        torch.equal(value, before[name]) for name, value in module.state_dict().items()
    )  # not changed itself


def test_a_convolutional_module_of_ones_own_grows(stripes, tmp_path):
    """C-P4: layers of different sizes; the seven ops are candidates, and the child begins with what the module says."""
    X, y = stripes
    torch.manual_seed(0)
    layers = [
        nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU()),
        nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU()),
        nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.Dropout(0.2), nn.ReLU()),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)),
    ]
    module = with_exits(nn.Sequential(*layers), at=["0", "1", "2"], input_shape=(2, 9, 9))
    seed = module_seed(module, (2, 9, 9))
    assert seed.shapes == ((4, 9, 9), (6, 5, 5), (6, 5, 5))
    assert seed.ops == IMAGE_OPS
    one = TrainingRecipe(epochs=1, batch_size=20, learning_rate=0.05)
    problem = NetworkGrowth(
        seed, X[:100], y[:100], X[100:], y[100:], phases=Phases(one, one, one), module=module, device="cpu"
    )
    first, found, child = grow(problem, tmp_path)
    assert found.notes["moved"] == 0.0
    assert child.cost > first.cost
    assert set(found.notes["chosen"]) == {"cell 0", "cell 1"}


def test_a_module_that_has_nothing_between_ends_is_refused():
    module = with_exits(
        nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)), at=["1"], input_shape=(4,)
    )
    with pytest.raises(ValueError, match="two blocks at least"):
        module_seed(module, (4,))


# ---------------------------------------------------------------------- a planted shortcut


def planted(seed):
    """Rows that a teacher with one more shortcut speaks about, and the teacher's network without it."""
    choice = np.random.default_rng(seed)
    truth = Shortcut(str(choice.choice(["before", "previous", "a", "b"])), str(choice.choice(TABLE_OPS)))
    architecture = table_seed(8, 12, width=12, tying="macro")
    torch.manual_seed(seed)
    teacher = build(architecture.grown({"cell 1": GrownLayer((truth,), merge="sum")}))
    X = torch.randn(512, 8)
    with torch.no_grad():
        for _ in range(40):  # until normalisation knows the rows
            teacher(X)
        y = teacher.eval()(X)[0]
    known = {name: value for name, value in teacher.state_dict().items() if ".learners." not in name}
    return architecture, X.numpy(), y.numpy(), known, truth


@pytest.mark.parametrize(("criterion", "least", "most"), [("weight", 16, 20), ("random", 0, 8)])
def test_a_planted_shortcut_is_found_and_not_by_chance(tmp_path, criterion, least, most):
    """growth_and_streaming B.9: selection by |a| recovers it in at least 0.8 of 20 seeds, random growth far less often."""
    recipe = TrainingRecipe(
        epochs=14, batch_size=64, optimizer="adamw", learning_rate=5e-3, weight_decay=1e-2
    )
    found = 0
    for seed in range(20):
        architecture, X, y, known, truth = planted(seed)
        problem = NetworkGrowth(
            architecture,
            *(X, y, X[:64], y[:64]),
            phases=Phases(recipe, recipe, recipe),
            settings=GrowthSettings(criterion=criterion),
            device="cpu",
        )
        torch.save(known, tmp_path / "parent.pt")
        job = Job(1, "candidates", 0, problem.first(), "parent.pt", seed)
        kept = problem.run(job, tmp_path, never).architecture["patterns"]["cell 1"][0]["shortcuts"]
        found += [truth.input, truth.op] in kept
    assert least <= found <= most


# ---------------------------------------------------------------------- phases


def test_presets_are_those_of_the_table():
    """growth_and_streaming B.6 and B.9: epochs 200/80/80, batch 32, cosine from 0.025; short 30/15, smoke 5/2."""
    paper = PRESETS["paper"]
    assert [r.epochs for r in (paper.seed, paper.candidates, paper.child)] == [200, 80, 80]
    assert (paper.seed.batch_size, paper.seed.learning_rate, paper.seed.cutout) == (32, 0.025, 16)
    assert paper.seed.schedule(0.0) == pytest.approx(1.0)
    assert paper.seed.schedule(1.0) == pytest.approx(0.0)
    assert (FINAL_RECIPE.epochs, FINAL_RECIPE.batch_size, FINAL_RECIPE.learning_rate) == (600, 32, 0.025)
    transfer = TRANSFER_RECIPE
    assert (transfer.epochs, transfer.batch_size, transfer.weight_decay) == (250, 128, 3e-5)
    rates = [transfer.learning_rate * transfer.schedule(epoch / 250) for epoch in (0, 1, 2, 250)]
    assert rates == pytest.approx([0.1, 0.097, 0.09409, 4.9e-5], rel=0.01)
    assert [(PRESETS[n].seed.epochs, PRESETS[n].child.epochs) for n in ("short", "smoke")] == [
        (30, 15),
        (5, 2),
    ]


def test_cutout_blanks_one_square_per_image():
    images = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).reshape(2, 3, 8, 8) + 1
    blank = torch.tensor([-1.0, -2.0, -3.0])[:, None, None]
    cut = cut_out(images, torch.tensor([[4, 0], [4, 7]]), 4, blank)
    changed = cut != images
    assert changed[0].sum() == 3 * 16
    assert changed[1].sum() == 3 * 2 * 3  # what stands out of a corner is cut off
    assert (cut[0, 1, 2:6, 2:6] == -2).all()
    assert torch.equal(cut_out(images, torch.tensor([[4, 0], [4, 7]]), 0, blank), images)


def test_images_without_cutout_are_those_of_before():
    """The random numbers of shifts do not depend on whether squares are drawn after them."""
    images, order = torch.rand(6, 1, 8, 8), torch.arange(6)
    plain, cut = (
        augmented(images, order, torch.Generator().manual_seed(3), 0, side)(slice(0, 6)) for side in (0, 2)
    )
    differing = (plain != cut).reshape(6, -1).sum(dim=1)
    assert (differing <= 4).all()
    assert differing.sum() > 0


def test_cutout_needs_images_that_are_augmented():
    with pytest.raises(ValueError, match="cutout must not be negative, and goes with augment"):
        TrainingRecipe(cutout=8)
