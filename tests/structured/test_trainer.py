"""Structured boosting: Algorithms 3.1, 3.3 and 7.1 on small chains and regions."""

import numpy as np
import pytest

import anytime as at
from anytime._native import coded_scores, coded_softmax_fit
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.ragged import Ragged, offsets_of
from anytime.structured import (
    WHOLE,
    BoostedTreesLearner,
    Chains,
    EntropySelector,
    LinearUpdateLearner,
    StructuredRules,
    StructuredSpeedBoost,
    TreeUpdateLearner,
)
from anytime.structured.beliefs import entropies
from anytime.structured.learners import FittedUpdate
from anytime.structured.predictors import LinearPredictor, coded_starts


def chains(n=60, seed=0, order=1):
    """Sequences of noisy elements whose labels come in runs of four."""
    random = np.random.default_rng(seed)
    lengths = 4 * random.integers(1, 4, n)
    truth = [np.repeat(random.integers(0, 3, length // 4), 4) for length in lengths]
    flat = np.concatenate(truth)
    noisy = np.where(random.random(flat.size) < 0.3, random.integers(0, 3, flat.size), flat)
    table = np.column_stack([noisy, random.normal(size=flat.size), flat + random.normal(size=flat.size)])
    structures = Chains(table, offsets_of(lengths), [3, 0, 0], order=order)
    return structures, np.eye(3)[flat], flat


def trainer(structures, truth, learners=None, selectors=None, prices=(1.0, 1.0, 5.0), seed=0, **rules):
    return StructuredSpeedBoost(
        structures,
        truth,
        np.ones(len(truth)),
        at.FeatureCosts(list(prices)).bind(3),
        selectors or [EntropySelector(), EntropySelector(threshold=0.5)],
        learners
        or [TreeUpdateLearner(max_leaf_nodes=4, min_samples_leaf=5, cost_penalty=p) for p in (0.0, 0.1)],
        StructuredRules(**rules),
        seed=seed,
    )


@pytest.mark.parametrize(
    "rules",
    [{}, {"cost_aware": False}, {"folds": 3}, {"folds": 3, "copies_are_told": "own"}, {"holdout": 0.2}],
    ids=str,
)
def test_training_objective_never_rises(rules):
    """speedboost_and_structured 5, P1."""
    structures, truth, _ = chains()
    learned = trainer(structures, truth, **rules)
    values = [learned.value, *(step.value for step in learned.run(8))]
    assert len(values) > 5
    assert (np.diff(values) <= 1e-12).all()
    assert values[-1] == pytest.approx(learned._main.loss.value(learned.scores))


@pytest.mark.parametrize("rules", [{}, {"folds": 3}, {"folds": 3, "copies_are_told": "own"}], ids=str)
def test_training_objective_never_rises_where_stages_replace_the_scores(rules):
    """P1: a linear stage is fitted with a penalty and by few passes, and takes the place of a better one only in part."""
    structures, truth, _ = chains()
    learner = LinearUpdateLearner(growth=0.5, epochs=1, learning_rate=0.5)
    learned = trainer(structures, truth, [learner], [EntropySelector()], **rules)
    values = [learned.value, *(step.value for step in learned.run(12))]
    assert len(values) > 3
    assert (np.diff(values) <= 1e-12).all()


class Worse:
    """Scores of the truth with so much noise that they are worse than the prior, though on the right side."""

    def fit(self, task):
        columns = np.array([2], dtype=np.int32)
        predictor = LinearPredictor(
            columns, [], [0], np.array([[-9.0, 0.0, 9.0]]), np.array([6.0, 3.0, -6.0])
        )
        return FittedUpdate(predictor, predictor.outputs(task.table.features[:, columns]), replaces=True)


def test_scores_that_are_worse_are_taken_in_part():
    """P1 with stages that replace; the negative control: taken whole they would raise the objective."""
    structures, truth, _ = chains()
    learned = trainer(structures, truth, [Worse()], [EntropySelector()])
    before = learned.value
    (step,) = learned.run(1)
    assert learned._main.loss.value(learned.scores / step.update.step) > before
    assert 0 < step.update.step < 1
    assert step.value < before
    run = Run(plan_of(learned), structures)
    run.advance()
    np.testing.assert_allclose(run.scores().values, learned.scores, atol=1e-9)
    assert learned.run(1) == []  # what buys nothing has to be better as a whole


def test_prediction_repeats_what_training_added_up():
    """Without copies, context in training is what the model says itself."""
    structures, truth, _ = chains()
    learned = trainer(structures, truth)
    learned.run(10)
    run = Run(plan_of(learned), structures)
    run.advance()
    np.testing.assert_allclose(run.scores().values, learned.scores, atol=1e-9)


def plan_of(learned):
    block = learned.block()
    replaces = np.array([update.replaces for update in block.updates])
    return Plan(blocks=[block], costs=learned.costs, base=learned.base, link="softmax", replaces=replaces)


def boosted(**settings):
    return BoostedTreesLearner(
        **{
            "n_estimators": 3,
            "max_leaf_nodes": 4,
            "min_samples_leaf": 5,
            "max_samples": 100,
            "max_features": 0.7,
            **settings,
        }
    )


@pytest.mark.parametrize("folds", [0, 3])
def test_stages_of_several_trees_lower_the_loss_step_by_step(folds):
    """P1; and outputs of the joined trees are those that were added up in training."""
    structures, truth, _ = chains()
    learned = trainer(
        structures,
        truth,
        [boosted(), boosted(cost_penalty=0.01)],
        folds=folds,
        holdout=0.2,
        judged_elements=200,
    )
    steps = learned.run(10)
    assert (np.diff([step.value for step in steps]) < 0).all()
    assert all(step.update.step <= 0.2 for step in steps)
    assert all(step.update.predictor.tree.forest.n_trees == 3 for step in steps)
    if not folds:
        run = Run(plan_of(learned), structures)
        run.advance()
        np.testing.assert_allclose(run.scores().values, learned.scores, atol=1e-9)


@pytest.mark.parametrize("folds", [0, 3])
def test_first_stages_have_few_trees_and_later_ones_as_many_as_all_before(folds):
    """The first answer comes early; later stages are long, so that they read the context less often."""
    structures, truth, _ = chains()
    learner = boosted(n_estimators=7, first_estimators=2)
    learned = trainer(structures, truth, [learner], folds=folds)
    sizes = [step.update.predictor.tree.forest.n_trees for step in learned.run(6)]
    assert sizes == [2, 2, 4, 7, 7, 7]
    for copy in learned.copies:
        assert [update.predictor.tree.forest.n_trees for update in copy] == sizes


def test_stages_of_few_trees_go_as_far_as_those_of_many():
    """All stages may go equally far: the fewer trees, the longer each one's step, up to Newton's own."""
    structures, truth, _ = chains()

    def longest(**settings):
        by_stage = {}

        class Spy:
            def fit(self, task):
                fitted = boosted(**settings).fit(task)
                by_stage[task.n_before] = fitted.longest
                return fitted

        trainer(structures, truth, [Spy()]).run(4)
        return list(by_stage.values())

    assert longest(n_estimators=8, first_estimators=2, learning_rate=0.1) == [0.4, 0.4, 0.2, 0.1]
    assert longest(n_estimators=8, first_estimators=2, learning_rate=0.5) == [1.0, 1.0, 1.0, 0.5]
    # all have as many trees: none takes a longer step
    assert longest(n_estimators=8, learning_rate=0.1) == [0.1] * 4


def test_newton_steps_of_regions_are_those_of_their_elements():
    """First and second derivatives of a region are sums over its elements, by finite differences of the loss."""
    structures, truth, _ = chains(20)
    rng = np.random.default_rng(0)
    tasks = []

    class Spy:
        def fit(self, task):
            tasks.append(task)

    learned = trainer(structures, truth, [Spy()], [EntropySelector()])
    learned.step()
    task = tasks[0]
    which, outputs = np.array([3, 5, 8]), 0.3 * rng.standard_normal((3, 3))
    _, first, second = task.derivatives(which, outputs, 2.0)
    for i, k in ((0, 0), (1, 2), (2, 1)):
        shift = np.zeros((3, 3))
        shift[i, k] = 1e-4
        up, at, down = (task.derivatives(which, outputs + s * shift, 2.0)[0] for s in (1, 0, -1))
        assert first[i, k] == pytest.approx((up - down) / 2e-4, rel=1e-4)
        assert second[i, k] == pytest.approx(1.5 * (up - 2 * at + down) / 1e-8, rel=1e-2)


def test_groups_stay_together():
    """Frames of a video: no fold and no held-out part splits a group, and folds are of about equal size."""
    structures, truth, _ = chains()
    groups = np.arange(60) // 7
    learned = StructuredSpeedBoost(
        structures,
        truth,
        np.ones(len(truth)),
        at.FeatureCosts([1.0, 1.0, 5.0]).bind(3),
        [EntropySelector()],
        [boosted()],
        StructuredRules(folds=3, holdout=0.25),
        groups=groups,
    )
    fold = learned._in_fold[structures.offsets[:-1]]
    split = learned._split(0)
    for group in range(9):
        assert np.unique(fold[groups == group]).size == 1
        assert np.unique(split[groups == group]).size == 1
    assert np.bincount(fold).min() >= 14
    assert 14 <= np.sum(~split) <= 21
    with pytest.raises(ValueError, match="3 folds need as many groups, but there are 2"):
        StructuredSpeedBoost(
            structures, truth, np.ones(len(truth)), learned.costs, [EntropySelector()], [boosted()],
            StructuredRules(folds=3), groups=np.arange(60) // 30,
        )  # fmt: skip


def test_costs_telescope():
    """speedboost_and_structured 5, P17: with all selected, conditional costs sum to the prices of what is used."""
    structures, truth, _ = chains()
    learned = trainer(structures, truth, selectors=[EntropySelector()], evaluation_cost=0.25)
    steps = learned.run(12)
    used = np.unique(np.concatenate([step.update.predictor.columns for step in steps]))
    prices = np.array([1.0, 1.0, 5.0])
    assert sum(step.cost for step in steps) == pytest.approx(prices[used].sum() + 0.25 * len(steps))


def test_cost_greedy_buys_the_dear_column_later_than_the_cost_blind_rule():
    structures, truth, _ = chains()
    first = {}
    for aware in (True, False):
        learners = [TreeUpdateLearner(max_leaf_nodes=4, min_samples_leaf=5, use_context=False)]
        learners += [TreeUpdateLearner(max_leaf_nodes=4, min_samples_leaf=5, cost_penalty=5.0)]
        steps = trainer(structures, truth, learners, prices=(50.0, 1.0, 1.0), cost_aware=aware).run(6)
        first[aware] = next((t for t, step in enumerate(steps) if 0 in step.update.predictor.columns), 99)
    assert first[True] > first[False]


def test_context_tells_what_neighbours_are_taken_for():
    """Labels come in runs: told those of its neighbours, an element is wrong by a third less often."""
    error = {}
    for order in (0, 1):
        structures, truth, _ = chains(200, order=order)
        new, _, y = chains(200, seed=1, order=order)
        learned = trainer(structures, truth, [LinearUpdateLearner(growth=1.0)], [EntropySelector()], folds=3)
        learned.run(4)
        run = Run(plan_of(learned), new)
        run.advance()
        error[order] = np.mean(run.scores().values.argmax(axis=1) != y)
    assert error[1] < 0.67 * error[0]


def test_a_copy_does_not_know_the_labels_of_its_fold():
    """speedboost_and_structured 5, P24, as printed in Algorithm 3.3: with structures chosen independently, own context."""
    structures, truth, _ = chains()
    fold = trainer(structures, truth, folds=3)._in_fold
    other = truth.copy()
    other[fold == 0] = np.random.default_rng(5).permutation(other[fold == 0])
    steps = {}
    for name, labels in (("as they are", truth), ("permuted", other)):
        learned = trainer(structures, labels, folds=3, stacking="independent", copies_are_told="own")
        learned.run(4)
        steps[name] = learned
    unchanged, changed = (np.array_equal(*(steps[name]._copies[k].scores for name in steps)) for k in (0, 1))
    assert unchanged
    assert not changed


def test_a_shared_choice_lets_labels_of_a_fold_in():
    """The negative control of P24: which selector and learner copies use is the main predictor's choice."""
    structures, truth, _ = chains()
    learned = trainer(structures, truth, folds=3)
    learned.run(3)
    main = [update.selector for update in learned.block().updates]
    assert all([update.selector for update in copy] == main for copy in learned.copies)


def test_raising_the_threshold_shrinks_the_selection():
    """speedboost_and_structured 5, P21."""
    structures, _, _ = chains()
    random = np.random.default_rng(0)
    probabilities = LINKS["softmax"].transform(3 * random.normal(size=(structures.n_elements, 3)))
    sizes = []
    for threshold in (0.0, 0.2, 0.5, 0.8, np.log(3)):
        selected = EntropySelector(threshold=threshold).select(structures, probabilities)
        assert (entropies(probabilities)[selected] > threshold).all()
        sizes.append(selected.size)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == structures.n_elements > sizes[2] > sizes[-1] == 0


def test_whole_structures_are_selected_together():
    structures, _, _ = chains()
    random = np.random.default_rng(0)
    probabilities = LINKS["softmax"].transform(3 * random.normal(size=(structures.n_elements, 3)))
    selected = EntropySelector(threshold=0.5, measured_at=WHOLE).select(structures, probabilities)
    chosen = np.zeros(structures.n_elements, dtype=bool)
    chosen[selected] = True
    ragged = Ragged(chosen, structures.offsets)
    mean = ragged.mean(entropies(probabilities))
    assert 0 < selected.size < chosen.size
    for part, entropy in zip(ragged.parts(), mean, strict=True):
        assert part.all() if entropy > 0.5 else not part.any()


def test_unselected_structures_stay_as_they_were_and_pay_nothing():
    """speedboost_and_structured 5, P18 and P21."""
    structures, truth, _ = chains()
    selector = EntropySelector(threshold=0.4, measured_at=WHOLE)
    learned = trainer(structures, truth, selectors=[selector])
    steps = learned.run(6)
    assert 0 < steps[-1].selected < 1
    run = Run(plan_of(learned), structures, metered=True)
    for stage in range(1, len(steps) + 1):
        before, paid = run.scores().copy(), run.ledger.paid.copy()
        probabilities = LINKS["softmax"].transform(before.values)
        selected = before.mean(entropies(probabilities)) > 0.4
        run.advance(stage)
        moved = (run.scores().values != before.values).any(axis=1)
        assert not moved[~selected[before.owner]].any()
        assert moved[selected[before.owner]].all()  # the negative control
        assert (run.ledger.paid == paid)[~selected].all()
    assert (run.ledger.paid <= run.plan.stage_ticks[-1]).all()


def test_a_batch_in_parts_gives_the_same_bits():
    structures, truth, _ = chains()
    learned = trainer(structures, truth)
    learned.run(6)
    whole = Run(plan_of(learned), structures)
    whole.advance()
    parts = []
    for rows in (np.arange(0, 13), np.arange(13, 60)):
        run = Run(plan_of(learned), structures[rows])
        run.advance()
        parts.append(run.scores().values)
    np.testing.assert_array_equal(np.concatenate(parts), whole.scores().values)


def test_stages_that_replace_the_scores_are_forward_stacking():
    """speedboost_and_structured 4.7, Algorithm 3.2, against the obvious loops: layers, folds, held-out outputs."""
    structures, truth, y = chains(30)
    context_categories = structures.context_categories(3)
    learned = trainer(
        structures, truth, [LinearUpdateLearner(growth=100.0, epochs=3)], [EntropySelector()], folds=3, seed=4
    )
    learned.run(3)
    bought = [update.predictor.columns.tolist() for update in learned.block().updates]
    fold = learned._in_fold

    def layer(number, told, used):
        """Outputs on all elements of a model of those that are used."""
        X = np.hstack([structures.table[:, bought[number]], structures.context(0, told)])
        own = np.array([3, 0, 0])[bought[number]]
        categories = np.concatenate([own, context_categories]).astype(np.int32)
        numbers = np.flatnonzero(own == 0)
        scale = np.ones(X.shape[1])
        scale[numbers] = np.sqrt((X[used][:, numbers] ** 2).mean(axis=0))
        starts, n_rows = coded_starts(categories)
        weights, bias = np.zeros((n_rows, 3), dtype=np.float32), np.zeros(3, dtype=np.float32)
        coded_softmax_fit(
            X / scale, categories, starts, np.ones(scale.size), np.zeros((len(y), 3)), y.astype(np.int32), used.astype(float),
            weights, bias, 3, 0.1, 1.0, 4 + 7919 * number,
        )  # fmt: skip
        return coded_scores(X / scale, categories, starts, weights, bias, 1)

    def layers(are_held_out):
        told = np.full((len(y), 3), 1 / 3)
        for number in range(3):
            main = layer(number, told, np.ones(len(y), dtype=bool))
            held_out = np.empty_like(main)
            for k in range(3):
                held_out[fold == k] = layer(number, told, fold != k)[fold == k]
            told = LINKS["softmax"].transform(held_out if are_held_out else main)
        return main, held_out

    main, held_out = layers(are_held_out=True)
    np.testing.assert_allclose(learned.scores, main, atol=1e-4)
    np.testing.assert_allclose(learned.held_out_scores(), held_out, atol=1e-4)
    # the negative control: layers that are told what a layer says of the examples that it has learned from
    assert np.abs(learned.scores - layers(are_held_out=False)[0]).max() > 0.1
