"""read_petab: published problems against plain integration; a decay against its closed form."""

import math

import numpy as np
import pandas
import pytest
from scipy.integrate import solve_ivp

import ergode
from ergode import ModelError, PlanError, ReadError, read_petab
from ergode.models.expressions import Expression
from ergode.models.reactions.mass_action import law_of

pytest.importorskip("libsbml")
pytest.importorskip("ruamel.yaml")

# Negative log-likelihood at the nominal parameters, as the collection publishes it.
PUBLISHED = {
    "Boehm_JProteomeRes2014": 138.22199693517703, "Bruno_JExpBot2016": -46.688176988431806,
    "Crauste_CellSystems2017": 190.96521897435176, "Elowitz_Nature2000": -63.20279991419332,
    "Fiedler_BMCSystBiol2016": -58.58390161681,
}  # fmt: skip
ALL = [*PUBLISHED, "Perelson_Science1996", "Rahman_MBS2016"]


def plain_objective(folder, problem):
    """The objective from the tables, with SciPy's LSODA and formulas evaluated one by one."""
    network, name = problem.network, folder.name
    table = {
        kind: pandas.read_csv(folder / f"{kind}_{name}.tsv", sep="\t")
        for kind in ("parameters", "observables", "measurementData", "experimentalCondition")
    }
    nominal = dict(
        zip(table["parameters"].parameterId, table["parameters"].nominalValue, strict=True)
    )
    species = {one.name: one for one in network.species}
    laws = [law_of(one, species, continuous=species) for one in network.reactions]
    changes = network.stoichiometry.toarray()
    total = 0.0
    for _, condition in table["experimentalCondition"].iterrows():
        given = {key: value for key, value in nominal.items() if key in network.parameters}
        for key in condition.index.difference(["conditionId", "conditionName"]):
            given[key] = nominal.get(condition[key], condition[key])
        known = network.evaluate_parameters({key: float(value) for key, value in given.items()})
        sizes = [known[one.compartment] for one in network.species]
        is_concentration = [one.quantity == "concentration" for one in network.species]

        def at(t, amounts, known=known, sizes=sizes, is_concentration=is_concentration):
            values = {**known, "time": t}
            for k, one in enumerate(network.species):
                values[one.name] = amounts[k] / (sizes[k] if is_concentration[k] else 1.0)
            for rule in network.rule_order:
                values[rule] = network.rules[rule].evaluate(values)
            return values

        def slope(t, amounts, at=at):
            values = at(t, amounts)
            return changes @ [law.evaluate(values) for law in laws]

        start = []
        for k, one in enumerate(network.species):
            value = (
                one.initial.evaluate(known) if isinstance(one.initial, Expression) else one.initial
            )
            start.append(value * (sizes[k] if is_concentration[k] else 1.0))
        rows = table["measurementData"]
        rows = rows[rows.simulationConditionId == condition.conditionId]
        times = np.unique(rows.time)
        solved = solve_ivp(
            slope, (0, max(times[-1], 1e-9)), start, "LSODA", times, rtol=1e-10, atol=1e-12
        )
        for _, row in rows.iterrows():
            values = {**nominal, **at(row.time, solved.y[:, np.searchsorted(times, row.time)])}
            for column, word in (
                ("observableParameters", "observable"),
                ("noiseParameters", "noise"),
            ):
                entries = str(row[column]).split(";") if pandas.notna(row.get(column)) else []
                for n, entry in enumerate(entries, 1):
                    value = nominal.get(entry.strip())
                    key = f"{word}Parameter{n}_{row.observableId}"
                    values[key] = float(entry) if value is None else value
            defined = table["observables"].set_index("observableId").loc[row.observableId]
            simulated = Expression(defined.observableFormula).evaluate(values)
            noise = Expression(str(defined.noiseFormula)).evaluate(values)
            measured, extra = row.measurement, 0.0
            if defined.observableTransformation == "log10":
                extra = math.log(measured * math.log(10))
                simulated, measured = math.log10(simulated), math.log10(measured)
            total += 0.5 * math.log(2 * math.pi * noise**2) + extra
            total += 0.5 * ((simulated - measured) / noise) ** 2
    return total


@pytest.mark.parametrize("name", ALL)
def test_published_problems(shared_data, name):
    folder = shared_data / "petab" / name
    problem = read_petab(folder / f"{name}.yaml")
    value = problem.objective(device="cpu:1")
    assert value == pytest.approx(plain_objective(folder, problem), rel=1e-6)
    if name in PUBLISHED:
        assert value == pytest.approx(PUBLISHED[name], rel=1e-5)


@pytest.mark.parametrize("name", ["Boehm_JProteomeRes2014", "Elowitz_Nature2000"])
def test_published_problems_are_written_and_read_again(shared_data, tmp_path, name):
    problem = read_petab(shared_data / "petab" / name / f"{name}.yaml")
    written = ergode.write_petab(problem, tmp_path / "again.yaml")
    again = read_petab(written)
    assert again.parameters == problem.parameters and again.network.digest == problem.network.digest
    assert again.objective(device="cpu:1") == problem.objective(device="cpu:1")
    validate(written)


def validate(path):
    """Ask the library of PEtab, if it is there."""
    try:
        import petab.v1 as petab
    except ImportError:
        return
    assert not petab.lint_problem(petab.Problem.from_yaml(str(path)))


# ---- a decay

MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<sbml xmlns="http://www.sbml.org/sbml/level3/version1/core" level="3" version="1"><model id="m">
<listOfCompartments><compartment id="cell" size="2" constant="true"/></listOfCompartments>
<listOfSpecies><species id="X" compartment="cell" initialConcentration="3" constant="false"
 hasOnlySubstanceUnits="false" boundaryCondition="false"/></listOfSpecies>
<listOfParameters><parameter id="k" value="9" constant="true"/></listOfParameters>
<listOfReactions><reaction id="fall" reversible="false" fast="false"><listOfReactants>
<speciesReference species="X" stoichiometry="1" constant="true"/></listOfReactants><kineticLaw>
<math xmlns="http://www.w3.org/1998/Math/MathML"><apply><times/><ci>k</ci><ci>X</ci><ci>cell</ci>
</apply></math></kineticLaw></reaction></listOfReactions></model></sbml>
"""
TABLES = {
    "conditions": "conditionId\tconditionName\tX\tk\nslow\t\t3\t\nfast\t\tx0\t0.9\n",
    "observables": "observableId\tobservableFormula\tnoiseFormula\tobservableTransformation\t"
    "noiseDistribution\n"
    "plain\tobservableParameter1_plain * X\tnoiseParameter1_plain + 0.1 * plain\tlin\tnormal\n"
    "wide\tX + 1\ts\tlog\tlaplace\n",
    "measurements": "observableId\tsimulationConditionId\tmeasurement\ttime\tobservableParameters\t"
    "noiseParameters\n"
    "plain\tslow\t5\t1\t2\t0.5\nplain\tslow\t4.4\t1\tscale\ts\nwide\tfast\t2\t0\t\t\n"
    "wide\tfast\t1.2\t3\t\t\nplain\tfast\t0.3\t3\t1\ts\n",
    "parameters": "parameterId\tparameterScale\tlowerBound\tupperBound\tnominalValue\testimate\n"
    "k\tlog10\t0.01\t10\t0.3\t1\nx0\tlin\t0.1\t10\t2\t1\nscale\tlog\t0.1\t10\t1.5\t1\n"
    "s\tlog10\t0.01\t10\t0.2\t0\n",
}
YAML = """format_version: 1
parameter_file: parameters.tsv
problems:
- sbml_files: [model.xml]
  condition_files: [conditions.tsv]
  observable_files: [observables.tsv]
  measurement_files: [measurements.tsv]
"""


@pytest.fixture
def read(tmp_path):
    def write(old="", new=""):
        assert not old or any(old in text for text in (YAML, *TABLES.values()))
        for name, text in TABLES.items():
            (tmp_path / f"{name}.tsv").write_text(text.replace(old, new) if old else text)
        (tmp_path / "model.xml").write_text(MODEL)
        (tmp_path / "decay.yaml").write_text(YAML.replace(old, new) if old else YAML)
        return read_petab(tmp_path / "decay.yaml")

    return write


def closed_form(k=0.3, x0=2.0, scale=1.5, s=0.2, smooth=False):
    def normal(measured, y, noise):
        return math.log(noise * math.sqrt(2 * math.pi)) + 0.5 * ((measured - y) / noise) ** 2

    def laplace(measured, y):
        off = abs(math.log(measured) - math.log(y))
        if smooth:
            return math.log(measured) + normal(off, 0.0, s)
        return math.log(2 * s) + math.log(measured) + off / s

    slow, fast = 3 * math.exp(-k), x0 * math.exp(-0.9 * 3)
    return (
        normal(5, 2 * slow, 0.5 + 0.2 * slow) + normal(4.4, scale * slow, s + 0.1 * scale * slow)
        + laplace(2, x0 + 1) + laplace(1.2, fast + 1) + normal(0.3, fast, s + 0.1 * fast)
    )  # fmt: skip


def test_conditions_overrides_transformations_and_laws(read):
    problem = read()
    assert problem.objective(device="cpu:1") == pytest.approx(closed_form(), rel=1e-7)
    sets = {"k": [0.3, 0.7, 2.0], "scale": [1.5, 1.0, 3.0]}
    found = problem.objective(sets, device="cpu:1")
    expected = [closed_form(k, 2.0, scale) for k, scale in zip(*sets.values(), strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    rows = problem.simulate({"k": 0.7}, device="cpu:1")
    assert rows["simulation"].values[0, 0] == pytest.approx(6 * math.exp(-0.7), rel=1e-7)
    assert list(rows["condition"].values[:3]) == ["slow", "slow", "fast"]


def test_a_fit(read):
    """The minimum of the closed form, by SciPy without ergode, is found from several starts."""
    from scipy.optimize import minimize

    found = read("\tlaplace", "\tnormal").fit(starts=8, device="cpu:1")

    def function(q):
        return closed_form(math.exp(q[0]), q[1], math.exp(q[2]), smooth=True)

    best = min(
        minimize(
            function, start, method="Nelder-Mead",
            bounds=[(math.log(0.01), math.log(10)), (0.1, 10), (math.log(0.1), math.log(10))],
            options={"xatol": 1e-10, "fatol": 1e-12, "maxiter": 10_000},
        ).fun
        for start in ([-1, 1.0, 0.0], [-2, 3.0, 1.0], [0, 2.0, -1.0])
    )  # fmt: skip
    assert found["objective"].values[0] == pytest.approx(best, abs=1e-5)
    assert list(found["parameter"].values) == ["k", "x0", "scale"]
    assert (np.diff(found["objective"].values) >= 0).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("conditions.tsv", "none.tsv", "none.tsv: there is no such file"),
        ("format_version: 1", "format_version: 2", "format_version is 2; expected 1"),
        ("sbml_files", "other_files", "'sbml_files' is missing"),
        ("\tnominalValue", "\tnominal", "the column 'nominalValue' is missing"),
        ("X + 1", "Y + 1", "the observable 'wide' uses 'Y', which neither"),
        ("X + 1", "X +", "X +"),
        ("scale\ts\n", "scales\ts\n", "'plain' uses 'scales', which is no parameter"),
        ("wide\tfast\t2", "wide\tquick\t2", "condition 'quick', which no row defines"),
        ("wide\tfast\t2", "deep\tfast\t2", "of 'deep', which no row defines"),
        ("conditionName\tX\tk", "conditionName\tX\tkk", "the conditions set 'kk'"),
        ("x0\t0.9", "x1\t0.9", "'x1' of 'X' is neither a number nor a parameter"),
        ("\tlaplace", "\tcauchy", "noiseDistribution is 'cauchy'; expected one of normal, laplace"),
        ("k\tlog10", "k\tlog2", "parameterScale is 'log2'"),
        ("2\t0\t\t", "2\tinf\t\t", "steady state are not supported"),
        ("2\t0\t\t", "2\t-1\t\t", "a time is negative"),
        ("2\t0\t\t", "two\t0\t\t", "'measurement' has a value that is no number"),
        ("conditionName\tX", "preequilibration\tX", "set 'preequilibration'"),
        ("plain\tfast\t0.3", "plain\tfast\tNaN", "'plain' at time 3 has no value"),
        (
            "plain\tfast\t0.3\t3\t1\ts",
            "plain\tfast\t0.3\t3\t1\t",
            "noiseParameter1_plain'",
        ),
        ("plain\tfast\t0.3\t3\t1\ts", "plain\tfast\t0.3\t3\t1\ts;2", "no formula uses it"),
        ("wide\tfast\t2\t0", "wide\tfast\t-2\t0", "of 'wide' is not positive"),
        ("1.5\t1\n", "1.5\tyes\n", "estimate of 'scale' is 'yes'; expected 0 or 1"),
        ("s\tlog10\t0.01", "k\tlog10\t0.01", "'k' is listed twice"),
        ("fast\t\tx0", "slow\t\tx0", "'slow' is listed twice"),
    ],
)
def test_what_is_refused(read, old, new, message):
    with pytest.raises((ReadError, ModelError), match=message):
        read(old, new).objective(device="cpu:1")


def test_arguments_that_are_refused(read):
    problem = read()
    with pytest.raises(ModelError, match="'kk' is no parameter of the problem"):
        problem.objective({"kk": 1.0})
    with pytest.raises(ModelError, match=r"lengths \[2, 3\]; expected one length"):
        problem.objective({"k": [1, 2], "s": [1, 2, 3]})
    with pytest.raises(PlanError, match="starts is 0"):
        problem.fit(starts=0)
    for values in ({"k": []}, {"k": "a"}, [0.5]):
        with pytest.raises(ModelError, match="expected"):
            problem.objective(values)
    with pytest.raises(PlanError, match="'k' has the bounds 0 and 10 on the scale 'log10'"):
        read("k\tlog10\t0.01", "k\tlog10\t0").fit()
    with pytest.raises(PlanError, match="'x0' has no bounds"):
        read("x0\tlin\t0.1\t10", "x0\tlin\t\t10").fit()


def test_parameters_by_another_path(read):
    """The field of the network gives the same course as the problem's own simulation."""
    problem = read()
    field = ergode.field_from_network(problem.network)
    assert set(field.parameters) == {"cell", "k"} and field.variables == ("X",)
    found = ergode.trajectories.integrate(
        field, times=[0, 1, 2], initial={"X": 3.0}, parameters={"cell": 2.0, "k": 0.3},
        device="cpu:1",
    )  # fmt: skip
    np.testing.assert_allclose(found["state"].values[:, 0], 3 * np.exp([0, -0.3, -0.6]), rtol=1e-5)


def test_a_problem_is_written_and_read_again(read, tmp_path):
    problem = read()
    written = ergode.write_petab(problem, tmp_path / "again.yaml")
    again = read_petab(written)
    assert again.parameters == problem.parameters and again.network.digest == problem.network.digest
    assert again.objective(device="cpu:1") == problem.objective(device="cpu:1")
    with pytest.raises(PlanError, match=r"again\.yaml': it exists; pass overwrite=True"):
        ergode.write_petab(problem, written)
    ergode.write_petab(again, written, overwrite=True)
    assert read_petab(written).measurements.equals(problem.measurements)


@pytest.mark.parametrize("deviation", [{"A": 0.05, "B": [[0.1, 0.1, 0.2, 0.2]] * 2}, None])
def test_a_fit_is_written(tmp_path, deviation):
    """Two experiments with a dimerisation: the objective is that of the fit's residuals."""
    network = ergode.ReactionNetwork(
        {"A": 2.0, "B": 0.0},
        [ergode.Reaction("2 A -> B", rate_constant="k"),
         ergode.Reaction("B -> 2 A", rate_constant="back")],
        {"k": 1.0, "back": 0.1},
    )  # fmt: skip
    found = ergode.trajectories.fit(
        ergode.field_from_network(network), times=pandas.Series([0, 1, 2, 4]),
        data={
            "A": [[2.0, 1.1, 0.8, np.nan], [1.0, 0.75, 0.6, 0.5]],
            "B": [[0.1, 0.5, 0.6, 0.7], [0.1, 0.3, 0.4, 0.3]],
        },
        initial={"A": [2.0, 1.0], "B": 0.0}, parameters={"k": 0.3, "back": 0.1},
        estimate=["k", "B"], bounds={"k": (0.01, 10), "B": (0, 1)}, deviation=deviation,
        device="cpu:1",
    )  # fmt: skip
    written = ergode.write_petab(found, tmp_path / "dimer.yaml")
    problem = read_petab(written)
    assert problem.estimated[:2] == ["k", "initial_B"] and len(problem.measurements) == 15
    off = found["residual"].values.transpose(2, 0, 1)
    if deviation is None:
        spread = np.full(off.shape, np.sqrt(np.nanmean(off**2)))
        assert problem.parameters["noise"].nominal == pytest.approx(spread[0, 0, 0])
    else:
        spread = np.broadcast_to([[[0.05] * 4], [[0.1, 0.1, 0.2, 0.2]]], off.shape)
        off = off * spread
    expected = 0.5 * (off / spread) ** 2 + np.log(spread) + 0.5 * np.log(2 * np.pi)
    assert problem.objective(device="cpu:1") == pytest.approx(np.nansum(expected), rel=1e-4)
    validate(written)


def test_what_is_not_written(tmp_path):
    field = ergode.field_from_equations({"x": "-k*x"})
    given = {"data": {"x": [1.0, 0.4]}, "initial": {"x": 1.0}, "parameters": {"k": 1.0},
             "estimate": ["k"], "device": "cpu:1"}  # fmt: skip
    for problem in (ergode.trajectories.fit(field, times=[0, 1], **given), 3):
        with pytest.raises(ModelError, match="expected what ergode.read_petab returns"):
            ergode.write_petab(problem, tmp_path / "no.yaml")
    network = ergode.ReactionNetwork({"x": 1}, [ergode.Reaction("x -> 0", rate_constant="k")],
                                     {"k": 1.0})  # fmt: skip
    late = ergode.trajectories.fit(ergode.field_from_network(network), times=[1, 2], **given)
    with pytest.raises(ModelError, match="the fit begins at time 1"):
        ergode.write_petab(late, tmp_path / "no.yaml")
    assert not list(tmp_path.iterdir())
