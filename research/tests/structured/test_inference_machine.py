"""The hierarchical inference machine, the baseline of scene parsing (speedboost_and_structured 4.6, 4.7)."""

import numpy as np
import pytest

from anytime.structured import BoostedTreesLearner, ElementTable
from anytime.structured.scenes import Scene, SceneFeatures, Scenes
from anytime_research.structured import HierarchicalInferenceMachine

QUICK = {
    "n_estimators": 5,
    "learning_rate": 0.3,
    "max_leaf_nodes": 6,
    "min_samples_leaf": 2,
    "max_features": 1.0,
    "l2_regularization": 1.0,
}
BY_HEART = {**QUICK, "max_leaf_nodes": 16, "min_samples_leaf": 1}
BACKGROUNDS = np.array([[60, 90, 200], [40, 140, 50]])
PATCH = np.array([150, 150, 155])
COLOURS = np.arange(20, 26)  # columns of mean and spread of colour: what a region itself looks like


def scene(seed, lie=0.0):
    """Grey patches on blue (class 0) or green (class 1): they are class 2 or 3, which only their surroundings tell.

    Patches lie on the grid of the descriptors, whose points would otherwise see some of both.
    """
    rng = np.random.default_rng(seed)
    kind = int(rng.integers(2))
    labels = np.full((40, 48), kind)
    for top in (4, 22):
        left = 2 * int(rng.integers(2, 15))
        labels[top : top + 12, left : left + 14] = 2 + (kind if rng.random() >= lie else 1 - kind)
    picture = np.where(labels[:, :, None] > 1, PATCH, BACKGROUNDS[kind]) + rng.integers(-6, 7, (40, 48, 3))
    return np.clip(picture, 0, 255).astype(np.uint8), labels


def batch(seeds, lie=0.0):
    """Scenes, the distribution of labels in each atom, and pixels of each atom."""
    features = SceneFeatures({})
    pairs = [scene(seed, lie) for seed in seeds]
    scenes = Scenes([Scene(rgb, features) for rgb, _ in pairs], features)
    counts = [
        np.stack(
            [np.bincount(s.hierarchy.atom[labels == k], minlength=s.hierarchy.n_atoms) for k in range(4)], 1
        )
        for s, (_, labels) in zip(scenes.scenes, pairs, strict=True)
    ]
    mass = np.concatenate(counts).astype(float)
    return scenes, mass / mass.sum(axis=1, keepdims=True), mass.sum(axis=1)


def machine(learner=QUICK, **settings):
    told = {"levels": (3, 0, 3, 0), "max_trees": 15, **settings}
    return HierarchicalInferenceMachine(COLOURS, learner=BoostedTreesLearner(**learner), **told)


def accuracy(model, scenes, truth, weight):
    right = truth[np.arange(len(truth)), model.predict_proba(scenes).argmax(axis=1)]
    return float(weight @ right / weight.sum())


@pytest.fixture(scope="module")
def training():
    return batch(range(24))


@pytest.fixture(scope="module")
def unseen():
    return batch(range(100, 120))


def test_context_tells_what_regions_alone_cannot(training, unseen):
    """4.6: the same trees without context guess which patch it is."""
    alone = accuracy(machine(levels=(0,)).fit(*training), *unseen)
    together = accuracy(machine(levels=(0, 0)).fit(*training), *unseen)
    patches = float(unseen[2] @ unseen[1][:, 2:].sum(axis=1) / unseen[2].sum())
    assert alone < 1 - 0.25 * patches
    assert together > 0.97


def test_predictions_are_distributions(training, unseen):
    said = machine().fit(*training).predict_proba(unseen[0])
    assert said.shape == unseen[1].shape
    assert (said >= 0).all()
    np.testing.assert_allclose(said.sum(axis=1), 1.0)


def test_a_committee_says_the_mean_of_the_latest_predictions(training, unseen):
    """Of each level; without it only what the last level says is heard."""
    model = machine(levels=(3, 0), goes_on=False, committee=True).fit(*training)
    both = model.predict_proba(unseen[0])
    model.committee = False
    last = model.predict_proba(unseen[0])
    model.visits = model.visits[:1]
    np.testing.assert_allclose(both, (last + model.predict_proba(unseen[0])) / 2)


def test_only_the_named_columns_are_read(training, unseen):
    """A variant with fewer descriptors never asks for the others."""
    model = machine().fit(*training)
    asked = set()

    class Watched(Scenes):
        def read(self, level, columns, which=None):
            asked.update(columns.tolist())
            return super().read(level, columns, which)

    watched = Watched(unseen[0].scenes, unseen[0].features)
    np.testing.assert_array_equal(model.predict_proba(watched), model.predict_proba(unseen[0]))
    assert asked == set(COLOURS.tolist())


def test_the_same_seed_gives_the_same_machine_on_any_number_of_threads(training, unseen):
    drawn = {**QUICK, "max_samples": 60, "max_features": 0.5}
    first = machine(drawn).fit(*training).predict_proba(unseen[0])
    threaded = machine({**drawn, "n_threads": 2}).fit(*training)
    np.testing.assert_array_equal(first, threaded.predict_proba(unseen[0]))
    assert (first != machine(drawn, seed=1).fit(*training).predict_proba(unseen[0])).any()


def test_without_held_out_predictions_the_machine_believes_itself():
    """4.7: labels that nothing explains are learned by heart; only predictions held out by picture show that."""
    training, unseen = batch(range(16), lie=0.5), batch(range(100, 120), lie=0.5)

    def loss(folds):
        said = machine(BY_HEART, folds=folds, max_trees=40).fit(*training).predict_proba(unseen[0])
        return float(unseen[2] @ -(unseen[1] * np.log(np.maximum(said, 1e-12))).sum(axis=1) / unseen[2].sum())

    assert loss(4) < loss(0)


def test_folds_of_pictures_in_a_row_see_no_neighbouring_frame():
    """Frames of a video come in pairs that are alike: held out one at a time, the copy has seen the other."""
    pairs = [seed for seed in range(12) for _ in range(2)]
    training = batch(pairs, lie=0.5)
    held_out = {}
    for name, fold in (("in a row", None), ("in turns", np.arange(24) % 2)):
        losses = []
        machine(
            BY_HEART,
            folds=2,
            levels=(0, 0),
            max_trees=40,
            report=lambda number, level, loss, to=losses: to.append(loss),
        ).fit(*training, fold=fold)
        held_out[name] = losses[0]
    assert held_out["in turns"] < 0.8 * held_out["in a row"]


def test_one_level_of_points_is_plain_boosting():
    """Without regions, context or held-out parts the loss falls with every tree."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    truth = np.eye(3)[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    points, losses = ElementTable(X, [0, 150, 400]), []
    for n_trees in (5, 10, 40):
        model = HierarchicalInferenceMachine(
            levels=(0,), folds=0, max_trees=n_trees, learner=BoostedTreesLearner(**QUICK)
        )
        said = model.fit(points, truth, np.ones(400)).predict_proba(points)
        losses.append(-(truth * np.log(said)).sum(axis=1).mean())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.1 * losses[0]


def test_bad_settings_are_refused(training):
    with pytest.raises(ValueError, match="30 folds need as many structures, but there are 24"):
        machine(folds=30).fit(*training)
