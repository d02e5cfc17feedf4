"""EXP3.G and the learner of requests (adaptive_approximation 14 to 16)."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.online import RequestLearner, regret_upper_bound
from anytime.online.schedule import LearningSchedule
from anytime_research.online import (
    BernoulliEnvironment,
    Exp3G,
    ExpertRegret,
    FeedbackGraph,
    hard_environment,
    regret_lower_bound,
)


class Probabilities:
    """In place of a generator: numbers that are given."""

    def __init__(self, values):
        self.values = list(values)

    def random(self, n):
        taken, self.values = self.values[:n], self.values[n:]
        return np.array(taken)


def random_graph(rng, n_experts):
    shows = rng.random((n_experts, n_experts)) < 0.3
    shows[rng.integers(n_experts)] |= ~shows.any(axis=0)
    return FeedbackGraph(shows)


def plain_exp3g(losses, graphs, probability, rates):
    """Algorithm 6 as printed, with the draw by explorers first."""
    totals, played = np.zeros(losses.shape[1]), []
    for loss, graph, u, eta, gamma in zip(
        losses, graphs, probability, rates.learning, rates.exploration, strict=True
    ):
        q = np.exp(-eta * (totals - totals.min()))
        q /= q.sum()
        spread = np.zeros(q.size)
        spread[graph.explorers] = 1 / graph.explorers.size
        p = (1 - gamma) * q + gamma * spread
        if u < gamma:
            drawn = graph.explorers[int(u / gamma * graph.explorers.size)]
        else:
            drawn = int(np.searchsorted(np.cumsum(q), (u - gamma) / (1 - gamma), side="right"))
        for i in np.flatnonzero(graph.shows[drawn]):
            totals[i] += loss[i] / sum(p[j] for j in range(q.size) if graph.shows[j, i])
        played.append(drawn)
    return np.array(played), totals


# ---------------------------------------------------------------------- graphs


def test_a_graph_in_which_a_loss_is_never_seen_is_refused():
    with pytest.raises(ValueError, match=r"losses of the experts \[1\]"):
        FeedbackGraph([[True, False], [True, False]])
    with pytest.raises(ValueError, match="square"):
        FeedbackGraph([[True, False]])
    with pytest.raises(ValueError, match=r"do not show the losses of \[0, 2\]"):
        FeedbackGraph(np.eye(3), explorers=[1])


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_explorers_see_everyone_and_are_few(seed, n_experts):
    graph = random_graph(np.random.default_rng(seed), n_experts)
    assert graph.shows[graph.explorers].any(axis=0).all()
    smallest = next(
        size
        for size in range(1, n_experts + 1)
        for chosen in itertools.combinations(range(n_experts), size)
        if graph.shows[list(chosen)].any(axis=0).all()
    )
    assert graph.explorers.size <= (1 + np.log(n_experts)) * smallest


def test_figure_6_1_has_one_explorer_and_is_weakly_observable():
    graph = FeedbackGraph.requests([True, True, False, False])
    assert graph.explorers.tolist() == [0]
    assert graph.observability == "weak"
    np.testing.assert_allclose(graph.seeing([0.1, 0.2, 0.3, 0.4]), 0.3)
    assert FeedbackGraph.bandit(3).observability == FeedbackGraph.full(3).observability == "strong"


# ---------------------------------------------------------------------- rounds


@pytest.mark.parametrize("horizon", [300, None])
def test_native_rounds_are_those_of_the_printed_algorithm(horizon):
    rng = np.random.default_rng(1)
    graphs = [random_graph(rng, 5) for _ in range(300)]
    losses, probability = rng.random((300, 5)), rng.random(300)
    learner = Exp3G(graphs[0], horizon=horizon)
    learner.random = Probabilities(probability)
    rates = learner.schedule.rates(1, 300)
    played = learner.run(losses, graphs)
    expected, totals = plain_exp3g(losses, graphs, probability, rates)
    np.testing.assert_array_equal(played, expected)
    np.testing.assert_allclose(learner.totals, totals, rtol=1e-10)


@pytest.mark.parametrize("horizon", [200, None, "doubling"])
def test_one_round_at_a_time_is_the_same_as_many(horizon):
    rng = np.random.default_rng(2)
    graphs, losses = [random_graph(rng, 4) for _ in range(200)], rng.random((200, 4))
    many = Exp3G(graphs[0], horizon=horizon, random_state=3)
    single = Exp3G(graphs[0], horizon=horizon, random_state=3)
    played = []
    for graph, loss in zip(graphs, losses, strict=True):
        played.append(single.play(graph))
        single.learn(np.where(graph.shows[played[-1]], loss, np.nan))
    np.testing.assert_array_equal(many.run(losses, lambda t: graphs[t]), played)
    np.testing.assert_allclose(single.totals, many.totals, rtol=1e-9)


@pytest.mark.parametrize("horizon", [400, None, "doubling"])
def test_requests_one_at_a_time_are_the_same_as_many(horizon):
    rng = np.random.default_rng(4)
    asks, losses = _asks(rng, 400, 6), rng.random((400, 6))
    losses[asks] = 2.0
    make = {"evaluation_cost": 2.0, "horizon": horizon, "random_state": 5}
    many, single = RequestLearner(6, **make), RequestLearner(6, **make)
    decisions = many.run(asks, losses)
    for t in range(400):
        one = single.decide(asks[t : t + 1])
        single.learn(one, np.where(one.asked[:, None], losses[t : t + 1], np.nan))
        assert (one.played[0], one.asked[0]) == (decisions.played[t], decisions.asked[t])
    np.testing.assert_allclose(single.totals, many.totals, rtol=1e-9)


def test_the_learner_of_requests_is_exp3g_on_its_graph():
    rng = np.random.default_rng(6)
    asks, losses, probability = _asks(rng, 500, 5), rng.random((500, 5)), rng.random(500)
    losses[asks] = 0.4
    learner = RequestLearner(5, evaluation_cost=0.4, horizon=500)
    learner.random = Probabilities(probability)
    graphs = [FeedbackGraph.requests(row) for row in asks]
    expected, totals = plain_exp3g(losses, graphs, probability, learner.schedule.rates(1, 500))
    np.testing.assert_array_equal(learner.run(asks, losses).played, expected)
    np.testing.assert_allclose(learner.totals, totals, rtol=1e-10)


def _asks(rng, n, n_experts):
    asks = rng.random((n, n_experts)) < 0.3
    asks[:, -1] = True
    return asks


# ---------------------------------------------------------------------- estimates


def _skewed(learner, n_experts):
    """A learner in the middle of things, with uneven weights."""
    learner.totals = np.linspace(0, 2, n_experts) / learner.schedule.rates(1, 1).learning[0]
    return learner


@pytest.mark.parametrize("seed", range(5))
def test_estimates_of_exp3g_are_unbiased(seed):
    """The draw averaged over a fine grid of probabilities: E lhat = l, and E lhat^2 = l^2 / P."""
    rng = np.random.default_rng(seed)
    graph, losses = random_graph(rng, 5), rng.random((1, 5))
    grid = (np.arange(10_000) + 0.5) / 10_000
    start = _skewed(Exp3G(graph, horizon=100), 5)
    before, seeing = start.totals.copy(), graph.seeing(start.probabilities())
    estimates = np.empty((grid.size, 5))
    for row, probability in enumerate(grid):
        start.totals, start.random = before.copy(), Probabilities([probability])
        start.run(losses)
        estimates[row] = start.totals - before
    np.testing.assert_allclose(estimates.mean(axis=0), losses[0], atol=2e-3)
    np.testing.assert_allclose((estimates**2).mean(axis=0), losses[0] ** 2 / seeing, rtol=5e-3)


def test_estimates_of_requests_are_unbiased():
    """Monte Carlo, 200 000 decisions: within five standard errors; without the division they are not."""
    n, losses = 200_000, np.array([0.3, 1.0, 0.0, 0.2, 0.2])
    asks = np.tile([False, False, False, True, True], (n, 1))
    learner = RequestLearner(5, evaluation_cost=0.2, horizon=1000, random_state=0)
    decisions = _skewed(learner, 5).decide(asks)
    before = learner.totals.copy()
    learner.learn(decisions, np.tile(losses, (n, 1)))
    means = (learner.totals - before) / n
    probability = decisions.probability[0]
    error = losses * np.sqrt((1 / probability - 1) / n)
    assert (np.abs(means - losses) <= 5 * error + 1e-12).all()
    assert np.abs(means * probability - losses).max() > 50 * error.max()  # the negative control


def test_every_round_is_seen_with_at_least_the_exploration_rate():
    rng = np.random.default_rng(7)
    asks, losses = _asks(rng, 5000, 8), rng.random((5000, 8))
    learner = RequestLearner(8, evaluation_cost=1.0, horizon=5000, random_state=0)
    decisions = learner.run(asks, losses)
    gamma = learner.schedule.rates(1, 1).exploration[0]
    assert decisions.probability.min() >= gamma - 1e-15
    assert (decisions.probability <= 1).all()


def test_silent_rounds_change_no_weight_and_read_no_loss():
    rng = np.random.default_rng(8)
    learner = RequestLearner(4, evaluation_cost=0.5, horizon=300, random_state=1)
    silent = 0
    for _ in range(300):
        asks, before = _asks(rng, 1, 4), learner.totals.copy()
        decisions = learner.decide(asks)
        learner.learn(decisions, rng.random((1, 4)) if decisions.asked[0] else np.full((1, 4), np.nan))
        if not decisions.asked[0]:
            silent += 1
            np.testing.assert_array_equal(learner.totals, before)
        else:
            assert (learner.totals > before).all()
    assert silent > 50


def test_losses_that_are_not_shown_may_be_anything():
    rng = np.random.default_rng(9)
    asks, losses = _asks(rng, 500, 5), rng.random((500, 5))
    make = {"evaluation_cost": 1.0, "horizon": 500, "random_state": 2}
    decisions = RequestLearner(5, **make).run(asks, losses)
    assert 0 < decisions.asked.sum() < 500
    hidden = np.where(decisions.asked[:, None], losses, np.nan)
    np.testing.assert_array_equal(RequestLearner(5, **make).run(asks, hidden).played, decisions.played)
    shown = np.where(decisions.asked[:, None], np.nan, losses)
    learner = RequestLearner(5, **make)
    with pytest.raises(ValueError, match="shows a loss of nan"):
        learner.run(asks, shown)
    assert learner.n_rounds == 0
    assert not learner.totals.any()


def test_a_round_in_which_nobody_asks_is_refused():
    asks = np.array([[True, False], [False, False]])
    with pytest.raises(ValueError, match="no expert asks in round 1"):
        RequestLearner(2, evaluation_cost=1.0).run(asks, np.zeros((2, 2)))
    with pytest.raises(ValueError, match="questions are free"):
        RequestLearner(2, evaluation_cost=0.0)
    with pytest.raises(ValueError, match=r"expected \(n, 3\)"):
        RequestLearner(3, evaluation_cost=1.0).decide(asks)


# ---------------------------------------------------------------------- horizons


def test_doubling_restarts_at_powers_of_two():
    pace = LearningSchedule(np.log(5), "doubling", 1.0)
    starts = [part.start + 1 for part, restart in pace.stretches(0, 100) if restart]
    assert starts == [1, 2, 4, 8, 16, 32, 64]
    pieces = [part for done in range(0, 100, 7) for part, _ in pace.stretches(done, 7)]
    assert sum(part.stop - part.start for part in pieces) == 105
    known = LearningSchedule(np.log(5), 64, 1.0).rates(1, 1)
    np.testing.assert_array_equal(pace.rates(64, 64).exploration, known.exploration[0])
    assert pace.rates(63, 1).exploration[0] > known.exploration[0]
    learner = RequestLearner(3, evaluation_cost=1.0, horizon="doubling", random_state=0)
    asks = np.tile([False, False, True], (63, 1))
    learner.run(asks, np.ones((63, 3)))
    assert learner.totals.all()
    learner.run(asks[:1], np.zeros((1, 3)))  # round 64
    assert not learner.totals.any()


def test_a_horizon_too_short_to_learn_in_is_named():
    with pytest.warns(UserWarning, match=r"30 rounds are fewer than 34\.7"):
        learner = RequestLearner(4, evaluation_cost=0.2, horizon=30, random_state=0)
    asks = np.tile([False, False, False, True], (30, 1))
    assert learner.run(asks, np.zeros((30, 4))).asked.all()


@given(st.integers(0, 10**6), st.booleans())
def test_the_second_order_bound_of_hedge(seed, decreasing):
    """Regret at most log K / eta_T + sum eta_t / 2 sum_i q_t(i) l_t(i)^2, for losses from 0 on: both schedules rest on it."""
    rng = np.random.default_rng(seed)
    losses = rng.exponential(5.0, size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    etas = 0.5 * np.arange(1, 61) ** (-2 / 3) if decreasing else np.full(60, 0.05)
    totals, own, second = np.zeros(4), 0.0, 0.0
    for loss, eta in zip(losses, etas, strict=True):
        q = np.exp(-eta * (totals - totals.min()))
        q /= q.sum()
        own, second, totals = own + q @ loss, second + eta / 2 * (q @ loss**2), totals + loss
    assert own - totals.min() <= np.log(4) / etas[-1] + second + 1e-9


@pytest.mark.parametrize(("setting", "match"), [({"horizon": 0}, "horizon"), ({"horizon": "weekly"}, "horizon"),
    ({"learning_rate": 0.0}, "learning"), ({"exploration": 1.5}, "exploration")])  # fmt: skip
def test_impossible_settings_are_refused(setting, match):
    with pytest.raises(ValueError, match=match):
        RequestLearner(3, evaluation_cost=1.0, **setting)


# ---------------------------------------------------------------------- regret


def test_the_tracker_adds_up_in_any_pieces():
    rng = np.random.default_rng(10)
    losses, played = rng.random((50, 3)), rng.integers(3, size=50)
    whole, pieces = ExpertRegret().add(losses, played), ExpertRegret()
    for part in np.split(np.arange(50), [7, 7, 30]):
        pieces.add(losses[part], played[part])
    own = losses[np.arange(50), played].sum()
    assert whole.regret == pytest.approx(own - losses.sum(axis=0).min())
    assert whole.best == pieces.best == losses.sum(axis=0).argmin()
    assert pieces.regret == pytest.approx(whole.regret)
    np.testing.assert_allclose(pieces.curve, whole.curve)
    assert whole.curve[-1] == pytest.approx(whole.regret)
    with pytest.raises(ValueError, match="a loss is missing"):
        whole.add([[np.nan, 0, 0]], [0])


def _world(evaluation_cost, seed, n_experts=10):
    errors = np.full(n_experts, 0.5)
    errors[0] = 0.3
    return BernoulliEnvironment(
        errors, np.arange(n_experts) == n_experts - 1, evaluation_cost, random_state=seed
    )


@pytest.mark.parametrize(("evaluation_cost", "measured"), [(1.0, 215), (0.5, 132), (0.2, 42)])
def test_regret_is_below_the_bound_on_100_seeds(evaluation_cost, measured):
    """Section 15: K = 10, T = 1000; means over 10 runs of another implementation."""
    bound = regret_upper_bound(10, 1000, evaluation_cost)
    regrets = [
        _world(evaluation_cost, seed)
        .challenge(RequestLearner(10, evaluation_cost=evaluation_cost, horizon=1000, random_state=seed), 1000)
        .regret
        for seed in range(100)
    ]
    assert max(regrets) < bound
    assert np.mean(regrets) == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize("horizon", [None, "doubling"])
def test_regret_is_below_the_bound_on_100_seeds_without_a_horizon(horizon):
    bound = regret_upper_bound(10, 3000, 0.5, schedule="doubling" if horizon else "decreasing")
    for seed in range(100):
        learner = RequestLearner(10, evaluation_cost=0.5, horizon=horizon, random_state=seed)
        assert _world(0.5, seed).challenge(learner, 3000).regret < bound


def test_regret_is_below_the_bound_when_the_best_expert_changes_100_seeds():
    """Not only probability: the expert that is best in the first half is worst in the second."""
    n = 2000
    losses = np.full((n, 8), 0.5)
    losses[: n // 2, 0], losses[n // 2 :, 0] = 0.0, 1.0
    losses[: n // 2, 1], losses[n // 2 :, 1] = 0.7, 0.0
    losses[:, -1] = 0.4
    asks = np.tile(np.arange(8) == 7, (n, 1))
    regrets = [
        ExpertRegret().add(
            losses,
            RequestLearner(8, evaluation_cost=0.4, horizon=n, random_state=seed).run(asks, losses).played,
        )
        for seed in range(100)
    ]
    assert max(tracker.regret for tracker in regrets) < regret_upper_bound(8, n, 0.4)


def test_exp3g_lies_between_the_bounds_on_the_hard_experts():
    """Section 16: the mean over 100 runs, each against a best expert drawn at random."""
    n_experts, horizon, regrets, hidden = 20, 1000, [], []
    for seed in range(100):
        world = hard_environment(n_experts, horizon, random_state=seed)
        losses = world.losses(horizon)
        played = Exp3G(FeedbackGraph.requests(world.asks), horizon=horizon, random_state=seed).run(losses)
        regrets.append(ExpertRegret().add(losses, played).regret)
        hidden.append(world.expected_regret(played))
    error = np.std(hidden) / 10
    assert np.mean(hidden) - 3 * error > regret_lower_bound(n_experts, horizon)
    assert max(regrets) < regret_upper_bound(n_experts, horizon)


def test_hard_experts_are_as_described():
    world = hard_environment(6, 1000, best=2, random_state=0)
    losses = world.losses(200_000)
    assert world.asks.tolist() == [False] * 5 + [True]
    expected = np.array([0.5, 0.5, 0.5 - np.cbrt(np.log(5) / 16000), 0.5, 0.5, 1.0])
    np.testing.assert_allclose(losses.mean(axis=0), expected, atol=0.006)
    assert (losses[:, -1] == 1).all()
    with pytest.raises(ValueError, match="silent experts are 0 to 4"):
        hard_environment(6, 1000, best=5)


def test_a_hundred_thousand_rounds_of_16_experts_take_less_than_a_second():
    rng = np.random.default_rng(11)
    n = 100_000
    asks, losses = _asks(rng, n, 16), rng.random((n, 16))
    graphs = [random_graph(rng, 16) for _ in range(10)] * (n // 10)
    for run in (lambda: RequestLearner(16, evaluation_cost=0.5, random_state=0).run(asks, losses),
                lambda: Exp3G(graphs[0], random_state=0).run(losses, graphs)):  # fmt: skip
        began = time.process_time()
        run()
        assert time.process_time() - began < 1.0
