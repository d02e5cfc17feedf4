"""Networks cut into blocks: exits, their places and their prices (linear_and_networks 7.4)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from anytime.networks import ExitNetwork, build, exit_positions, mult_adds, with_exits  # noqa: E402


@pytest.mark.parametrize(
    ("units", "period", "first", "count"),
    [(16, 2, 2, 8), (33, 3, 3, 11), (75, 3, 3, 25), (82, 14, 12, 6), (33, 7, 5, 5), (15, 1, 1, 15)],
)
def test_exits_stand_where_the_papers_put_them(units, period, first, count):
    """linear_and_networks 7.4: ResANN50, ResANN101, (25, c), DenseANN169, MSDNet33, and a head at each unit."""
    positions = exit_positions(units, period)
    assert (positions[0], positions[-1], len(positions)) == (first, units, count)


@pytest.mark.parametrize(("n", "c"), [(2, 4), (3, 16)])
def test_residual_networks_cost_what_the_closed_form_says(n, c):
    """linear_and_networks 7.4: stem 27648 c, unit 18432 c^2, first unit of groups 2 and 3 13824 c^2."""
    counts = mult_adds(build("resann", n=n, c=c), (3, 32, 32))
    units = [13824 * c**2 if u and u % n == 0 else 18432 * c**2 for u in range(3 * n)]
    units[0] += 27648 * c
    assert list(counts.blocks) == units
    assert list(counts.heads) == [c * 2 ** (u // n) * 10 for u in range(3 * n)]
    assert counts.exits()[-1] == sum(units) + sum(counts.heads)


def test_large_residual_networks_have_an_exit_behind_every_third_unit():
    assert build("resann", n=25, c=2).n_exits == 25


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("resann", {"n": 2, "c": 4}),
        ("resann", {"n": 2, "c": 4, "side": 2}),
        ("denseann", {"layers": (2, 3, 2), "growth": 4, "period": 2}),
        ("msdnet", {"layers": (2, 2, 2), "base": 4, "growth": 4, "period": 2}),
        ("mlp", {"groups": [[0, 1], [], [2]], "width": 8, "n_outputs": 3}),
    ],
)
def test_running_block_by_block_gives_the_same_bits_as_all_at_once(name, arguments):
    torch.manual_seed(0)
    network = build(name, **arguments).eval()
    x = torch.randn(3, 3) if name == "mlp" else torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        whole = network(x)
        state = x
        for i in range(network.n_exits):
            state = network.advance(state, i, i)
            assert torch.equal(network.heads[i](state), whole[i])
        short = network.head(2)
        assert torch.equal(short(x), whole[:2])
    again = build(**{k if k != "name" else "name": v for k, v in short.architecture.items()})
    again.load_state_dict(short.state_dict())
    assert torch.equal(again.eval()(x), whole[:2])


def test_a_network_reads_only_columns_of_blocks_so_far():
    torch.manual_seed(0)
    network = build("mlp", groups=[[0], [1], [2]], width=8, n_outputs=1).eval()
    x = torch.randn(4, 3)
    other = x.clone()
    other[:, 2] += 1.0
    a, b = network(x), network(other)
    assert torch.equal(a[:2], b[:2])
    assert not torch.equal(a[2], b[2])


def test_missing_values_are_read():
    network = build("mlp", groups=[[0], [1]], width=8, n_outputs=1).eval()
    x = torch.tensor([[float("nan"), 1.0], [0.0, 1.0]])
    said = network(x)
    assert torch.isfinite(said).all()
    assert not torch.equal(said[:, 0], said[:, 1])  # missing is not the same as the mean


class _Skips(torch.nn.Module):
    """A module with a shortcut across its layers, and control flow inside one of them."""

    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.body = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, padding=1), _Branching())
        self.tail = torch.nn.Conv2d(4, 6, 3, padding=1)
        self.head = torch.nn.Linear(6, 5)

    def forward(self, x):
        first = self.stem(x)
        y = self.body(first)
        y = self.tail(y + first) * first.mean()
        return self.head(y.mean(dim=(2, 3)))


class _Branching(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 1e9 else torch.relu(x)


def test_exits_are_put_behind_named_layers_of_any_module():
    torch.manual_seed(0)
    module = _Skips().eval()
    network = with_exits(module, at=["stem", "body.0", "tail"], input_shape=(3, 8, 8)).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        said = network(x)
        assert said.shape == (4, 2, 5)
        assert torch.equal(said[-1], module(x))
    assert network.blocks[0].stem.weight is module.stem.weight
    with torch.no_grad():
        module.head.bias += 1.0
        assert torch.equal(network(x)[-1], module(x))


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (["stems"], "no layer 'stems'; did you mean 'stem'"),
        ([], "at least one layer to put an exit after"),
        (["tail", "stem"], "in the order of the forward pass: \\['stem', 'tail'\\]"),
    ],
)
def test_exits_at_wrong_layers_are_refused(at, message):
    with pytest.raises(ValueError, match=message):
        with_exits(_Skips(), at=at, input_shape=(3, 8, 8))


def test_a_module_that_cannot_be_traced_is_named():
    class Branches(_Skips):
        def forward(self, x):
            return super().forward(x if x.sum() > 0 else -x)

    with pytest.raises(ValueError, match="Branches cannot be cut into blocks"):
        with_exits(Branches(), at=["stem"], input_shape=(3, 8, 8))


def test_heads_and_blocks_come_in_pairs():
    with pytest.raises(ValueError, match="1 blocks but 0 heads"):
        ExitNetwork([torch.nn.Identity()], [])
