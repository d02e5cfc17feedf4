"""``anytime inspect``: what an ``.anytime`` file holds."""

import json
from math import isfinite
from typing import Annotated, Any

import typer

from anytime.cli.io import listing, load_model
from anytime.cli.options import ModelFile
from anytime.cli.purchases import held_out, print_purchases
from anytime.cli.tables import amount, console, number, print_table, print_text, print_title, share, thinned

_MOST_STAGES = 10


def inspect(
    model: ModelFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show the contents of a model file and its order of purchases.

    Example: anytime inspect heart.anytime
    """
    from anytime.files import describe

    loaded = load_model(model)
    described = describe(model)
    certificate = getattr(loaded, "certificate_", None)
    if as_json:
        print(json.dumps(_plain({**described, **_details(loaded)}), indent=1))
        return
    print_title(f"{model.name}: {described['estimator']}, {described['file_bytes'] / 1024:.0f} KiB")
    for name, text in _facts(loaded, described).items():
        console().print(f"  {name:<12}{text}", soft_wrap=True, markup=False)
    from anytime.cli.profiling import print_prices

    print_prices(loaded.costs_, "Prices", names=("price", "tail"))
    print_purchases(loaded)
    _print_stages(loaded)
    if certificate is not None:
        _print_certificate(certificate)


def _facts(model: Any, described: dict[str, Any]) -> dict[str, str]:
    costs = model.costs_
    classes = described["classes"]
    facts = {
        "source": getattr(model, "source_", ""),
        "costly": _costly(model),
        "network": _network(model),
        "answers": "numbers" if classes is None else f"{len(classes)} classes: {listing(classes)}",
        "columns": f"{described['n_features']} in {len(costs.names)} groups, {amount(costs.total, costs.unit)} in all",
        "budget": _budgets(model) or "unlimited by default",
        "buys first": listing(model.order_),
        "written by": ", ".join(f"{name} {version}" for name, version in described["versions"].items()),
    }
    return {name: text for name, text in facts.items() if text}


def _budgets(model: Any) -> str:
    """The default bounds of predictions."""
    unit = model.costs_.unit
    cap = "" if model.budget is None else f"{amount(model.budget, unit)} for any row"
    mean = "" if model.mean_budget is None else f"{amount(model.mean_budget, unit)} on average"
    return ", ".join(part for part in (cap, mean) if part)


def _costly(model: Any) -> str:
    """The costly model, and the share of rows sent to it."""
    if getattr(model, "_attaches", None) != "costly":
        return ""
    where = (
        "in the file"
        if model.detached_ is None
        else f"{model.detached_}, which is not in the file: pass it with --costly"
    )
    return where if model.sent_ is None else f"{where}; used for {model.sent_:.1%} of rows"


def _network(model: Any) -> str:
    """The network behind the stages, where there is one."""
    networks = [block for block in model.plan_.blocks if block.kind == "network"]
    if not networks:
        return ""
    from anytime.networks.stored import summary_of

    return summary_of(networks[0])


def _print_stages(model: Any) -> None:
    plan = model.plan_
    unit = model.costs_.unit
    header = ["stage", "<uses", f"cost ({unit})" if unit else "cost"]
    scores = held_out(model)
    header += [] if scores is None else [f"held-out {scores[0]}"]
    rows = []
    for j in thinned(plan.n_stages, _MOST_STAGES):
        stage = plan.stage(j + 1)
        row = [str(stage.number), listing(stage.groups, 3), number(stage.model_cost, 6)]
        row += [] if scores is None else [share(float(scores[1][j + 1]))]
        rows.append(row)
    print_table(header, rows, title="Stages", left_out=plan.n_stages - len(rows))
    if plan.branches:
        branches = [[listing(b.order, 6), number(float(b.stage_costs[-1]), 6)] for b in plan.branches]
        print_table(["<buys", header[2]], branches, title="Branches, for budgets that are known in advance")


def _print_certificate(certificate: Any) -> None:
    """How near the model is to the best choice of groups, on the rows it was fitted to."""
    unit = certificate.unit
    header = [
        f"budget ({unit})" if unit else "budget",
        "explained",
        "at most possible",
        "certified",
        "promised (of a sixth)" if certificate.selection.schedule == "doubling" else "promised",
    ]
    rows = [
        [number(entry["budget"], 6), share(entry["reached"]), share(entry["ceiling"])]
        + [f"{entry[name]:.0%}" for name in ("certified", "promised")]
        for entry in certificate.summary()
    ]
    print_table(header, rows, title=f"Certificate (gamma {certificate.gamma:.3g})")
    schedule = certificate.selection.schedule
    rival = "a sixth of the budget" if schedule == "doubling" else "the budget"
    print_text(
        "explained: removed share of the loss of a constant answer, minus the ridge; certified: at least this share of the "
        f"best set at that price; promised: the same before data is seen, compared with sets that cost {rival}"
    )


def _details(model: Any) -> dict[str, Any]:
    """Details that only the model itself has."""
    plan = model.plan_
    certificate = getattr(model, "certificate_", None)
    scores = held_out(model)
    return {
        "source": getattr(model, "source_", None),
        "costs": model.costs_.to_dict(),
        "order": model.order_,
        "stage_costs": plan.stage_costs.tolist(),
        "stage_groups": [list(stage.groups) for stage in plan],
        "branches": [
            {"cost": float(branch.stage_costs[-1]), "groups": branch.order} for branch in plan.branches
        ],
        "held_out": None if scores is None else {"measure": scores[0], "values": scores[1]},
        "certificate": None
        if certificate is None
        else {"gamma": certificate.gamma, "budgets": certificate.summary()},
    }


def _plain(value: Any) -> Any:
    """``value`` as JSON has it: no infinite number, no tuple, no array."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)
