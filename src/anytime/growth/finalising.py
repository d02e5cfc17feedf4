"""From trained candidates to a child: the strongest shortcuts of every site stay, the others go (Algorithm 10).

At each site the ``n_shortcuts`` candidates of largest |a| are kept with their parameters, merged, and become part of the network:
no gradient is stopped any more. Other criteria than |a|, and random choice, are here for comparison.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from anytime.growth.architecture import STEM, Architecture, GrownLayer, Shortcut
from anytime.growth.candidates import CandidateSet, CandidateUnion
from anytime.growth.cells import GrownNetwork, ShortcutMerge
from anytime.growth.ops import state_of_copy

__all__ = [
    "CRITERIA",
    "PROJECTIONS",
    "KeptCandidates",
    "child_state",
    "choose",
    "chosen_growths",
    "correlations",
    "strengths",
]

CRITERIA = ("weight", "gradient", "cosine", "magnitude", "random")
PROJECTIONS = ("zero", "alpha", "random")

_SHORT = 1e-3  # step of a parameter, as a share of its norm

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KeptCandidates:
    """Candidates that were kept at the sites of one pattern."""

    candidates: tuple[int, ...]  # strongest first
    shortcuts: tuple[Shortcut, ...]
    strengths: tuple[float, ...]  # what they were chosen by
    weights: tuple[float, ...]  # their a_ij


def strengths(
    network: GrownNetwork,
    candidates: CandidateSet,
    criterion: str,
    loss: Callable[[], Tensor]
    | None = None,  # of a batch, on which it runs the network: "gradient" and "cosine"
    random: np.random.Generator | None = None,  # for "random"
) -> dict[str, Array]:
    """Strength of each candidate, by pattern.

    By ``criterion``, "weight": |a|. "gradient": |<grad_{x_k} L, op>| on one batch. "cosine": the same divided by both norms.
    "magnitude": the mean square of the op's parameters; one without any is 0. "random": no reason at all.
    """
    if criterion == "weight":
        return {name: _numbers(a.abs()) for name, a in candidates.weights.items()}
    if criterion == "random":
        assert random is not None
        return {name: random.random(a.numel()) for name, a in candidates.weights.items()}
    if criterion == "magnitude":
        return {
            name: np.mean([_magnitudes(union) for union in unions], axis=0)
            for name, unions in candidates.unions.items()
        }
    assert loss is not None
    return _evidence(network, candidates, loss, cosine=criterion == "cosine")


def _magnitudes(union: CandidateUnion) -> Array:
    sizes = []
    for k in range(len(union.shortcuts)):
        op, copy, copies = union.op_of(k)
        own = state_of_copy(dict(op.named_parameters()), copy, copies).values()
        sizes.append(sum(float(p.detach().square().sum()) for p in own) / max(sum(p.numel() for p in own), 1))
    return np.array(sizes)


def _evidence(
    network: GrownNetwork, candidates: CandidateSet, loss: Callable[[], Tensor], cosine: bool
) -> dict[str, Array]:
    """|<grad, op>| of every candidate on one batch, summed over the cells of a pattern before the absolute value."""
    everything = [union for unions in candidates.unions.values() for union in unions]
    gradients: dict[int, Tensor] = {}
    handles = [
        union.register_forward_hook(lambda module, _, out: _keep_gradient(gradients, module, out))
        for union in everything
    ]
    for union in everything:
        union.recorded = []
    try:
        loss().backward()
        evidence = {}
        for name, unions in candidates.unions.items():
            inner = np.zeros(candidates.weights[name].numel())
            norms = np.zeros((2, inner.size))
            for union in unions:
                recorded, gradient = union.recorded or [], gradients[id(union)]
                for k, output in enumerate(recorded):
                    here = gradient[: len(output)]
                    inner[k] += float((here * output).sum())
                    norms[:, k] += float(here.square().sum()), float(output.square().sum())
            evidence[name] = (
                np.abs(inner) / np.sqrt(np.maximum(norms.prod(axis=0), 1e-30)) if cosine else np.abs(inner)
            )
    finally:
        for handle in handles:
            handle.remove()
        for union in everything:
            union.recorded = None
        network.zero_grad(set_to_none=True)
    return evidence


def _keep_gradient(gradients: dict[int, Tensor], module: nn.Module, out: Tensor) -> None:
    def keep(gradient: Tensor) -> None:
        gradients[id(module)] = gradient.detach()

    out.register_hook(keep)


def correlations(
    network: GrownNetwork, candidates: CandidateSet, loss: Callable[[GrownNetwork], Tensor]
) -> dict[str, float]:
    """What `GradientEvidence` reads: how well two changes of the sites' outputs go with the gradient of a batch's loss there.

    "candidate_correlation": of the best candidate. "parent_correlation": of the change that a short step against the gradient
    of the network's own parameters makes, at the site where that is largest. The network is not touched.
    """
    network, candidates = copy.deepcopy((network, candidates))
    candidates.activate()
    network.eval()
    best = max(
        float(correlation.max())
        for correlation in strengths(network, candidates, "cosine", lambda: loss(network)).values()
    )
    own = [p for name, p in network.named_parameters() if ".union." not in name]
    before, value = _outputs_at_sites(network, candidates, lambda: loss(network))
    flat = [output for outputs in before.values() for output in outputs]
    gradients = torch.autograd.grad(value, [*flat, *own], allow_unused=True)
    with torch.no_grad():
        for p, gradient in zip(own, gradients[len(flat) :], strict=True):
            if gradient is not None:
                p -= _SHORT * p.norm() / gradient.norm().clamp(min=1e-12) * gradient
        after, _ = _outputs_at_sites(network, candidates, lambda: loss(network))
    there, parent = iter(gradients), 0.0
    for name, outputs in before.items():
        gradient = torch.cat([next(there).flatten() for _ in outputs])
        moved = torch.cat([(b - a.detach()).flatten() for a, b in zip(outputs, after[name], strict=True)])
        parent = max(parent, float(functional.cosine_similarity(gradient, moved, dim=0).abs()))
    return {"candidate_correlation": best, "parent_correlation": parent}


def _outputs_at_sites(
    network: GrownNetwork, candidates: CandidateSet, loss: Callable[[], Tensor]
) -> tuple[dict[str, list[Tensor]], Tensor]:
    """x_k of every site, by pattern, and the loss for which they were computed."""
    outputs: dict[str, list[Tensor]] = {name: [] for name in candidates.unions}
    handles = [
        union.register_forward_hook(lambda _, __, out, to=outputs[name]: to.append(out))
        for name, unions in candidates.unions.items()
        for union in unions
    ]
    try:
        return outputs, loss()
    finally:
        for handle in handles:
            handle.remove()


def choose(
    strength: Array,  # (m,)
    shortcuts: Sequence[tuple[str, str]],  # (input, op) of each candidate
    n_shortcuts: int,  # so many are kept, or all
    weights: Array,  # (m,): the a_ij, for the record
    outputs: Tensor | None = None,  # (m, values): what candidates give for some rows
) -> KeptCandidates:
    """The strongest candidates; ties go to the lower number.

    With ``outputs``, each choice lowers the others by what it explains of them, so that two that say the same are not both kept:
    a candidate counts by its part that is orthogonal to those chosen before.
    """
    left = np.where(np.isfinite(strength), strength, -np.inf)
    residual = None if outputs is None else functional.normalize(outputs.double(), dim=1)
    kept: list[int] = []
    score = left.copy()
    for _ in range(min(n_shortcuts, len(left))):
        best = int(np.argmax(score))
        kept.append(best)
        if residual is not None:
            direction = functional.normalize(residual[best], dim=0)
            residual = residual - torch.outer(residual @ direction, direction)
            score = left * _numbers(residual.norm(dim=1))
        score[kept] = -np.inf
    return KeptCandidates(
        tuple(kept),
        tuple(Shortcut(*shortcuts[k]) for k in kept),
        tuple(float(strength[k]) for k in kept),
        tuple(float(weights[k]) for k in kept),
    )


def chosen_growths(
    architecture: Architecture, choices: Mapping[str, KeptCandidates], merge: str, projection: str
) -> Architecture:
    """The architecture of the child of this one; choices are by pattern. The projection "alpha" needs a linear one."""
    return architecture.grown(
        {
            name: GrownLayer(
                choice.shortcuts,
                "sum" if name == STEM else merge,
                linear=projection == "alpha" and name != STEM,
            )
            for name, choice in choices.items()
        }
    )


@torch.no_grad()
def child_state(
    child: GrownNetwork,
    parent: GrownNetwork,
    candidates: CandidateSet,
    choices: Mapping[str, KeptCandidates],
    projection: str,
) -> None:
    """Give a child, which has new parameters, what its parent and the chosen candidates have learned, in place.

    The merge begins with a ``projection``. "zero": the child says what its parent says. "alpha": it adds the weighted sum of the
    candidates, exactly where the projection is linear. "random": whatever comes.
    """
    state = child.state_dict()
    of_parent = {name: value for name, value in parent.state_dict().items() if ".union." not in name}
    child.load_state_dict({**state, **of_parent})
    unions = {name: iter(of_pattern) for name, of_pattern in candidates.unions.items()}
    for (pattern, module), _ in zip(child.sites(), parent.sites(), strict=True):
        if pattern in choices:
            union, choice = next(unions[pattern]), choices[pattern]
            _fill(module.learners[-1], union, choice, projection)


def _fill(learner: ShortcutMerge, union: CandidateUnion, choice: KeptCandidates, projection: str) -> None:
    for op, candidate in zip(learner.ops, choice.candidates, strict=True):
        source, copy, copies = union.op_of(candidate)
        op.load_state_dict(state_of_copy(source.state_dict(), copy, copies))
    weights = torch.tensor(choice.weights)
    if learner.sums:
        if projection != "random":
            learner.weights.copy_(weights)
        learner.gate.fill_(0.0 if projection == "zero" else 1.0)
    elif projection == "alpha":
        channels = learner.project.weight.shape[0]
        blocks = torch.kron(weights[None, :], torch.eye(channels))
        learner.project.weight.copy_(blocks.reshape(learner.project.weight.shape))
    elif projection == "zero":
        last = learner.project if learner.linear else learner.norm
        last.weight.zero_()


def _numbers(tensor: Tensor) -> Array:
    return tensor.detach().double().cpu().numpy()
