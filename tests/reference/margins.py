"""The obvious way to buy by margins: one row, everything worked out anew at every step (budgeted_trees 2.3 and 2.4)."""

from dataclasses import dataclass, field

import numpy as np

from anytime.costs import FeatureCosts


@dataclass
class Problem:
    """A linear classifier, reference points with labels -1 and 1, one list of columns per group, and the rules."""

    reference: np.ndarray
    labels: np.ndarray
    offset: float
    slopes: np.ndarray
    costs: FeatureCosts
    cost_penalty: float = 0.0
    neighbourhood: str = "nearest"
    n_neighbors: int = 1
    radius: float = 0.0
    refresh: bool = True
    confidence: float = np.inf
    names: list = field(init=False)

    def __post_init__(self):
        self.names = list(self.costs.names)

    def columns(self, owned: list[str]) -> list[int]:
        return [j for name in owned for j in self.costs.groups[name]]

    def score(self, x: np.ndarray, owned: list[str]) -> float:
        return self.offset + sum(self.slopes[j] * x[j] for j in self.columns(owned))

    def share_right(self, members: list[int], owned: list[str]) -> float:
        """p^O: the share of points with a positive margin; one of 0 is a mistake."""
        return sum(self.labels[k] * self.score(self.reference[k], owned) > 0 for k in members) / len(members)

    def neighbours(self, x: np.ndarray, owned: list[str]) -> list[int]:
        everyone = list(range(len(self.reference)))
        if not owned:
            return everyone
        apart = [
            sum((x[j] - point[j]) ** 2 for j in self.columns(owned) if not np.isnan(x[j]))
            for point in self.reference
        ]
        reach = {"nearest": -1.0, "exact": 0.0, "radius": self.radius**2}[self.neighbourhood]
        near = [k for k in everyone if apart[k] <= reach]
        return near or sorted(everyone, key=lambda k: (apart[k], k))[: self.n_neighbors]

    def added(self, name: str, owned: list[str]) -> list[str]:
        """What a purchase brings: the group and what it requires, in the order of the price list."""
        new = set(self.costs.closure([name])) - set(owned)
        return [other for other in self.names if other in new]

    def candidates(self, owned: list[str]) -> list[str]:
        used = [name for name in self.names if any(self.slopes[j] != 0 for j in self.costs.groups[name])]
        return [name for name in used if name not in owned]

    def worth(self, members: list[int], owned: list[str]) -> dict[str, float]:
        """p_i^O of every group that can be bought."""
        return {n: self.share_right(members, owned + self.added(n, owned)) for n in self.candidates(owned)}

    def follow(self, x: np.ndarray) -> list[tuple[str, float, float]]:
        """Of every purchase the group, and score and estimated accuracy after it."""
        owned: list[str] = []
        steps: list[tuple[str, float, float]] = []
        while self.candidates(owned):
            members = self.neighbours(x, owned)
            if steps and steps[-1][2] > self.confidence:
                break
            worth = self.worth(members, owned)
            price = {name: self.costs.price([name], owned) for name in worth}
            best = max(
                worth,
                key=lambda n: (worth[n] - self.cost_penalty * price[n], -price[n], -self.names.index(n)),
            )
            owned = owned + self.added(best, owned)
            judges = self.neighbours(x, owned) if self.refresh else members
            steps.append((best, self.score(x, owned), self.share_right(judges, owned)))
        return steps
