"""The objective: each step of a turn lowers it, and it bounds that of a mixture (adaptive_approximation 3, 8, 11)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import anytime as at
from anytime.adaptive.linear import LinearPairLearner
from anytime.adaptive.routing import KullbackLeibler, alternate
from anytime_research.adaptive.duality import soft_proba
from anytime_research.adaptive.least_squares import LogOdds
from tests.adaptive.test_adaptive_classifier import SMALL, problem


def rows(n_classes=2):
    X, y, costs = problem(n_classes)
    probabilities = GaussianNB().fit(X, y).predict_proba(X)
    return X, y, costs, -np.log(np.clip(probabilities[np.arange(len(y)), y], 1e-12, 1))


def value_of(probabilities, pair, costly, divergence):
    """Section 3's objective, from its definition."""
    g = pair.gate
    if divergence == "kl":
        apart = probabilities * np.log(probabilities / expit(g)) + (1 - probabilities) * np.log(
            (1 - probabilities) / expit(-g)
        )
    else:
        apart = (logit(probabilities) - g) ** 2
    return np.mean(probabilities * costly + (1 - probabilities) * pair.cheap_loss + apart) + pair.penalty


DIVERGENCES = {"kl": KullbackLeibler(), "log-odds": LogOdds()}


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_neither_step_of_a_turn_raises_the_objective(divergence, n_classes):
    X, y, costs, costly = rows(n_classes)
    kind = DIVERGENCES[divergence]
    learner = LinearPairLearner(X, y, costs.bind(8), cost_penalty=0.003, divergence=kind)
    pair, fraction = learner.at(0.0, 0.0), 0.3
    probabilities = np.full(len(y), 0.2)
    values = [value_of(probabilities, pair, costly, divergence)]
    for _ in range(4):
        probabilities, _ = kind.probabilities(pair.cheap_loss - costly, pair.gate, fraction)
        values.append(value_of(probabilities, pair, costly, divergence))
        pair = learner.learn(probabilities, pair)
        values.append(value_of(probabilities, pair, costly, divergence))
    assert (np.diff(values) <= 1e-9).all()
    assert values[-1] < values[0] - 0.05


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_terms_are_those_of_the_definition(divergence):
    X, y, costs, costly = rows()
    learner = LinearPairLearner(X, y, costs.bind(8), cost_penalty=0.01, divergence=DIVERGENCES[divergence])
    done = alternate(learner, costly, 0.3, max_iter=3)
    assert done.terms.losses == pytest.approx(
        np.mean(done.probabilities * costly + (1 - done.probabilities) * done.learned.cheap_loss)
    )
    assert done.terms.total == pytest.approx(value_of(done.probabilities, done.learned, costly, divergence))
    assert done.terms.cost == done.learned.penalty > 0
    assert done.trace[-1] == pytest.approx(done.terms.total)


def test_without_costs_and_bounds_it_is_the_likelihood_of_a_mixture():
    """Property 2: turns are then EM for two experts, of which one is frozen."""
    X, y, costs, costly = rows()
    learner = LinearPairLearner(X, y, costs.bind(8), cost_penalty=0.0, l2_regularization=0.0)
    done = alternate(learner, costly, 1.0, max_iter=5)
    g = done.learned.gate
    mixture = -np.log(expit(g) * np.exp(-costly) + expit(-g) * np.exp(-done.learned.cheap_loss)).mean()
    assert done.terms.total == pytest.approx(mixture, abs=1e-9)
    assert done.beta == 0
    assert (np.diff(done.trace) <= 1e-9).all()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("cheap", ["boost", "linear"])
def test_soft_chances_are_a_mixture_of_both_models(n_classes, cheap):
    """Section 11: hard ones are those of the model that a row is sent to, soft ones sigma(g) p0 + sigma(-g) p1."""
    X, y, costs = problem(n_classes)
    model = at.AdaptiveClassifier(
        KNeighborsClassifier(), cheap=cheap, costs=costs, cost_penalty=0.01, gate="learned", n_init=1, **SMALL
    ).fit(X, y)
    first = at.losses.LINKS[model.plan_.link].transform(model.plan_.blocks[0].outputs(0, X))
    last = np.clip(model.costly_.predict_proba(X), 1e-12, 1)
    g = model.plan_.passes[1].block.outputs(0, X)
    assert_allclose(soft_proba(model, X), expit(g) * last + expit(-g) * first, atol=1e-9)
    assert_allclose(soft_proba(model, X).sum(axis=1), 1)
    hard = np.where(model.sent(X)[:, None], last, first)
    assert_allclose(model.predict_proba(X), hard, atol=1e-9)


def test_the_fraction_bounds_soft_decisions_and_the_threshold_hard_ones():
    """Section 11: the mean of q is bounded, not the share of rows that the gate sends; both are told."""
    X, y, costs, costly = rows()
    learner = LinearPairLearner(X, y, costs.bind(8), cost_penalty=0.003)
    done = alternate(learner, costly, 0.2, max_iter=10)
    assert done.probabilities.mean() <= 0.2 * (1 + 1e-12)  # a mean is rounded
    model = at.AdaptiveClassifier(
        GaussianNB(), costs=costs, cost_penalty=0.003, costly_fraction=0.2, **SMALL
    ).fit(X, y)
    assert model.costly_fraction_ == 0.2
    assert model.sent_ <= 0.2
    assert model.sent_ != model.costly_fraction_


def test_what_a_composite_did_with_each_row_can_be_read():
    """Section 11: route, mask and decision trace."""
    X, y, costs = problem()
    model = at.AdaptiveClassifier(KNeighborsClassifier(), costs=costs, cost_penalty=0.01, **SMALL).fit(X, y)
    before, cheap, whole = model.stages(X)
    sent = model.sent(X)
    assert (before.cost == 0).all()
    assert (whole.cost[sent] > cheap.cost[sent]).all()
    assert (whole.cost[~sent] == cheap.cost[~sent]).all()
    assert (whole.scores[~sent] == cheap.scores[~sent]).all()
    trace = at.Session(model).predict(X[np.argmax(sent)])
    assert trace.cost == whole.cost[np.argmax(sent)]
    assert set(trace.groups) == set(costs.names)
