"""SequenceLabeler: forms of input, budgets, deadlines, files, and what is refused."""

import pickle
import time
import warnings

import numpy as np
import pytest

import anytime as at
from anytime.structured import StructuredSpeedBoost
from anytime.testing import check_anytime_estimator

WORDS = {"D": ["the", "a", "some"], "N": ["dog", "cat", "tree", "fish"], "V": ["runs", "fish", "sleeps"]}


def sentences(n=120, seed=0):
    """Determiners, nouns and verbs in turn; "fish" is a noun or a verb, as the word before it says."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = ["D", "N", "V"] * int(random.integers(1, 3))
        tags = tags[int(random.integers(0, 2)) :]
        words = [str(random.choice(WORDS[tag])) for tag in tags]
        X.append([{"word": w, "last": w[-1], "length": len(w)} for w in words])
        y.append(tags)
    return X, y


@pytest.fixture(scope="module")
def data():
    return (*sentences(), *sentences(seed=1))


@pytest.fixture(scope="module")
def model(data):
    X, y, _, _ = data
    costs = {"word": 3.0, "last": 1.0, "length": 1.0}
    return at.SequenceLabeler(costs=costs, folds=3, random_state=0).fit(X, y)


def test_labels_come_as_one_array_per_sentence(model, data):
    _, _, X, y = data
    said = model.predict(X)
    assert [len(s) for s in said] == [len(s) for s in y]
    assert model.score(X, y) > 0.95
    assert model.score(X, y) == np.mean(np.concatenate(said) == np.concatenate(y))
    for part in model.predict_proba(X):
        np.testing.assert_allclose(part.sum(axis=1), 1.0)
    assert model.predict_one(X[0]).tolist() == said[0].tolist()


def test_a_neighbour_tells_a_noun_from_a_verb(data):
    """Without context the same word is always the same class: the negative control."""
    X, y, X_new, y_new = data
    alone = at.SequenceLabeler(context=0, folds=3, random_state=0).fit(X, y)
    together = at.SequenceLabeler(context=1, folds=3, random_state=0).fit(X, y)
    assert together.score(X_new, y_new) == 1.0
    assert alone.score(X_new, y_new) < 0.97


def test_a_budget_is_a_cap_per_element(model, data):
    _, _, X, y = data
    for budget in (0, 1, 2, 4, 5, None):
        cost = model.cost(X, budget=budget)
        assert (cost <= (5 if budget is None else budget)).all()
    assert model.score(X, y, budget=0) < model.score(X, y, budget=5)
    small = model.truncate(budget=2)
    assert [p.tolist() for p in small.predict(X)] == [p.tolist() for p in model.predict(X, budget=2)]
    assert set(model.order_) <= {"word", "last", "length"}


def test_every_prefix_and_the_curve(model, data):
    _, _, X, _ = data
    answers = list(model.stages(X))
    assert len(answers) == model.n_stages_ + 1
    assert [p.tolist() for p in answers[-1].prediction] == [p.tolist() for p in model.predict(X)]
    assert len(answers[0].confidence) == len(X)
    answer = model.answer(X, deadline=0.0)
    assert np.all(answer.stage == 0)
    assert answer.reason == "deadline"


def test_a_deadline_that_is_far_gives_the_same_bits(model, data):
    _, _, X, _ = data
    for a, b in zip(model.predict_proba(X, deadline=60), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_saved_equals_loaded(model, data, tmp_path):
    _, _, X, _ = data
    model.save(tmp_path / "tags.anytime")
    loaded = at.load(tmp_path / "tags.anytime")
    for a, b in zip(loaded.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.stage_costs_.tolist() == model.stage_costs_.tolist()


@pytest.mark.parametrize("learner", ["linear", "trees", "both"])
def test_rows_of_numbers(learner, tmp_path):
    random = np.random.default_rng(0)
    y = [np.repeat(random.integers(0, 2, 3), 3) for _ in range(80)]
    X = [np.column_stack([labels + random.normal(size=9), random.normal(size=9)]) for labels in y]
    model = at.SequenceLabeler(learner=learner, folds=2, max_stages=6, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7
    assert model.predict(X)[0].dtype == y[0].dtype
    model.save(tmp_path / "rows.anytime")
    loaded = at.load(tmp_path / "rows.anytime")
    for a, b in zip(loaded.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_empty_and_very_long_sentences(model, data):
    _, _, X, _ = data
    long = [token for sentence in X for token in sentence] * 30
    said = model.predict([[], long[:10_000], []])
    assert [len(s) for s in said] == [0, 10_000, 0]
    assert model.predict([]) == []
    assert model.predict([[]])[0].shape == (0,)
    assert model.cost([[], X[0]]).shape == (2,)


def test_what_training_has_not_seen_is_passed_over(model):
    dog = {"word": "dog", "last": "g", "length": 3}
    known, unknown = model.predict([[dog], [{**dog, "colour": "red", "shape": 3}]])
    assert known.tolist() == unknown.tolist()
    assert model.predict([[{"word": "zebra"}, {"length": None}, {"last": None}]])[0].shape == (3,)


def without(sentence, *names):
    return [{name: value for name, value in element.items() if name not in names} for element in sentence]


def test_a_feature_that_a_sentence_lacks_is_not_paid_for(model, data):
    """The rule of ``anytime.rows``: stages that read it are left out for that sentence, and only for that one."""
    _, _, X, _ = data
    mixed = [X[0], without(X[1], "word"), [], X[2]]
    with pytest.warns(UserWarning, match="column 'word' is missing"):
        answer = model.answer(mixed)
    assert answer.reason == "groups"
    assert answer.cost[1] <= 2 < 3 <= answer.cost[0] == answer.cost[3]
    for i, sentence in ((0, X[0]), (3, X[2])):
        np.testing.assert_array_equal(answer.scores.parts()[i], model.decision_function([sentence])[0])
    with pytest.warns(UserWarning, match="'word'"):
        alone = model.answer([without(X[1], "word")])
    assert "word" not in alone.groups
    assert alone.cost.tolist() == [answer.cost[1]]
    with pytest.warns(UserWarning, match="are missing"):
        nothing = model.answer([[{}, {}]])
    assert nothing.cost.tolist() == [0.0]
    # a value that is known to be missing is no missing feature
    complete = model.answer([[{**element, "word": None} for element in X[0]]])
    assert complete.reason == "complete"


def test_what_a_sentence_pays_does_not_depend_on_the_others_of_its_batch(data):
    """``BoundCosts.ledger``: a feature that is there needs no other that is not, also where other sentences have it."""
    X, y, X_new, _ = data
    costs = at.FeatureCosts({"word": 3.0, "last": 1.0, "length": 1.0}, requires={"last": ["word"]})
    model = at.SequenceLabeler(costs=costs, learner="trees", max_stages=3, folds=2, random_state=0).fit(X, y)
    assert any("last" in stage.groups and "word" not in stage.groups for stage in model.plan_)
    mixed = [X_new[0], without(X_new[1], "word"), without(X_new[2], "length"), without(X_new[3], "word")]
    for meter, budget in (("model", None), ("realised", None), ("realised", 1.0), ("realised", 4.0)):
        model.set_params(meter=meter)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            together = model.answer(mixed, budget=budget)
            every = [model.answer([sentence], budget=budget) for sentence in mixed]
        assert together.cost.tolist() == [alone.cost[0] for alone in every]
        for part, alone in zip(together.scores.parts(), every, strict=True):
            np.testing.assert_array_equal(part, alone.scores.parts()[0])
    assert together.cost.tolist() == [4.0, 1.0, 4.0, 1.0]


def test_a_sentence_without_any_known_feature_is_refused(model, data, tmp_path):
    model.save(tmp_path / "tags.anytime")
    for fitted in (model, at.load(tmp_path / "tags.anytime")):
        with pytest.raises(
            ValueError, match="sentence 1 is known: the model has no 'wrod'; did you mean 'word'"
        ):
            fitted.predict([data[2][0], [{"wrod": "dog"}]])


def test_a_feature_that_training_did_without_as_well_is_a_missing_value(data, tmp_path):
    X, y, _, _ = data
    some = [without(x, "length") if i % 2 else x for i, x in enumerate(X)]
    model = at.SequenceLabeler(folds=2, random_state=0).fit(some, y)
    assert "length" in model.order_ or not model.order_  # it is bought like others
    answer = model.answer(some)
    assert answer.reason == "complete"
    model.save(tmp_path / "tags.anytime")
    assert at.load(tmp_path / "tags.anytime").answer(some).cost.tolist() == answer.cost.tolist()


def test_elements_without_a_label_are_not_learned_from(data):
    X, y, _, _ = data
    some = [[None if i % 3 == 2 else label for i, label in enumerate(labels)] for labels in y]
    model = at.SequenceLabeler(folds=2, random_state=0).fit(X, some)
    assert set(model.classes_) == {"D", "N", "V"}
    assert model.score(X, some) > 0.9


def test_labels_outside_the_classes_are_wrong(model, data):
    _, _, X, y = data
    assert model.score(X, [["other"] * len(labels) for labels in y]) == 0.0


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("the dog", ["D"], "X must be a list of sentences"),
        (["the dog"], [["D", "N"]], "sentence 0 is a str"),
        ([[{"w": "a"}]], [["D", "N"]], "sentence 0 has 1 elements"),
        ([[{"w": "a"}], [{"w": "b"}]], [["D"]], "X has 2 sentences but y has 1"),
        ([[{"w": "a"}]], ["D"], "give one label each"),
        ([[{"w": ["a"]}], []], [["D"], []], "feature 'w' is a list"),
        ([[{"w": "a"}], [3]], [["D"], ["N"]], "sentence 1 holds a int among dicts"),
        ([[], []], [[], []], "every sentence is empty"),
        ([[{"w": "a"}], [{"w": "b"}]], [["D"], ["D"]], "at least two classes"),
        ([[{"w": "a"}], [{"w": "b"}]], [[None], [None]], "no element has a label"),
        ([[{}], [{}]], [["D"], ["N"]], "every dict is empty"),
        ([[[1.0, 2.0]], [[1.0]]], [["D"], ["N"]], "sentence 1 has shape"),
        ([[{"w": "a"}]], [["D"]], "at least two classes"),
        (
            [[{"w": "a"}], [{"w": "b"}]],
            None,
            "y must be a list with the labels of each sentence, not NoneType",
        ),
        ([[{"w": "a"}], [{"w": "b"}]], [["D"], [1]], "some labels are strings, but one is 1"),
        ([[{"w": "a"}], [{"w": "b"}]], [["D"], [float("nan")]], "some labels are strings, but one is nan"),
        ([[{"w": "a"}], [{"w": "b"}]], [[0.5], [1.5]], "labels must be strings or whole numbers"),
        ([[{"w": "a"}], [{"w": "b"}]], [[["D"]], ["N"]], "some labels are strings, but one is"),
        ([[{"w": "a"}] * 2, [{"w": "b"}]], [["D", "N"], [None]], "only one structure has labels"),
        ([[{1: "a"}], [{1: "b"}]], [["D"], ["N"]], "the name of a feature is a string, not 1"),
        ([[{"n": float("inf")}], [{"n": 1.0}]], [["D"], ["N"]], "feature 'n' is infinite"),
        ([[{"n": 10**400}], [{"n": 1.0}]], [["D"], ["N"]], "feature 'n' holds numbers, but here it is 1000"),
        ([[{"n": np.zeros(2)}], [{"n": 1.0}]], [["D"], ["N"]], "feature 'n' is a ndarray"),
        ([[[np.inf]], [[1.0]]], [["D"], ["N"]], "sentence 0 holds an infinite number"),
        ([None, [{"w": "b"}]], [["D"], ["N"]], "sentence 0 is a NoneType"),
        ([[None], [{"w": "b"}]], [["D"], ["N"]], "an element of a sentence is a dict of features or a row"),
        ([], [], "every sentence is empty"),
    ],
)
def test_bad_input_is_told_in_one_sentence(X, y, message):
    with pytest.raises(ValueError, match=message):
        at.SequenceLabeler(folds=2).fit(X, y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("learner", ["linear", "trees"])
def test_nan_is_a_missing_value(learner):
    """A string or a number that is NaN counts as one that is not there; a column may hold nothing else."""
    nan = float("nan")
    X = [[{"w": "a", "n": nan}, {"w": nan, "n": 1.0}], [{"w": "b", "n": nan, "m": nan}], [{"w": "a"}]]
    y = [["D", "N"], ["N"], ["D"]]
    model = at.SequenceLabeler(folds=2, learner=learner, max_stages=3, random_state=0).fit(X, y)
    without = [[{k: v for k, v in element.items() if v == v} for element in sentence] for sentence in X]
    for a, b in zip(model.predict_proba(X), model.predict_proba(without), strict=True):
        np.testing.assert_array_equal(a, b)
    rows = [np.array([[nan, 1.0], [1.0, 2.0]]), np.array([[2.0, nan]]), np.full((1, 2), nan)]
    model = at.SequenceLabeler(folds=2, learner=learner, max_stages=3, random_state=0).fit(rows, y)
    assert all(np.isfinite(p).all() for p in model.predict_proba(rows))


def test_very_long_and_empty_sentences_in_training(data):
    X, y, X_new, y_new = data
    long = [element for sentence in X for element in sentence] * 30, [t for labels in y for t in labels] * 30
    X_all, y_all = [[], long[0][:10_000], *X[:40], []], [[], long[1][:10_000], *y[:40], []]
    model = at.SequenceLabeler(folds=2, max_stages=3, random_state=0).fit(X_all, y_all)
    assert model.score(X_new, y_new) > 0.9


def test_labels_in_two_sentences_are_enough(data):
    """Copies are spread so that each sees one of them, whatever the draw."""
    X, y, _, _ = data
    some = [labels if i in (3, 70) else [None] * len(labels) for i, labels in enumerate(y)]
    for seed in range(3):
        model = at.SequenceLabeler(folds=2, max_stages=2, random_state=seed).fit(X, some)
        assert model.score(X, y) > 0.3


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "X must be a list of sentences, not NoneType"),
        ([None], "sentence 0 is a NoneType"),
        ([[{"length": "three"}]], "feature 'length' holds numbers, but here it is 'three'"),
        ([[[1.0, 2.0]]], "sentence 0 holds a list, not a dict of features"),
    ],
)
def test_bad_input_of_predict_is_told_in_one_sentence(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.predict(X)


def test_names_that_are_no_strings_are_passed_over_when_predicting(model):
    dog = {"word": "dog", "last": "g", "length": 3}
    plain, more = model.predict_proba([[dog], [{**dog, 1: "a", None: "b"}]])
    np.testing.assert_array_equal(plain, more)


def test_there_is_nothing_to_score_without_labels(model, data):
    _, _, X, y = data
    nothing = [[None] * len(labels) for labels in y]
    with pytest.raises(ValueError, match="no element has a label"):
        model.score(X, nothing)
    with pytest.raises(ValueError, match="no element has a label"):
        at.curve(model, X, nothing)
    with pytest.raises(ValueError, match="y must be a list with the labels"):
        model.score(X, None)
    assert at.curve(model, X, [["other"] * len(labels) for labels in y]).values.max() == 0.0


def test_labels_that_are_no_chunks_have_no_chunk_f1(model, data):
    _, _, X, y = data
    with pytest.raises(ValueError, match="labels of the forms B-x, I-x and O; 'D' has none of these forms"):
        at.curve(model, X, y, metric="chunk_f1")


def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(data):
    X, y, _, _ = data
    models = [at.SequenceLabeler(folds=2, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    for a, b in zip(*(m.predict_proba(X) for m in models), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_time_budget_that_ends_training_is_told(data):
    X, y, _, _ = data
    with pytest.warns(UserWarning, match=r"time_budget=0.001 ended training: the model has 1 of 60 stages"):
        model = at.SequenceLabeler(folds=2, random_state=0, time_budget=1e-3).fit(X, y)
    assert model.score(X, y) > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a model that time has not ended is no cause for a warning
        at.SequenceLabeler(folds=2, random_state=0, max_stages=2, time_budget=100).fit(X, y)


def test_too_many_sentences_for_the_time_are_drawn_from():
    """Reading takes a second or so, and one stage of all sentences many times as long as the time budget."""
    random = np.random.default_rng(0)
    y = [random.integers(0, 30, 20) for _ in range(2000)]
    X = [labels[:, None] + random.normal(size=(20, 60)) for labels in y]
    began = time.process_time()
    with pytest.warns(UserWarning, match=r"time_budget=0.5 .*left time for \d+ of 2000 sentences"):
        model = at.SequenceLabeler(time_budget=0.5, random_state=0).fit(X, y)
    assert time.process_time() - began < 1.1 * 0.5 + 1
    assert model.n_stages_ >= 1
    assert len(model.classes_) == 30


def test_the_curve_judges_elements(model, data):
    _, _, X, y = data
    curve = at.curve(model, X, y)
    assert curve.at(2) == model.score(X, y, budget=2)
    assert curve.values[-1] == model.score(X, y)
    assert at.curve(model, X, y, metric="balanced_accuracy").values[-1] > 0.9
    band = at.curve(model, X, y, bootstrap=20, random_state=0).band
    assert (band[0] <= band[1]).all()
    some = [[None if i == 0 else label for i, label in enumerate(labels)] for labels in y]
    assert at.curve(model, X, some).values[-1] == model.score(X, some)


def test_chunks_are_counted_as_conll_counts_them():
    """Ends and kind have to be right; an I after an O, or of another kind, starts a chunk."""
    truth = [["B-NP", "I-NP", "O", "B-VP"], ["I-NP", "I-NP", "B-NP", "I-VP"], []]
    assert at.curves.chunk_f1(truth, truth) == 1.0
    said = [["B-NP", "O", "O", "B-VP"], ["B-NP", "I-NP", "I-NP", "I-VP"], []]
    # truth: NP 0-1, VP 3 | NP 0-1, NP 2, VP 3; said: NP 0, VP 3 | NP 0-2, VP 3
    assert at.curves.chunk_f1(truth, said) == pytest.approx(2 * 2 / (5 + 4))
    # chunks do not run from one sentence into the next
    assert at.curves.chunk_f1([["B-NP"], ["I-NP"]], [["B-NP"], ["B-NP"]]) == 1.0


def test_the_curve_of_chunks(data):
    X, y, _, _ = data
    bio = [["B-NP" if t == "D" else "I-NP" if t == "N" else "O" for t in labels] for labels in y]
    model = at.SequenceLabeler(folds=2, random_state=0).fit(X, bio)
    curve = at.curve(model, X, bio, metric="chunk_f1")
    assert curve.values[-1] == pytest.approx(at.curves.chunk_f1(bio, model.predict(X)))


@pytest.mark.parametrize("learner", ["linear", "trees"])
def test_the_invariants_of_anytime_prediction_hold(learner):
    X, y = sentences(40)
    check_anytime_estimator(at.SequenceLabeler(learner=learner, folds=2, max_stages=5, random_state=0), X, y)


def test_warm_start_goes_on_to_the_bits_of_one_fit(data):
    X, y, _, _ = data
    settings = {"folds": 2, "random_state": 0, "n_iter_no_change": 50}
    whole = at.SequenceLabeler(max_stages=5, **settings).fit(X, y)
    parts = at.SequenceLabeler(max_stages=2, warm_start=True, **settings).fit(X, y)
    assert len(parts.steps_) == 2
    parts.set_params(max_stages=5).fit(X, y)
    assert len(parts.steps_) == len(whole.steps_)
    for a, b in zip(parts.predict_proba(X), whole.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="warm_start=True continues on the same data"):
        parts.fit(X[:50], y[:50])


def test_warm_start_says_when_there_is_nothing_to_go_on_from(data, tmp_path):
    X, y, _, _ = data
    model = at.SequenceLabeler(max_stages=1, warm_start=True, folds=2, random_state=0).fit(X, y)
    model.save(tmp_path / "tags.anytime")
    for other in (at.load(tmp_path / "tags.anytime"), pickle.loads(pickle.dumps(model))):
        with pytest.warns(UserWarning, match="no training data to continue from: training starts over"):
            other.set_params(warm_start=True).fit(X[:50], y[:50])


def test_ctrl_c_ends_training_with_what_is_learned(data, monkeypatch):
    X, y, _, _ = data
    step = StructuredSpeedBoost.step

    def interrupted(trainer):
        if len(trainer.steps) == 2:
            raise KeyboardInterrupt
        return step(trainer)

    monkeypatch.setattr(StructuredSpeedBoost, "step", interrupted)
    model = at.SequenceLabeler(folds=2, random_state=0).fit(X, y)
    assert len(model.steps_) == 2
    assert model.score(X, y) > 0.5
