"""Random problems for the trainer, and short ways to train on them."""

import numpy as np

from anytime.boosting.candidates import Candidate
from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.losses import LINKS, training_loss

VARIANTS = {
    "SpeedBoost": {},
    "MP": {"selection": "inner"},
    "raw MP": {"selection": "inner", "normalise": False},
    "FR": {"reweight": "all"},
    "OMP": {"selection": "inner", "reweight": "all"},
    "FR with a ridge": {"reweight": "all", "weight_regularization": 0.1},
    "OMP with a ridge": {"selection": "inner", "reweight": "all", "weight_regularization": 0.1},
    "cost-blind": {"cost_aware": False},
    "cost-blind FR": {"reweight": "all", "cost_aware": False},
}
LOSSES = ["squared", "logistic", "exponential", "multinomial", "multiclass_exponential", "huber"]


class Dictionary:
    """Predictors known beforehand, (m, n) or (m, n, K), with fixed costs (m,); with ``once`` each is taken once at most."""

    def __init__(self, outputs, costs, *, once=False):
        outputs = np.asarray(outputs, dtype=float)
        self.outputs = outputs[:, :, None] if outputs.ndim == 2 else outputs
        self.costs, self.once = np.asarray(costs, dtype=float), once
        self.taken = np.zeros(len(self.costs), dtype=bool)

    def offer(self, scores, target, rows):
        left = np.flatnonzero(~self.taken) if self.once else range(len(self.costs))
        return [Candidate(int(j), self.outputs[j], float(self.costs[j])) for j in left]

    def take(self, candidate):
        self.taken[candidate.number] = True


def problem(seed, name, n=40, m=8, noise=3.0):
    """A random dictionary whose elements go together a little, costs, targets and a loss."""
    random = np.random.default_rng(seed)
    loss = training_loss(name)
    n_outputs = 3 if not LINKS[loss.link].binary and LINKS[loss.link].classifies else 1
    common = random.normal(size=(n, n_outputs))
    dictionary = 0.5 * common + random.normal(size=(m, n, n_outputs))
    truth = np.tensordot(random.normal(size=m), dictionary, 1) + noise * random.normal(size=(n, n_outputs))
    y = truth[:, 0] if not LINKS[loss.link].classifies else (truth[:, 0] > 0).astype(int)
    if n_outputs == 3:
        y = truth.argmax(axis=1)
        y[:3] = [0, 1, 2]
    return dictionary, random.gamma(2, 2, m) + 0.1, y, loss


def trained(dictionary, costs, y, loss, n_steps, weight=None, **rules):
    rules = BoostingRules(**{"largest": 10.0} | rules)
    once = rules.reweight == "all"
    trainer = Trainer(MeanLoss(loss, y, weight), Dictionary(dictionary, costs, once=once), rules)
    trainer.run(n_steps)
    return trainer


def order(trainer):
    return [step.candidate.number for step in trainer.steps]
