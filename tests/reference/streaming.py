"""Learners on a stream, one at a time and in the obvious way."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

FIRST, WINDOW, PAUSE = (
    100,
    1000,
    5000,
)  # rows for the first bins, kept rows, the most rows between two looks at bins
LEAST, PATIENCE, CROWDED = 5.0, 20, 3.0


# ---------------------------------------------------------------------- linear functions and nets


class Ridge:
    """The minimiser of ``sum w |q - W z|^2 + penalty |W|^2``, solved anew after every round."""

    def __init__(self, d, m, penalty):
        self.A, self.B = penalty * np.eye(d + 1), np.zeros((d + 1, m))
        self.W = np.zeros((d + 1, m))

    def predict(self, x):
        return np.append(np.nan_to_num(x), 1.0) @ self.W

    def learn(self, X, targets, weights):
        for x, q, w in zip(X, targets, weights, strict=True):
            z = np.append(np.nan_to_num(x), 1.0)
            self.A += w * np.outer(z, z)
            self.B += w * np.outer(z, q)
        self.W = np.linalg.solve(self.A, self.B)


class Net:
    """A net of one hidden layer (or none), with numerical care and nothing else: gradients by the chain rule."""

    def __init__(self, hidden, readout, activation, method, step):
        self.hidden, self.readout = None if hidden is None else hidden.copy(), readout.copy()
        self.activation, self.method, self.step = activation, method, step
        self.memory = {}
        self.t = 0

    def units(self, x):
        z = np.append(np.nan_to_num(x), 1.0)
        if self.activation == "none":
            return z
        a = self.hidden @ z
        f = {
            "cosine": np.cos,
            "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
            "leaky_relu": lambda v: np.where(v > 0, v, 0.01 * v),
        }
        return np.append(f[self.activation](a), 1.0)

    def predict(self, x):
        return self.readout @ self.units(x)

    def learn(self, X, targets, weights):
        if not weights.sum():
            return
        g_out = np.zeros_like(self.readout)
        g_hidden = None if self.hidden is None else np.zeros_like(self.hidden)
        for x, q, w in zip(X, targets, weights / weights.sum(), strict=True):
            u = self.units(x)
            miss = w * (self.readout @ u - q)
            g_out += np.outer(miss, u)
            if self.activation in ("sigmoid", "leaky_relu"):
                slope = u * (1 - u) if self.activation == "sigmoid" else np.where(u > 0, 1.0, 0.01)
                g_hidden += self.hidden_gradient((self.readout.T @ miss * slope)[:-1], x)
        self.t += 1
        self.readout -= self._move("readout", g_out)
        if self.activation in ("sigmoid", "leaky_relu"):
            self.hidden -= self._move("hidden", g_hidden)

    def hidden_gradient(self, pull, x):
        return np.outer(pull, np.append(np.nan_to_num(x), 1.0))

    def _move(self, name, g):
        if self.method == "sgd":
            return self.step * g
        first, second = self.memory.get(name, (np.zeros_like(g), np.zeros_like(g)))
        if self.method == "adagrad":
            self.memory[name] = first, second + g**2
            return self.step * g / (np.sqrt(second + g**2) + 1e-8)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        self.memory[name] = first, second
        return self.step * (first / (1 - 0.9**self.t)) / (np.sqrt(second / (1 - 0.999**self.t)) + 1e-8)


class ConvNet(Net):
    """Windows cut out of an image framed by zeros: one before and what it takes behind, as for windows of 3 and stride 2."""

    def __init__(self, shape, size, stride, frame, *net):
        super().__init__(*net)
        self.shape, self.size, self.stride, self.frame = shape, size, stride, frame

    def windows(self, x):
        image = np.pad(np.nan_to_num(x).reshape(self.shape), self.frame)
        ends = [image.shape[k] - self.size + 1 for k in (0, 1)]
        places = [(i, j) for i in range(0, ends[0], self.stride) for j in range(0, ends[1], self.stride)]
        return [np.append(image[i : i + self.size, j : j + self.size], 1.0) for i, j in places]

    def units(self, x):
        sums = np.array([weights @ seen for weights in self.hidden for seen in self.windows(x)])
        return np.append(1 / (1 + np.exp(-sums)), 1.0)

    def hidden_gradient(self, pull, x):
        windows = self.windows(x)
        of_channel = pull.reshape(len(self.hidden), len(windows))
        return np.array([sum(p * seen for p, seen in zip(row, windows, strict=True)) for row in of_channel])


# ---------------------------------------------------------------------- Hoeffding histogram trees


class Bins:
    """Bins of columns: found on the first rows, and again where one of them has become too full."""

    def __init__(self, d, n_bins):
        self.n_bins, self.cuts = n_bins, [[] for _ in range(d)]
        self.rows, self.seen, self.next, self.found = [], 0, FIRST, False

    def code(self, column, value):
        if math.isnan(value):
            return self.n_bins
        return sum(cut < value for cut in self.cuts[column])

    def see(self, x):
        self.rows = [*self.rows, x][-WINDOW:]
        self.seen += 1

    def look(self):
        """Columns whose bins have changed, with shares of old bins in new ones."""
        if self.seen < self.next:
            return {}
        self.next = self.seen + min(self.seen, PAUSE)
        changed = {}
        for column in range(len(self.cuts)):
            values = sorted(row[column] for row in self.rows if not math.isnan(row[column]))
            if self.found and not self._outgrown(column, values):
                continue
            old, self.cuts[column] = self.cuts[column], self._cuts(values)
            if self.found:
                changed[column] = self._shares(column, old, values)
        self.found = True
        return changed

    def _outgrown(self, column, values):
        groups = {}
        for value in values:
            groups.setdefault(self.code(column, value), []).append(value)
        most = int(CROWDED * len(values) / self.n_bins) + 1
        return any(len(group) > most and group[0] < group[-1] for group in groups.values())

    def _cuts(self, values):
        few = len(set(values)) <= self.n_bins
        cuts, left, bins, here = [], len(values), self.n_bins, 0
        for a, b in pairwise(values):
            here += 1
            if bins > 1 and a < b and (few or here * bins >= left):
                middle = 0.5 * a + 0.5 * b
                cuts.append(middle if a <= middle < b else a)
                left, bins, here = left - here, bins - 1, 0
        return cuts

    def _shares(self, column, old, values):
        share = np.zeros((self.n_bins, self.n_bins), np.float32)
        for value in values:
            share[sum(cut < value for cut in old), self.code(column, value)] += 1
        for b in range(len(old) + 1):
            if share[b].sum() > 0:
                share[b] /= share[b].sum(dtype=np.float32)
            elif b < len(old):
                share[b, self.code(column, old[b])] = 1
            else:
                share[b, self.code(column, 0.0) if not old else len(self.cuts[column])] = 1
        return share


class Leaf:
    def __init__(self, depth, count, value):
        self.depth, self.count, self.value = depth, count, value
        self.counts = None  # (columns, n_bins + 1, 1 + m)
        self.square, self.since = 0.0, 0
        self.split = None  # (column, threshold, missing left, left, right)


class Tree:
    """One tree; ``columns`` are those it may split, and it sleeps for so many rows."""

    def __init__(self, columns, m, settings, sleep=0):
        self.columns, self.m, self.s, self.sleep = list(columns), m, settings, sleep
        self.root = Leaf(0, 0.0, np.zeros(m))
        self.leaves, self.wanted, self.early = 1, False, []

    def leaf(self, x):
        at = self.root
        while at.split is not None:
            column, threshold, missing_left, left, right = at.split
            value = x[column]
            at = left if value <= threshold or (missing_left and math.isnan(value)) else right
        return at

    def predict(self, x):
        return self.leaf(x).value

    def learn_row(self, x, q, w, bins):
        if self.sleep > 0:
            self.sleep -= 1
            return
        leaf = self.leaf(x)
        leaf.count += w
        if self.s.memory:
            leaf.count = min(leaf.count, max(self.s.memory, w))
        step = min(1.0, w * (1.0 + self.s.fade) / (leaf.count + self.s.fade))
        leaf.value = leaf.value + step * (q - leaf.value)
        if not bins.found:
            self.early.append((x, q, w))
            return
        if leaf.counts is None:
            if leaf.depth >= self.s.max_depth or self.leaves >= self.s.max_leaf_nodes:
                return
            if not self._take(leaf):
                self.wanted = True
                return
        self._count(leaf, x, q, w, bins)
        if leaf.since >= self.s.grace:
            self._look(leaf, bins)

    def recall(self, bins):
        if not self.early:
            return
        self._take(self.root)
        for x, q, w in self.early[-len(bins.rows) :]:
            self._count(self.root, x, q, w, bins)
        self.early = []
        if self.root.since >= self.s.grace:
            self._look(self.root, bins)

    def rebin(self, column, share):
        if column not in self.columns:
            return
        for leaf in self._all(self.root):
            if leaf.counts is not None:
                own = leaf.counts[self.columns.index(column)]
                moved = np.zeros_like(own[:-1])
                for a in range(len(share)):
                    for b in range(len(share)):
                        if own[a, 0] > 0 and share[a, b]:
                            moved[b] += share[a, b] * own[a]
                own[:-1] = moved

    def _all(self, leaf):
        return [leaf] if leaf.split is None else [*self._all(leaf.split[3]), *self._all(leaf.split[4])]

    def _take(self, leaf):
        shape = (len(self.columns), self.s.max_bins + 1, 1 + self.m)
        held = sum(other.counts is not None for other in self._all(self.root))
        size = math.prod(shape)
        if held >= max(2, 2**15 // size, min(8, 2**17 // size)):
            return False
        leaf.counts, leaf.square, leaf.since = np.zeros(shape, np.float32), 0.0, 0
        return True

    def _count(self, leaf, x, q, w, bins):
        leaf.square += w * sum(v * v for v in q.tolist())
        leaf.since += 1
        added = np.array([w, *(w * q)]).astype(np.float32)
        for place, column in enumerate(self.columns):
            leaf.counts[place, bins.code(column, x[column])] += added

    def _look(self, leaf, bins):
        leaf.since = 0
        found = []  # (gain, place, last bin to the left, missing left), the best of every column
        for place, column in enumerate(self.columns):
            own = leaf.counts[place].astype(np.float64)
            n_cuts = len(bins.cuts[column])
            total, missing = _sums(own[: n_cuts + 1]) + own[-1], own[-1]
            best = (0.0, place, -1, False)
            for b in range(n_cuts):
                left = _sums(own[: b + 1])
                sides = [(left, False if missing[0] > 0 else 2 * left[0] > total[0])]
                if missing[0] > 0:
                    sides.append((left + missing, True))
                for side, missing_left in sides:
                    gain = self._gain(side, total)
                    if gain > best[0]:
                        best = (gain, place, b, missing_left)
            found.append(best)
        gain, place, b, missing_left = max(found, key=lambda best: best[0])
        second = max([best[0] for best in found if best[1] != place], default=0.0)
        total = _sums(leaf.counts[0].astype(np.float64))
        n = total[0]
        variance = max(leaf.square - total[1:] @ total[1:] / n - gain, 0.0) / n
        n_cuts = sum(len(bins.cuts[column]) for column in self.columns)
        x = math.log((n_cuts + 1) / self.s.delta)
        noise = min(2 * x, 1 + 2 * math.sqrt(x / self.m) + 2 * x / self.m)
        bound = math.sqrt(math.log(1 / self.s.delta) / (2 * n))
        clear = second < gain * (1 - bound) or bound < self.s.tie
        if gain > 0 and gain > variance * noise and clear:
            self._split(leaf, place, b, missing_left, bins)
        elif self.wanted and n >= PATIENCE * self.s.grace:
            leaf.counts, self.wanted = None, False
        elif self.s.memory and n > self.s.memory:
            leaf.square *= self.s.memory / n
            leaf.counts *= np.float32(self.s.memory / n)

    def _gain(self, left, total):
        right = total[0] - left[0]
        if left[0] < LEAST or right < LEAST:
            return 0.0
        apart = total[0] * left[1:] - left[0] * total[1:]
        return sum(a * a for a in apart.tolist()) / (total[0] * left[0] * right)

    def _split(self, leaf, place, b, missing_left, bins):
        own = leaf.counts[place].astype(np.float64)
        total, left = _sums(own), _sums(own[: b + 1]) + (own[-1] if missing_left else 0.0)
        children = []
        for side in (left, total - left):
            count = min(side[0], self.s.memory) if self.s.memory else side[0]
            children.append(
                Leaf(leaf.depth + 1, count, leaf.value + (side[1:] / side[0] - total[1:] / total[0]))
            )
        column = self.columns[place]
        leaf.split = (column, bins.cuts[column][b], missing_left, *children)
        leaf.counts = None
        self.leaves += 1
        if self.leaves >= self.s.max_leaf_nodes:
            for other in self._all(self.root):
                other.counts = None


def _sums(rows):
    """Sums one row after the other, as a loop would."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total = total + row
    return total


class Trees:
    """A bank of trees with bins in common; ``columns`` of each tree are given."""

    def __init__(self, columns, d, m, settings):
        self.settings, self.m = settings, m
        self.bins = Bins(d, settings.max_bins)
        self.trees = [Tree(own, m, settings, settings.stagger * i) for i, own in enumerate(columns)]

    def predict(self, X):
        return np.array([[tree.predict(x) for x in X] for tree in self.trees])

    def update(self, X, targets, weights=None):
        weights = np.ones(len(X)) if weights is None else weights
        for tree, own in zip(self.trees, targets, strict=True):
            for x, q, w in zip(X, own, weights, strict=True):
                if w > 0:
                    tree.learn_row(x, q, w, self.bins)
        before = self.bins.found
        for x, w in zip(X, weights, strict=True):
            if w > 0:
                self.bins.see(x)
        changed = self.bins.look()
        for tree in self.trees:
            if self.bins.found and not before:
                tree.recall(self.bins)
            for column, share in changed.items():
                tree.rebin(column, share)
