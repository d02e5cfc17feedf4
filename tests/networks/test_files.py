"""Networks in ``.anytime`` files: the same bits back, and nothing is built that a file does not hold."""

from __future__ import annotations

import copy
import io
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

import anytime as at  # noqa: E402
from anytime.blocks import DetachedModelError  # noqa: E402
from anytime.files import describe  # noqa: E402
from anytime.networks import TrainingRecipe, build, with_exits  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import _fuzz_cases as cases  # noqa: E402
import fuzz_files as fuzz  # noqa: E402

torch.set_num_threads(1)
BLOCK = "plan.blocks.0."


def loaded(raw, **options):
    return at.load(io.BytesIO(raw), **options)


def same(model, other, X):
    for before, after in zip(model.stages(X), other.stages(X), strict=True):
        np.testing.assert_array_equal(after.scores, before.scores)
        np.testing.assert_array_equal(after.prediction, before.prediction)
        np.testing.assert_array_equal(after.cost, before.cost)


def changed(model, change):
    """The bytes of a model's file in which ``change`` has altered the manifest's block and the arrays, checksums right."""
    parts = cases.Parts(cases.packed(model))
    change(parts.manifest["plan"]["blocks"][0], parts.arrays)
    return parts.assembled()


@pytest.fixture(scope="module")
def own(pictures):
    """A classifier around a module of the user's own, and that module with other weights."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)
    )
    network = with_exits(module, at=["1"], input_shape=(3, 8, 8))
    recipe = TrainingRecipe(epochs=1, batch_size=32)
    return at.AnytimeNetworkClassifier(backbone=network, recipe=recipe, random_state=0).fit(
        *pictures
    ), network


# ---------------------------------------------------------------------- the same bits


def test_saved_equals_loaded_bit_for_bit(tmp_path, pictures, seeing, buying):
    for model, X in ((seeing, pictures[0]), (buying[0], buying[1])):
        model.save(tmp_path / "m.anytime")
        other = at.load(tmp_path / "m.anytime")
        same(model, other, X)
        assert other.input_shape_ == model.input_shape_
        assert other.history_ == model.history_
        assert other.plan_.blocks[0].batch_rows == model.plan_.blocks[0].batch_rows
        for name, tensor in model.plan_.blocks[0].network.state_dict().items():
            assert torch.equal(other.plan_.blocks[0].network.state_dict()[name], tensor)
    assert (tmp_path / "m.anytime").read_bytes() == cases.packed(buying[0])  # the same model, the same bytes


@pytest.mark.parametrize("stages", [0, 1, 2])
def test_a_truncated_model_is_saved_as_it_is(pictures, seeing, stages):
    small = seeing.truncate(([0.0, *seeing.stage_costs_])[stages])
    raw = cases.packed(small)
    assert loaded(raw).n_stages_ == stages
    same(small, loaded(raw), pictures[0])
    if stages:
        assert len(raw) < len(cases.packed(seeing))  # what is never computed is not kept


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("denseann", {"layers": [2, 2], "growth": 4, "period": 2}),
        ("msdnet", {"layers": [2, 2], "base": 4, "growth": 2, "period": 1}),
        ("resann", {"n": 2, "c": 2, "period": 3}),
    ],
)
def test_every_backbone_of_the_registry_comes_back(pictures, name, arguments):
    recipe = TrainingRecipe(epochs=1, batch_size=32)
    model = at.AnytimeNetworkClassifier(
        backbone=name, backbone_arguments=arguments, recipe=recipe, random_state=0
    )
    same(model.fit(*pictures), loaded(cases.packed(model)), pictures[0])


def test_a_model_of_a_gpu_is_loaded_where_there_is_none(pictures, seeing, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    elsewhere = copy.copy(seeing)
    elsewhere.device = "cuda:1"
    other = loaded(cases.packed(elsewhere))
    assert (other.device, other.plan_.blocks[0].device.type) == ("cuda:1", "cpu")
    same(seeing, other, pictures[0])


def test_loading_leaves_random_numbers_alone(seeing):
    raw = cases.packed(seeing)
    before = torch.random.get_rng_state()
    loaded(raw)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_loaded_network_can_be_trained_further(pictures, seeing):
    other = loaded(cases.packed(seeing)).set_params(
        warm_start=True, recipe=TrainingRecipe(epochs=1, batch_size=16, learning_rate=1e-3)
    )
    assert other.fit(*pictures).history_[0]["losses"][-1] < seeing.history_[0]["losses"][-1]


# ---------------------------------------------------------------------- what a stranger wrote


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": {"name": "os.system"}}, "no network of the registry is called 'os.system'"),
        ({"architecture": {"name": "resann", "n": 10**6}}, "asks for more than the 79 weights in the file"),
        (
            {"architecture": {"name": "resann", "n": 1, "c": 4.5}},
            "the argument 'c' of a network cannot be 4.5",
        ),
        ({"architecture": {"name": "resann", "n": 1, "hook": 1}}, "has no argument 'hook'"),
        ({"architecture": {"name": "msdnet", "layers": [1] * 20}}, "at most 12 groups of layers"),
        ({"architecture": {"name": "denseann", "layers": [0]}}, "'layers' of a network cannot be"),
        ({"architecture": "resann"}, "architecture: expected an object"),
        ({"input_shape": [3, 8, 9]}, "input_shape: list of 3 does not make 192 columns"),
        ({"input_shape": [192]}, "centre must be one finite number, or 192|cannot read inputs of shape"),
        ({"dtype": "float64"}, "type float32 in the file, but .* float64 in the network"),
        ({"dtype": "object"}, "dtype: expected one of float32, float64"),
        ({"width": 2}, "exits give 3 numbers, not 2"),
        ({"weights": []}, "belongs to nothing|only the network has a weight|asks for more"),
        ({"batch_rows": 0}, "batch_rows: expected a whole number"),
    ],
)
def test_a_wrong_description_is_refused(seeing, change, message):
    with pytest.raises(at.BadFileError, match=message):
        loaded(changed(seeing, lambda block, arrays: block.update(change)))


def _other_shape(block, arrays):
    arrays[f"{BLOCK}weight.0"] = arrays[f"{BLOCK}weight.0"][:2]


def _other_type(block, arrays):
    arrays[f"{BLOCK}weight.0"] = arrays[f"{BLOCK}weight.0"].astype(np.float64)


def _not_finite(block, arrays):
    arrays[f"{BLOCK}weight.0"] = np.full_like(arrays[f"{BLOCK}weight.0"], np.nan)


def _one_missing(block, arrays):
    block["weights"] = block["weights"][:-1]
    del arrays[f"{BLOCK}weight.{len(block['weights'])}"]


def _renamed(block, arrays):
    block["weights"][0] = "blocks.0.backdoor"


def _no_temperature(block, arrays):
    arrays[f"{BLOCK}temperatures"] = np.array([1.0, 0.0, 1.0])


def _no_spread(block, arrays):
    arrays[f"{BLOCK}spread"] = np.zeros(3)


def _columns_beyond(block, arrays):
    arrays[f"{BLOCK}reads"] = arrays[f"{BLOCK}reads"] + 1


def _ends_backwards(block, arrays):
    arrays[f"{BLOCK}ends"] = arrays[f"{BLOCK}ends"][::-1].copy()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_other_shape, r"has shape \(2, 3, 3, 3\) and type float32 in the file, but \(4, 3, 3, 3\)"),
        (_other_type, "type float64 in the file, but"),
        (_not_finite, "a weight of the network is not finite"),
        (_one_missing, "only the network has a weight"),
        (_renamed, "has a weight 'blocks.0"),
        (_no_temperature, "3 temperatures, all positive"),
        (_no_spread, "spread must be positive"),
        (_columns_beyond, "names a column that is not among the 192"),
        (_ends_backwards, "columns of a network's exits do not fit"),
    ],
)
def test_wrong_arrays_are_refused(seeing, change, message):
    with pytest.raises(at.BadFileError, match=message):
        loaded(changed(seeing, change))


def test_a_block_takes_no_column_that_is_not_paid(buying):
    def steal(block, arrays):
        number = block["weights"].index("blocks.0.columns")
        arrays[f"{BLOCK}weight.{number}"] = np.array(
            np.setdiff1d(arrays[f"{BLOCK}reads"], arrays[f"{BLOCK}weight.{number}"])[
                : arrays[f"{BLOCK}weight.{number}"].size
            ],
            dtype=np.int64,
        )

    with pytest.raises(at.BadFileError, match="takes columns that its exit does not name"):
        loaded(changed(buying[0], steal))


@pytest.mark.parametrize(
    "architecture",
    [
        {"name": "resann", "n": 1, "c": 1 << 20, "input_shape": [3, 8, 8], "n_outputs": 3},
        {"name": "resann", "n": 1, "c": 4, "side": 1 << 20, "hidden": 1 << 20},
        {"name": "mlp", "groups": [[0]], "width": 1 << 20, "n_outputs": 1 << 20},
        {"name": "msdnet", "layers": [1] * 12, "base": 1 << 20, "growth": 1 << 20},
        {"name": "denseann", "layers": [60], "growth": 1 << 20},
    ],
)
def test_memory_is_taken_only_for_what_a_file_holds(seeing, architecture):
    """Terabytes of claimed weights: refused before any is made."""
    raw = changed(seeing, lambda block, arrays: block.update(architecture=architecture))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(at.BadFileError):
        loaded(raw)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_a_flip_of_any_byte_is_found(buying):
    raw = cases.packed(buying[0])
    for place in range(0, len(raw), 97):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << (place % 8)
        with pytest.raises(at.BadFileError):
            loaded(bytes(damaged))
    for size in range(0, len(raw), 997):
        with pytest.raises(at.BadFileError):
            loaded(raw[:size])


def test_mutated_files_are_refused_or_answer(buying, seeing):
    """Values and arrays changed at random, checksums made right again."""
    originals = [cases.Parts(cases.packed(model)) for model in (buying[0], seeing)]
    outcomes = {"refused": 0, "answers": 0}
    for number in range(150):
        rnd = random.Random(f"network:{number}")
        original = originals[number % 2]
        parts = copy.copy(original)
        parts.manifest, parts.arrays = copy.deepcopy(original.manifest), dict(original.arrays)
        rnd.choice([cases.change_json, cases.change_array])(rnd, parts)
        try:
            model = loaded(parts.assembled())
        except at.BadFileError:
            outcomes["refused"] += 1
            continue
        if getattr(model, "input_shape_", (1,)) == (3, 8, 8):
            model.predict(np.zeros((2, 3, 8, 8)))
            list(model.stages(np.zeros((2, 3, 8, 8))))
        else:
            fuzz.use(model)
        outcomes["answers"] += 1
    assert min(outcomes.values()) > 5  # both happen


def test_other_classes_hold_no_network_and_networks_nothing_else(seeing):
    parts = cases.Parts(cases.packed(seeing))
    parts.manifest["estimator"] = "AnytimeClassifier"
    with pytest.raises(at.BadFileError):
        loaded(parts.assembled())
    parts = cases.Parts(cases.packed(cases.sample_models()["boosted"]))
    parts.manifest["estimator"] = "AnytimeNetworkClassifier"
    with pytest.raises(at.BadFileError):
        loaded(parts.assembled())


# ---------------------------------------------------------------------- modules of one's own


def test_a_module_of_ones_own_is_asked_for(tmp_path, pictures, own):
    model, network = own
    path = tmp_path / "own.anytime"
    model.save(path)
    with pytest.raises(DetachedModelError, match=r"weights of 'ExitNetwork'.*load\(path, module=network\)"):
        at.load(path)
    before = copy.deepcopy(network.state_dict())
    other = at.load(path, module=network)
    assert other.detached_ is None
    same(model, other, pictures[0])
    for name, tensor in network.state_dict().items():  # it was copied
        assert torch.equal(tensor, before[name])
    small = model.truncate(model.stage_costs_[0])
    small.save(path)
    same(small, at.load(path, module=network), pictures[0])


def test_another_module_is_refused(tmp_path, own, seeing):
    path = tmp_path / "own.anytime"
    own[0].save(path)
    with pytest.raises(ValueError, match=r"only the (file|network) has a weight"):
        at.load(path, module=build("resann", n=1, c=4, input_shape=[3, 8, 8], n_outputs=3))
    with pytest.raises(TypeError, match="must be an ExitNetwork"):
        at.load(path, module=torch.nn.Linear(3, 3))
    with pytest.raises(ValueError, match="has 2 exits, this module 1"):
        at.load(path, module=own[1].head(1))
    with pytest.raises(TypeError, match="load it without costly"):
        at.load(path, costly=lambda X: X)
    seeing.save(path)
    with pytest.raises(ValueError, match="there is nothing to attach"):
        at.load(path, module=own[1])


# ---------------------------------------------------------------------- telling


def test_a_file_is_described_and_inspected(tmp_path, seeing, own, capsys):
    from anytime.cli.inspection import inspect

    for model, line in (
        (seeing, "resann(c=4, n=1, side=4) for inputs of 3 x 8 x 8"),
        (own[0], "a module of your own"),
    ):
        path = tmp_path / "m.anytime"
        model.save(path)
        assert describe(path)["blocks"] == [{"kind": "network", "n_stages": model.n_stages_}]
        inspect(path)
        assert line in capsys.readouterr().out


def test_without_torch_a_file_says_what_it_needs(tmp_path, seeing):
    path = tmp_path / "m.anytime"
    seeing.save(path)
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import anytime as at\n"
        "from anytime.files import describe\n"
        f"print(describe({str(path)!r})['n_stages'])\n"
        f"at.load({str(path)!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "3"
    assert "needs PyTorch: pip install 'anytime[torch]'" in done.stderr
