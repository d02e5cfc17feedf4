"""Exits behind the layers of modules that were not written for it: shapes of torchvision and timm."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import anytime as at  # noqa: E402
from anytime.engine import Run  # noqa: E402
from anytime.networks import ExitNetwork, NetworkBlock, mult_adds, with_exits  # noqa: E402

torch.set_num_threads(1)


class _Transformer(nn.Module):
    """A vision transformer: class token, table of positions, an attention mask by default None, rows second within."""

    def __init__(self, side=8, patch=4, width=8, depth=3, rows_second=False):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn((side // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(_Attends(width, batch_first=not rows_second) for _ in range(depth))
        self.rows_second = rows_second
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x, mask=None, *, scale=1.0):
        n = x.shape[0]
        table = self.positions * scale
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(n, -1, -1), x], dim=1) + table
        if self.rows_second:
            x = x.transpose(0, 1)
        for block in self.blocks:
            x = block(x, mask=mask)
        if self.rows_second:
            x = x.transpose(0, 1)
        # sizes and tables are needed again behind the exits
        return self.head(self.norm(x + table).reshape(n, -1, 8).mean(dim=1))


class _Attends(nn.Module):
    def __init__(self, width, batch_first):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=batch_first)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))

    def forward(self, x, mask=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class _InPlace(nn.Module):
    """Layers that write over their inputs, a layer that is used twice, and dropout that is a function."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(6, 6, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.twice = nn.Conv2d(6, 6, 3, padding=1)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        x = self.features(x)
        x = self.twice(torch.relu(self.twice(x)))
        x = functional.dropout(x.mean(dim=(2, 3)), 0.5 if self.training else 0.0, training=self.training)
        return self.head(x)


class _Dense(nn.Module):
    """Every layer reads all layers before it, as a list."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({f"layer{i}": nn.Conv2d(3 + 2 * i, 2, 3, padding=1) for i in range(4)})
        self.head = nn.Linear(11, 4)

    def forward(self, x):
        seen = [x]
        for layer in self.layers.values():
            seen.append(torch.relu(layer(torch.cat(seen, dim=1))))
        return self.head(torch.cat(seen, dim=1).mean(dim=(2, 3)))


MODULES = {
    "transformer": (_Transformer, ["blocks.0", "blocks.1"]),
    "rows second": (lambda: _Transformer(rows_second=True), ["patches", "blocks.0", "blocks.2"]),
    "in place": (_InPlace, ["features.0", "features.2", "twice"]),
    "dense": (_Dense, ["layers.layer0", "layers.layer2"]),
}


@pytest.fixture(params=list(MODULES))
def made(request):
    make, at = MODULES[request.param]
    torch.manual_seed(0)
    module = make()
    return module, at


def test_the_last_exit_is_the_module_bit_for_bit(made):
    module, at = made
    network = with_exits(module, at, input_shape=(3, 8, 8)).eval()
    x = torch.randn(3, 3, 8, 8)
    with torch.no_grad():
        said = network(x)
        assert said.shape == (len(at) + 1, 3, 4)
        assert torch.equal(said[-1], module.eval()(x))


def test_exits_train_with_the_module(made):
    module, at = made
    module.train()
    network = with_exits(module, at, input_shape=(3, 8, 8))
    assert module.training
    x = torch.randn(3, 3, 8, 8)
    torch.manual_seed(1)
    wanted = module(x)
    torch.manual_seed(1)
    said = network(x)
    assert torch.equal(said[-1], wanted)
    said.square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    assert {id(p) for p in module.parameters()} <= {id(p) for p in network.parameters()}


def test_rows_leave_a_batch_and_others_stay_the_same(made):
    """What a block leaves has a row for every input: sizes and tables are not carried along."""
    module, at = made
    network = with_exits(module, at, input_shape=(3, 8, 8)).eval()
    X = np.random.default_rng(0).normal(size=(6, 192)).astype(np.float32)
    block = NetworkBlock(network, [np.arange(192)] * network.n_exits, (3, 8, 8))
    memory = block.remember(6)
    block.proceed(0, 0, X, memory)
    rows = np.array([4, 1])
    part = {name: kept[rows] for name, kept in memory.items()}
    for stage in range(1, network.n_exits):
        said = block.proceed(stage, stage, X[rows], part)
    assert np.allclose(said, block.outputs(network.n_exits - 1, X)[rows], atol=1e-6)


class _AfterLooks:
    """A stop flag that is set after some looks at it."""

    def __init__(self, looks):
        self.looks = looks

    def is_set(self):
        self.looks -= 1
        return self.looks < 0


@pytest.mark.parametrize("looks", [1, 2, 3, 10])
def test_rows_that_go_together_get_the_answers_of_stages_done_one_by_one(made, looks):
    """The short way of the engine against the one that keeps a ledger, stopped anywhere and continued."""
    module, at_layers = made
    model = at.make_anytime(with_exits(module, at_layers, input_shape=(3, 8, 8)), input_shape=(3, 8, 8))
    X = np.random.default_rng(0).normal(size=(5, 192)).astype(np.float32)
    short, long = Run(model.plan_, X), Run(model.plan_, X, metered=True)
    over = short.advance(stop=_AfterLooks(looks))
    reached = int(short.done[0])
    assert over == (reached == model.n_stages_)
    assert reached == min(looks - 1, model.n_stages_)  # one look before it begins
    long.advance(reached)
    np.testing.assert_array_equal(short.scores(), long.scores())
    np.testing.assert_array_equal(short.updates, long.updates)
    short.advance()
    long.advance()
    np.testing.assert_array_equal(short.scores(), long.scores())


def test_a_copy_has_layers_of_its_own_and_ties_its_weights():
    module = _InPlace().eval()
    network = copy.deepcopy(with_exits(module, ["features.0", "twice"], input_shape=(3, 8, 8))).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        before = network(x)
        module.twice.weight.zero_()
        assert torch.equal(network(x), before)
        network.blocks[1].twice.weight.zero_()
        assert not torch.equal(network(x), before)


def test_frozen_layers_stay_frozen():
    module = _Transformer().train()
    module.norm.eval()
    with_exits(module, ["blocks.0"], input_shape=(3, 8, 8))
    assert module.training
    assert not module.norm.training


def test_attention_costs_what_its_matrix_products_do():
    """T tokens of width D: 4 T D^2 to and from heads, 2 T^2 D within them, 2 T D H in the perceptron."""
    tokens, width, hidden = 5, 8, 16
    per_block = 4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * hidden
    patches = 4 * width * 3 * 4 * 4
    for rows_second in (False, True):
        network = with_exits(
            _Transformer(rows_second=rows_second), ["blocks.0", "blocks.1"], input_shape=(3, 8, 8)
        )
        counts = mult_adds(network, (3, 8, 8))
        assert counts.blocks == (patches + per_block, per_block, per_block + width * 4)
        assert counts.heads == (width * 4, width * 4, 0)


def test_fused_attention_is_counted():
    class Fused(nn.Module):
        def forward(self, x):
            return functional.scaled_dot_product_attention(x, x, x)

    network = ExitNetwork([nn.Sequential(nn.Linear(6, 6), Fused())], [nn.Flatten()])
    assert mult_adds(network, (2, 7, 6)).blocks == (2 * 7 * 36 + 2 * 2 * 7 * 7 * 6,)


def test_heads_read_images_with_channels_last():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = _Turn()
            self.head = nn.Linear(3, 4)

        def forward(self, x):
            return self.head(self.turn(x).mean(dim=(1, 2)))

    network = with_exits(Last(), ["turn"], input_shape=(3, 8, 8))
    assert network.heads[0].linear.in_features == 3


class _Turn(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1)


class _Windows(nn.Module):
    """Windows of images stand in a row, as in a Swin transformer."""

    def __init__(self):
        super().__init__()
        self.inside, self.head = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        windows = self.inside(x.reshape(-1, 2, 4))
        return self.head(windows.reshape(x.shape[0], -1, 4).mean(dim=1))


class _Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, y):
        return self.layer(x) + y


class _Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        return [self.layer(x), x]


@pytest.mark.parametrize(
    ("module", "at", "message"),
    [
        (_Two, ["layer"], "forward of _Two needs x, y, and exits go on from one tensor"),
        (_Listed, ["layer"], "the module gives \\[layer, x\\], not one tensor"),
        (_Transformer, ["blocks"], "never calls the layer 'blocks'; name a layer in it, such as 'blocks.0'"),
        (_Transformer, "blocks.0", "at must be a list of at least one layer"),
        (
            _Transformer,
            ["blocks.0.attention"],
            "no exit can read 'blocks.0.attention', because it gives a tuple",
        ),
    ],
)
def test_modules_that_cannot_have_exits_are_refused(module, at, message):
    with pytest.raises(ValueError, match=message):
        with_exits(module(), at, input_shape=(8,) if module is _Listed else (3, 8, 8))


def test_layers_that_mix_rows_are_refused():
    with pytest.raises(
        ValueError, match=r"no exit can read 'inside', because it gives shape \(4, 2, 4\) for 2 inputs"
    ):
        with_exits(_Windows(), ["inside"], input_shape=(16,))


def _models():
    """(library, name, arguments, layers, side): one of each family."""
    return [
        ("torchvision", "resnet18", {}, ["layer1", "layer2.1", "layer3"], 32),
        ("torchvision", "mobilenet_v3_small", {}, ["features.3", "features.5"], 32),
        ("torchvision", "efficientnet_b0", {}, ["features.2", "features.6.1"], 32),
        ("torchvision", "convnext_tiny", {}, ["features.1", "features.3.1"], 32),
        ("torchvision", "densenet121", {}, ["features.denseblock1.denselayer3", "features.denseblock2"], 32),
        ("torchvision", "regnet_y_400mf", {}, ["trunk_output.block1", "trunk_output.block3"], 32),
        ("timm", "vit_tiny_patch16_224", {"img_size": 32}, ["blocks.3", "blocks.7"], 32),
        ("timm", "deit_tiny_distilled_patch16_224", {"img_size": 32}, ["blocks.3", "blocks.7"], 32),
        ("timm", "eva02_tiny_patch14_224", {"img_size": 28}, ["blocks.3", "blocks.7"], 28),
        ("timm", "convnext_atto", {}, ["stages.1", "stages.2.blocks.3"], 32),
        ("timm", "regnety_002", {}, ["s2", "s3.b2"], 32),
    ]


@pytest.mark.parametrize(
    ("library", "name", "arguments", "at", "side"), _models(), ids=lambda value: str(value)[:24]
)
def test_models_of_torchvision_and_timm_can_be_cut(library, name, arguments, at, side):
    try:
        make = pytest.importorskip("torchvision.models" if library == "torchvision" else "timm")
    except RuntimeError as error:  # torchvision of another build than torch
        pytest.skip(f"{library} cannot be loaded: {error}")
    torch.manual_seed(0)
    made = (
        getattr(make, name) if library == "torchvision" else lambda **given: make.create_model(name, **given)
    )
    module = made(num_classes=5, **arguments).eval()
    network = with_exits(module, at, input_shape=(3, side, side)).eval()
    x = torch.randn(2, 3, side, side)
    with torch.no_grad():
        said = network(x)
        assert torch.equal(said[-1], module(x))
        state = network.advance(network.advance(x, 0, 0), 1, network.n_exits - 1)
        assert torch.equal(network.heads[-1](state), said[-1])
