"""Line searches: closed forms against the numeric search, the slope where it ends, steps that are cut off."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from anytime.losses import LINKS, TRAINING_LOSSES, Loss, line_search, quantile, regularised

SEEDS = st.integers(0, 10**6)
POINTWISE = sorted(name for name, loss in TRAINING_LOSSES.items() if not loss.ranks)


def problem(loss: Loss, seed: int, n: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, a direction, targets and weights."""
    rng = np.random.default_rng(seed)
    link = LINKS[loss.link]
    k = 1 if loss.ranks else link.n_outputs(4)
    y = rng.integers(0, link.n_classes(k), n) if link.classifies else rng.poisson(2.0, (n, k)).astype(float)
    if loss.ranks:
        y = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)
    return rng.normal(size=(n, k)), rng.normal(size=(n, k)), y, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize("name", [*POINTWISE, "pairwise_hinge", "pairwise_logistic"])
@given(seed=SEEDS)
def test_no_other_step_is_better(name: str, seed: int):
    loss = TRAINING_LOSSES[name]
    scores, h, y, weight = problem(loss, seed)
    weight = None if loss.ranks else weight
    alpha, gain = line_search(loss, scores, h, y, weight)
    with np.errstate(over="ignore"):
        found = minimize_scalar(lambda a: loss(scores + a * h, y, weight), bounds=(-10, 10), method="bounded")
    here = loss(scores, y, weight)
    assert gain == pytest.approx(here - loss(scores + alpha * h, y, weight), abs=1e-12)
    assert gain >= here - found.fun - 1e-10 * (1 + here)


@pytest.mark.parametrize("name", sorted(n for n in POINTWISE if not TRAINING_LOSSES[n].kinked))
@given(seed=SEEDS)
def test_search_ends_where_it_is_flat(name: str, seed: int):
    """speedboost_and_structured 1.4: ``|dR/da| <= 1e-8 (1 + |R|)`` unless the step is cut off."""
    loss = replace(TRAINING_LOSSES[name], step=None)
    scores, h, y, weight = problem(loss, seed)
    alpha, _ = line_search(loss, scores, h, y, weight)
    slope = weight @ (loss.gradient(scores + alpha * h, y) * h).sum(axis=1) / weight.sum()
    assert abs(slope) <= 1e-8 * (1 + loss(scores, y, weight)) or abs(alpha) == 10


@pytest.mark.parametrize("form", ["signs", "sizes", "filtered"])
@given(seed=SEEDS)
def test_p7_binary_exponential_closed_form(form: str, seed: int):
    """speedboost_and_structured 1.4: ``1/2 ln((1 - e) / e)`` and gain ``Z (1 - 2 sqrt(e (1 - e)))``."""
    loss = TRAINING_LOSSES["exponential"]
    scores, h, y, weight = problem(loss, seed)
    h = np.sign(h) * (0.7 if form == "sizes" else 1.0)
    if form == "filtered":
        h[::3] = 0.0
    alpha, gain = line_search(loss, scores, h, y, weight)
    numeric = line_search(replace(loss, step=None), scores, h, y, weight)
    assert (alpha, gain) == pytest.approx(numeric, rel=1e-6, abs=1e-8)
    assert gain == pytest.approx(numeric[1], abs=1e-8)
    if form == "signs":
        mass = weight / weight.sum() * np.exp(-np.where(y > 0, 1, -1) * scores[:, 0])
        error = mass[np.sign(h[:, 0]) != np.where(y > 0, 1, -1)].sum() / mass.sum()
        assert alpha == pytest.approx(0.5 * np.log((1 - error) / error), abs=1e-8)
        assert gain == pytest.approx(mass.sum() * (1 - 2 * np.sqrt(error * (1 - error))), abs=1e-8)


@pytest.mark.parametrize("form", ["one-hot", "coded", "filtered"])
@given(seed=SEEDS)
def test_p7_multiclass_exponential_closed_form(form: str, seed: int):
    """speedboost_and_structured 1.4: ``1/2 ln(A+ / A-)`` and gain ``(sqrt(A+) - sqrt(A-))²``; coded outputs step (K - 1)/K."""
    loss = TRAINING_LOSSES["multiclass_exponential"]
    scores, _, y, weight = problem(loss, seed)
    rng = np.random.default_rng(seed)
    voted = np.where(rng.random(len(y)) < 0.6, y, rng.integers(0, 4, len(y)))
    one_hot = np.eye(4)[voted]
    h = np.where(one_hot > 0, 1.0, -1.0 / 3.0) if form == "coded" else one_hot.copy()
    if form == "filtered":
        h[::3] = 0.0
    alpha, gain = line_search(loss, scores, h, y, weight)
    numeric = line_search(replace(loss, step=None), scores, h, y, weight)
    assert alpha == pytest.approx(numeric[0], rel=1e-6, abs=1e-8)
    assert gain == pytest.approx(numeric[1], rel=1e-8, abs=1e-8)
    if form != "filtered":
        mass = (weight / weight.sum())[:, None] * np.exp(scores - scores[np.arange(len(y)), y][:, None])
        mass[np.arange(len(y)), y] = 0.0
        right, wrong = mass[voted == y].sum(), mass[voted != y, voted[voted != y]].sum()
        scale = 3 / 4 if form == "coded" else 1.0
        assert alpha == pytest.approx(scale * 0.5 * np.log(right / wrong), abs=1e-8)
        assert gain == pytest.approx((np.sqrt(right) - np.sqrt(wrong)) ** 2, abs=1e-8)


@given(seed=SEEDS)
def test_p7_squared_closed_form(seed: int):
    """speedboost_and_structured 1.4: ``<g, h> / |h|²`` and gain ``<g, h>² / (2 |h|²)``."""
    loss = TRAINING_LOSSES["squared"]
    scores, h, y, weight = problem(loss, seed)
    alpha, gain = line_search(loss, scores, h, y, weight)
    assert (alpha, gain) == pytest.approx(
        line_search(replace(loss, step=None), scores, h, y, weight), abs=1e-8
    )
    share = weight / weight.sum()
    pull, length = share @ ((y - scores) * h).sum(axis=1), share @ (h**2).sum(axis=1)
    assert (alpha, gain) == pytest.approx((pull / length, pull**2 / (2 * length)), abs=1e-12)


@pytest.mark.parametrize("name", ["exponential", "multiclass_exponential", "logistic", "multinomial"])
def test_separable_steps_are_cut_off_and_gain_what_they_gain(name: str):
    """speedboost_and_structured 1.4: the step is at most 10, with the gain at the step as it is."""
    loss = TRAINING_LOSSES[name]
    binary = LINKS[loss.link].binary
    y = np.array([0, 1, 1, 0])
    h = (2.0 * y - 1)[:, None] if binary else np.eye(2)[y]
    scores = np.zeros_like(h)
    alpha, gain = line_search(loss, scores, h, y)
    assert alpha == 10.0
    assert gain == loss(scores, y) - loss(10 * h, y)
    assert line_search(loss, scores, -h, y)[0] == -10.0
    assert line_search(loss, scores, h, y, largest=2.5)[0] == 2.5


def test_outputs_of_other_forms_are_searched_for():
    loss = TRAINING_LOSSES["multiclass_exponential"]
    scores, h, y, weight = problem(loss, 3)
    share = weight / weight.sum()
    assert loss.step(scores, h, y, share) is None
    assert TRAINING_LOSSES["exponential"].step(scores[:, :1], h[:, :1], y > 1, share) is None
    assert loss.step(scores, np.zeros_like(h), y, share) is None


@pytest.mark.parametrize("name", POINTWISE)
def test_a_direction_of_nothing_gains_nothing(name: str):
    scores, h, y, weight = problem(TRAINING_LOSSES[name], 0)
    assert line_search(TRAINING_LOSSES[name], scores, np.zeros_like(h), y, weight) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["logistic", "poisson", "multinomial", "hinge", "absolute"])
@given(seed=SEEDS)
def test_short_directions_are_searched_as_well_as_long_ones(name: str, seed: int):
    """Weak predictors fitted to a gradient become short as it does."""
    loss = TRAINING_LOSSES[name]
    scores, h, y, weight = problem(loss, seed)
    alpha, gain = line_search(loss, scores, h, y, weight)
    longer, same = line_search(loss, scores, 1e-6 * h, y, weight, largest=1e7)
    assert 1e-6 * longer == pytest.approx(alpha, rel=1e-5, abs=1e-6)
    assert same == pytest.approx(gain, rel=1e-6, abs=1e-12)


@given(seed=SEEDS)
def test_kinks_are_hit(seed: int):
    """The best shift of quantile loss puts one row on its target."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=21)
    alpha, _ = line_search(quantile(0.3), np.zeros((21, 1)), np.ones((21, 1)), y)
    assert alpha == pytest.approx(np.sort(y)[6], abs=1e-9)


def test_far_scores_do_not_overflow_the_search():
    loss = TRAINING_LOSSES["exponential"]
    scores, y = np.array([[-300.0], [1.0], [2.0]]), np.array([1, 0, 1])
    h = np.array([[1.0], [-30.0], [20.0]])
    alpha, gain = line_search(loss, scores, h, y, largest=100.0)
    assert np.isfinite(gain)
    assert alpha > 50


@given(seed=SEEDS)
def test_regularised_hinge_is_searched_by_the_same_tangents(seed: int):
    loss = regularised(TRAINING_LOSSES["hinge"], 0.5)
    scores, h, y, weight = problem(loss, seed)
    alpha, gain = line_search(loss, scores, h, y, weight)
    for other in (alpha - 1e-5, alpha + 1e-5):
        assert loss(scores + other * h, y, weight) >= loss(scores, y, weight) - gain - 1e-12
