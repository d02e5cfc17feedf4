"""The purchase rule, word for word: every purchase and every stage is evaluated afresh before each choice."""

from __future__ import annotations

import numpy as np


def score(outputs, base, combine, stages):
    """(n, K) score after stages."""
    if combine == "mean" and stages:
        return np.mean([outputs[s] for s in stages], axis=0)
    return base + sum((outputs[s] for s in stages), np.zeros_like(outputs[0]))


def order(outputs, base, combine, loss, y, needs, prices, evaluation):
    """Stages in order, and the groups of each purchase."""
    needed = [frozenset(g for g in np.flatnonzero(row) if prices[g] > 0) for row in needs]
    done, bought, left, purchases = [], frozenset(), list(range(len(outputs))), []

    def current(more=()):
        return loss(score(outputs, base, combine, [*done, *more]), y)

    while left:
        offers = list(dict.fromkeys(needed[s] - bought for s in left))
        if frozenset() in offers:
            offers = [frozenset()]
        rated = []
        for index, groups in enumerate(offers):
            bundle = [s for s in left if needed[s] <= bought | groups]
            cost = sum(prices[g] for g in groups) + sum(evaluation[s] for s in bundle)
            gain = current() - current(bundle)
            rated.append((gain, cost, index, groups, bundle))
        if max(offer[0] for offer in rated) > 0:
            best = min(rated, key=lambda o: (-o[0] / max(o[1], 1), o[1], o[2]))
        else:
            best = min(rated, key=lambda o: (o[1], o[2]))
        *_, groups, bundle = best
        purchases.append(tuple(sorted(groups)))
        bought |= groups
        left = [s for s in left if s not in bundle]
        waiting = list(bundle)
        while waiting:
            gains = [current() - current([s]) for s in waiting]
            rates = [g / max(evaluation[s], 1e-9) for g, s in zip(gains, waiting, strict=True)]
            top = int(np.argmax(rates))
            first_of_a_mean = combine == "mean" and not done
            if gains[top] <= 0 and not first_of_a_mean:
                break
            done.append(waiting.pop(top))
        done += waiting
    return done, purchases
