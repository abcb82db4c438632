"""Sphinx: ``sphinx-build docs docs/_build`` with ``pip install '.[docs]'``."""

from importlib import import_module

import ergode

project = "ergode"
author = "ergode contributors"
copyright = "2026, ergode contributors"
release = version = ergode.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build", "jupyter_execute"]

html_theme = "furo"
html_title = "ergode"
html_static_path = ["_static"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_heading_anchors = 3


def method_table(engine):
    """The records of an engine's methods as a table: a page has it by ``{{ ENGINE_methods }}``."""
    methods = import_module(f"ergode.{engine}.methods").METHODS.values()
    rows = [f'| `"{one.name}"` | {one.summary} | {one.use} |' for one in methods]
    return "\n".join(["| method | what it is | for |", "|---|---|---|", *rows])


ENGINES = ("epidemics", "stochastic", "kinetics", "trajectories", "density")
myst_substitutions = {f"{engine}_methods": method_table(engine) for engine in ENGINES}

# Pages run when they are built; an error in one is an error of the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_render_markdown_format = "myst"

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
