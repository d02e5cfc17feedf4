"""Haar-like features equal sums over pixels, and the task is what it says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anytime_research.datasets import Haar, haar_features, make_patches, random_haar

SIGNS = {
    "left-right": [[1, -1]],
    "top-bottom": [[1], [-1]],
    "middle column": [[1, -2, 1]],
    "middle row": [[1], [-2], [1]],
    "checkers": [[1, -1], [-1, 1]],
}


def by_pixels(image: np.ndarray, feature: Haar) -> float:
    """The obvious way: a mask of signs times the pixels."""
    signs = np.array(SIGNS[feature.kind])
    mask = np.kron(signs, np.ones((feature.height, feature.width)))
    part = image[feature.top :, feature.left :][: mask.shape[0], : mask.shape[1]]
    assert part.shape == mask.shape  # it lies within the patch
    return (part * mask).sum() / mask.size / image.std()


def test_integral_images_give_the_sums_over_pixels():
    images = np.random.default_rng(0).normal(size=(3, 20, 20))
    features = random_haar(300, random_state=4)
    assert {feature.kind for feature in features} == set(SIGNS)
    assert len(set(features)) == 300
    expected = [[by_pixels(image, feature) for feature in features] for image in images]
    assert_allclose(haar_features(images, features), expected, atol=1e-12)


def test_brightness_and_contrast_do_not_matter():
    images, features = np.random.default_rng(1).normal(size=(2, 20, 20)), random_haar(50)
    assert_allclose(haar_features(3.0 * images + 7.0, features), haar_features(images, features), atol=1e-9)
    assert_array_equal(haar_features(np.ones((1, 20, 20)), features), np.zeros((1, 50)))


def test_one_patch_in_six_is_positive_and_each_feature_costs_one():
    """speedboost_and_structured 6.2: an imbalanced 1:5 set with integral-image Haar features."""
    data = make_patches(1200, n_features=30, random_state=3)
    assert data.X.shape == (1200, 30)
    assert data.y.sum() == 200
    assert set(data.costs.prices.values()) == {1.0}
    again = make_patches(1200, n_features=30, random_state=3)
    assert_array_equal(data.X, again.X)
    assert (make_patches(1200, n_features=30, random_state=4).X != data.X).any()


def test_errors_fall_with_features_and_no_single_one_is_enough():
    """What makes filters worth while: the first feature helps many patches, the last errors take many features."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y, _ = make_patches(4000)
    apart = np.abs(X[:2000][y[:2000] == 1].mean(axis=0) - X[:2000][y[:2000] == 0].mean(axis=0))
    best = np.argsort(-apart)
    errors = []
    for columns in (best[:1], best[:10], best):
        model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[:2000, columns], y[:2000])
        errors.append(1 - model.score(X[2000:, columns], y[2000:]))
    assert 1 / 6 > errors[0] > 1.3 * errors[1] > 1.3**2 * errors[2] > 0.02


def test_a_share_is_a_share():
    with pytest.raises(ValueError, match="positive_share must lie between 0 and 1, not 2"):
        make_patches(10, positive_share=2)
