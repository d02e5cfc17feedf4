"""Small convolutional networks as learners of a stream."""

import numpy as np
import pytest

import anytime as at
from anytime_research.streaming.convolutions import SmallConvNet
from tests.reference.streaming import ConvNet
from tests.streaming import test_banks as banks
from tests.streaming.test_bank_learners import in_rounds, stream


@pytest.mark.parametrize(
    "check",
    [
        banks.test_the_first_learners_do_not_depend_on_how_many_there_are,
        banks.test_appended_learners_leave_the_others_alone_and_learn,
        banks.test_restarted_learners_begin_anew_and_the_others_go_on,
        banks.test_learners_appended_before_the_first_row_are_like_those_made_at_once,
        banks.test_a_block_is_a_frozen_copy_of_the_learners,
        banks.test_rows_of_weight_zero_teach_nothing,
        banks.test_learners_get_better_at_their_targets,
    ],
    ids=lambda check: check.__name__,
)
def test_they_are_learners_like_others(check):
    check(SmallConvNet(channels=2, size=2, stride=1, learning_rate=0.01))


def test_an_estimator_takes_them_as_objects_but_no_file_knows_them(tmp_path):
    X = np.random.default_rng(0).normal(size=(400, 6))
    y = X[:, 0] - X[:, 4]
    model = at.StreamingBoostRegressor(
        n_estimators=5, learner=SmallConvNet(shape=(2, 3), size=3), random_state=0
    )
    model.partial_fit(X, y)
    assert model.truncate(6.0).predict(X).shape == (400,)
    with pytest.raises(TypeError, match="cannot be saved to a file"):
        model.save(tmp_path / "images.anytime", learning=False)


@pytest.mark.parametrize("size", [1, 10])
def test_convolutions_are_those_written_out(size):
    """To 1e-9 after 60 rows: windows of 3 x 3 at every second pixel of an image of 5 x 4, which has 3 x 2 places."""
    X, q, weight = stream(60, 20, 2, 3, missing=0.05)
    learner = SmallConvNet(shape=(5, 4), channels=2, size=3, stride=2, learning_rate=0.01)
    bank = learner.make(3, 20, 2, 7)
    block, frame = bank.block(), ((1, 1), (0, 1))
    plain = [
        ConvNet((5, 4), 3, 2, frame, block.hidden[i], block.readout[i], "sigmoid", "adam", 0.01)
        for i in range(3)
    ]
    assert block.readout.shape == (3, 2, 2 * 3 * 2 + 1)
    for x, target, w in in_rounds(X, q, weight, size):
        bank.update(x, target, w)
        for one, own in zip(plain, target, strict=True):
            one.learn(x, own, w)
    expected = [[one.predict(x) for x in X] for one in plain]
    np.testing.assert_allclose(bank.predict(X), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(bank.block().outputs(2, X), expected[2], rtol=0, atol=1e-9)


def test_w6_of_mnist_has_14_x_14_places_and_5_channels():
    """A.3, W6: one 5 x 5 convolution of stride 2, "same" padding, 5 channels, sigmoid, a linear read-out to 10 outputs."""
    bank = SmallConvNet().make(1, 784, 10)
    assert bank.block().hidden.shape == (1, 5, 25 + 1)
    assert bank.block().readout.shape == (1, 10, 14 * 14 * 5 + 1)
    with pytest.raises(ValueError, match="28 pixels, but there are 30 columns: give shape"):
        SmallConvNet(shape=(4, 7)).make(1, 30, 1)
