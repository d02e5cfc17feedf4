"""How the documentation is built; ``make docs`` builds it, and a warning is an error."""

import re
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from itertools import pairwise

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.domains.python import PyObject
from sphinx.util.docutils import SphinxDirective

import anytime
from anytime.parameters import MEANT, PARAMETERS

project = "anytime"
author = "the anytime developers"
copyright = "2026, the anytime developers"
release = installed_version("anytime")
version = release


extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "anytime"
html_static_path = ["_static"]
html_css_files = ["site.css"]

html_math_renderer = "mathml"  # made below

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

templates_path = ["_templates"]
autosummary_generate = True  # public names have a page each; pages of rooms list them and describe the rest
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]  # pages of networks are made without it, too
autodoc_typehints = "none"  # the docstrings say the types in words
autoclass_content = "class"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_ivar = True  # an attribute of a data class is described once, in the list of its docstring
napoleon_use_rtype = False
strip_signature_backslash = True  # or fitted attributes lose the underscore that they end in
suppress_warnings = ["ref.python"]  # attributes of one name in several classes: none is linked


def _skip_generated(app, what, name, obj, skip, options):  # type: ignore[no-untyped-def]
    """Leave out the request methods that scikit-learn writes on every estimator."""
    generated = name.startswith("set_") and name.endswith("_request")
    return True if generated or name == "get_metadata_routing" else None


def _signature(app, what, name, obj, options, signature_, annotation):  # type: ignore[no-untyped-def]
    """Show the parameters that an estimator takes; autodoc reads those of the function that passes them on."""
    if what != "class" or not hasattr(obj, "get_params"):
        return None
    taken = [
        parameter.replace(annotation=Parameter.empty) for parameter in signature(obj).parameters.values()
    ]
    return str(Signature(taken)), None


def _keep_names_together(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
    """Let ``train, test : array`` stand under Attributes, where napoleon takes the last word alone for the name."""
    headers = [i for i, below in enumerate(lines[1:]) if below and not below.strip("-")]
    for start, end in pairwise([*headers, len(lines)]):
        if lines[start] == "Attributes":
            lines[start:end] = [
                re.sub(r"^\w+(, \w+)+ : ", lambda names: names[0].replace(", ", ","), line)
                for line in lines[start:end]
            ]


def _mathml(formula: str, as_block: bool) -> str:
    """Translate a formula to MathML, which browsers draw without scripts and without a network."""
    formula = re.sub(r"(frac)\s*(\d)(?=\d)", r"\1{\2}", formula)  # \\frac12 is one half here as in LaTeX
    if r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    return str(tex2mathml(formula, as_block=as_block))


def _inline_formula(writer, node):  # type: ignore[no-untyped-def]
    writer.body.append(_mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _displayed_formula(writer, node):  # type: ignore[no-untyped-def]
    style = "overflow-y: hidden; padding: 0.2em 0"  # wide formulas scroll sideways on a phone, and only so
    writer.body.append(f'<div class="math" style="{style}">{_mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


class SharedParameters(SphinxDirective):
    """``.. shared-parameters::`` lists what several estimators take, from the table that also checks it."""

    def run(self) -> list[nodes.Node]:
        """One section per parameter: meaning, type, usual default, and who takes it."""
        estimators = {name: getattr(anytime, name) for name in anytime.__all__ if name[0].isupper()}
        lines: list[str] = []
        for name, parameter in PARAMETERS.items():
            takers: dict[str, list[str]] = {}
            for estimator, made in estimators.items():
                taken = signature(made).parameters.get(name) if hasattr(made, "get_params") else None
                if taken is not None:
                    takers.setdefault(repr(taken.default), []).append(estimator)
            others = sorted(other for other, meant in MEANT.items() if meant == name)
            lines += [f"``{name}`` : {parameter.kind}", f"    {parameter.doc}", ""]
            for default, who in sorted(takers.items(), key=lambda entry: -len(entry[1])):
                known = "no default" if "empty" in default else f"default {default}"
                lines += [f"    {known}: {', '.join(f':class:`~anytime.{one}`' for one in who)}", ""]
            if others:
                lines += [f"    Elsewhere called {', '.join(f'``{other}``' for other in others)}.", ""]
        holder = nodes.container()
        self.state.nested_parse(
            StringList(lines, source="anytime/parameters.py"), self.content_offset, holder
        )
        return holder.children


def _let_keys_scroll(app, pagename, templatename, context, doctree):  # type: ignore[no-untyped-def]
    """Make code, wide tables and formulas scrollable by keyboard, and give captions of the sidebar their level."""
    scrolling = r'<(pre|div class="(?:table-wrapper|math)\b[^"]*")(?=[ >])'
    context["body"] = re.sub(scrolling, r'<\1 tabindex="0"', context.get("body", ""))
    for part in ("body", "furo_navigation_tree"):  # captions of contents are headings without a level
        context[part] = context.get(part, "").replace('role="heading">', 'role="heading" aria-level="2">')


def _mend_source_pages(app, pagename, templatename, context, doctree):  # type: ignore[no-untyped-def]
    """Lead back from source code to where names are described; viewcode takes one module's name for all of them."""
    if not pagename.startswith("_modules/"):
        return
    objects = app.env.get_domain("py").objects

    def back(link: re.Match[str]) -> str:
        target, name = link["name"], link["name"].split(".")
        if target not in objects:
            endings = [".".join(name[k:]) for k in range(2, len(name))]
            targets = [other for ending in endings for other in objects if other.endswith(f".{ending}")]
            target = min(targets, key=len, default="")
        if not target:
            return ""
        place = objects[target]  # an alias stands where the name that it means is described
        page = app.builder.get_relative_uri(pagename, place.docname)
        return f"{link['begin']}{page}#{place.node_id}{link['end']}"

    body = re.sub(
        r'(?P<begin><a class="viewcode-back" href=")[^"#]*#(?P<name>[^"]+)(?P<end>">.*?</a>)',
        back,
        context["body"],
    )
    without_source = [name for name, entry in app.env._viewcode_modules.items() if not entry]
    for name in without_source:  # compiled
        body = re.sub(rf'<li><a href="[^"]*">{re.escape(name)}</a></li>\n', "", body)
    context["body"] = body


def setup(app):  # type: ignore[no-untyped-def]
    """Register what is above; names are put together before napoleon (priority 500) reads them."""
    for entry in PyObject.doc_field_types:
        if entry.name == "variable":
            entry.label = "Attributes"  # as in the docstrings
    app.add_directive("shared-parameters", SharedParameters)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_displayed_formula, None))
    app.connect("html-page-context", _let_keys_scroll, priority=900)  # after the theme has made its parts
    app.connect("html-page-context", _mend_source_pages)
    app.connect("autodoc-skip-member", _skip_generated)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _keep_names_together, priority=400)
