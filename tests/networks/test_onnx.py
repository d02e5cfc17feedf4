"""Networks in ONNX Runtime: an answer per budget, and block by block."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")
pytest.importorskip("onnx", reason="needs anytime[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

from torch import nn  # noqa: E402

import anytime as at  # noqa: E402
from anytime.networks import TrainingRecipe, build, with_exits  # noqa: E402

torch.set_num_threads(1)
NAMES = np.array(["ant", "bee", "cat"])


def _images(arguments):
    torch.manual_seed(0)
    name = arguments.pop("name")
    network = build(name, input_shape=(3, 16, 16), n_outputs=3, **arguments)
    _unsettle(network)
    return at.make_anytime(network, input_shape=(3, 16, 16), classes=NAMES)


def _unsettle(network):
    """Statistics that are not 0 and 1, so that leaving one out would show."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0.0, 0.1)
            module.running_var.uniform_(0.5, 2.0)


class _Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 8, 4, stride=4), nn.Parameter(torch.randn(1, 1, 8))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def _transformer():
    torch.manual_seed(0)
    return at.make_anytime(
        with_exits(_Tokens(), ["layers.0"], input_shape=(3, 16, 16)), input_shape=(3, 16, 16), classes=NAMES
    )


def _table(kind=at.AnytimeNetworkClassifier):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(80, 4))
    y = (
        X[:, 0] + 0.5 * X[:, 1] + 3.0
        if kind is at.AnytimeNetworkRegressor
        else NAMES[(X[:, 0] > 0).astype(int)]
    )
    recipe = TrainingRecipe(epochs=2, batch_size=32, optimizer="adamw", learning_rate=5e-3)
    return kind(recipe=recipe, random_state=0, max_stages=3).fit(X, y)


MODELS = {
    "resann": lambda: _images({"name": "resann", "n": 1, "c": 4, "side": 2}),
    "denseann": lambda: _images({"name": "denseann", "layers": (2, 2), "growth": 4, "period": 2}),
    "msdnet": lambda: _images({"name": "msdnet", "layers": (2, 2), "base": 4, "growth": 4, "period": 2}),
    "transformer": _transformer,
    "table": _table,
    "numbers": lambda: _table(at.AnytimeNetworkRegressor),
}


@pytest.fixture(scope="module", params=list(MODELS))
def model(request):
    return MODELS[request.param]()


def _rows(model, n):
    X = np.random.default_rng(1).normal(size=(n, *model.input_shape_)).astype(np.float32)
    if X.ndim == 2:
        X[0, 1] = np.nan  # missing values are read
    return X


def _check(model, answer, X, budget, suffix=""):
    np.testing.assert_array_equal(answer[f"prediction{suffix}"].shape[0], len(X))
    if isinstance(model, at.AnytimeNetworkRegressor):
        np.testing.assert_allclose(answer[f"prediction{suffix}"], model.predict(X, budget=budget), rtol=2e-5)
        return
    np.testing.assert_allclose(
        answer[f"probability{suffix}"], model.predict_proba(X, budget=budget), rtol=2e-4, atol=1e-6
    )
    assert (answer[f"prediction{suffix}"] == model.predict(X, budget=budget)).all()


def _run(path, inputs):
    session = runtime.InferenceSession(
        path if isinstance(path, bytes) else str(path), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    wanted = {given.name: inputs[given.name] for given in session.get_inputs()}
    return dict(zip(names, session.run(None, wanted), strict=True))


def test_every_budget_has_its_answer(model, tmp_path):
    budgets = [float(model.stage_costs_[0]), None]
    proto = model.to_onnx(tmp_path / "model.onnx", budgets=budgets, dtype="float32")
    first = proto.SerializeToString()
    assert (tmp_path / "model.onnx").read_bytes() == first
    label = repr(budgets[0]).removesuffix(".0")
    for n in (1, 5):  # any number of rows
        X = _rows(model, n)
        answers = _run(first, {"X": X})
        _check(model, answers, X, budgets[0], f"_{label}")
        _check(model, answers, X, None, "_all")


def test_the_answers_of_budgets_differ(model):
    """A negative control: the exits are not all the last."""
    X = _rows(model, 5)
    early, late = (
        model.to_onnx(budgets=[budget]).SerializeToString() for budget in (model.stage_costs_[0], None)
    )
    kind = "prediction" if isinstance(model, at.AnytimeNetworkRegressor) else "probability"
    parts = [
        next(
            value for name, value in _run(part, {"X": X.astype(np.float64)}).items() if name.startswith(kind)
        )
        for part in (early, late)
    ]
    assert not np.allclose(*parts, rtol=1e-3)


def test_blocks_run_one_after_the_other(model, tmp_path):
    paths = model.to_onnx_blocks(tmp_path / "blocks")
    assert len(paths) == model.n_stages_
    for n in (1, 5):
        X = _rows(model, n)
        values = {"X": X}
        for path, cost in zip(paths, model.stage_costs_, strict=True):
            answers = _run(path, values)
            _check(model, answers, X, cost)
            values = {name.replace("next_", "state_"): value for name, value in answers.items()}


def test_what_torch_cannot_write_is_refused():
    class Layer(nn.Module):
        def forward(self, x):
            return torch.special.bessel_j0(x)

    made = at.make_anytime(nn.Sequential(nn.Linear(4, 3), Layer()), input_shape=(4,))
    with pytest.raises(ValueError, match=r"torch cannot write this network as ONNX: .*bessel"):
        made.to_onnx()


def test_export_leaves_the_network_as_it_was():
    model = MODELS["resann"]()
    X = _rows(model, 2)
    before = model.predict_proba(X)
    model.to_onnx()
    assert (model.predict_proba(X) == before).all()
    assert "forward" not in model.plan_.blocks[0].network.heads[0].pool.__dict__
