"""The trainer: what a step does, what interrupts leave behind, and going on from a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from anytime.networks import (  # noqa: E402
    AdaLoss,
    ConstantWeights,
    CosineSchedule,
    FirstOrder,
    NetworkTrainer,
    StepSchedule,
    TrainingError,
    TrainingRecipe,
    build,
    exit_losses,
)

RECIPE = TrainingRecipe(epochs=4, batch_size=32, learning_rate=0.05)


def network(seed=0):
    torch.manual_seed(seed)
    return build("mlp", groups=[[0], [1, 2], [3]], width=8, n_outputs=2)


def test_training_lowers_the_loss_of_every_exit(rows):
    trainer = NetworkTrainer(network(), RECIPE, device="cpu").fit(*rows, X_val=rows[0], y_val=rows[1])
    first, last = trainer.history[0]["losses"], trainer.history[-1]["losses"]
    assert all(b < a for a, b in zip(first, last, strict=True))
    assert len(trainer.history[-1]["errors"]) == 3


def test_training_and_evaluation_read_the_same_inputs(rows):
    """A scaling that reached evaluation alone would judge a network on inputs that it has never seen."""
    seen: list[bool] = []

    def prepare(x):
        seen.append(trainer.network.training)
        return x.float()

    trainer = NetworkTrainer(network(), RECIPE, device="cpu", prepare=prepare)
    trainer.fit(*rows)
    assert seen.count(True) == trainer.step
    trainer.outputs_of(rows[0])
    assert not seen[-1]
    with pytest.raises(AttributeError):
        trainer.prepare = lambda x: x.float() / 255


def test_time_that_ends_between_two_epochs_leaves_no_empty_epoch(rows, monkeypatch):
    """It was told with a loss of 0, which growth noted down as that of the network."""
    now = [0.0]
    monkeypatch.setattr("anytime.networks.training.time.monotonic", lambda: now[0])
    recipe = TrainingRecipe(epochs=4, batch_size=len(rows[0]), learning_rate=0.05)
    trainer = NetworkTrainer(
        network(), recipe, device="cpu", after_step=lambda passed, rate: now.__setitem__(0, 2.0)
    )
    trainer.fit(*rows, time_budget=1.0)
    assert trainer.interrupted
    assert [entry["losses"][-1] > 0 for entry in trainer.history] == [True]


def test_training_ends_where_its_history_is_enough(rows, tmp_path):
    """Asked after each epoch; a training that goes on from a checkpoint and had enough does nothing more."""
    how = {"device": "cpu", "until": lambda history: len(history) == 2, "checkpoint": tmp_path / "c.pt"}
    trainer = NetworkTrainer(network(), RECIPE, **how).fit(*rows)
    assert (trainer.epoch, trainer.interrupted) == (2, False)
    assert NetworkTrainer(network(), RECIPE, **how).fit(*rows).step == trainer.step
    how["until"] = lambda history: False
    assert NetworkTrainer(network(), RECIPE, **how).fit(*rows).epoch == RECIPE.epochs


@pytest.mark.parametrize("average", [None, 0.9])
def test_going_on_from_a_checkpoint_gives_the_same_bits(rows, tmp_path, average):
    recipe = TrainingRecipe(epochs=4, batch_size=32, learning_rate=0.05, average=average)
    whole = NetworkTrainer(network(), recipe, AdaLoss(), device="cpu", seed=3).fit(*rows)
    stopped = NetworkTrainer(network(), recipe, AdaLoss(), device="cpu", seed=3, checkpoint=tmp_path / "c.pt")
    stopped.report = lambda entry: stopped.__setattr__("interrupted", entry["epoch"] == 2)
    stopped.fit(*rows)
    assert stopped.epoch == 2
    resumed = NetworkTrainer(
        network(7), recipe, AdaLoss(), device="cpu", seed=3, checkpoint=tmp_path / "c.pt"
    ).fit(*rows)
    for a, b in zip(whole.network.state_dict().values(), resumed.network.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(whole.scheme.weights, resumed.scheme.weights)


def test_no_gradient_flows_through_the_weights(rows):
    """linear_and_networks A5: the step with AdaLoss' weights is the step with the same numbers as constants."""
    a, b = network(), network()
    X, y = (torch.from_numpy(part) for part in rows)
    losses = exit_losses(a(X), y)
    scheme = AdaLoss()
    scheme(losses)
    weights = scheme(losses)
    assert not weights.requires_grad
    (losses * weights).sum().backward()
    (exit_losses(b(X), y) * torch.tensor(weights.tolist())).sum().backward()
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_adaloss_follows_the_sum_of_logarithms(rows):
    """linear_and_networks A3: with gamma 0 and current losses, the gradient is that of the sum of log losses, scaled."""
    net = network()
    X, y = (torch.from_numpy(part) for part in rows)
    losses = exit_losses(net(X), y)
    scheme = AdaLoss(gamma=0.0, momentum=0.0)
    scheme(losses)
    parameters = list(net.parameters())
    ours = torch.autograd.grad((losses * scheme.weights).sum(), parameters, retain_graph=True)
    logs = torch.autograd.grad(losses.log().sum(), parameters)
    for p, q in zip(ours, logs, strict=True):
        torch.testing.assert_close(p, losses.min().detach() * q, rtol=1e-4, atol=1e-7)


def test_relative_increases_over_own_networks_are_more_even_with_adaloss():
    """linear_and_networks A8, a toy with conflicting exits: one shared number, targets 0 and 1, scales 1 and 100."""

    def trained(scheme):
        shared = torch.zeros(1, requires_grad=True)
        for _ in range(400):
            losses = torch.stack(
                [(shared - 0.0).square().sum() + 0.1, 100 * ((shared - 1.0).square().sum() + 0.1)]
            )
            (losses * scheme(losses)).sum().backward()
            with torch.no_grad():
                shared -= 0.002 * shared.grad
                shared.grad = None
        final = shared.item()
        return np.array([(final**2) / 0.1, (final - 1) ** 2 / 0.1])  # relative increases over 0.1 and 10

    even, uneven = trained(AdaLoss(0.0)), trained(ConstantWeights())
    assert np.ptp(even) < 0.5 * np.ptp(uneven)


def test_decoupled_weights_scale_what_enters_the_blocks_and_nothing_in_the_heads(rows):
    X, y = (torch.from_numpy(part) for part in rows)
    a, b = network(), network()
    weights = torch.tensor([0.0, 0.5, 1.0])
    exit_losses(a(X, weights), y).sum().backward()
    (exit_losses(b(X), y) * weights).sum().backward()
    for p, q in zip(a.blocks.parameters(), b.blocks.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad if q.grad is not None else torch.zeros_like(p))
    assert a.heads[0].linear.weight.grad.abs().sum() > 0
    assert b.heads[0].linear.weight.grad.abs().sum() == 0


def test_distillation_pulls_early_exits_towards_the_last():
    said = torch.tensor([[[0.0, 0.0]], [[3.0, 0.0]]])
    wrong = torch.tensor([1])
    plain, taught = exit_losses(said, wrong), exit_losses(said, wrong, distillation=1.0)
    assert plain[1] == taught[1]
    agreed = exit_losses(torch.tensor([[[3.0, 0.0]], [[3.0, 0.0]]]), wrong, distillation=1.0)
    assert agreed[0] < taught[0]


def test_weighted_rows_count_as_repeated_ones():
    said, y = torch.randn(2, 3, 4), torch.tensor([0, 1, 3])
    weight = torch.tensor([2.0, 0.0, 1.0])
    repeated = exit_losses(said[:, [0, 0, 2]], y[[0, 0, 2]])
    torch.testing.assert_close(exit_losses(said, y, sample_weight=weight), repeated)


def test_the_clock_ends_training_with_a_usable_network(rows):
    trainer = NetworkTrainer(network(), TrainingRecipe(epochs=100_000, batch_size=32), device="cpu")
    trainer.fit(*rows, time_budget=0.3)
    assert trainer.interrupted
    assert torch.isfinite(trainer.outputs_of(rows[0])).all()


def test_ctrl_c_leaves_what_was_learned(rows):
    def interrupt(entry):
        raise KeyboardInterrupt

    trainer = NetworkTrainer(network(), RECIPE, device="cpu", report=interrupt).fit(*rows)
    assert trainer.interrupted
    assert trainer.epoch == 1


def test_a_loss_that_is_no_number_names_step_and_exit_and_keeps_the_last_good_state(rows):
    net = network()
    trainer = NetworkTrainer(net, TrainingRecipe(epochs=3, batch_size=50, learning_rate=0.01), device="cpu")

    def poison(entry):
        with torch.no_grad():
            net.heads[1].linear.weight[:] = float("nan")

    trainer.report = poison
    with pytest.raises(
        TrainingError, match=r"loss of exit 2 is not a finite number at step 5; .* after step 4"
    ):
        trainer.fit(*rows)
    assert all(torch.isfinite(p).all() for p in net.parameters())


def test_first_order_weights_are_learned_from_gradients(rows):
    trainer = NetworkTrainer(network(), RECIPE, FirstOrder(), device="cpu").fit(*rows)
    assert trainer.scheme.weights.max() == 1.0
    assert (trainer.scheme.weights != 1.0).any()


def test_schedules():
    assert [StepSchedule()(p) for p in (0.0, 0.49, 0.5, 0.75)] == pytest.approx([1.0, 1.0, 0.1, 0.01])
    cosine = CosineSchedule(warmup=0.1)
    assert cosine(0.1) == pytest.approx(1.0)
    assert cosine(1.0) == pytest.approx(0.0, abs=1e-9)
    assert cosine(0.0) < 0.05


def test_images_are_moved_and_mirrored_and_nothing_else():
    from anytime.networks.augmentation import crop_and_flip

    images = torch.arange(2 * 1 * 6 * 6, dtype=torch.uint8).reshape(2, 1, 6, 6)
    same = crop_and_flip(images, torch.full((2, 2), 4), torch.tensor([False, False]))
    assert torch.equal(same, images)
    mirrored = crop_and_flip(images, torch.full((2, 2), 4), torch.tensor([True, False]))
    assert torch.equal(mirrored[0], images[0].flip(2))
    assert torch.equal(mirrored[1], images[1])
    moved = crop_and_flip(images, torch.tensor([[5, 4], [4, 4]]), torch.tensor([False, False]))
    assert torch.equal(moved[0, 0, :5], images[0, 0, 1:])
    assert (moved[0, 0, 5] == 0).all()
