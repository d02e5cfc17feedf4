"""The value of a classifier: the vectorised model against sums and integrals written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from anytime.acquisition.additive import LinearTerms
from anytime.acquisition.margin_classifier import _followed
from anytime.costs import FeatureCosts
from anytime_research.acquisition.value_of_classifier import LocalModel, ValueBlock


def problem(seed=0, n=40, d=5):
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, d))
    positive = Z @ random.normal(size=d) + 0.5 * random.normal(size=n) > 0
    return Z, positive, random.normal(size=d)


def weights_of(Z, z, known):
    distances = np.array([np.sqrt(sum((point[j] - z[j]) ** 2 for j in known)) for point in Z])
    return np.exp(-(distances**2 - distances.min() ** 2) / np.median(distances))


def value_of(Z, positive, z, known, asked, weights):
    """E[max_y P(y | x_O, x_i)] - max_y P(y | x_O), for one column, by numerical integration."""
    share = weights / weights.sum()
    inputs = np.column_stack([np.ones(len(Z)), Z[:, known]])
    gram = inputs.T @ np.diag(weights) @ inputs + 0.5 * np.eye(1 + len(known))
    slopes = np.linalg.inv(gram) @ inputs.T @ np.diag(weights) @ Z[:, asked]
    mean = np.concatenate([[1.0], z[known]]) @ slopes
    spread = np.sqrt(share @ (Z[:, asked] - inputs @ slopes) ** 2)
    chance = share @ positive
    classes = []
    for of, prior in ((positive, chance), (~positive, 1 - chance)):
        centre = share[of] @ Z[of, asked] / prior
        classes.append((prior, centre, np.sqrt(share[of] @ (Z[of, asked] - centre) ** 2 / prior)))

    def leading(shown):
        joint = [prior * norm.pdf(shown, centre, width) for prior, centre, width in classes]
        return max(joint) / sum(joint) * norm.pdf(shown, mean, spread)

    return quad(leading, mean - 8 * spread, mean + 8 * spread, limit=400)[0] - max(chance, 1 - chance)


@pytest.mark.parametrize("known", [[], [1], [0, 3]])
def test_values_are_expected_gains_of_the_leading_class(known):
    Z, positive, z = problem()
    model = LocalModel(Z, positive)
    mask = np.isin(np.arange(5), known)
    asked = np.flatnonzero(~mask)
    weights = weights_of(Z, z, known) if known else np.ones(len(Z))
    assert_allclose(model.weights(z, mask), weights, rtol=1e-10)
    assert_allclose(model.probability(z, mask), weights @ positive / weights.sum(), rtol=1e-10)
    exact = [value_of(Z, positive, z, known, i, weights) for i in asked]
    # nine nodes stand for the integral: what is compared is a corner, so they are some hundredths off
    assert_allclose(model.values(z, mask, asked), exact, atol=0.03)
    assert np.argmax(model.values(z, mask, asked)) == np.argmax(exact)


def test_points_exactly_alike_are_no_trouble():
    Z, positive, z = problem()
    Z[:] = np.sign(Z)
    known = np.array([True, False, False, False, False])
    model = LocalModel(Z, positive)
    assert np.isfinite(model.values(np.sign(z), known, np.array([1, 2, 3, 4]))).all()
    alike = LocalModel(np.zeros((6, 2)), np.array([True] * 6))
    assert alike.values(np.zeros(2), np.array([True, False]), np.array([1])).tolist() == [0.0]


def test_it_buys_what_is_worth_most_for_its_price():
    Z, positive, _ = problem(n=80)
    costs = FeatureCosts(
        {"a": 1.0, "b": 1.0, "c": 1.0}, groups={"a": [0, 1], "b": [2], "c": [3, 4]}, requires={"c": ["b"]}
    ).bind(5)
    block = ValueBlock(LinearTerms(0.0, np.ones(5)), Z, positive, costs, cost_penalty=0.0, distance="raw")
    X = np.random.default_rng(3).normal(size=(6, 5))
    groups, paid, estimate, _ = _followed(block, X)
    for i, x in enumerate(X):
        known = np.zeros(5, dtype=bool)
        for t in range(3):
            left = [
                g for g in range(3) if g not in groups[i, :t] and not known[costs.column_group == g].all()
            ]
            if not left:
                assert groups[i, t] == -1
                continue
            worth = block.local_model.values(x, known, np.arange(5))
            assert groups[i, t] == max(left, key=lambda g: worth[costs.column_group == g].max())
            known |= costs.closure(np.array([groups[i, t]]))[costs.column_group]
            chance = block.local_model.probability(x, known)
            assert estimate[i, t] == max(chance, 1 - chance)
        assert paid[i, -1] == costs.prices.sum()
