"""Sphinx: ``sphinx-build docs docs/_build`` with ``pip install '.[docs]'``."""

import zlib
from importlib import import_module
from pathlib import Path

import ergode

project = "ergode"
author = "ergode contributors"
copyright = "2026, ergode contributors"
release = version = ergode.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
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


def feature_table():
    """Which epidemic method takes what, by asking the records of the methods."""
    from ergode.epidemics.methods import METHODS
    from ergode.epidemics.scenario import scenario_of

    static = ergode.ContactNetwork.from_edges([0], [1])
    meetings = ergode.TemporalContacts.from_meetings([0], [1], [0.0], [1.0])
    stay = ergode.Exponential(mean=5)
    sir = ergode.CompartmentModel.sir(transmission_rate=1, infectious=stay)
    sis = ergode.CompartmentModel.sis(transmission_rate=1, infectious=stay)
    aged = ergode.CompartmentModel.sir(
        transmission_rate=1, infectious=ergode.LogNormal(mean=5, median=4)
    )
    strains = ergode.CompartmentModel(
        ["S", "I", "J"],
        [ergode.Infection("S", "I", {"I": 1.0}), ergode.Infection("S", "J", {"J": 1.0})],
    )
    profile = ergode.CompartmentModel(
        ["S", "I"],
        [ergode.Infection("S", "I", {"I": 1.0}, profile={"I": ergode.Calendar([0, 1], [1, 2])})],
    )

    by_risk = ergode.ByAttribute("risk", {0: 1.0, 1: 2.0})
    unequal = ergode.CompartmentModel(
        ["S", "I", "J"],
        [
            ergode.Infection("S", "I", {"I": 1.0}, susceptibility=by_risk),
            ergode.Infection("S", "J", {"J": 1.0}),
        ],
    )

    def measure(one):
        return sir, scenario_of(static, [one]), False

    features = {
        "any holding time": (aged, scenario_of(static), False),
        "nodes that become susceptible again": (sis, scenario_of(static), False),
        "several infections (strains)": (strains, scenario_of(static), False),
        "factors of a node that differ by infection": (unequal, scenario_of(static), False),
        "infectivity by age of infection": (profile, scenario_of(static), False),
        "seeds with ages": (sir, scenario_of(static), True),
        "importations": (sir, scenario_of(static, None, [ergode.Importation("I", rate=1)]), False),
        "calendars of layers": (
            sir, scenario_of(static, layer_factors={"": ergode.Calendar([0], [1])}), False,
        ),
        "temporal contacts": (sir, scenario_of(meetings), False),
        "layer closure, scheduled": measure(ergode.LayerClosure(start=1, reduction=1, duration=9)),
        "vaccination, scheduled": measure(ergode.Vaccination(fraction=0.5, efficacy=1, start=1)),
        "doses a day, several to each node": measure(
            ergode.Vaccination(efficacy=[0.4, 0.8], interval=21, dose_rate=10)
        ),
        "places in a compartment (beds)": measure(ergode.Capacity("R", 1, instead="S")),
        "places for which nodes wait": measure(ergode.Capacity("R", 1, wait=True)),
        "isolation": measure(ergode.Isolation("I", start=1)),
        "testing": measure(ergode.Testing({"I": 0.9}, rate=0.1)),
        "tests a day, and who waits for one": measure(ergode.Testing({"I": 0.9}, capacity=9)),
        "contact tracing": measure(ergode.ContactTracing("I", start=1)),
        "any measure, triggered by a count": measure(
            ergode.Vaccination(fraction=0.5, efficacy=1, start=ergode.Trigger("I", 2))
        ),
        "triggers by what is new in a window, or by a group": measure(
            ergode.LayerClosure(start=ergode.Trigger("cases", fraction=0.1, window=7))
        ),
        "measures that counts start and stop, again and again": measure(
            ergode.LayerClosure(
                start=ergode.Trigger("I", 3), stop=ergode.Trigger("I", 2, below=True)
            )
        ),
    }  # fmt: skip
    methods = METHODS.values()
    rows = {
        name: [one.why_unsupported(*case) is None for one in methods]
        for name, case in features.items()
    }
    rows["line lists"] = [one.line_lists for one in methods]
    rows["exact"] = [one.exact for one in methods]
    rows["on a GPU"] = ["cuda" in one.devices for one in methods]
    head = ["", *(f'`"{one.name}"`' for one in methods)]
    lines = [head, ["---"] * len(head)]
    lines += [[name, *("yes" if can else "-" for can in row)] for name, row in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def what_trajectories_take():
    """Which method of differential equations takes what, by asking the records of the methods."""
    from ergode.trajectories.adaptive.outcome import control_of
    from ergode.trajectories.arrays.stiff import why_not_on, why_unwatched
    from ergode.trajectories.methods import METHODS

    def named(count, **more):
        """Positions and momenta of oscillators."""
        half = count // 2

        def swing(t, y, p):
            return tuple(y[i + half] if i < half else -y[i - half] for i in range(2 * half))

        def late(t, y, yd, p):
            return tuple(y[i + half] if i < half else -yd[0] for i in range(2 * half))

        function = late if "delays" in more else swing
        return {"function": function, "variables": [f"x{i}" for i in range(count)], **more}

    def array(count, **more):
        return {"component": lambda i, t, y, p: -y[i], "variables": ("x", count), **more}

    delays = {"parameters": ["tau"], "delays": [("x0", "tau")]}
    of_state = ergode.Delay(lambda t, y, p: 1.0 + y[0] ** 2, least=1.0, most=2.0)
    event = ergode.trajectories.ZeroCrossing(lambda t, y, p: y[0])
    cases = {
        "delays": named(2, **delays),
        "delays that depend on the state": named(2, delays=[("x0", of_state)]),
        "more than 16 named variables": named(18),
        "more than 16 with delays": named(18, **delays),
        "arrays": array(10),
        "arrays with delays": array(
            10, component=lambda i, t, y, yd, p: -yd[0][i], parameters=["tau"],
            delays=[("x", "tau")],
        ),
        "arrays of 10,000": array(10_000),
        "arrays of 10,000 on a GPU": array(10_000),
        "arrays of 10,000 with events": array(10_000),
    }  # fmt: skip

    def can(one, name, given):
        if one.scheme:
            many = len(given["variables"])

            def constant(t, y, p):
                return tuple(0.1 for i in range(many))

            def constant_late(t, y, yd, p):
                return tuple(0.1 for i in range(many))

            if "component" in given and "delays" in given:
                return False  # a field refuses this itself
            own = constant_late if "delays" in given else constant
            given = {**given, "diffusion": own if "function" in given else 0.1}
        field = ergode.VectorField(**given)
        if one.why_unsupported(field, 0.1, False) is not None:
            return False
        watched = control_of({"events": [event]} if name.endswith("with events") else {})
        stiff_only = one.stiff and why_unwatched(field, one, watched) is not None
        return not stiff_only and (
            not name.endswith("on a GPU") or why_not_on(field, one, "cuda") is None
        )

    lines = [["method", *cases], ["---"] * (1 + len(cases))]
    for one in METHODS.values():
        found = (can(one, name, given) for name, given in cases.items())
        lines.append([f'`"{one.name}"`', *("yes" if yes else "-" for yes in found)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


FIELDS = {
    "all": "All engines",
    "epidemics": "Epidemics",
    "stochastic": "Reaction networks",
    "kinetics": "Kinetics",
    "trajectories": "Differential equations",
    "density": "Probability densities",
}


def sentence_of(example):
    """What an example is about: the first sentence of its docstring, or of its first comment."""
    text = example.read_text()
    if example.suffix == ".py":
        said = text.split('"""')[1].split("\n\n")[0]
    else:
        lines = text.split("engine =")[0].splitlines()
        said = " ".join(line[1:] for line in lines if line.startswith("#"))
        said = said.split("ergode run")[0].split(": put ")[0]
    return " ".join(said.split()).removesuffix(":").removesuffix(".")


def gallery():
    """A card for each example, by the field of its engine."""
    examples = sorted((Path(__file__).parents[1] / "examples").iterdir())
    cards = {field: [] for field in FIELDS}
    for one in examples:
        text = one.read_text() if one.suffix in (".py", ".toml") else ""
        found = [
            name for name in FIELDS
            if f'engine = "{name}"' in text or f"ergode.{name}." in text
        ]  # fmt: skip
        if not found:
            continue
        field = found[-1] if len(found) < 3 else "all"
        said = sentence_of(one)
        cards[field].append(
            f":::{{grid-item-card}} {{download}}`{one.name} <../examples/{one.name}>`\n"
            f":img-top: _static/gallery/{one.stem}.png\n:img-alt: {said}\n\n{said}.\n:::"
        )
    return "\n\n".join(
        f"## {FIELDS[field]}\n\n::::{{grid}} 1 2 2 3\n:gutter: 2\n\n" + "\n".join(made) + "\n::::"
        for field, made in cards.items()
    )


ENGINES = ("epidemics", "stochastic", "kinetics", "trajectories", "density")
myst_substitutions = {f"{engine}_methods": method_table(engine) for engine in ENGINES}
myst_substitutions["epidemics_features"] = feature_table()
myst_substitutions["trajectories_features"] = what_trajectories_take()
myst_substitutions["gallery"] = gallery()

# Pages run when they are built; an error in one is an error of the build. A page that has run is
# taken from the cache in the build folder while its code is the same: remove the folder when ergode
# changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / ".jupyter_cache")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_render_markdown_format = "myst"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"
bibtex_reference_style = "author_year"


# Classes of other projects that signatures name, with the folder of their pages.
OTHERS = {
    "numpy": (
        "https://numpy.org/doc/stable/", "reference/generated",
        ("numpy.ndarray", "numpy.dtype", "numpy.datetime64"),
    ),
    "scipy": (
        "https://docs.scipy.org/doc/scipy/", "reference/generated",
        ("scipy.sparse.csr_array", "scipy.sparse.csr_matrix"),
    ),
    "xarray": (
        "https://docs.xarray.dev/en/stable/", "generated",
        ("xarray.Dataset", "xarray.DataArray"),
    ),
}  # fmt: skip
intersphinx_mapping = {}  # filled below
intersphinx_timeout = 10


def name_other_projects(app, config):
    """Their inventories, and small ones of our own: enough to build without network."""
    for project, (home, folder, names) in OTHERS.items():
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        head += "# The remainder of this file is compressed using zlib.\n"
        lines = "".join(f"{name} py:class 1 {folder}/{name}.html#$ -\n" for name in names)
        path = Path(app.doctreedir) / f"{project}.inv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(head.encode() + zlib.compress(lines.encode()))
        config.intersphinx_mapping[project] = (home, (None, str(path)))


def ask_for_alternative_texts(app, doctree):
    """A figure without a text for those who cannot see it is an error of the build."""
    from docutils import nodes
    from sphinx.util import logging

    for image in doctree.findall(nodes.image):
        if not image.get("alt"):
            logging.getLogger(__name__).warning("a figure has no alt text", location=image)


def setup(app):
    app.connect("config-inited", name_other_projects)
    app.connect("doctree-read", ask_for_alternative_texts)
