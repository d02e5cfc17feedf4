"""From candidates to a child (growth_and_streaming B.4): which shortcuts stay, and what the child begins with."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from torch.nn import functional  # noqa: E402

from anytime.growth.architecture import STEM, GrownLayer, Shortcut  # noqa: E402
from anytime.growth.candidates import add_candidates, remove_candidates  # noqa: E402
from anytime.growth.cells import build  # noqa: E402
from anytime.growth.finalising import child_state, choose, chosen_growths, correlations, strengths  # noqa: E402
from anytime.growth.ops import state_of_copy  # noqa: E402
from anytime.growth.skeletons import image_seed, table_seed  # noqa: E402

torch.set_num_threads(1)


def parent_with_candidates(space="images", *, seed=0, tying="cell"):
    """A parent, its candidates with weights at random, and rows."""
    torch.manual_seed(seed)
    if space == "images":
        network, x = (
            build(image_seed((2, 6, 6), 3, n=1, width=4, resolutions=2, tying=tying)),
            torch.randn(8, 2, 6, 6),
        )
    else:
        parts = [[0, 1], [2], [3, 4]]
        network, x = build(table_seed(5, 3, width=6, parts=parts, tying=tying)), torch.randn(8, 5)
    network(x)  # statistics of normalisation that are not those of the beginning
    candidates = add_candidates(network)
    for a in candidates.weights.values():
        a.data.normal_()
    network(x).sum().backward()
    network.zero_grad()
    return network.eval(), candidates, x


def chosen(network, candidates, n_shortcuts=3, merge="cat_proj", projection="zero"):
    """A child of the strongest candidates, and what was chosen."""
    found = strengths(network, candidates, "weight")
    choices = {
        name: choose(
            strength,
            candidates.unions[name][0].shortcuts,
            1 if name == STEM else n_shortcuts,
            candidates.weights[name].detach().numpy(),
        )
        for name, strength in found.items()
    }
    child = build(chosen_growths(network.grown, choices, merge, projection)).eval()
    child_state(child, network, candidates, choices, projection)
    return child, choices


@pytest.mark.parametrize(("n_shortcuts", "kept"), [(1, 1), (3, 3), (99, 28)])
def test_each_site_keeps_the_largest_weights(n_shortcuts, kept):
    """B-P13: min(I_max, IJ) shortcuts per site, those with the largest |a|."""
    network, candidates, _ = parent_with_candidates()
    child, choices = chosen(network, candidates, n_shortcuts)
    for name, choice in choices.items():
        a = candidates.weights[name].detach().numpy()
        assert list(choice.candidates) == np.argsort(-np.abs(a), kind="stable")[:kept].tolist()
        assert [s.op for s in child.grown.patterns[name][0].shortcuts] == [s.op for s in choice.shortcuts]
        assert len(child.grown.patterns[name][0].shortcuts) == kept
        drawn = choose(np.random.default_rng(0).random(a.size), [("a", "sep3")] * a.size, n_shortcuts, a)
        assert (set(drawn.candidates) == set(choice.candidates)) == (kept == a.size)  # negative control


def test_ties_go_to_the_lower_number():
    """B-P13."""
    shortcuts = [("a", str(k)) for k in range(5)]
    strength = np.array([1.0, 2.0, 2.0, 2.0, 1.0])
    assert choose(strength, shortcuts, 3, strength).candidates == (1, 2, 3)
    assert choose(np.array([1.0, np.nan, 0.5, np.inf, 0.1]), shortcuts, 2, strength).candidates == (0, 2)


@pytest.mark.parametrize("space", ["images", "table"])
@pytest.mark.parametrize("merge", ["cat_proj", "sum"])
def test_a_child_that_begins_with_zero_says_what_its_parent_says(space, merge):
    """B-P14: with the "zero" projection the child reproduces the parent's logits."""
    network, candidates, x = parent_with_candidates(space)
    child, _ = chosen(network, candidates, merge=merge)
    assert torch.equal(child(x), network(x))
    assert torch.equal(child.train()(x), network.train()(x))


@pytest.mark.parametrize("merge", ["cat_proj", "sum"])
def test_a_child_that_begins_at_random_does_not(merge):
    """Negative control of B-P14."""
    network, candidates, x = parent_with_candidates()
    child, _ = chosen(network, candidates, merge=merge, projection="random")
    assert not torch.allclose(child(x), network(x), atol=1e-3)


@pytest.mark.parametrize("space", ["images", "table"])
@pytest.mark.parametrize("merge", ["cat_proj", "sum"])
def test_a_child_that_begins_with_alpha_adds_the_weighted_sum(space, merge):
    """B-P15: a linear projection with blocks a_ij * I reproduces x_k + x_c where all candidates stay, within 1e-5."""
    network, candidates, x = parent_with_candidates(space)
    candidates.weights.pop(STEM, None)
    child, _ = chosen(network, candidates, n_shortcuts=99, merge=merge, projection="alpha")
    for _, module in network.sites():
        if module.union is not None:
            module.union.mode = "joint"
            if module is network.stem:
                module.union = None
    assert torch.allclose(child(x), network(x), rtol=1e-5, atol=1e-5)
    remove_candidates(network)
    assert not torch.allclose(child(x), network(x), atol=1e-3)


@pytest.mark.parametrize("space", ["images", "table"])
def test_what_ops_have_learned_is_taken_over(space):
    """B-P16: op parameters are copied verbatim, and the parent's too."""
    network, candidates, _ = parent_with_candidates(space)
    child, choices = chosen(network, candidates)
    own = {name: value for name, value in network.state_dict().items() if ".union." not in name}
    inherited = child.state_dict()
    assert all(torch.equal(inherited[name], value) for name, value in own.items())
    n_compared = 0
    for (pattern, module), (_, source) in zip(child.sites(), network.sites(), strict=True):
        for op, k in zip(module.learners[-1].ops, choices[pattern].candidates, strict=True):
            there, copy, copies = source.union.op_of(k)
            for name, value in state_of_copy(there.state_dict(), copy, copies).items():
                assert torch.equal(op.state_dict()[name], value)
                n_compared += 1
    assert n_compared > 5
    other = build(child.grown).state_dict()  # negative control: new parameters are others
    learned = [name for name in other if ".learners.0.ops." in name and name.endswith("weight")]
    assert learned
    assert not any(torch.equal(other[name], inherited[name]) for name in learned)


def test_a_copy_of_an_op_says_what_it_said_among_its_copies():
    """B-P16, further: the op in the child gives for a layer what the candidate gave."""
    network, candidates, x = parent_with_candidates()
    for unions in candidates.unions.values():
        for union in unions:
            union.recorded = []
    with torch.no_grad():
        network(x)
    said = {union: union.recorded for unions in candidates.unions.values() for union in unions}
    child, choices = chosen(network, candidates)
    layers = []
    handles = [
        cell.learners[0].register_forward_hook(lambda module, given, _: layers.append((module, given[0])))
        for cell in child.cells
    ]
    child(x)
    for handle in handles:
        handle.remove()
    for (learner, known), (pattern, source) in zip(layers, network.sites(), strict=True):
        for op, name, k in zip(learner.ops, learner.inputs, choices[pattern].candidates, strict=True):
            assert torch.allclose(op(known[name]), said[source.union][k], atol=1e-5)


def test_a_child_costs_more_unless_it_adds_pools_and_identities():
    """B-P17: cost(child) > cost(parent), except for sums of pools and identities of layers of equal shape."""
    seed = image_seed()
    paid = seed.grown({"normal": GrownLayer((Shortcut("a", "dil3"),), merge="sum")})
    projected = seed.grown({"normal": GrownLayer((Shortcut("a", "identity"),))})
    free = seed.grown({"normal": GrownLayer((Shortcut("a", "identity"), Shortcut("b", "max3")), merge="sum")})
    assert paid.counts().mult_adds > seed.counts().mult_adds
    assert projected.counts().mult_adds > seed.counts().mult_adds
    assert free.counts().mult_adds == seed.counts().mult_adds


def test_cells_of_one_kind_grow_alike_and_private_ones_do_not():
    """B-P18: in cell-search all copies have the same pattern; in macro-search they need not."""
    for tying, alike in (("cell", True), ("macro", False)):
        torch.manual_seed(0)
        network = build(image_seed((2, 6, 6), 3, n=3, width=4, resolutions=1, tying=tying))
        candidates = add_candidates(network)
        for a in candidates.weights.values():
            a.data.normal_()
        child, _ = chosen(network, candidates)
        patterns = {
            tuple(s for g in child.grown.patterns[cell.pattern] for s in g.shortcuts)
            for cell in child.grown.cells
        }
        assert (len(patterns) == 1) == alike


def test_growth_after_growth_stays_consistent():
    """B-P19: children of children are acyclic, fit in shape, and read layers that have grown before."""
    for seed in range(3):
        network, candidates, x = parent_with_candidates(seed=seed)
        for _ in range(2):
            child, _ = chosen(network, candidates, n_shortcuts=4)
            assert child(x).shape == (1, 8, 3)
            network, candidates = child, add_candidates(child)
            for a in candidates.weights.values():
                a.data.normal_()
        known = {f"cell {c}.g{k}" for c in range(3) for k in (1, 2)}
        ends = [end for _, end, _ in network.grown.shortcuts()]
        assert set(ends) <= known
        assert len(ends) == 3 * 2 * 4


def test_a_decorrelated_choice_does_not_take_the_same_twice():
    """growth_and_streaming B.3, note (c): candidates do not hear each other, so that two that say the same may both be strong."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(3, 400, generator=generator)
    outputs = torch.stack([base[0], base[0] + 0.01 * base[1], base[1], base[2]])
    strength = np.array([1.0, 0.9, 0.5, 0.4])
    shortcuts = [("a", str(k)) for k in range(4)]
    assert choose(strength, shortcuts, 2, strength).candidates == (0, 1)  # without it the same twice
    assert choose(strength, shortcuts, 2, strength, outputs).candidates == (0, 2)


@pytest.mark.parametrize("criterion", ["gradient", "cosine"])
def test_other_criteria_find_what_they_name(criterion):
    """growth_and_streaming B.8: |<grad, op>| on one batch is the gradient of a_ij; divided by norms it lies between 0 and 1."""
    network, candidates, x = parent_with_candidates("table", tying="macro")
    y = torch.arange(8) % 3
    found = strengths(network, candidates, criterion, lambda: functional.cross_entropy(network(x)[0], y))
    functional.cross_entropy(network(x)[0], y).backward()
    for name, strength in found.items():
        gradient = candidates.weights[name].grad.abs().numpy()
        if criterion == "gradient":
            np.testing.assert_allclose(strength, gradient, rtol=1e-4, atol=1e-7)
        else:
            assert (strength >= 0).all()
            assert (strength <= 1).all()
            assert np.argmax(strength) in np.argsort(-gradient)[:6]


def test_correlations_are_told_and_leave_the_network_alone():
    """growth_and_streaming C.2: the best cosine of a candidate, and that of a step of the parent, which falls as it learns."""
    network, candidates, x = parent_with_candidates("table", tying="macro")
    y = torch.arange(8) % 3
    begin = candidates.turns(2)[0]
    begin()
    state = {name: value.clone() for name, value in network.state_dict().items()}
    network.train()

    def told():
        return correlations(network, candidates, lambda net: functional.cross_entropy(net(x)[0], y))

    first = told()
    assert network.training
    assert candidates.unions["cell 0"][0].active == slice(0, 4, 2)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert all(p.grad is None for p in network.parameters())
    candidates.activate()
    cosines = strengths(
        network.eval(), candidates, "cosine", lambda: functional.cross_entropy(network(x)[0], y)
    )
    assert first["candidate_correlation"] == pytest.approx(max(found.max() for found in cosines.values()))
    optimizer = torch.optim.SGD([p for n, p in network.named_parameters() if ".union." not in n], 0.05)
    for _ in range(200):
        optimizer.zero_grad()
        functional.cross_entropy(network(x)[0], y).backward()
        optimizer.step()
    assert 0 < told()["parent_correlation"] < first["parent_correlation"] < 1


def test_magnitude_and_chance_are_criteria_too():
    """growth_and_streaming B.8: the size of the op's parameters; uniform choice."""
    network, candidates, _ = parent_with_candidates()
    sizes = strengths(network, candidates, "magnitude")["normal"]
    pools = [k for k, (_, op) in enumerate(candidates.unions["normal"][0].shortcuts) if op == "identity"]
    assert (np.sort(sizes[pools])[:2] == 0).all()  # of equal shape: no parameters
    assert (sizes > 0).sum() >= 16
    draws = [
        strengths(network, candidates, "random", random=np.random.default_rng(s))["normal"] for s in (0, 0, 1)
    ]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
