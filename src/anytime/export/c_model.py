"""A fitted model as a C99 header without dependencies."""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from anytime.export.c_tables import Parts, Rules, needs
from anytime.export.selection import Exported, exported, full_table

_LINE = 108
_EACH = {
    "identity": "scores[k]",
    "probability": "scores[k]",
    "exp": "exp(scores[k])",
    "signed_square": "fabs(scores[k]) * scores[k]",
    "softplus": "(scores[k] > 0.0 ? scores[k] : 0.0) + log1p(exp(-fabs(scores[k])))",
    "regression_logistic": "1.0 / (1.0 + exp(-scores[k]))",
    "ova": "1.0 / (1.0 + exp(-scores[k]))",
    "one_vs_all": "1.0 / (1.0 + exp(-scores[k]))",
    "counts": "scores[k]",
    "least_squares": "scores[k] < 0.0 ? 0.0 : scores[k] > 1.0 ? 1.0 : scores[k]",
}
_NORMALISED = ("one_vs_all", "counts", "least_squares")


def to_c(model: Any, path: str | Path | None = None, *, name: str | None = None) -> str:
    """A fitted model as a C99 header; see ``AnytimeModel.to_c``."""
    what = exported(model, chain_only=True)
    if what.link.name == "least_cost":
        raise NotImplementedError(f"the link {what.link.name!r} cannot be exported to C")
    name = _identifier(name or (type(model).__name__ if path is None else Path(path).stem))
    text = _header(model, what, name)
    if path is not None:
        Path(path).write_text(text, encoding="ascii")
    return text


def _header(model: Any, what: Exported, name: str) -> str:
    plan, link = what.plan, what.link
    parts = Parts(what)
    rules = Rules(what, parts)
    half, base_link = link.name.startswith("half_"), link.name.removeprefix("half_")
    per_stage = plan.weights is not None and all(row.ndim == 1 for row in plan.weights)
    n_values = link.n_classes(plan.n_outputs) if link.classifies else plan.n_outputs
    conditions = {
        "trees": bool(parts.units),
        "several": max(parts.width) > 1,
        "linear": bool(parts.linears),
        "weights": plan.weights is not None,
        "per_stage": per_stage,
        "replaces": plan.replaces is not None and bool(np.any(plan.replaces)),
        "mean": plan.combine == "mean",
        "classes": what.classes is not None,
        "rules": bool(rules.rows),
        "together": bool(parts.units) and plan.weights is None and not rules.rows,
        "margins": rules.has(0) or rules.doubts,
        "entropies": rules.has(1),
        "gates": rules.has(3),
        "link_binary": base_link == "logistic",
        "link_softmax": base_link == "softmax",
        "link_each": base_link in _EACH,
        "normalised": base_link in _NORMALISED,
        "calibrated": what.scaling is not None,
    }
    words = {
        "TABLES": _tables(what, parts, per_stage).replace("@NAME@", name),
        "RULES": _rules(rules).replace("@NAME@", name),
        "COLUMN_NAMES": _strings(what.names),
        "GROUP_NAMES": _strings(plan.costs.costs.names),
        "CLASS_NAMES": _strings([] if what.classes is None else what.classes),
        "VALUES": "probabilities of the classes" if link.classifies else "predicted values",
        "LINK": link.name,
        "EACH": _EACH.get(base_link, ""),
        "FACTOR": "2.0" if half else "1.0",
        "FROM": f"until > 0 ? {name}_fresh[until - 1] : 0"
        if conditions["replaces"] and not rules.rows
        else "0",
        "N_COLUMNS": plan.n_features,
        "N_GROUPS": plan.costs.n_groups,
        "N_STAGES": plan.n_stages,
        "N_VALUES": n_values,
        "K": plan.n_outputs,
        "WIDTH": max(parts.width),
        "HISTORY": int(plan.output_start[-1]),
        "FORESTS": max(1, len({f for f in parts.forest[: plan.n_stages] if f >= 0})),
        "UPPER": name.upper(),
        "NAME": name,
    }
    template = files("anytime.export").joinpath("model.h.in").read_text(encoding="ascii")
    return _comment(model, what, name) + _filled(template, conditions, words)


# ---------------------------------------------------------------------- the template


def _filled(template: str, conditions: dict[str, bool], words: dict[str, Any]) -> str:
    """Keep the lines whose conditions hold, and put words in place of @WORD@."""
    kept: list[str] = []
    open_: list[bool] = []
    for line in template.splitlines():
        if line.startswith("//@if "):
            open_.append(conditions[line.removeprefix("//@if ").strip()])
        elif line.startswith("//@else"):
            open_[-1] = not open_[-1]
        elif line.startswith("//@end"):
            open_.pop()
        elif all(open_):
            kept.append(line)
    # All at once: what replaces a word, such as the name of a column, may look like another word.
    return re.sub("@([A-Z_]+)@", lambda place: str(words[place[1]]), "\n".join(kept) + "\n")


def _tables(what: Exported, parts: Parts, per_stage: bool) -> str:
    plan = what.plan
    start, lists = needs(plan)
    out = [
        "/* Cumulative cost of stages, by the meter that the model counts budgets with. */",
        _array("double", "costs", what.spent),
        "/* Scores before the first stage. */",
        _array("double", "base", plan.base),
        "/* Groups that stages need, requirements first. */",
        _array("int32_t", "need_start", start),
        _array("int32_t", "needs", lists),
        "/* Parts: stages, then gates. Numbers that each gives, and its row in the table of its kind. */",
        _array("int32_t", "part_width", parts.width),
    ]
    if what.scaling is not None and plan.calibration is not None:
        out += [
            "/* Calibration, before the first stage and after each: a power for each leading class, and a floor. */",
            _array("double", "power", plan.calibration.power.ravel()),
            _array("double", "floor", plan.calibration.floor),
        ]
    if plan.weights is not None:
        out += _weight_tables(what, per_stage)
    if plan.replaces is not None and np.any(plan.replaces):
        out += [
            "/* Stages that replace the answer; the first stage whose work an answer contains. */",
            _array("unsigned char", "replaces", plan.replaces.astype(int)),
        ]
        if not plan.passes and not plan.stops:
            out.append(_array("int32_t", "fresh", plan.fresh_start[1:]))
    if parts.linears:
        out.append(_array("int32_t", "part_linear", parts.linear))
    out += _tree_tables(parts) if parts.units else []
    out += _other_tables(parts)
    return "\n".join(out) + "\n"


def _tree_tables(parts: Parts) -> list[str]:
    nodes = [f"{{{_number(t)}, {f}, {left}, {right}, {m}}}" for t, f, left, right, m in parts.nodes]
    blank = "{0.0, 0, 0, 0, 0}"
    several = [
        "/* The output that a tree adds to, -1: all. */",
        _array("int32_t", "tree_output", parts.tree_output),
    ]
    return [
        _array("int32_t", "part_forest", parts.forest),
        "/* Units of each forest: a power of two. */",
        _array("double", "units", parts.units),
        "/* First tree of each part; trees by their root. */",
        _array("int32_t", "part_trees", parts.trees),
        _array("int32_t", "roots", parts.roots),
        *(several if max(parts.width) > 1 else []),
        "/* A value that is not above the threshold goes left. Where a node leads: a node, or -1 - place among the leaves. */",
        "typedef struct {\n  double threshold;\n  int32_t column, left, right;\n  unsigned char missing_left;\n} @NAME@_node;",
        "",
        _array("@NAME@_node", "nodes", nodes or [blank]),
        _array("int64_t", "leaves", parts.leaves),
    ]


def _other_tables(parts: Parts) -> list[str]:
    out = []
    numbers = parts.numbers
    if parts.linears:
        out += [
            "typedef struct {\n  int32_t n, columns, centres, coefficients, intercepts;\n} @NAME@_linear;",
            "",
            _array("@NAME@_linear", "linears", map(_braced, parts.linears)),
            _array("int32_t", "columns", numbers["columns"] or [0]),
            _array("double", "centres", numbers["centres"] or [0.0]),
            _array("double", "coefficients", numbers["coefficients"] or [0.0]),
            _array("double", "intercepts", numbers["intercepts"]),
        ]
    return out


def _weight_tables(what: Exported, per_stage: bool) -> list[str]:
    plan = what.plan
    assert plan.weights is not None
    rows = [row if per_stage else full_table(row, plan.n_outputs) for row in plan.weights]
    bases = np.tile(plan.base, (plan.n_stages, 1)) if plan.intercepts is None else plan.intercepts
    sizes = np.cumsum([0, *(row.size for row in rows)])[:-1]
    return [
        "/* Weights of each prefix, where they begin, and what they are added to; outputs of stages stand side by side. */",
        _array("int32_t", "output_start", plan.output_start),
        _array("int32_t", "weight_start", sizes),
        _array("double", "weights", np.concatenate([row.ravel() for row in rows])),
        _array("double", "weight_base", np.asarray(bases).ravel()),
    ]


def _rules(rules: Rules) -> str:
    if not rules.rows:
        return ""
    return "\n".join(
        [
            "/* Of each stage, the rule by which rows pass and the one by which they are finished. */",
            _array("int32_t", "pass_rule", rules.passes),
            _array("int32_t", "stop_rule", rules.stops),
            _array("@NAME@_rule", "rules", map(_braced, rules.rows)),
        ]
    )


# ---------------------------------------------------------------------- C text


def _array(kind: str, name: str, values: Iterable[Any]) -> str:
    """A table, several entries to a line."""
    entries = [value if isinstance(value, str) else _number(value) for value in values] or ["0"]
    lines, line = [], "  "
    for entry in entries:
        if len(line) + len(entry) > _LINE:
            lines.append(line.rstrip())
            line = "  "
        line += f"{entry}, "
    lines.append(line.rstrip().rstrip(","))
    body = "\n".join(lines)
    return f"static const {kind} @NAME@_{name}[{len(entries)}] = {{\n{body}\n}};\n"


def _braced(row: Sequence[float]) -> str:
    return "{" + ", ".join(map(_number, row)) + "}"


def _number(value: Any) -> str:
    """A number as C reads it back to the same bits."""
    if isinstance(value, (int, np.integer, np.bool_)):
        return str(int(value))
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _identifier(name: str) -> str:
    """Letters, digits and underscores, a letter first."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "model"
    return plain if plain[0].isalpha() else f"m_{plain}"


def _strings(names: Iterable[Any]) -> str:
    lines = []
    for name in names:
        quoted = "".join(
            chr(c) if 32 <= c < 127 and chr(c) not in '"\\?' else f"\\{c:03o}"
            for c in str(name).encode(errors="surrogatepass")
        )
        lines.append(f'      "{quoted}",')
    return "\n".join(lines).rstrip(",")


def _plain(text: Any) -> str:
    """Text on one line that cannot end a comment, nor mean anything in one."""
    ascii_ = str(text).encode("ascii", "backslashreplace").decode().replace("\\", "/")
    printable = "".join(c if c.isprintable() else " " for c in ascii_)
    # Nothing may be replaced after this, which could make what it takes apart.
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", printable)


def _comment(model: Any, what: Exported, name: str) -> str:
    """What a reader wants to know: columns, groups, prices, stages."""
    plan, costs = what.plan, what.plan.costs.costs
    unit = f" {_plain(costs.unit)}" if costs.unit else ""
    lines = [
        f"{name}: {_plain(type(model).__name__)}, {plan.n_stages} stages. Written by anytime {version('anytime')}.",
        "",
        "Include it in one file of a program: the tables are its own. Needs C99 and -lm; not for -ffast-math, which takes",
        "missing values (NaN) for numbers.",
        "",
        "Columns (position, name, group):",
    ]
    group = plan.costs.column_group
    lines += [f"  {c:4d}  {_plain(n)}  [{_plain(costs.names[group[c]])}]" for c, n in enumerate(what.names)]
    for column, values in what.categories.items():
        lines.append(
            f"  {_plain(column)} is a code: " + ", ".join(f"{i} {_plain(v)}" for i, v in enumerate(values))
        )
    lines += ["", f"Groups (number, name, price{f' in{unit}' if unit else ''}, what it requires):"]
    prices = costs.amounts(plan.costs.prices)
    for g, group_name in enumerate(costs.names):
        required = ", ".join(map(_plain, costs.requires.get(group_name, ())))
        lines.append(
            f"  {g:4d}  {_plain(group_name)}  {prices[g]:g}" + (f"  requires {required}" if required else "")
        )
    lines += [
        "",
        f"Stages (number, cost of all up to it{f' in{unit}' if unit else ''}, groups it is the first to use):",
    ]
    seen: set[str] = set()
    for stage in plan:
        new = [g for g in stage.groups if g not in seen]
        seen.update(new)
        lines.append(
            f"  {stage.number:4d}  {what.spent[stage.number - 1]:g}  {', '.join(map(_plain, new))}".rstrip()
        )
    return "/* " + "\n".join(f"   {line}".rstrip() for line in lines).lstrip() + "\n*/\n"
