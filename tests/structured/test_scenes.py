"""Pictures: atoms, lazy features, and a parser from end to end (speedboost_and_structured 4.3-4.9, 9.6, 9.7, P21, P23)."""

import itertools
import time
import warnings

import numpy as np
import pytest

import anytime as at
from anytime import _native
from anytime.structured import EntropySelector, Update
from anytime.structured.descriptors import DESCRIPTORS, LENGTHS, AtomGrid, SoftCodes, evened
from anytime.structured.pictures import MOST_PIXELS, read_label_maps, read_picture
from anytime.structured.scenes import Scene, SceneFeatures, Scenes
from anytime.testing import check_anytime_estimator
from tests.reference.scenes import soft_codes
from tests.structured.streets import parser, streets


def features_of(pictures, names=("colour", "edges"), n_centres=5):
    rng = np.random.default_rng(0)
    codes = {}
    for name in names:
        planes = Scene(pictures[0], SceneFeatures({})).planes(name)
        points = rng.choice(planes.shape[0] * planes.shape[1], 200).astype(np.int32)
        codes[name] = SoftCodes.fit(planes.at(points), n_centres, 0)
    return SceneFeatures(codes)


@pytest.fixture(scope="module")
def model():
    return parser().fit(*streets(8))


# ---------------------------------------------------------------------- regions and columns


def test_projection_on_regions_is_that_on_pixels_up_to_a_constant():
    """P21, (7.10)-(7.11): and targets of regions sum to 0 over classes."""
    rng = np.random.default_rng(0)
    pictures, _ = streets(2)
    scenes = Scenes([Scene(rgb, SceneFeatures({})) for rgb in pictures], SceneFeatures({}))
    n_classes, level = 4, 3
    truth, said = (
        rng.dirichlet(np.ones(n_classes), scenes.n_elements),
        rng.dirichlet(np.ones(n_classes), scenes.n_elements),
    )
    gradient, regions = truth - said, scenes.regions(level)
    target = regions.mean(gradient)
    np.testing.assert_allclose(target.sum(axis=1), 0.0, atol=1e-12)
    differences = []
    for _ in range(3):
        update = rng.standard_normal((regions.n_regions, n_classes))
        by_pixel = scenes.sizes @ ((gradient - update[regions.label]) ** 2).sum(axis=1)
        differences.append(by_pixel - regions.size @ ((target - update) ** 2).sum(axis=1))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9)
    unweighted = ((gradient - update[regions.label]) ** 2).sum() - ((target - update) ** 2).sum()
    assert abs(unweighted - differences[0]) > 1.0  # sizes matter


def test_raising_the_threshold_shrinks_the_selection(model):
    """P21: nested selections, empty from log K on; atoms outside of it keep their scores."""
    scenes = model._structures(streets(1, first=50)[0])
    rng = np.random.default_rng(0)
    said = rng.dirichlet(np.full(3, 0.5), scenes.n_elements)
    for level in (0, 3):
        chosen = [set(EntropySelector(level, t).select(scenes, said)) for t in (0.0, 0.4, 0.8, np.log(3))]
        assert chosen[0] > chosen[2]
        assert all(a >= b for a, b in itertools.pairwise(chosen))
        assert not chosen[-1]
    first = model.plan_.blocks[0].updates[0]
    update = Update(EntropySelector(3, 0.6), first.predictor, first.step)
    scores = np.log(said)
    changed = update.change(scenes, scores)
    which = update.selector.select(scenes, said)
    outside = ~np.isin(scenes.regions(update.selector.level).label, which)
    assert outside.any()
    assert (changed[outside] == 0).all()
    assert (changed[~outside] != 0).any()


def test_features_computed_on_demand_are_those_computed_at_once():
    """P23: any order of columns, levels and regions gives the same bits."""
    pictures, _ = streets(2)
    features = features_of(pictures)
    every = np.arange(features.n_columns, dtype=np.int32)
    eager = Scenes([Scene(rgb, features) for rgb in pictures], features)
    table = {level: eager.read(level, every) for level in range(eager.n_levels)}
    lazy = Scenes([Scene(rgb, features) for rgb in pictures], features)
    rng = np.random.default_rng(3)
    for _ in range(25):
        level = int(rng.integers(lazy.n_levels))
        columns = np.sort(rng.choice(every, 4, replace=False)).astype(np.int32)
        which = np.flatnonzero(rng.random(len(table[level])) < 0.3)
        np.testing.assert_array_equal(lazy.read(level, columns, which), table[level][np.ix_(which, columns)])
    share = np.mean([scene.computed.mean() for scene in lazy.scenes])
    assert 0.0 < share < 1.0


def test_a_region_has_the_mean_of_its_pixels():
    """4.8: sums of atoms serve all levels; whole pictures have the mean over all atoms' pixels."""
    pictures, _ = streets(1, height=40, width=50)
    features = features_of(pictures)
    scene = Scene(pictures[0], features)
    codes = np.arange(features.first_code, features.n_columns, dtype=np.int32)
    atoms, top = scene.read(0, codes, None), scene.read(6, codes, None)
    hierarchy = scene.hierarchy
    for region in range(int(hierarchy.count[6])):
        inside = hierarchy.region[6] == region
        np.testing.assert_allclose(
            top[region], np.average(atoms[inside], axis=0, weights=hierarchy.pixels[inside])
        )
    planes, grid = scene.planes("edges"), AtomGrid.of(hierarchy.atom, hierarchy.n_atoms)
    descriptors = planes.at(grid.points[: grid.start[1]])
    own = features.codes["edges"]
    expected = np.maximum(0.0, own.bias + descriptors.astype(float) @ own.weights.T.astype(float)).mean(
        axis=0
    )
    np.testing.assert_allclose(atoms[0, -len(own) :], expected, atol=1e-4)


def test_soft_codes_sum_to_zero_before_they_are_cut():
    """P22: both forms agree, sum_i z_i = 0."""
    rng = np.random.default_rng(4)
    centres, spread = rng.standard_normal((6, 5)), rng.uniform(0.5, 2.0, 5)
    codes, descriptors = SoftCodes.of(centres, spread), rng.standard_normal((9, 5))
    z = codes.bias + descriptors @ codes.weights.T
    np.testing.assert_allclose(z.sum(axis=1), 0.0, atol=1e-4)
    np.testing.assert_allclose(np.maximum(z, 0.0), soft_codes(descriptors / spread, centres), atol=1e-4)


def test_codes_of_squared_distances_are_inner_products_and_those_of_plain_ones_are_not():
    """P22, why a code can be computed alone; the negative control is the usual triangle code."""
    rng = np.random.default_rng(5)
    centres, descriptors = rng.standard_normal((6, 5)), rng.standard_normal((60, 5))
    distance = np.linalg.norm(descriptors[:, None] - centres[None], axis=2)
    affine = np.column_stack([descriptors, np.ones(len(descriptors))])
    missed = {}
    for power in (1, 2):
        z = (distance**power).mean(axis=1, keepdims=True) - distance**power
        missed[power] = np.abs(affine @ np.linalg.lstsq(affine, z, rcond=None)[0] - z).max()
    assert missed[2] < 1e-10
    assert missed[1] > 0.1


def test_cells_of_wide_edges_are_sums_of_four():
    """Sixteen cells of eight by eight pixels around a point, each of four cells of the small descriptor."""
    scene = Scene(streets(1)[0][0], SceneFeatures({}))
    small, wide = scene.planes("edges"), scene.planes("wide_edges")
    assert small.shape == wide.shape
    y, x = 11, 13
    point = np.array([y * wide.shape[1] + x], dtype=np.int32)
    sums = wide.at(point)[0] / wide.scale.ravel()[point[0]]
    by_hand = [
        small.planes[direction, y + row + i, x + column + j]
        for direction in range(8)
        for row in range(-4, 12, 4)
        for column in range(-4, 12, 4)
        for i, j in ((0, 0), (0, 2), (2, 0), (2, 2))
    ]
    np.testing.assert_allclose(sums, np.reshape(by_hand, (-1, 4)).sum(axis=1), rtol=1e-4)


def test_an_evened_picture_does_not_tell_how_bright_it_was():
    lab = np.random.default_rng(0).random((3, 20, 30)).astype(np.float32)
    darker = 0.6 * lab + np.array([0.1, 0.02, -0.03], dtype=np.float32)[:, None, None]
    assert np.abs(evened(darker) - evened(lab)).max() < 0.1 < np.abs(darker - lab).max()
    assert evened(lab)[0].mean() == pytest.approx(0.5, abs=1e-5)
    assert np.isfinite(evened(np.zeros((3, 2, 2), dtype=np.float32))).all()


def test_shapes_of_a_cut_picture():
    rgb = np.zeros((40, 60, 3), dtype=np.uint8)
    rgb[:, 20:] = 90
    scene = Scene(rgb, SceneFeatures({}))
    table = scene.hierarchy.shapes(0)
    assert scene.hierarchy.n_atoms == 2
    share, x, y, left, right, at_right = table[:, [0, 1, 2, 6, 7, 17]].T
    np.testing.assert_allclose(np.exp(share), [1 / 3, 2 / 3])
    np.testing.assert_allclose(x, [1 / 6, 2 / 3])
    np.testing.assert_allclose(y, [0.5, 0.5])
    np.testing.assert_allclose([left, right], [[0, 1 / 3], [1 / 3, 1]])
    assert at_right.tolist() == [0, 1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (5, 1), (3, 4), (31, 2), (67, 71)])
def test_pictures_of_any_size_have_all_features(shape):
    rgb = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    big, _ = streets(1)
    features = features_of(big, tuple(DESCRIPTORS))
    scenes = Scenes([Scene(rgb, features)], features)
    for level in range(scenes.n_levels):
        table = scenes.read(level, np.arange(features.n_columns, dtype=np.int32))
        assert np.isfinite(table).all()
        assert all(scenes.scenes[0].planes(name).shifts.size == n for name, n in LENGTHS.items())
        told = scenes.context(level, np.full((scenes.n_elements, 3), 1 / 3))
        assert told.shape == (len(table), 21)
        assert np.isfinite(told).all()


def test_regions_are_told_what_lies_on_their_four_sides():
    """Bands across a picture: above and below a band are its neighbours, beyond the picture is the band itself."""
    scene = Scene(np.zeros((96, 128, 3), dtype=np.uint8), SceneFeatures({}))
    scene.hierarchy.atom = np.repeat(np.arange(3, dtype=np.int32), 32)[:, None].repeat(128, axis=1)
    hierarchy = scene.hierarchy
    hierarchy.region, hierarchy.count = np.tile(np.arange(3, dtype=np.int32), (7, 1)), np.full(7, 3)
    hierarchy._moments = _native.atom_moments(hierarchy.atom, 3)
    scenes = Scenes([scene] * 2, SceneFeatures({}))
    told = scenes.context(0, np.tile(np.eye(3), (2, 1))).reshape(2, 3, 7, 3)
    np.testing.assert_array_equal(told[0], told[1])
    above, below, left, right = told[0, :, 3:].transpose(1, 0, 2)
    np.testing.assert_allclose(above, np.eye(3)[[0, 0, 1]])
    np.testing.assert_allclose(below, np.eye(3)[[1, 2, 2]])
    np.testing.assert_allclose(left, np.eye(3))
    np.testing.assert_allclose(right, np.eye(3))


def test_what_is_forgotten_is_computed_anew():
    pictures, _ = streets(2)
    features = features_of(pictures)
    scenes = Scenes([Scene(rgb, features) for rgb in pictures], features)
    columns = np.arange(features.n_columns, dtype=np.int32)
    before = scenes.read(3, columns)
    assert not any(scene._planes for scene in scenes.scenes)  # all codes are there
    scenes.forget()
    assert not scenes.scenes[0].computed.any()
    np.testing.assert_array_equal(scenes.read(3, columns), before)


# ---------------------------------------------------------------------- the parser


def test_labels_of_new_pictures(model):
    pictures, labels = streets(4, first=20)
    assert model.score(pictures, labels) > 0.9
    assert model.score(pictures, labels) > model.score(pictures, labels, budget=0) + 0.2
    said = model.predict(pictures)
    assert [s.shape for s in said] == [p.shape[:2] for p in pictures]
    assert set(np.unique(said[0])) <= {0, 1, 2}
    probabilities = model.predict_proba(pictures[:1])[0]
    assert probabilities.shape == (42, 53, 3)
    np.testing.assert_allclose(probabilities.sum(axis=2), 1.0)


def test_training_objective_never_rises(model):
    """P1."""
    values = [step.value for step in model.steps_]
    assert all(b <= a for a, b in itertools.pairwise(values))
    assert len(values) > 3


def test_realised_cost_is_at_most_the_model_cost(model):
    """P23: nothing is paid where nothing is selected; a budget is a cap."""
    pictures, _ = streets(5, first=30)
    for budget in (0.0, 25.0, 30.0, 40.0, None):
        cost = model.cost(pictures, budget=budget)
        assert (cost <= model.stage_costs_[-1] + 1e-9).all()
        assert budget is None or (cost <= budget).all()
    assert model.order_[0] == "segments"


def test_answers_do_not_depend_on_threads_files_or_company(model, tmp_path):
    pictures, _ = streets(3, first=40)
    model.save(tmp_path / "streets.anytime")
    loaded = at.load(tmp_path / "streets.anytime")
    alone = [loaded.predict_proba([picture])[0] for picture in pictures]
    for a, b in zip(model.predict_proba(pictures), alone, strict=True):
        np.testing.assert_array_equal(a, b)
    loaded.set_params(n_jobs=2)
    np.testing.assert_array_equal(loaded.predict_proba(pictures)[1], alone[1])
    small = model.truncate(budget=30.0)
    np.testing.assert_array_equal(small.predict(pictures)[0], model.predict(pictures, budget=30.0)[0])


def test_every_stage_has_a_label_map(model):
    pictures, _ = streets(2, first=60)
    answers = list(model.stages(pictures))
    assert len(answers) == model.plan_.n_stages + 1
    assert all(a.prediction[1].shape == (42, 53) for a in answers)
    np.testing.assert_array_equal(answers[-1].prediction[0], model.predict(pictures)[0])


def test_pictures_of_other_kinds_and_sizes(model):
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 256, (20, 30, 3)).astype(np.uint8)
    said = model.predict(
        [rgb, np.dstack([rgb, rgb[:, :, :1]]), rgb[:, :, 0], rgb[:, :, :1], rgb / 255.0, rgb[:1, :1]]
    )
    assert [s.shape for s in said] == [(20, 30)] * 5 + [(1, 1)]
    np.testing.assert_array_equal(said[0], said[1])
    np.testing.assert_array_equal(said[2], said[3])
    np.testing.assert_array_equal(said[0], said[4])
    assert model.predict([]) == []


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (np.zeros((4, 4, 2), np.uint8), "picture 0 has shape"),
        (np.zeros((0, 4, 3), np.uint8), "no pixels"),
        (np.full((4, 4, 3), 300), "not bytes"),
        (np.full((4, 4, 3), np.nan), "between 0 and 1"),
        (np.zeros(5), "picture 0 has shape"),
        (np.broadcast_to(np.uint8(0), (10_000, 10_000, 3)), f"the most are {MOST_PIXELS}"),
    ],
)
def test_what_is_no_picture_is_refused(picture, message):
    with pytest.raises(ValueError, match=message):
        read_picture(picture)


def test_labels_that_do_not_fit_are_refused():
    pictures, labels = streets(2)
    with pytest.raises(ValueError, match="folds is 3, but there are 2 pictures"):
        parser(folds=3).fit(pictures, labels)
    with pytest.raises(ValueError, match="folds is 2, but there are 1 groups"):
        parser(folds=2).fit(pictures, labels, groups=["a", "a"])
    with pytest.raises(ValueError, match="one label for each of 2 pictures"):
        parser(folds=2).fit(pictures, labels, groups=["a", "a", "b"])
    with pytest.raises(ValueError, match="1 label maps"):
        parser().fit(pictures, labels[:1])
    with pytest.raises(ValueError, match="its label map has shape"):
        parser().fit(pictures, [labels[0], labels[1][1:]])
    with pytest.raises(ValueError, match="no pixel has a label"):
        parser().fit(pictures, [np.full((42, 53), 9)] * 2)
    with pytest.raises(ValueError, match="at least two classes"):
        parser().fit(pictures, [np.zeros((42, 53), dtype=int)] * 2)
    with pytest.raises(ValueError, match="whole numbers or strings"):
        parser().fit(pictures, [labels[0] * 0.5] * 2)
    with pytest.raises(ValueError, match="none of the 2 classes"):
        read_label_maps([np.array([[7]])], [(1, 1)], None, np.array([0, 1]))
    with pytest.raises(ValueError, match="no descriptor 'smell'"):
        parser(descriptors=["smell"]).fit(pictures, labels)
    with pytest.raises(ValueError, match="prices lack 'shape'"):
        parser(costs={"segments": 1.0}, folds=2).fit(pictures, labels)
    with pytest.raises(ValueError, match="no level 7"):
        parser(levels=(7,)).fit(pictures, labels)


def test_prices_are_measured_where_none_are_given():
    pictures, labels = streets(3)
    model = parser(costs=None, max_stages=2, n_centres=3).fit(pictures, labels)
    assert model.costs_.unit == "ms"
    assert model.costs_.prices["segments"] > model.costs_.prices["colour 0"] > 0


def test_curves_count_pixels_that_have_a_label(model):
    pictures, labels = streets(3, first=80)
    curve = at.curve(model, pictures, labels)
    assert curve.final == pytest.approx(model.score(pictures, labels))
    recall = at.curve(model, pictures, labels, metric="balanced_accuracy")
    said, true = (np.concatenate([a.ravel() for a in maps]) for maps in (model.predict(pictures), labels))
    assert recall.final == pytest.approx(np.mean([np.mean(said[true == k] == k) for k in range(3)]))


def test_parser_passes_the_checks_of_anytime_estimators():
    pictures, labels = streets(6)
    whole = [np.where(maps == 9, 0, maps) for maps in labels]
    check_anytime_estimator(parser(folds=2, max_stages=4, ignore_label=None), pictures, whole)


# ---------------------------------------------------------------------- time


@pytest.mark.realtime
def test_little_time_gives_a_model_of_what_there_was_time_for():
    """Dictionaries, descriptions of pictures and candidates of a stage all look at the clock."""
    X, y = streets(24, height=120, width=160)
    began = time.process_time()
    with pytest.warns(UserWarning, match=r"time_budget=0.5 ended training: the model has \d+ of 200 stages"):
        model = at.SceneParser(ignore_label=9, time_budget=0.5, max_stages=200, random_state=0).fit(X, y)
    assert time.process_time() - began < 1.1 * 0.5 + 1
    assert model.n_stages_ >= 1
    assert model.score(X, y) > 0.4


def test_enough_time_is_no_cause_for_a_warning():
    X, y = streets(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        timed = parser(max_stages=2, time_budget=300).fit(X, y)
    assert timed.n_stages_ == 2
    assert list(timed.features_.codes) == ["colour", "edges"]
