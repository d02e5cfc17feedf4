"""The simulator: small examples worked out by hand, queueing theory, and controls that have to be late."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

import anytime as at
from anytime.serve.pace import StagePace, checkpoints_of
from anytime.serve.policy import Adaptive
from anytime.serve.simulate import Judge, SimulatedOutcome, bursts, largest_fixed, poisson, replay
from tests.cli.running import fails, run
from tests.serve.virtual import VirtualEngine
from tests.serve.virtual import replay as replay_engine

FOUR = StagePace([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0])  # a stage takes a second


# ---------------------------------------------------------------------- by hand


def test_two_arrivals_one_after_the_other() -> None:
    out = replay([0.0, 2.0], 4, FOUR, slo=5.0)
    np.testing.assert_array_equal(out.latency, [4.0, 6.0])
    np.testing.assert_array_equal(out.stage, [4, 4])
    assert out.within(5.0) == 0.5


def test_two_arrivals_share_the_time() -> None:
    """The first could have all stages by 4, but the second is read at 2; it may have come at 1, and is due at 6.

    Both can have three stages: the first at 3, when it is answered, the second at 6.
    """
    out = replay([0.0, 2.0], Adaptive(reserve=0.0), FOUR, slo=5.0)
    np.testing.assert_array_equal(out.latency, [3.0, 4.0])
    np.testing.assert_array_equal(out.stage, [3, 3])


def test_an_arrival_alone_gets_everything() -> None:
    out = replay([0.0, 100.0], Adaptive(reserve=0.5), FOUR, slo=5.0)
    np.testing.assert_array_equal(out.latency, [4.0, 4.0])
    np.testing.assert_array_equal(out.stage, [4, 4])


def test_reading_and_writing_take_their_time() -> None:
    pace = StagePace([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0], per_question=0.5)
    np.testing.assert_allclose(replay([0.0, 0.0], 1, pace, slo=9.0).latency, [1.5, 3.0])
    together = replay([0.0, 0.0], Adaptive(0.0), pace, slo=100.0)
    # both are read (2 x 0.25); the first takes four seconds and is written, then the second
    np.testing.assert_allclose(together.latency, [4.75, 9.0])


def test_what_fits_into_a_slice_is_evaluated_together() -> None:
    pace = StagePace([1], [1e-5], call=1e-4)
    np.testing.assert_allclose(replay([0.0, 0.0], Adaptive(0.0), pace, slo=1.0).latency, [1.2e-4, 1.2e-4])
    np.testing.assert_allclose(replay([0.0, 0.0], 1, pace, slo=1.0).latency, [1.1e-4, 2.2e-4])


def test_requests_of_several_rows_take_longer() -> None:
    out = replay([0.0, 0.0], 2, FOUR, slo=9.0, rows=[1, 3])
    np.testing.assert_array_equal(out.latency, [2.0, 8.0])


def test_more_than_there_is_time_for_gets_the_base_answer() -> None:
    """Three at once, a stage takes a second, and there is half a second: nobody is dropped, and nobody waits in vain."""
    out = replay(np.zeros(3), Adaptive(0.0), FOUR, slo=0.5)
    np.testing.assert_array_equal(out.stage, [0, 0, 0])
    np.testing.assert_array_equal(out.latency, [0.0, 0.0, 0.0])


def test_arrivals_have_to_be_in_order() -> None:
    with pytest.raises(ValueError, match="increasing"):
        replay([1.0, 0.0], 1, FOUR, slo=1.0)


@pytest.mark.parametrize("stage", [-1, 5])
def test_a_plain_server_goes_to_a_stage_that_there_is(stage: int) -> None:
    with pytest.raises(ValueError, match="between 0 and 4"):
        replay([0.0], stage, FOUR, slo=1.0)


# ---------------------------------------------------------------------- queueing theory


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_mean_wait_is_that_of_a_queue_with_fixed_service_times(load: float) -> None:
    """Pollaczek and Khinchine: in M/D/1 the mean wait is load x service / (2 (1 - load))."""
    service = 4.0
    times = poisson(load / service, 400_000, random_state=1)
    waits = replay(times, 4, FOUR, slo=None).latency - service
    means = np.array([part.mean() for part in np.array_split(waits, 40)])
    error = means.std(ddof=1) / np.sqrt(means.size)  # of the mean, from batches long enough to be independent
    assert waits.mean() == pytest.approx(load * service / (2 * (1 - load)), abs=4 * error)
    assert error < 0.05 * waits.mean()  # or the line above would say little


def test_workers_share_the_arrivals() -> None:
    """Two workers at twice the rate wait as long as one: random halves of a Poisson process are Poisson processes."""
    one = replay(poisson(0.1, 200_000), 4, FOUR, slo=None)
    two = replay(poisson(0.2, 200_000), 4, FOUR, slo=None, workers=2)
    assert two.latency.mean() == pytest.approx(one.latency.mean(), rel=0.05)


# ---------------------------------------------------------------------- overload


@pytest.fixture(scope="module")
def pace() -> StagePace:
    """A hundred stages of 20 microseconds: a row takes 2 ms, HTTP 0.1 ms more."""
    return StagePace(np.arange(1, 101), 20e-6 * np.arange(1, 101), call=20e-6, per_question=1e-4)


@pytest.mark.parametrize("load", [2.0, 5.0])
def test_under_overload_a_fixed_model_is_late_and_adaptive_budgets_are_not(
    pace: StagePace, load: float
) -> None:
    times = poisson(load / 2.1e-3, 2.0)
    late = replay(times, 100, pace, slo=0.010)
    adaptive = replay(times, Adaptive(2e-3), pace, slo=0.010)
    assert late.within(0.010) < 0.1  # the control: this load is too much
    assert adaptive.within(0.010) > 0.995
    assert 1 <= adaptive.stage.mean() < 100 / load  # paid for by stages, as many as there is time for
    assert adaptive.stage.mean() > 0.5 * 100 / load  # and time is not given away


def test_with_little_load_adaptive_budgets_are_the_whole_model(pace: StagePace) -> None:
    out = replay(poisson(20, 20.0), Adaptive(2e-3), pace, slo=0.010)
    assert (out.stage == 100).mean() > 0.99


def test_largest_fixed_is_the_last_that_keeps_up(pace: StagePace) -> None:
    rate, slo = 800.0, 0.010
    stage = largest_fixed(pace, rate, slo)
    assert stage is not None
    times = poisson(rate, 25.0)
    assert 10 < stage < 62  # 62 stages would take all the time there is
    assert replay(times, stage, pace, slo=slo).within(slo) >= 0.99
    assert replay(times, stage + 1, pace, slo=slo).within(slo) < 0.99
    assert largest_fixed(pace, 1e5, slo) is None  # none keeps up
    assert largest_fixed(pace, 1.0, slo) == 100  # all do


def test_bursts_keep_the_mean_rate() -> None:
    times = bursts(200, 400, factor=5, every=10, length=1)
    assert times.size == pytest.approx(80_000, abs=5 * np.sqrt(80_000))
    busy = (times + 5) % 10 < 1
    assert busy.mean() == pytest.approx(5 / 14, abs=0.01)
    with pytest.raises(ValueError, match="factor"):
        bursts(1, 1, factor=0.5)


@pytest.mark.parametrize("load", [0.5, 1.5, 4.0])
def test_the_simulator_does_what_the_engine_does(model: at.AnytimeClassifier, load: float) -> None:
    """Request by request: the real engine, on a clock that only its work moves."""
    stops = checkpoints_of(30)
    pace = StagePace(stops, 1e-4 * stops, call=5e-5)
    times = poisson(load / 3e-3, 0.6, random_state=3)
    policy = Adaptive(
        1.9371e-3
    )  # so that no moment of one grid is one of another, where rounding would decide
    expected = replay(times, policy, pace, slo=0.010)
    engine = VirtualEngine(model, StagePace(stops, 1e-4 * stops, call=5e-5), policy, slo=0.010)
    rows = np.random.default_rng(0).normal(size=(times.size, 1, 8))
    served = replay_engine(engine, [(t, x, {}) for t, x in zip(times, rows, strict=True)])
    np.testing.assert_array_equal([int(s.stage[0]) for s in served], expected.stage)
    # an answer is decided on before a slice of work and leaves after it, which the engine's own clock does not see
    waited = expected.latency - [s.elapsed for s in served]
    assert np.all((abs(waited) < 1e-9) | ((waited > 0) & (waited <= 1e-3)))
    assert np.mean(abs(waited) < 1e-9) > 0.9
    assert (expected.stage < 30).mean() > 0.5 or load < 2  # or there was nothing to decide


# ---------------------------------------------------------------------- what answers are worth


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(600, 8, n_informative=6, random_state=0)


@pytest.fixture(scope="module")
def model(data: tuple[np.ndarray, np.ndarray]) -> at.AnytimeClassifier:
    X, y = data
    forest = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X[:300], y[:300])
    return at.make_anytime(forest)


def test_answers_are_judged_at_their_own_stages(
    model: at.AnytimeClassifier, data: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = data[0][300:], data[1][300:]
    judge = Judge(model, [1, 5, 30], X, y)
    assert judge.quality_name == "accuracy"
    everything = SimulatedOutcome(np.zeros(300), np.full(300, 30))
    assert judge.quality(everything) == pytest.approx(model.score(X, y))
    assert judge.cost(everything) == pytest.approx(model.cost(X).mean())
    answers = {answer.stage: answer for answer in model.stages(X)}
    mixed = np.where(np.arange(600) % 2, 1, 5)  # rows are asked about in turn, twice each
    said = np.where(np.arange(300) % 2, answers[1].prediction, answers[5].prediction)
    paid = np.where(np.arange(300) % 2, answers[1].cost, answers[5].cost)
    outcome = SimulatedOutcome(np.zeros(600), mixed)
    assert judge.quality(outcome) == pytest.approx(np.mean(said == y))
    assert judge.cost(outcome) == pytest.approx(paid.mean())


def test_without_rows_the_plan_is_read(model: at.AnytimeClassifier) -> None:
    judge = Judge(model, [1, 30])
    outcome = SimulatedOutcome(np.zeros(2), np.array([0, 30]))
    assert judge.cost(outcome) == pytest.approx(model.stage_costs_[-1] / 2)
    assert judge.quality_name == "quality"


def test_numbers_are_judged_by_r2(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data[0], data[0][:, 0] * 2 + data[0][:, 1]
    regressor = at.make_anytime(GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, y))
    judge = Judge(regressor, [20], X, y)
    assert judge.quality_name == "R²"
    assert judge.quality(SimulatedOutcome(np.zeros(600), np.full(600, 20))) == pytest.approx(
        regressor.score(X, y)
    )


# ---------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, model: at.AnytimeClassifier, data: tuple[np.ndarray, np.ndarray]
) -> Path:
    path = tmp_path_factory.mktemp("simulate")
    model.save(path / "m.anytime")
    X, y = data
    table = pd.DataFrame(X[300:], columns=[f"x{j}" for j in range(8)]).assign(label=y[300:])
    table.to_csv(path / "rows.csv", index=False)
    times = poisson(1000, 1.0)[:300]
    table.iloc[: times.size].assign(arrival=times).to_csv(path / "log.csv", index=False)
    dates = pd.Timestamp("2026-01-01") + pd.to_timedelta(times, unit="s")
    pd.DataFrame({"when": dates}).to_csv(path / "dates.csv", index=False)
    return path


def table_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if " % " in line]


def test_command_compares_policies(folder: Path) -> None:
    options = ("--model", folder / "m.anytime", "--stage-us", 100, "--overhead-us", 100)
    out = run("simulate", folder / "log.csv", *options, "--target", "label", "--stage", 2).stdout
    lines = table_of(out)
    assert "x the capacity of the whole model" in out
    assert [line[0] for line in lines] == ["30", "7", "2", "adaptive"]
    assert "accuracy" in out
    full, adaptive = lines[0], lines[-1]
    within = [float(line[line.index("%") - 1]) for line in (full, adaptive)]
    assert within[0] < 50  # at three times the capacity
    assert within[1] > 99
    assert 0.5 < float(adaptive[-1]) <= 1


def test_command_says_which_model_keeps_up_if_one_does(folder: Path) -> None:
    options = ("--model", folder / "m.anytime", "--stage-us", 100, "--seconds", 0.5, "--rate")
    out = run("simulate", *options, 800).stdout
    assert "(keep up)" in out
    assert "(none keeps up)" not in out
    out = run("simulate", *options, 20_000).stdout
    assert "1 stage (none keeps up)" in out
    assert "(keep up)" not in out


def test_lines_of_a_log_may_come_in_any_order(folder: Path) -> None:
    """Requests that were answered with the rows of others would be judged otherwise."""
    log = pd.read_csv(folder / "log.csv")
    log.sample(frac=1.0, random_state=0).to_csv(folder / "shuffled.csv", index=False)
    options = ("--model", folder / "m.anytime", "--stage-us", 100, "--target", "label")
    assert run("simulate", folder / "shuffled.csv", *options).stdout == (
        run("simulate", folder / "log.csv", *options).stdout
    )


def test_command_takes_rates_bursts_and_dates(folder: Path) -> None:
    options = ("--model", folder / "m.anytime", "--stage-us", 10)
    out = run("simulate", *options, "--rate", 200, "--seconds", 2, "--burst", 4, "--workers", 2).stdout
    assert float(out.split(" a second")[0].split(", ")[-1]) == pytest.approx(200, rel=0.2)
    assert "2 workers" in out
    run("simulate", folder / "rows.csv", *options, "--rate", 100, "--seconds", 1, "-t", "label")
    quick = run("simulate", folder / "dates.csv", *options, "--time", "when", "--speed", 10).stdout
    assert "300 requests" in quick


def test_pace_is_measured_where_none_is_given(folder: Path) -> None:
    out = run("simulate", "--model", folder / "m.anytime", "--rate", 100, "--seconds", 1).stdout
    assert table_of(out)[-1][0] == "adaptive"


def test_command_says_what_is_missing(folder: Path) -> None:
    options = ("--model", folder / "m.anytime", "--stage-us", 10)
    assert "give a LOG of requests, or a --rate" in fails("simulate", *options, code=2)
    assert "no column 'arrival' or" in fails("simulate", folder / "rows.csv", *options, code=2)
    assert "the model has 30 stages" in fails("simulate", *options, "--rate", 9, "--stage", 31, code=2)
    assert "needs a LOG with that column" in fails("simulate", *options, "--rate", 9, "-t", "label", code=2)
