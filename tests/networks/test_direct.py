"""Modules without the cost of calling them: the same bits, and only where they are known."""

from __future__ import annotations

import pickle

import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

from anytime.networks import build  # noqa: E402
from anytime.networks.direct import direct  # noqa: E402


@pytest.fixture
def network():
    torch.manual_seed(0)
    network = build("resann", n=2, c=4).eval()
    for buffer in network.buffers():
        if buffer.dtype.is_floating_point:
            buffer.uniform_(0.5, 2.0)
    return network


@torch.no_grad()
def test_blocks_and_heads_give_the_same_bits(network):
    plain = taken = torch.randn(3, 3, 32, 32)
    for block, head in zip(network.blocks, network.heads, strict=True):
        plain, taken = block(plain), direct(block)(taken)
        assert torch.equal(plain, taken)
        assert torch.equal(head(plain), direct(head)(taken))


@torch.no_grad()
def test_parameters_that_change_in_place_are_followed(network):
    x, block = torch.randn(1, 3, 32, 32), network.blocks[0]
    taken = direct(block)
    before = taken(x)
    network.load_state_dict({name: value * 2 for name, value in network.state_dict().items()})
    assert not torch.equal(taken(x), before)
    assert torch.equal(taken(x), block(x))


@torch.no_grad()
def test_hooks_are_called_whenever_they_were_added(network):
    block, x = network.blocks[0], torch.randn(1, 3, 32, 32)
    taken, calls = direct(block), []
    for part in (block, block[1], block[1].norm1):
        hook = part.register_forward_hook(lambda *_: calls.append(1))
        taken(x)
        hook.remove()
        taken(x)
    assert len(calls) == 3


def test_unknown_modules_are_called_as_they_are(network):
    assert direct(network.blocks[-1]) is not network.blocks[-1]
    unknown = torch.nn.Conv2d(3, 3, 1)
    assert direct(unknown) is unknown


@torch.no_grad()
def test_what_is_taken_can_be_pickled(network):
    x = torch.randn(1, 3, 32, 32)
    taken = direct(network.blocks[0])
    assert torch.equal(pickle.loads(pickle.dumps(taken))(x), taken(x))
