"""How the documentation is built; ``make docs`` builds it, and a warning is an error."""

from importlib.metadata import version as installed_version

project = "anytime"
author = "The anytime developers"
release = installed_version("anytime")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "anytime"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = False  # each page of the reference lists and describes its own room
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say the types in words
autoclass_content = "class"
napoleon_google_docstring = False
napoleon_numpy_docstring = True
napoleon_use_rtype = False


def _skip_generated(app, what, name, obj, skip, options):  # type: ignore[no-untyped-def]
    """Leave out the request methods that scikit-learn writes on every estimator."""
    generated = name.startswith("set_") and name.endswith("_request")
    return True if generated or name == "get_metadata_routing" else None


def setup(app):  # type: ignore[no-untyped-def]
    """Register the filter above."""
    app.connect("autodoc-skip-member", _skip_generated)
