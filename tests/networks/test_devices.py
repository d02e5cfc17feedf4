"""Devices: what is said of one that is not there or is too small, and what a server with several workers may not touch."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

import anytime as at  # noqa: E402
from anytime.engine import Run  # noqa: E402
from anytime.networks import (  # noqa: E402
    ExitNetwork,
    NetworkBlock,
    NetworkTrainer,
    TrainingError,
    TrainingRecipe,
    build,
)
from anytime.networks.devices import is_out_of_memory  # noqa: E402
from anytime.plan import Plan  # noqa: E402
from anytime.serve.registry import Registry  # noqa: E402
from anytime.serve.settings import Settings  # noqa: E402

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
COLUMNS = 4


class _Narrow(torch.nn.Module):
    """A layer for which the memory of the device is too small beyond some rows."""

    def __init__(self, most):
        super().__init__()
        self.most, self.met = most, []

    def forward(self, x):
        if len(x) > self.most:
            raise torch.cuda.OutOfMemoryError("too many rows")
        self.met.append(len(x))
        return x + 1


def narrow_block(most, n_stages=3, batch_rows=16):
    blocks = [_Narrow(most) for _ in range(n_stages)]
    network = ExitNetwork(blocks, [torch.nn.Identity() for _ in blocks])
    return NetworkBlock(
        network, [np.arange(COLUMNS)] * n_stages, (COLUMNS,), batch_rows=batch_rows, width=COLUMNS
    )


def plan_of(block):
    costs = at.FeatureCosts(groups={"input": list(range(COLUMNS))}, prices={"input": 0.0}).bind(COLUMNS)
    ones = np.ones(block.n_stages)
    return Plan(
        blocks=[block],
        costs=costs,
        base=np.zeros(COLUMNS),
        link="softmax",
        replaces=ones > 0,
        evaluation_costs=ones,
    )


# ---------------------------------------------------------------------- a device that is not there


@without_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_named_before_anything_is_computed(device, seeing):
    X, y = np.random.default_rng(0).normal(size=(40, COLUMNS)), np.arange(40) % 2
    with pytest.raises(ValueError, match=f"device='{device}' was asked for, but torch sees no GPU here"):
        at.AnytimeNetworkClassifier(device=device).fit(X, y)
    module = build("resann", n=1, c=4)
    with pytest.raises(ValueError, match="torch sees no GPU here"):
        at.make_anytime(module, input_shape=(3, 32, 32), device=device)
    with pytest.raises(ValueError, match="torch sees no GPU here"):
        NetworkTrainer(module, TrainingRecipe(), device=device)


def test_a_device_that_nobody_knows_is_named():
    X, y = np.zeros((40, COLUMNS)), np.arange(40) % 2
    with pytest.raises(ValueError, match="torch has no device 'gpu'"):
        at.AnytimeNetworkClassifier(device="gpu").fit(X, y)


# ---------------------------------------------------------------------- too little memory


def test_batches_are_halved_until_they_fit():
    X = np.random.default_rng(0).normal(size=(16, COLUMNS))
    block, roomy = narrow_block(5), narrow_block(99)
    with pytest.warns(RuntimeWarning, match="rows go through the network 4 at a time: more do not fit"):
        said = block.outputs(2, X)
    np.testing.assert_array_equal(said, roomy.outputs(2, X))
    assert roomy.batch_rows == 16
    assert block.batch_rows == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        block.outputs(2, X)  # from now on no batch is too large


def test_what_libraries_say_of_too_little_memory_is_understood():
    """CuDNN and cuBLAS have words of their own, and recording what fails says something else at last."""
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("no"))
    assert is_out_of_memory(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"))
    last = RuntimeError("operation failed due to a previous error during capture")
    last.__context__ = torch.cuda.OutOfMemoryError("no")
    assert is_out_of_memory(last)
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory"))


@pytest.mark.parametrize("hurried", [False, True])
def test_other_errors_are_not_taken_for_too_little_memory(hurried):
    block = narrow_block(99)

    def failing(*_):
        raise RuntimeError("shapes cannot be multiplied")

    block.network.blocks[1].register_forward_pre_hook(failing)
    run = Run(plan_of(block), np.zeros((4, COLUMNS)))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        run.advance(stop=_Never() if hurried else None)
    assert block.batch_rows == 16


def test_a_run_in_a_hurry_goes_on_with_smaller_batches():
    X = np.random.default_rng(0).normal(size=(16, COLUMNS))
    block = narrow_block(5)
    run = Run(plan_of(block), X)
    with pytest.warns(RuntimeWarning, match="4 at a time"):
        assert run.advance(deadline=np.inf, stop=_Never())
    np.testing.assert_allclose(run.scores(), X.astype(np.float32) + 3, atol=1e-6)
    assert [sum(part.met) for part in block.network.blocks] == [16, 16, 16]


def test_a_single_row_that_does_not_fit_is_told():
    with pytest.raises(MemoryError, match="too small for one row"):
        narrow_block(0).outputs(0, np.zeros((4, COLUMNS)))


class _Never:
    def is_set(self):
        return False


@pytest.mark.parametrize(("most", "fits"), [(20, 16), (2, 2)])
def test_training_says_which_batch_size_fits(most, fits):
    """And it is true: that size is trained with. The network is as it was."""
    X, y = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32), np.arange(64) % 2

    def trainer(size):
        torch.manual_seed(0)
        first = torch.nn.Sequential(_Narrow(most), torch.nn.Linear(8, 2), torch.nn.BatchNorm1d(2))
        network = ExitNetwork([first], [torch.nn.Identity()])
        return NetworkTrainer(network, TrainingRecipe(epochs=1, batch_size=size), device="cpu")

    failing = trainer(64)
    before = {name: value.clone() for name, value in failing.network.state_dict().items()}
    with pytest.raises(
        TrainingError, match=f"^batch_size 64 does not fit into the memory of the GPU; {fits} does$"
    ):
        failing.fit(X, y)
    for name, value in failing.network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert trainer(fits).fit(X, y).epoch == 1


@pytest.mark.parametrize(("most", "head"), [(0, torch.nn.Linear(8, 2)), (1, torch.nn.BatchNorm1d(8))])
def test_a_network_for_which_one_row_is_too_much(most, head):
    """Batch normalisation cannot be trained with a single row, even if that fits."""
    network = ExitNetwork([_Narrow(most)], [head])
    trainer = NetworkTrainer(network, TrainingRecipe(epochs=1, batch_size=8), device="cpu")
    with pytest.raises(TrainingError, match="not even with one row"):
        trainer.fit(np.zeros((16, 8), dtype=np.float32), np.arange(16) % 2)


def test_rows_for_which_there_is_no_memory_are_counted(monkeypatch):
    trainer = NetworkTrainer(build("mlp", groups=[[0]], n_outputs=2), TrainingRecipe(), device="cpu")

    def full(self, *_):
        raise torch.cuda.OutOfMemoryError("full")

    monkeypatch.setattr(torch.Tensor, "to", full)
    with pytest.raises(TrainingError, match=r"1024 rows take 1\.00 GiB, .* use device='cpu'"):
        trainer._stored(torch.empty(1024, 1 << 18))


# ---------------------------------------------------------------------- several workers


def test_a_network_goes_to_its_device_when_it_is_first_used():
    """A process that has touched a GPU cannot be forked into workers that use it; "meta" stands for the GPU."""
    block = narrow_block(9)
    block = block.changed(ExitNetwork([torch.nn.Linear(4, 4)] * 3, [torch.nn.Identity()] * 3))
    away = block.to("meta")
    assert {p.device.type for p in away._network.parameters()} == {"cpu"}
    assert {p.device.type for p in away.network.parameters()} == {"meta"}
    assert block.can_be_forked
    assert not away.can_be_forked


class _Elsewhere(NetworkBlock):
    """Counts what this process computes; as if on a GPU."""

    computed = 0
    can_be_forked = False

    def proceed(self, *arguments):
        self.computed += 1
        return super().proceed(*arguments)


@pytest.mark.parametrize(("workers", "device"), [(1, "gpu"), (2, "gpu"), (2, "cpu")])
def test_the_process_that_forks_workers_does_not_touch_the_gpu(
    tmp_path, monkeypatch, seeing, workers, device
):
    """Its pace is measured in a process of its own; a worker begins by computing once, so that nobody waits for the device."""
    seeing.save(tmp_path / "m.anytime")
    model = at.load(tmp_path / "m.anytime")
    block = model.plan_.blocks[0]
    block.__class__ = _Elsewhere
    monkeypatch.setattr(_Elsewhere, "can_be_forked", device == "cpu")
    settings = Settings(models={"m": tmp_path / "m.anytime"}, slo=None, workers=workers)
    registry = Registry(settings, loader=lambda path: model)
    try:
        entry = registry.add("m", tmp_path / "m.anytime")
        assert (block.computed == 0) == (workers == 2 and device == "gpu")
        assert entry.engine.pace.checkpoints.tolist() == [1, 2, 3]
        assert (np.diff(entry.engine.pace.per_row) > 0).all()
        before = block.computed
        registry.settle()  # this process has forked nobody
        assert block.computed == before
        monkeypatch.setattr(registry, "_first_process", os.getpid() + 1)
        registry.settle()
        assert (block.computed > before) == (device == "gpu")
    finally:
        registry.close()


def test_a_process_that_cannot_measure_is_told(seeing, monkeypatch, capfd):
    from anytime.serve.pace import measured_aside

    def broken(*_, **__):
        raise OSError("no device")

    monkeypatch.setattr("anytime.serve.pace.StagePace.measure", broken)
    with pytest.raises(RuntimeError, match="could not be run in a process of its own"):
        measured_aside(seeing, 0.01)
    assert "OSError: no device" in capfd.readouterr().err
