"""Candidates beside a network (growth_and_streaming B.3): it does not notice, and they learn what boosting would."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from torch.nn import functional  # noqa: E402

from anytime.growth.architecture import STEM, TABLE_OPS, GrownLayer, Shortcut  # noqa: E402
from anytime.growth.candidates import add_candidates, remove_candidates, sf, sg  # noqa: E402
from anytime.growth.cells import build  # noqa: E402
from anytime.growth.skeletons import image_seed, table_seed  # noqa: E402
from anytime.networks.recipe import TrainingRecipe  # noqa: E402
from anytime.networks.stepping import make_optimizer  # noqa: E402

torch.set_num_threads(1)

GROWN = {"normal": GrownLayer((Shortcut("before", "max3"), Shortcut("a", "identity")))}


def parents():
    """Two parents with rows and classes: one that has grown already, one that buys columns."""
    torch.manual_seed(0)
    images = build(image_seed((2, 6, 6), 3, n=1, width=4, resolutions=2).grown(GROWN))
    table = build(table_seed(6, 3, width=8, parts=[[0, 1], [2, 3, 4], [5]], tying="macro"))
    y = torch.arange(12) % 3
    return [(images, torch.randn(12, 2, 6, 6), y), (table, torch.randn(12, 6), y)]


def beside(parent, **settings):
    """A copy of a parent with candidates."""
    network = copy.deepcopy(parent)
    torch.manual_seed(1)
    return network, add_candidates(network, **settings)


def loss_of(network, x, y):
    return functional.cross_entropy(network(x)[0], y)


def own_gradients(network):
    return {
        name: p.grad.clone()
        for name, p in network.named_parameters()
        if ".union." not in name and p.grad is not None
    }


@pytest.mark.parametrize("which", [0, 1], ids=["images", "table"])
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_the_network_says_the_same_with_candidates(which, training):
    """B-P4: logits of the augmented model equal the parent's, bit for bit, in training and in evaluation mode."""
    parent, x, _ = parents()[which]
    network, _ = beside(parent)
    assert torch.equal(network.train(training)(x), parent.train(training)(x))


@pytest.mark.parametrize("which", [0, 1], ids=["images", "table"])
def test_the_network_learns_the_same_with_candidates(which):
    """B-P5: gradients of all parameters of the parent are the same, bit for bit."""
    parent, x, y = parents()[which]
    network, candidates = beside(parent)
    loss_of(parent, x, y).backward()
    (loss_of(network, x, y) + candidates.l1(0.01)).backward()
    with_them, without = own_gradients(network), own_gradients(parent)
    assert with_them.keys() == without.keys()
    assert all(torch.equal(with_them[name], without[name]) for name in without)


@pytest.mark.parametrize("which", [0, 1], ids=["images", "table"])
@pytest.mark.parametrize("mode", ["joint", "gated"])
def test_candidates_that_are_heard_change_the_network(which, mode):
    """B-P9, negative control of B-P4 and B-P5: joint mode changes logits and gradients; a gate that is not closed too."""
    parent, x, y = parents()[which]
    network, candidates = beside(parent, mode=mode)
    if mode == "gated":
        assert torch.equal(network(x), parent(x))  # a gate begins closed
        for unions in candidates.unions.values():
            for union in unions:
                union.gate.data.fill_(1.0)
    assert not torch.allclose(network(x), parent(x), atol=1e-3)
    loss_of(parent, x, y).backward()
    loss_of(network, x, y).backward()
    with_them, without = own_gradients(network), own_gradients(parent)
    assert any(not torch.allclose(with_them[name], without[name], atol=1e-4) for name in without)


@pytest.mark.parametrize("which", [0, 1], ids=["images", "table"])
def test_candidates_learn_the_boosting_objective_at_every_site(which):
    """B-P6: their gradients are those of <stopgrad(grad_{x_k} L), x_c>, at all sites at once."""
    parent, x, y = parents()[which]
    network, candidates = beside(parent)
    outputs, layers = {}, {}
    everything = [union for unions in candidates.unions.values() for union in unions]

    def keep(union, arguments, output):
        output.retain_grad()
        outputs[union], layers[union] = output, arguments[1]

    handles = [union.register_forward_hook(keep) for union in everything]
    loss_of(network, x, y).backward()
    for handle in handles:
        handle.remove()
    learned = {name: p.grad.clone() for name, p in network.named_parameters() if ".union." in name}
    network.zero_grad()
    objective = sum(
        (outputs[union].grad.detach() * union._sum({n: sg(z) for n, z in layers[union].items()})).sum()
        for union in everything
    )
    objective.backward()
    explicit = {name: p.grad for name, p in network.named_parameters() if ".union." in name}
    assert len(learned) > len(everything)
    for name, gradient in explicit.items():
        assert torch.allclose(learned[name], gradient, rtol=1e-6, atol=1e-7), name
    assert any(gradient.abs().max() > 1e-4 for gradient in learned.values())
    heard, _ = beside(
        parent, mode="joint"
    )  # negative control: the gradients of a network that hears them are others
    loss_of(heard, x, y).backward()
    there = {name: p.grad for name, p in heard.named_parameters() if ".union." in name}
    assert there.keys() == learned.keys()
    assert not any(torch.allclose(learned[name], gradient, rtol=1e-2) for name, gradient in there.items())


def test_the_penalty_moves_the_weights_of_candidates_only():
    """B-P7: its subgradient is lam1 * sign(a_ij), exactly, and there is none for anything else."""
    parent, _, _ = parents()[0]
    network, candidates = beside(parent)
    for a in candidates.weights.values():
        a.data.copy_(torch.linspace(-1, 1, a.numel()))
    candidates.l1(0.01).backward()
    for a in candidates.weights.values():
        assert torch.equal(a.grad, 0.01 / a.numel() * a.detach().sign())
    mine = {id(a) for a in candidates.weights.values()}
    others = [p for p in network.parameters() if id(p) not in mine]
    assert all(p.grad is None for p in others)
    parent, x, y = parents()[0]
    loss_of(network, x, y).backward()
    assert all(p.grad is not None for p in others)  # negative control: the loss does move them


def test_statistics_and_random_numbers_of_the_network_are_its_own():
    """B-P8: normalisation and drop-path of the parent are the same with candidates, step after step."""
    parent, x, y = parents()[0]
    network, _ = beside(parent)
    for one in (parent, network):
        one.train().masks.start(len(x), torch.device("cpu"), seed=5)
        optimizer = torch.optim.SGD([p for n, p in one.named_parameters() if ".union." not in n], 0.1)
        for k in range(3):
            optimizer.zero_grad()
            one.masks.draw(0.4, k)
            loss_of(one, x, y).backward()
            optimizer.step()
    own = {name: value for name, value in network.state_dict().items() if ".union." not in name}
    assert all(torch.equal(own[name], value) for name, value in parent.state_dict().items())


def test_other_masks_would_have_been_noticed():
    """Negative control of B-P8: with masks of another seed the parents part."""
    said = []
    for seed in (5, 6):
        parent, x, _ = parents()[0]
        parent.train().masks.start(len(x), torch.device("cpu"), seed=seed)
        parent.masks.draw(0.4, 1)
        said.append(parent(x))
    assert not torch.allclose(*said)


def test_weights_of_a_linear_model_grow_by_correlations():
    """B-P10: frozen parent, x_k = yhat, a(0) = 0, full-batch proximal steps: |a_j| = eps s max(|corr_j| - lam1, 0).

    The three largest weights are those of the three largest correlations, which is the criterion of matching pursuit.
    """
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 12))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    residual = generator.normal(size=200) + X[:, 4] - 0.7 * X[:, 9]
    residual -= residual.mean()
    features, target = torch.tensor(X), torch.tensor(residual)
    yhat = torch.zeros(200, dtype=torch.float64, requires_grad=True)
    rate, lam1, steps = 0.05, 0.1, 40

    def after(add, proximal):
        a = torch.zeros(12, dtype=torch.float64, requires_grad=True)
        for _ in range(steps):
            said = add(yhat, sg(features) @ a)
            (gradient,) = torch.autograd.grad(0.5 * (said - target).square().mean(), a)
            with torch.no_grad():
                stepped = a - rate * (gradient if proximal else gradient + lam1 * a.sign())
                shrunk = (stepped.abs() - rate * lam1).clamp(min=0) if proximal else stepped.abs()
                a.copy_(stepped.sign() * shrunk)
        return a.detach().abs().numpy()

    found = after(sf, proximal=True)
    correlation = np.abs(X.T @ residual / 200)
    expected = rate * steps * np.maximum(correlation - lam1, 0)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(np.argsort(-found)[:3], np.argsort(-correlation)[:3])
    assert (expected == 0).any()
    # negative controls: a subgradient never gives exact zeros, and what is heard no longer grows by a constant correlation
    assert (after(sf, proximal=False) > 0).all()
    assert np.abs(after(torch.add, proximal=True) - expected).max() > 0.1


def test_shrinking_gives_exact_zeros_and_a_cap_holds():
    """growth_and_streaming B.3, notes (b): the proximal step yields zeros; |a| can be capped."""
    parent, _, _ = parents()[1]
    _, candidates = beside(parent)
    for a in candidates.weights.values():
        a.data.copy_(torch.linspace(-0.5, 0.5, a.numel()))
    candidates.shrink(rate=1.0, factor=0.2 * 16)
    shrunk = candidates.weights["cell 0"]
    expected = torch.linspace(-0.5, 0.5, 16)
    assert torch.allclose(shrunk, expected.sign() * (expected.abs() - 0.2).clamp(min=0))
    assert int((shrunk == 0).sum()) == 6
    candidates.cap(0.1)
    assert float(shrunk.detach().abs().max()) == pytest.approx(0.1)


def test_a_shared_weight_learns_from_all_copies():
    """B-P11: in cell-search the gradient of a_ij is the sum over the cells of its pattern."""
    torch.manual_seed(0)
    tied = build(table_seed(5, 3, n=3, width=6))
    private = build(table_seed(5, 3, n=3, width=6, tying="macro"))
    private.load_state_dict(tied.state_dict())
    x, y = torch.randn(10, 5), torch.arange(10) % 3
    shared, own = add_candidates(tied), add_candidates(private)
    private.load_state_dict(tied.state_dict())
    for network in (tied, private):
        loss_of(network, x, y).backward()
    summed = sum(own.weights[f"cell {c}"].grad for c in range(3))
    assert torch.allclose(shared.weights["normal"].grad, summed, rtol=1e-6, atol=1e-8)
    assert not torch.allclose(own.weights["cell 0"].grad, own.weights["cell 1"].grad)  # copies do differ


@pytest.mark.parametrize("which", [0, 1], ids=["images", "table"])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_spoiled_candidate_does_not_spoil_the_network(which, poison):
    """B-P12: NaN or infinity in a candidate reaches neither outputs nor gradients of the parent."""
    parent, x, y = parents()[which]
    network, candidates = beside(parent)
    for unions in candidates.unions.values():
        for union in unions:
            for p in union.ops.parameters():
                p.data.fill_(poison)
    assert torch.equal(network(x), parent(x))
    loss_of(network, x, y).backward()
    loss_of(parent, x, y).backward()
    with_them, without = own_gradients(network), own_gradients(parent)
    assert all(torch.equal(with_them[name], without[name]) for name in without)


def test_a_difference_would_have_spoiled_it():
    """Negative control of B-P12: v - sg(v) is no number where v is none."""
    x, v = torch.ones(3), torch.full((3,), float("nan"))
    assert torch.isnan(x + (v - sg(v))).all()
    assert torch.equal(sf(x, v), x)


def test_candidates_on_fewer_rows_learn_the_same_on_average():
    """A share of the rows is as strong as all of them: equal halves of a batch give the gradient of the whole."""
    parent, x, y = parents()[1]
    twice, classes = torch.cat([x, x]), torch.cat([y, y])
    gradients = []
    for share in (1.0, 0.5):
        network, candidates = beside(parent, share=share)
        loss_of(network, twice, classes).backward()
        gradients.append(candidates.weights["cell 0"].grad.clone())
    assert torch.allclose(*gradients, rtol=1e-4, atol=1e-7)
    with_less, _ = beside(parent, share=0.5)
    assert torch.equal(with_less(twice), copy.deepcopy(parent)(twice))


def test_ops_that_take_turns_learn_what_they_would_together():
    """In isolated mode candidates do not hear each other: a turn's gradients are those of all at once, others have none."""
    parent, x, y = parents()[0]
    network, candidates = beside(parent)
    loss_of(network, x, y).backward()
    together = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    met = set()
    for begin in candidates.turns(3):
        network, candidates_again = beside(parent)
        candidates_again.activate(*begin.args)
        loss_of(network, x, y).backward()
        for name, p in network.named_parameters():
            if ".union.ops" in name and p.grad is not None:
                assert torch.allclose(p.grad, together[name], rtol=1e-5, atol=1e-7), name
                met.add(name)
            elif ".union." not in name:
                assert torch.equal(p.grad, together[name]), name
    assert met == {name for name in together if ".union.ops" in name}
    assert candidates.turns(1) == []


def test_the_penalty_of_a_turn_is_that_of_its_ops():
    parent, _, _ = parents()[0]
    _, candidates = beside(parent)
    whole = float(candidates.l1(0.01).detach())
    parts = []
    for begin in candidates.turns(3):
        begin()
        parts.append(float(candidates.l1(0.01).detach()))
    assert sum(parts) == pytest.approx(whole, rel=1e-5)
    assert max(parts) < whole


def test_candidates_are_the_whole_grid_and_leave_without_a_trace():
    parent, _, _ = parents()[1]
    network, candidates = beside(parent)
    inputs = ("before", "previous", "a", "b")
    assert candidates.unions["cell 0"][0].shortcuts == [(i, op) for i in inputs for op in TABLE_OPS]
    assert candidates.unions[STEM][0].shortcuts == [("part 1", "linear"), ("part 2", "linear")]
    assert all(float(a.detach()[0]) == pytest.approx(1 / a.numel()) for a in candidates.weights.values())
    remove_candidates(network)
    assert network.state_dict().keys() == parent.state_dict().keys()


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode must be one of isolated, joint, gated"):
        add_candidates(parents()[1][0], mode="loud")


def test_parameters_that_join_later_take_part_in_a_fused_step():
    """Ops that take turns have no gradient in the first steps; on a GPU all parameters move in one fused step."""
    first, later = (torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2))
    optimizer = make_optimizer(TrainingRecipe(learning_rate=0.1), [first, later], torch.device("cuda"))
    assert optimizer.defaults["fused"]  # torch has a fused step for CPUs too
    first.grad = torch.ones(2, 2)
    optimizer.step()
    later.grad = torch.ones(2, 2)
    optimizer.step()
    alone = torch.nn.Parameter(torch.ones(2, 2))
    alone.grad = torch.ones(2, 2)
    plain = torch.optim.SGD([alone], lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    plain.step()
    torch.testing.assert_close(later, alone)
    plain.step()
    torch.testing.assert_close(first, alone)
