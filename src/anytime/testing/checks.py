"""The invariants of anytime prediction, each as one function whose name is the sentence it checks."""

import pickle
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from anytime._compat import rows_of
from anytime.costs import FeatureCosts
from anytime.engine import Run
from anytime.ragged import Ragged

__all__ = ["check_anytime_estimator"]

Check = Callable[[Any, NDArray[Any]], None]


def check_anytime_estimator(
    estimator: Any, X: Any = None, y: Any = None, *, on_fail: str = "raise"
) -> list[tuple[str, Exception | None]]:
    """Check all invariants of anytime prediction on an estimator.

    Among them: a budget is a cap on what every row pays, by either meter; and a mean budget holds on new rows within sampling
    noise: four standard errors of a mean that a fifth as many rows have measured, and the share of costs so rare that few rows
    show them.

    Parameters
    ----------
    estimator : estimator
        An anytime model. A fitted one is checked as it is and needs ``X``; an unfitted one is cloned and fitted, on ``X, y`` or
        on a small generated problem.
    X, y : (n, d) and (n,), default=None
        Or structures and the labels of their elements, which are then required.
    on_fail : {"raise", None}, default="raise"
        None: continue after a failure and report all.

    Returns
    -------
    list of (str, Exception or None)
        Each check's name and how it failed.

    Raises
    ------
    AssertionError
        When an invariant does not hold, with the invariant's name.
    """
    fitted = hasattr(estimator, "plan_")
    if fitted and X is None:
        raise ValueError("a fitted estimator is checked on data: give X")
    new = X
    if not fitted:
        if X is None and _labels_elements(estimator):
            raise ValueError("a model of structures is checked on data: give X and y")
        if X is None:
            (X, y), (new, _) = (_problem(is_classifier(estimator), seed) for seed in (0, 1))
        with _unchanged(X, y):
            model = clone(estimator).fit(X, y)
            _reject_chance(model, clone(estimator).fit(X, y), X)
    else:
        model = estimator
    results: list[tuple[str, Exception | None]] = []
    for check in CHECKS:
        name = check.__name__
        try:
            check(model, new if check is a_mean_budget_holds_on_new_rows else X)
        except Exception as error:
            if on_fail == "raise":
                raise AssertionError(
                    f"{type(estimator).__name__}: it is not true that {name}: {error}"
                ) from error
            results.append((name, error))
        else:
            results.append((name, None))
    return results


# ---------------------------------------------------------------------- cost


def cost_never_exceeds_the_budget(model: Any, X: Any) -> None:
    for budget in _budgets(model):
        for meter in ("model", "realised"):
            for cost in (
                _with(model, meter=meter).cost(X, budget),
                _with(model, meter=meter, budget=budget).cost(X),
            ):
                assert (cost <= budget).all(), f"meter={meter!r}, budget={budget!r}"


def a_mean_budget_holds_on_new_rows(model: Any, X: Any) -> None:
    plan, n = model.plan_, len(X)
    listed = [ticks[:: max(1, ticks.size // 8)] for ticks in (plan.mean_ticks, plan.policy_ticks)]
    means = plan.costs.costs.amounts(np.concatenate(listed))
    for budget in [0.0, *means.tolist(), *(0.7 * means).tolist()]:
        for meter in ("model", "realised"):
            answer = _with(model, meter=meter).answer(X, mean_budget=budget)
            if plan.stop_table is not None and plan.policy_ticks[0] <= model.costs_.budget_ticks(budget):
                # the mean of a call is kept exactly
                assert np.sum(answer.cost) <= budget * n * (1 + 1e-9), f"mean_budget={budget!r}"
                continue
            # Bernstein's inequality: a deviation by spread, and one by costs so rare that few rows show them
            noise = 4 * np.std(answer.cost) * np.sqrt(6 / n) + 2 * float(np.max(answer.model_cost)) / n
            assert np.mean(answer.cost) <= budget * (1 + 1e-9) + noise, f"mean_budget={budget!r}"
            furthest = plan.affordable_on_average(model.costs_.budget_ticks(budget))
            assert ((answer.stage <= furthest) | (np.asarray(answer.branch) >= 0)).all()


def realised_cost_never_exceeds_model_cost(model: Any, X: Any) -> None:
    for answer in model.stages(X):
        assert (answer.cost <= answer.model_cost).all(), f"stage {answer.stage}"


def cost_and_answer_report_the_same_bill(model: Any, X: Any) -> None:
    for budget in _budgets(model):
        answer = model.answer(X, budget=budget)
        _assert_same(model.cost(X, budget=budget), answer.cost, err_msg=f"budget {budget!r}")
        _assert_same(model.predict(X, budget=budget), answer.prediction, err_msg=f"budget {budget!r}")


def costs_along_a_trace_never_decrease(model: Any, X: Any) -> None:
    assert (np.diff(model.stage_costs_) >= 0).all(), "stage_costs_ falls"
    paid = np.array([answer.cost for answer in model.stages(X)])
    assert (np.diff(paid, axis=0) >= 0).all(), "a row's cost falls"
    assert (paid[0] == 0).all(), "the answer before the first stage is not free"


def a_group_is_paid_once_and_its_requirements_with_it(model: Any, X: Any) -> None:
    run = Run(model.plan_, model._checked(X), metered=True)
    run.advance()
    assert run.ledger is not None
    bought = run.ledger.bought
    bound = model.plan_.costs
    features = np.where(bought, bound.prices, 0).sum(axis=1)
    assert (run.ledger.paid >= features).all(), "a group was bought and not paid"
    most = features + model.plan_.evaluation_ticks.sum()
    assert (run.ledger.paid <= most).all(), "a group was paid more than once"
    for g in range(bound.n_groups):
        owners = bought[:, g]
        assert bought[owners][:, bound.table.closure(g)].all(), (
            f"{bound.costs.names[g]!r} without what it requires"
        )


def the_order_of_groups_covers_what_is_bought(model: Any, X: Any) -> None:
    assert len(set(model.order_)) == len(model.order_), "a group stands twice in order_"
    *_, last = model.stages(X)
    assert set(last.groups) <= set(model.order_), "a row bought a group that order_ does not name"
    place = {name: i for i, name in enumerate(model.order_)}
    for name in model.order_:
        for needed in model.costs_.requires.get(name, ()):
            assert place[needed] < place[name], f"{needed!r} comes after {name!r}, which requires it"


# ---------------------------------------------------------------------- answers


def an_unlimited_budget_gives_the_full_prediction(model: Any, X: Any) -> None:
    model = _with(model, budget=None)
    full = _outputs(model, X)
    _assert_same(_outputs(model, X, budget=np.inf), full)
    _assert_same(_outputs(model, X, budget=model.costs_.total + float(np.sum(model.stage_costs_[-1:]))), full)
    _assert_same(_outputs(model, X, deadline=3600.0), full)
    *_, last = model.stages(X)
    _assert_same(last.scores, model.answer(X).scores)
    _assert_same(last.prediction, model.predict(X))


def a_prediction_is_the_trace_read_at_its_budget(model: Any, X: Any) -> None:
    trace = list(model.stages(X))
    scores = [answer.scores for answer in trace]
    paid = np.array([answer.cost for answer in trace])
    for budget in _budgets(model):
        by_model = _with(model, meter="model")
        stage = int(np.searchsorted(model.stage_costs_, min(budget, model.plan_.limit), side="right"))
        interruptible = by_model.answer(X, budget=budget, deadline=3600.0)
        _assert_same(
            interruptible.prediction, trace[stage].prediction, err_msg=f"deadline, budget {budget!r}"
        )
        within = by_model.answer(X, budget=budget)
        branch, stages = model.plan_.choice(model.costs_.budget_ticks(budget))
        if branch >= 0:
            run = Run(model.plan_.branches[branch], model._checked(X))
            run.advance()
            expected = run.scores()
        else:
            expected = scores[stages]
        _assert_same(within.scores, expected, err_msg=f"model meter, known budget {budget!r}")
        by_row = _with(model, meter="realised").answer(X, budget=budget)
        assert (by_row.cost <= budget * (1 + 1e-12)).all(), (
            f"realised meter, budget {budget!r}: a row paid more"
        )
        # what rows buy depends on the budget: they leave the chain to use it up
        if model.plan_.bounded_blocks:
            continue
        # the last stage that a row has paid for; stages after an unaffordable one are not reached
        reached = np.cumprod(paid <= budget, axis=0).sum(axis=0) - 1
        expected = _read_at(scores, reached)
        _assert_same(by_row.scores, expected, err_msg=f"realised meter, budget {budget!r}")


def an_answer_depends_only_on_what_was_bought(model: Any, X: Any) -> None:
    checked = model._checked(X)
    for budget in _budgets(model):
        ticks = model.costs_.budget_ticks(budget)
        run = Run(model.plan_, checked, metered=True)
        run.advance(budget=ticks)
        assert run.ledger is not None
        other = _with_other_values(checked, ~run.ledger.bought[:, model.plan_.costs.column_group])
        again = Run(model.plan_, other, metered=True)
        again.advance(budget=ticks)
        _assert_same(again.scores(), run.scores(), err_msg=f"budget {budget!r}")


def growing_budgets_end_where_the_last_one_alone_does(model: Any, X: Any) -> None:
    checked = model._checked(X)
    budgets = sorted(model.costs_.budget_ticks(budget) for budget in _budgets(model))[:-1]
    growing, direct = (Run(model.plan_, checked, metered=True) for _ in range(2))
    for budget in budgets:
        growing.advance(budget=budget)
    direct.advance(budget=budgets[-1])
    _assert_same(growing.scores(), direct.scores())


def prediction_does_not_change_its_input(model: Any, X: Any) -> None:
    with _unchanged(X):
        model.predict(X, budget=_budgets(model)[-1])
        model.cost(X)
        list(model.stages(X))


def a_set_stop_flag_and_a_past_deadline_leave_the_free_answer(model: Any, X: Any) -> None:
    free = model.answer(X, budget=0.0)
    stop = threading.Event()
    stop.set()
    _assert_same(model.answer(X, stop=stop).stage, 0)
    _assert_same(model.answer(X, deadline=0.0).stage, 0)
    if (free.stage == 0).all():
        stopped = model.answer(X, stop=stop).scores
        # as its elements are shown: a picture may not be cut into regions yet
        if isinstance(stopped, Ragged):
            for part, expected in zip(stopped.parts(), free.scores.parts(), strict=True):
                _assert_same(part, expected)
        else:
            _assert_same(stopped, free.scores)


def a_budget_per_row_equals_separate_calls(model: Any, X: Any) -> None:
    checked = model._checked(X)
    budgets = np.resize(_budgets(model), len(checked))
    together = _outputs(model, X, budget=budgets)
    for budget in np.unique(budgets):
        rows = budgets == budget
        _assert_same(together[rows], _outputs(model, X, budget=budget)[rows])


def a_budget_of_zero_and_a_deadline_of_zero_give_a_valid_answer(model: Any, X: Any) -> None:
    for bounds in ({"budget": 0.0}, {"deadline": 0.0}):
        values = _outputs(model, X, **bounds)
        numbers = values.values if isinstance(values, Ragged) else values
        assert np.isfinite(numbers).all(), f"{bounds} gives {numbers[~np.isfinite(numbers)][:3]}"
        assert len(model.predict(X, **bounds)) == len(values)


def interrupt_then_resume_equals_uninterrupted(model: Any, X: Any) -> None:
    checked = model._checked(X)
    whole = Run(model.plan_, checked, metered=True)
    whole.advance()
    random = np.random.default_rng(0)
    pieces = Run(model.plan_, checked, metered=True)
    while not pieces.complete.all():
        pieces.advance(deadline=0.0)  # long past: may do nothing, must break nothing
        pieces = pickle.loads(pickle.dumps(pieces))
        ahead = random.integers(0, max(2, model.plan_.n_stages // 3), size=len(checked)) + 1
        pieces.advance(np.minimum(pieces.done + ahead, model.plan_.n_stages))
    _assert_same(pieces.scores(), whole.scores())
    assert whole.ledger is not None
    assert pieces.ledger is not None
    _assert_same(pieces.ledger.paid, whole.ledger.paid)


def one_row_at_a_time_gives_the_same(model: Any, X: Any) -> None:
    # a model that encodes categories takes rows as the user has them
    rows = (
        model._checked(X)[:20]
        if model._reads_rows_as_they_are
        else (X[:20] if isinstance(X, list) else np.asarray(X)[:20])
    )
    for budget in [None, *_budgets(model)[:4]]:
        expected = model.predict(X, budget=budget)[:20]
        for x, value in zip(rows, expected, strict=True):
            x = x if _labels_elements(model) else np.ascontiguousarray(x)
            _assert_same(model.predict_one(x, budget=budget), value)


def the_number_of_threads_does_not_matter(model: Any, X: Any) -> None:
    n_rows = 200 if _labels_elements(model) else 3000  # few rows would not be shared out at all
    many = rows_of(X, np.arange(n_rows) % len(X))
    for budget in [None, *_budgets(model)[1:4]]:
        one, two = (_outputs(_with(model, n_jobs=n), many, budget=budget) for n in (1, 2))
        _assert_same(one, two, err_msg=f"budget {budget!r}")


# ---------------------------------------------------------------------- derived models


def a_truncated_model_never_spends_more_and_answers_alike(model: Any, X: Any) -> None:
    for budget in _budgets(model):
        for meter in ("model", "realised"):
            whole = _with(model, meter=meter, budget=None)
            small = whole.truncate(budget)
            assert (small.cost(X) <= budget).all(), f"budget {budget!r}"
            _assert_same(_outputs(small, X), _outputs(whole, X, budget=budget))


def a_pickled_model_answers_alike(model: Any, X: Any) -> None:
    copied = pickle.loads(pickle.dumps(_with(model, budget=_budgets(model)[1])))
    _assert_same(_outputs(copied, X), _outputs(model, X, budget=_budgets(model)[1]))


def a_saved_model_is_loaded_bit_for_bit(model: Any, X: Any) -> None:
    from anytime.files import load

    with tempfile.TemporaryDirectory() as folder:
        path = _saved(model, folder)
        if path is None:
            return
        loaded = load(path)
    if getattr(loaded, "detached_", None):
        loaded.attach(model.costly_)
    for before, after in zip(model.stages(X), loaded.stages(X), strict=True):
        _assert_same(after.scores, before.scores)
        _assert_same(after.cost, before.cost)
        _assert_same(after.prediction, before.prediction)


def a_damaged_file_raises_the_documented_error(model: Any, X: Any) -> None:
    from anytime.files import BadFileError, load

    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = _saved(model, folder)
        if path is None:
            return
        content = path.read_bytes()
        for _ in range(20):
            cut, flip = random.integers(0, len(content), size=2)
            mutated = bytearray(content)
            mutated[flip] ^= 1 << int(random.integers(8))
            for damaged in (content[:cut], bytes(mutated)):
                path.write_bytes(damaged)
                try:
                    load(path)
                except BadFileError:
                    continue
                raise AssertionError(f"a file cut at byte {cut} or changed at byte {flip} was accepted")


def wrong_bounds_are_refused(model: Any, X: Any) -> None:
    amounts: list[dict[str, Any]] = [
        {name: amount} for name in ("budget", "mean_budget") for amount in (-1.0, np.nan)
    ]
    for bounds in (*amounts, {"deadline": -1.0}, {"budget": [1.0]}):
        if bounds == {"budget": [1.0]} and len(X) == 1:
            continue
        try:
            model.predict(X, **bounds)
        except ValueError:
            continue
        raise AssertionError(f"{bounds} was accepted")


CHECKS: list[Check] = [
    prediction_does_not_change_its_input,
    cost_never_exceeds_the_budget,
    a_mean_budget_holds_on_new_rows,
    realised_cost_never_exceeds_model_cost,
    cost_and_answer_report_the_same_bill,
    costs_along_a_trace_never_decrease,
    a_group_is_paid_once_and_its_requirements_with_it,
    the_order_of_groups_covers_what_is_bought,
    an_unlimited_budget_gives_the_full_prediction,
    a_prediction_is_the_trace_read_at_its_budget,
    an_answer_depends_only_on_what_was_bought,
    growing_budgets_end_where_the_last_one_alone_does,
    a_set_stop_flag_and_a_past_deadline_leave_the_free_answer,
    a_budget_per_row_equals_separate_calls,
    a_budget_of_zero_and_a_deadline_of_zero_give_a_valid_answer,
    interrupt_then_resume_equals_uninterrupted,
    one_row_at_a_time_gives_the_same,
    the_number_of_threads_does_not_matter,
    a_truncated_model_never_spends_more_and_answers_alike,
    a_pickled_model_answers_alike,
    a_saved_model_is_loaded_bit_for_bit,
    a_damaged_file_raises_the_documented_error,
    wrong_bounds_are_refused,
]


# ---------------------------------------------------------------------- helpers


def _problem(classification: bool, seed: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(150, 6))
    signal = X[:, 0] + X[:, 1] * X[:, 2] - X[:, 3]
    return X, (signal > 0).astype(int) if classification else signal


def _with(model: Any, **parameters: Any) -> Any:
    """The same fitted model with other constructor parameters and no mean budget; the original stays as it was."""
    import copy

    other = copy.copy(model).set_params(**parameters)
    other.mean_budget = None
    return other


def _budgets(model: Any) -> list[float]:
    """Budgets at, just below and between the model's stage costs, and beyond."""
    costs = np.unique(model.stage_costs_)
    chosen = costs[np.unique(np.linspace(0, costs.size - 1, 5).astype(int))] if costs.size else costs
    total: FeatureCosts = model.costs_
    near = [chosen * (1 - 1e-12), chosen, chosen * 0.7]  # a budget a few roundings below a cost pays it
    return [0.0, *np.unique(np.concatenate(near)).tolist(), total.total * 1.5 + 1.0]


def _labels_elements(model: Any) -> bool:
    """Whether examples are structures with many labels each."""
    return bool(getattr(model, "labels_elements", False))


def _assert_same(actual: Any, expected: Any, err_msg: str = "") -> None:
    """``assert_array_equal``, also for what has one array per structure."""
    if isinstance(actual, Ragged):
        assert_array_equal(actual.offsets, expected.offsets, err_msg=err_msg)
        actual, expected = actual.values, expected.values
    if isinstance(actual, list) and isinstance(expected, list):
        assert len(actual) == len(expected), err_msg
        for one, other in zip(actual, expected, strict=True):
            assert_array_equal(one, other, err_msg=err_msg)
        return
    assert_array_equal(actual, expected, err_msg=err_msg)


def _read_at(scores: list[Any], reached: NDArray[np.intp]) -> Any:
    """The scores of each row after the stage that it has reached."""
    if not isinstance(scores[0], Ragged):
        return np.array(scores)[reached, np.arange(reached.size)]
    return Ragged.joined([scores[stage][[i]] for i, stage in enumerate(reached)])


def _with_other_values(X: Any, cells: NDArray[np.bool_]) -> Any:
    """The same rows with other values in some columns of each; structures whose features are no table as they are."""
    if isinstance(X, np.ndarray):
        other = X.copy()
        other[cells] = 1e6
        return other
    if hasattr(X, "table"):
        other = X.take(np.arange(len(X)))
        other.table[np.repeat(cells, np.diff(X.offsets), axis=0)] = 1e6
        return other
    return X


def _outputs(model: Any, X: Any, **bounds: Any) -> Any:
    """(n, C) probabilities or (n, K) values; those of elements of each structure, where examples are that."""
    answer = model.predict_proba if is_classifier(model) else model.predict
    values = answer(X, **bounds)
    if _labels_elements(model):
        return Ragged.of(values)
    return np.asarray(values)


def _saved(model: Any, folder: str) -> Path | None:
    """The model's file, or None if it holds what no file can: a user's own class, a Python function."""
    path = Path(folder) / "model.anytime"
    try:
        model.save(path)
    except TypeError:
        return None
    return path


def _reject_chance(model: Any, twin: Any, X: Any) -> None:
    """With a fixed ``random_state``, or none to fix, two fits on the same data give the same bits."""
    if getattr(model, "random_state", 0) is not None:
        _assert_same(_outputs(twin, X), _outputs(model, X), err_msg="two fits differ")


class _unchanged:  # noqa: N801  # read as a word: with _unchanged(X, y)
    """Assert that arrays are the same after as before."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        self.before = [pickle.dumps(array) for array in arrays]

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            same = all(pickle.dumps(a) == b for a, b in zip(self.arrays, self.before, strict=True))
            assert same, "fit changed its inputs"
