"""Training as it is run: in several processes, until a clock or Ctrl-C ends it, and on from a checkpoint."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

import anytime as at  # noqa: E402
from anytime.networks import (  # noqa: E402
    AdaLoss,
    NetworkTrainer,
    StepSchedule,
    TrainingRecipe,
    build,
)

torch.set_num_threads(1)
RECIPE = TrainingRecipe(epochs=4, batch_size=32, learning_rate=0.05)
ENDLESS = TrainingRecipe(epochs=1_000_000, batch_size=32, optimizer="adamw", learning_rate=5e-3)


def network(seed=0):
    torch.manual_seed(seed)
    return build("mlp", groups=[[0], [1, 2], [3]], width=8, n_outputs=2)


# ---------------------------------------------------------------------- several processes

SHARED = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from anytime.networks import AdaLoss, NetworkTrainer, TrainingRecipe, build

torch.set_num_threads(1)
rank, folder, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if rank >= 0:
    dist.init_process_group("gloo", init_method=f"file://{folder}/{what}", rank=rank, world_size=2)
generator = np.random.default_rng(0)
y = generator.integers(0, 2, 128)
torch.manual_seed(max(rank, 0))  # each process begins with a network of its own
if what == "tables":
    X = generator.normal(size=(128, 4)).astype(np.float32)
    X[:, 0] += y
    network = build("mlp", groups=[[0], [1, 2], [3]], width=8, n_outputs=2)
else:
    X = generator.normal(size=(128, 1, 8, 8)).astype(np.float32)
    network = build("resann", n=1, c=2, input_shape=(1, 8, 8), n_outputs=2)
recipe = TrainingRecipe(epochs=2, batch_size=32, learning_rate=0.05, average=0.5 if what == "images" else None)
budget = None
if what == "clock":
    recipe, budget = TrainingRecipe(epochs=100_000, batch_size=32), 0.5 + rank
trainer = NetworkTrainer(network, recipe, AdaLoss(), device="cpu", seed=5).fit(X, y, time_budget=budget)
state = {"network": network.state_dict(), "weights": trainer.scheme.weights, "means": trainer.scheme.means}
torch.save({**state, "losses": trainer.history[-1]["losses"], "step": trainer.step}, f"{folder}/{what}{rank}.pt")
if rank >= 0:
    dist.destroy_process_group()  # else its threads may abort the process as it ends
"""


def trained_apart(what, folder, ranks=(0, 1)):
    """What each process ends with."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SHARED]
    processes = [
        subprocess.Popen([*command, str(rank), str(folder), what], env=environment, stderr=subprocess.PIPE)
        for rank in ranks
    ]
    for process in processes:
        errors = process.communicate(timeout=300)[1]
        assert process.returncode == 0, errors.decode()
    return [torch.load(folder / f"{what}{rank}.pt", weights_only=True) for rank in ranks]


def test_two_processes_train_what_one_would_with_the_whole_batch(tmp_path):
    first, second = trained_apart("tables", tmp_path)
    (alone,) = trained_apart("tables", tmp_path, ranks=[-1])
    for a, b, whole in zip(*(run["network"].values() for run in (first, second, alone)), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, whole, rtol=1e-4, atol=1e-5)
    for name in ("means", "weights"):
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], alone[name], rtol=1e-4, atol=1e-5)
    assert (alone["weights"] != 1).any()  # AdaLoss did move
    assert first["losses"] == second["losses"] == pytest.approx(alone["losses"], rel=1e-4)


def test_statistics_of_batches_are_those_of_all_processes(tmp_path):
    first, second = trained_apart("images", tmp_path)
    assert any("running_mean" in name for name in first["network"])
    for a, b in zip(first["network"].values(), second["network"].values(), strict=True):
        assert torch.equal(a, b)


def test_processes_with_different_clocks_stop_at_the_same_batch(tmp_path):
    first, second = trained_apart("clock", tmp_path)
    assert first["step"] == second["step"] > 0


# ---------------------------------------------------------------------- until it is stopped

INTERRUPTED = """
import signal
import numpy as np
import torch
import anytime as at
from anytime.networks import TrainingRecipe

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start jobs in the background without it
torch.set_num_threads(1)
X, y, costs = at.datasets.load("breast_cancer")
recipe = TrainingRecipe(epochs=1_000_000, batch_size=32, optimizer="adamw", learning_rate=5e-3)
model = at.AnytimeNetworkClassifier(costs=costs, max_stages=3, recipe=recipe, random_state=0, device="cpu", verbose=1)
model.fit(X, y)
print("usable", model.n_stages_, model.score(X, y) > 0.8, np.isfinite(model.predict_proba(X, budget=20)).all(), flush=True)
"""


def test_a_real_interrupt_leaves_a_usable_model():
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(3):
            assert "] epoch" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[0]
    finally:
        process.kill()
    assert process.returncode == 0
    assert said.splitlines()[-1] == "usable 3 True True"


@pytest.mark.realtime
def test_a_fit_ends_in_its_time(rows):
    def model(**settings):
        return at.AnytimeNetworkClassifier(max_stages=3, random_state=0, device="cpu", **settings)

    model(recipe=RECIPE).fit(*rows)  # what is loaded at first use is not the fit's
    began = time.monotonic()
    short = model(recipe=ENDLESS, time_budget=1.0).fit(*rows)
    assert 0.9 <= time.monotonic() - began <= 1.1 * 1.0 + 1
    assert short.n_stages_ == 3
    assert short.score(*rows) > 0.8


def test_where_time_is_limited_groups_are_ordered_by_the_quick_loss(rows, monkeypatch):
    """Refits of the log-loss took longer than all the time there was."""
    fit, losses = at.GroupPursuitClassifier.fit, []

    def noted(self, *args, **kwargs):
        losses.append(self.loss)
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(at.GroupPursuitClassifier, "fit", noted)
    for seconds in (None, 0.1):
        at.AnytimeNetworkClassifier(recipe=RECIPE, time_budget=seconds, random_state=0, device="cpu").fit(
            *rows
        )
    assert losses == ["auto", "squared"]


def test_rows_that_must_not_be_written_to_are_read(rows, request):
    torch.set_warn_always(True)  # else only the first one in a process is told
    request.addfinalizer(lambda: torch.set_warn_always(False))
    X = rows[0].copy()
    X.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = at.AnytimeNetworkClassifier(recipe=RECIPE, random_state=0, device="cpu").fit(X, rows[1])
        model.predict(X)


def test_no_time_at_all_still_leaves_a_network(rows):
    trainer = NetworkTrainer(network(), ENDLESS, device="cpu").fit(*rows, time_budget=1e-9)
    assert trainer.step == 1
    assert torch.isfinite(trainer.outputs_of(rows[0])).all()


def test_progress_is_a_line_per_epoch_with_errors_of_exits(rows, capsys):
    at.AnytimeNetworkClassifier(recipe=RECIPE, random_state=0, device="cpu", verbose=1).fit(*rows)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    pattern = r"\[ +\d+\.\d s\] epoch   [1-4]/4  validation error of exits at 0, 1/4, 1/2, 3/4, 1: 0\.\d{4}(  0\.\d{4}){4}"
    assert all(re.fullmatch(pattern, line) for line in lines), lines


def test_callbacks_are_told_of_epochs_and_may_end_them(rows):
    told = []

    def second(progress):
        told.append(progress.metrics)
        return progress.metrics["epoch"] == 2

    network = at.AnytimeNetworkClassifier(recipe=RECIPE, random_state=0, device="cpu")
    with at.callbacks(second):
        network.fit(*rows)
    assert [metrics["epoch"] for metrics in told] == [1, 2]
    assert all(0 <= metrics["validation_error"] <= 1 for metrics in told)
    assert len(network.history_) == 2


# ---------------------------------------------------------------------- going on


class _Interrupts(AdaLoss):
    """Ctrl-C in the middle of the third epoch."""

    def update(self, losses):
        super().update(losses)
        if self.batches == 14:
            raise KeyboardInterrupt


def test_an_estimator_goes_on_from_its_checkpoint_with_the_same_bits(rows, tmp_path):
    def model(scheme, **settings):
        return at.AnytimeNetworkClassifier(
            recipe=RECIPE,
            loss_weights=scheme,
            validation_fraction=None,
            random_state=0,
            device="cpu",
            **settings,
        )

    whole = model(AdaLoss()).fit(*rows)
    stopped = model(_Interrupts(), checkpoint=tmp_path / "half.pt").fit(*rows)
    assert stopped.n_epochs_ == 2
    resumed = model(AdaLoss(), checkpoint=tmp_path / "half.pt").fit(*rows)
    assert resumed.n_epochs_ == 4
    np.testing.assert_array_equal(resumed.decision_function(rows[0]), whole.decision_function(rows[0]))
    assert (stopped.decision_function(rows[0]) != whole.decision_function(rows[0])).any()


def test_a_checkpoint_that_does_not_fit_is_named(rows, tmp_path):
    NetworkTrainer(network(), RECIPE, device="cpu", checkpoint=tmp_path / "a.pt").fit(*rows)
    torch.manual_seed(0)
    other = build("mlp", groups=[[0, 1, 2, 3]], width=8, n_outputs=2)
    with pytest.raises(ValueError, match=r"a\.pt' is damaged, or of another network or recipe"):
        NetworkTrainer(other, RECIPE, device="cpu", checkpoint=tmp_path / "a.pt").fit(*rows)
    (tmp_path / "b.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"b\.pt' is damaged"):
        NetworkTrainer(network(), RECIPE, device="cpu", checkpoint=tmp_path / "b.pt").fit(*rows)
    with pytest.raises(ValueError, match=r"there is no folder '.*nowhere' to write the checkpoint to"):
        NetworkTrainer(network(), RECIPE, device="cpu", checkpoint=tmp_path / "nowhere" / "c.pt")


# ---------------------------------------------------------------------- what a recipe says is done


def trained(rows, **changes):
    recipe = TrainingRecipe(**{"epochs": 3, "batch_size": 50, "learning_rate": 0.05, **changes})
    return NetworkTrainer(network(), recipe, device="cpu", seed=1)


def test_the_mean_of_parameters_is_kept_and_training_goes_on_without_it(rows):
    seen = []
    plain = trained(rows)
    plain._optimizer.register_step_post_hook(
        lambda *_: seen.append({k: v.clone() for k, v in plain.network.state_dict().items()})
    )
    start = {k: v.clone() for k, v in plain.network.state_dict().items()}
    plain.fit(*rows)
    expected = start
    for step, state in enumerate(seen, start=1):
        share = 1 - min(0.5, (1 + step) / (10 + step))
        expected = {
            k: v + share * (state[k] - v) if v.dtype.is_floating_point else v for k, v in expected.items()
        }
    averaged = trained(rows, average=0.5).fit(*rows)
    for name, value in averaged.network.state_dict().items():
        torch.testing.assert_close(value, expected[name])
    assert not torch.equal(next(averaged.network.parameters()), next(plain.network.parameters()))


@pytest.mark.parametrize("clip", [None, 0.01])
def test_gradients_are_clipped_to_their_largest_norm(rows, clip):
    norms = []
    trainer = trained(rows, clip=clip)
    parameters = list(trainer.network.parameters())
    trainer._optimizer.register_step_pre_hook(
        lambda *_: norms.append(torch.stack([p.grad.norm() for p in parameters]).norm().item())
    )
    trainer.fit(*rows)
    assert (max(norms) <= 0.01 + 1e-6) == (clip is not None)


def test_the_rate_follows_the_schedule_step_by_step(rows):
    rates = []
    trainer = trained(rows, epochs=4, schedule=StepSchedule(at=(0.5, 0.75)))
    trainer._optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"])
    )
    trainer.fit(*rows)
    assert rates == pytest.approx([0.05] * 8 + [0.005] * 4 + [0.0005] * 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, not 0"),
        ({"optimizer": "adam"}, "optimizer must be 'sgd' or 'adamw', not 'adam'"),
        ({"average": 1.0}, "average must be between 0 and 1, or None, not 1.0"),
        ({"augment": "flip"}, "augment must be 'crop_flip' or None, not 'flip'"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_when_it_is_made(wrong, message):
    with pytest.raises(ValueError, match=message):
        TrainingRecipe(**wrong)
