"""Sweeps: resumable, chosen on validation rows (adaptive_approximation 12, 13.4)."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.neighbors import KNeighborsClassifier

from anytime.adaptive import AdaptiveClassifier, LadderClassifier
from anytime.adaptive.boosted import BoostedPairLearner
from anytime.adaptive.choosing import Point
from anytime_research.adaptive.sweep import PRESETS, Sweep, SweepOutcome, sweep
from anytime_research.curves import prefix_precision

SETTINGS = [{"cost_penalty": g, "costly_fraction": p} for g in (0.01, 0.05, 0.2) for p in (0.1, 0.5)]


def rows():
    X, y = make_classification(900, 6, n_informative=5, n_redundant=0, random_state=0)
    return X[:500], y[:500], X[500:700], y[500:700], X[700:], y[700:]


def model(**settings):
    return AdaptiveClassifier(KNeighborsClassifier(), n_estimators=8, max_iter=1, random_state=0, **settings)


def points(found):
    return [(o.setting, o.objective, o.validation, o.test) for o in found.outcomes]


def test_points_are_what_a_fitted_model_comes_to():
    X, y, X_val, y_val, X_test, y_test = rows()
    found = sweep(model(), SETTINGS[:1], X, y, X_val, y_val, X_test, y_test)
    fitted = model(**SETTINGS[0]).fit(X, y, X_val=X_val, y_val=y_val)
    (outcome,) = found.outcomes
    at = next(
        k
        for k, p in enumerate(outcome.validation)
        if (p.threshold, p.doubt) == (fitted.threshold_, fitted.doubt_)
    )
    assert outcome.validation[at].cost == pytest.approx(fitted.cost(X_val).mean())
    assert outcome.validation[at].accuracy == pytest.approx(fitted.score(X_val, y_val))
    assert outcome.test[at].cost == pytest.approx(fitted.cost(X_test).mean())
    assert outcome.test[at].accuracy == pytest.approx(fitted.score(X_test, y_test))
    assert found.costly["test"].accuracy == pytest.approx(
        KNeighborsClassifier().fit(X, y).score(X_test, y_test)
    )
    assert found.costly["test"].cost == 6


def test_what_is_in_the_file_is_not_tried_again(tmp_path, monkeypatch):
    path = tmp_path / "sweep.jsonl"
    whole = sweep(model(), SETTINGS, *rows())
    first = sweep(model(), SETTINGS[:4], *rows(), path=path)
    path.write_bytes(path.read_bytes()[:-30])  # killed while the fourth was being written
    tried = []
    module = sys.modules["anytime_research.adaptive.sweep"]
    honest = module._outcome
    monkeypatch.setattr(module, "_outcome", lambda *a: tried.append(a[1]) or honest(*a))
    again = sweep(model(), SETTINGS, *rows(), path=path)
    assert tried == SETTINGS[3:]
    assert points(again) == points(whole)
    assert points(first) == points(whole)[:4]
    assert len(path.read_text().splitlines()) == 1 + len(SETTINGS)


def test_a_sweep_that_is_killed_loses_at_most_one_setting(tmp_path):
    path, grid = (
        tmp_path / "sweep.jsonl",
        [{"cost_penalty": 0.001 * k, "costly_fraction": 0.3} for k in range(1, 51)],
    )
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from anytime_research.adaptive import sweep
from test_sweep import model, rows
sweep(model(), {grid!r}, *rows(), path={str(path)!r})
"""
    running = subprocess.Popen([sys.executable, "-c", script])
    until = time.monotonic() + 60
    while time.monotonic() < until and (not path.exists() or path.read_bytes().count(b"\n") < 10):
        time.sleep(0.02)
    running.kill()
    running.wait()
    done = path.read_bytes().count(b"\n") - 1
    assert 9 <= done < 50
    found = sweep(model(), grid[: done + 1], *rows(), path=path)
    assert len(found.outcomes) == done + 1
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["setting"] for line in lines[1:]] == grid[: done + 1]  # in their order, none twice


def test_an_interrupt_leaves_the_outcomes_so_far(monkeypatch):
    module = sys.modules["anytime_research.adaptive.sweep"]
    honest, tried = module._outcome, []

    def impatient(*arguments):
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append(1)
        return honest(*arguments)

    monkeypatch.setattr(module, "_outcome", impatient)
    with pytest.warns(UserWarning, match="2 of 6 settings"):
        found = sweep(model(), SETTINGS, *rows())
    assert len(found.outcomes) == 2


def test_threads_and_order_do_not_matter():
    one = sweep(model(n_init=2), SETTINGS, *rows())
    two = sweep(model(n_init=2), SETTINGS[::-1], *rows(), n_jobs=2)
    assert points(one) == points(two)[::-1]


def test_a_file_of_another_sweep_is_refused(tmp_path):
    path = tmp_path / "sweep.jsonl"
    sweep(model(), SETTINGS[:1], *rows(), path=path)
    with pytest.raises(ValueError, match="other rows, prices or parameters"):
        sweep(model(learning_rate=0.3), SETTINGS[:1], *rows(), path=path)
    path.write_text("nonsense\n")
    with pytest.raises(ValueError, match="is no file of a sweep"):
        sweep(model(), SETTINGS[:1], *rows(), path=path)


def test_settings_of_one_gamma_begin_at_one_place(monkeypatch):
    begun, honest = [], BoostedPairLearner.start
    monkeypatch.setattr(
        BoostedPairLearner, "start", lambda self, r: begun.append(self.cost_penalty) or honest(self, r)
    )
    sweep(model(), SETTINGS, *rows())
    assert begun == [0.01, 0.05, 0.2]  # of six settings


def test_rankings_are_judged_by_their_first_five():
    """AP@5 of section 12 takes the place of accuracy, on validation and test rows."""
    X, y, X_val, y_val, X_test, y_test = rows()
    queries = np.repeat(np.arange(20), 10)

    def quality(y, probabilities):
        return prefix_precision(y, probabilities[:, 1], queries, relevant=1)

    found = sweep(model(), SETTINGS[:2], X, y, X_val, y_val, X_test, y_test, quality=(quality, quality))
    costly = KNeighborsClassifier().fit(X, y)
    assert found.costly["test"].accuracy == pytest.approx(quality(y_test, costly.predict_proba(X_test)))
    fitted = model(**SETTINGS[0]).fit(X, y, X_val=X_val, y_val=y_val)
    at = [
        k for k, p in enumerate(found.outcomes[0].validation)
        if (p.threshold, p.doubt) == (fitted.threshold_, fitted.doubt_)
    ]  # fmt: skip
    point = found.outcomes[0].test[at[0]]
    assert point.accuracy == pytest.approx(quality(y_test, fitted.predict_proba(X_test)))
    assert found.best(np.inf)[1].accuracy == max(
        p.accuracy for outcome in found.outcomes for p in outcome.validation
    )
    with pytest.raises(ValueError, match="one for test rows"):
        sweep(model(), SETTINGS[:1], *rows(), quality=quality)


# ---------------------------------------------------------------------- choosing


def made_up():
    """Costs and accuracies on validation and test rows."""
    validation = [Point(None, 0.80, 2.0, 0.0), Point(1.0, 0.90, 4.0, 0.1), Point(0.0, 0.895, 5.0, 0.2)]
    test = [Point(None, 0.79, 2.1, 0.0), Point(1.0, 0.88, 4.5, 0.1), Point(0.0, 0.97, 5.0, 0.2)]
    costly = {"validation": Point(-np.inf, 0.905, 10.0, 1.0), "test": Point(-np.inf, 0.9, 9.0, 1.0)}
    return Sweep([SweepOutcome({"cost_penalty": 1.0}, 0.5, validation, test)], costly)


def test_the_frontier_is_chosen_on_validation_rows_alone():
    frontier = made_up().frontier()
    assert [chosen.cost for _, chosen, _ in frontier] == [2.0, 4.0]  # not the point that test rows like best
    assert [worth.accuracy for *_, worth in frontier] == [0.79, 0.88]


def test_the_hull_leaves_out_what_a_mixture_beats():
    points = [Point(0.0, a, c, 0.0) for c, a in ((1.0, 0.5), (2.0, 0.6), (3.0, 0.9), (4.0, 0.91), (5.0, 1.0))]
    found = Sweep([SweepOutcome({}, 0.0, points, [])], {})
    assert [chosen.cost for _, chosen, _ in found.frontier()] == [1, 2, 3, 4, 5]
    assert [chosen.cost for _, chosen, _ in found.frontier(hull=True)] == [1, 3, 5]


def test_a_budget_buys_the_best_within_it():
    found = made_up()
    assert found.best(1.0) is None
    assert found.best(3.9)[1].cost == 2.0
    assert found.best(4.0)[1].cost == 4.0


def test_cost_reduction_within_a_tolerance():
    assert made_up().cost_reduction(0.01) == pytest.approx(1 - 4.5 / 9)
    assert made_up().cost_reduction(0.001) == 0.0
    assert made_up().cost_reduction(0.2) == pytest.approx(1 - 2.1 / 9)


def test_area_and_table():
    assert made_up().area() == pytest.approx((0.79 * 4 + 0.88 * 6) / 10)
    frame = made_up().to_frame()
    assert frame.test_cost.tolist() == [2.1, 4.5, 5.0]
    assert frame.cost_penalty.tolist() == [1.0] * 3


def test_a_plot_shows_the_frontier_as_test_rows_see_it():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    ax = made_up().plot(name="adaptive")
    (line,) = ax.get_lines()
    assert line.get_xydata().tolist() == [[2.1, 0.79], [4.5, 0.88]]
    behind, star = ax.collections
    assert len(behind.get_offsets()) == 3
    assert star.get_offsets().tolist() == [[9.0, 0.9]]
    assert made_up().plot(ax) is ax


@pytest.mark.parametrize(
    ("name", "fits", "trees"),
    [
        ("letters", 810, 500),
        ("miniboone", 1620, 100),
        ("forest", 1620, 500),
        ("yahoo", 2430, 100),
        ("cifar10", 1350, 200),
    ],
)
def test_presets_have_as_many_fits_as_the_thesis(name, fits, trees):
    """Section 6's table."""
    settings = PRESETS[name].settings(1000)
    assert len(settings) == fits
    assert {setting["n_estimators"] for setting in settings} == {trees}
    low, high, _ = PRESETS[name].cost_penalties
    cost_penalties = [1000 * setting["cost_penalty"] for setting in settings]
    assert (min(cost_penalties), max(cost_penalties)) == pytest.approx((low, high))
    fractions = sorted({setting["costly_fraction"] for setting in settings})
    assert fractions == pytest.approx(np.arange(1, 10) / 10)


def test_the_preset_of_linear_models_has_180_fits():
    """Section 5: 20 cost_penalties from 1e-4 to 1, nine fractions, 50 turns."""
    settings = PRESETS["letters, linear"].settings(12_000)
    assert len(settings) == 180
    cost_penalties = sorted({setting["cost_penalty"] for setting in settings})
    assert (cost_penalties[0], cost_penalties[-1], len(cost_penalties)) == pytest.approx((1e-4, 1.0, 20))
    assert {(setting["cheap"], setting["max_iter"]) for setting in settings} == {("linear", 50)}
    short = [{**setting, "max_iter": 2} for setting in settings[::90]]
    assert len(sweep(model(n_init=1), short, *rows()).outcomes) == 2


def test_a_ladder_has_no_gate_to_sweep():
    X, y, X_val, y_val = rows()[:4]
    with pytest.raises(TypeError, match="LadderClassifier has no gate"):
        sweep(LadderClassifier(), [{"cost_penalty": 0.1, "costly_fraction": 0.5}], X, y, X_val, y_val)
