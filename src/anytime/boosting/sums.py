"""Sums over rows in which the order of the rows does not matter, and so neither who has them.

Numbers are rounded to multiples of one unit, a power of two, so small that all of them together stay below 2^51 units: floats
add such numbers exactly.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime._native import largest_parts, leaf_sums
from anytime.plan import Array

_EXACT_BITS = 51  # whole numbers below 2 to this are added exactly; see leaf_sums


def exact_leaf_sums(
    numbers: NDArray[Any],  # (n, K)
    leaf: NDArray[np.int32],  # (n,)
    n_leaves: int,
    rows: NDArray[np.intp] | None = None,  # that count; None: all
    peers: Any = None,  # who have the other rows; see ``TreeGrower.peers``
    n_threads: int = 1,
) -> Array:
    """(n_leaves, K) sums over the rows of each leaf, of all peers."""
    if rows is None:
        rows = np.arange(len(leaf))
    by_peer = _exchanged(np.append(largest_parts(numbers, rows, n_threads), rows.size), peers)
    n_bits = int(by_peer[:, -1].sum()).bit_length()
    exponent = np.frexp(by_peer[:, :-1].max(axis=0))[1] + n_bits - _EXACT_BITS
    exponent = np.maximum(exponent, -1000)  # of numbers next to 0, whose units floats do not have
    whole = leaf_sums(numbers, leaf, rows, n_leaves, np.ldexp(1.0, -exponent), n_threads)
    return np.asarray(np.ldexp(_exchanged(whole, peers).sum(axis=0), exponent))


def _exchanged(numbers: Array, peers: Any) -> Array:
    """(W, ...) these numbers and those of the peers."""
    if peers is None:
        return numbers[None]
    answers = peers.exchange([numbers.tobytes()] * peers.size)
    return np.stack([np.frombuffer(answer).reshape(numbers.shape) for answer in answers])
