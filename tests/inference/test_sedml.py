"""SED-ML files and COMBINE archives: what they describe is what is simulated."""

import zipfile

import numpy as np
import pytest
from scipy.optimize import brentq

import ergode

MODEL = """
    substanceOnly species A, B = 0;
    A = 100; decay: A => B; k * A; k = 0.5
"""
TARGET = "/sbml:sbml/sbml:model/sbml:listOf{0}/sbml:{1}[@id='{2}']"
SEDML = """<?xml version="1.0" encoding="UTF-8"?>
<sedML xmlns="http://sed-ml.org/sed-ml/level1/version3" level="1" version="3">
 <listOfSimulations>
  <uniformTimeCourse id="ode" initialTime="0"
   outputStartTime="1" outputEndTime="5" numberOfPoints="4">
   <algorithm kisaoID="KISAO:0000019"/></uniformTimeCourse>
  <uniformTimeCourse id="ssa" initialTime="0"
   outputStartTime="0" outputEndTime="4" numberOfPoints="2">
   <algorithm kisaoID="KISAO:0000029"/></uniformTimeCourse>
 </listOfSimulations>
 <listOfModels>
  <model id="plain" language="urn:sedml:language:sbml" source="decay.xml"/>
  <model id="quick" language="urn:sedml:language:sbml" source="#plain"><listOfChanges>
   <changeAttribute target="PARAMETER/@value" newValue="2.0"/></listOfChanges></model>
  <model id="fast" language="urn:sedml:language:sbml" source="#quick"><listOfChanges>
   <computeChange target="PARAMETER"><listOfVariables><variable id="old" target="PARAMETER"/>
    </listOfVariables><math xmlns="http://www.w3.org/1998/Math/MathML">
     <apply><divide/><ci>old</ci><cn>2</cn></apply></math></computeChange>
  </listOfChanges></model>
 </listOfModels>
 <listOfTasks>
  <task id="one" modelReference="fast" simulationReference="ode"/>
  <task id="base" modelReference="plain" simulationReference="ode"/>
  <task id="chance" modelReference="plain" simulationReference="ssa"/>
  <repeatedTask id="scan" range="r" resetModel="true">
   <listOfRanges><uniformRange id="r" start="0.1" end="0.3" numberOfPoints="2" type="linear"/>
   </listOfRanges>
   <listOfChanges><setValue target="PARAMETER" modelReference="plain" range="r">
    <math xmlns="http://www.w3.org/1998/Math/MathML"><ci> r </ci></math></setValue></listOfChanges>
   <listOfSubTasks><subTask order="1" task="base"/></listOfSubTasks>
  </repeatedTask>
  <repeatedTask id="both" range="q" resetModel="true">
   <listOfRanges><vectorRange id="v"><value>5</value><value>20</value></vectorRange>
    <functionalRange id="q" range="v"><math xmlns="http://www.w3.org/1998/Math/MathML">
     <apply><times/><ci>v</ci><cn>2</cn></apply></math></functionalRange></listOfRanges>
   <listOfChanges><setValue target="SPECIES" modelReference="plain" range="q">
    <math xmlns="http://www.w3.org/1998/Math/MathML"><apply><plus/><ci>q</ci><cn>1</cn></apply>
    </math></setValue></listOfChanges>
   <listOfSubTasks><subTask order="1" task="scan"/></listOfSubTasks>
  </repeatedTask>
 </listOfTasks>
 <listOfDataGenerators>
  DATA
 </listOfDataGenerators>
 <listOfOutputs>
  <plot2D id="figure"><listOfCurves>
   <curve id="c" logX="false" logY="true" xDataReference="t" yDataReference="share"/>
  </listOfCurves></plot2D>
  <report id="table"><listOfDataSets>
   <dataSet id="d1" label="time" dataReference="t"/>
   <dataSet id="d2" label="A share" dataReference="share"/>
  </listOfDataSets></report>
 </listOfOutputs>
</sedML>
"""


def generator(name, task, what, math, parameter=""):
    of = 'symbol="urn:sedml:symbol:time"' if what == "time" else f'target="{what}"'
    return (
        f'<dataGenerator id="{name}"><listOfVariables><variable id="v_{name}" {of} '
        f'taskReference="{task}"/></listOfVariables>{parameter}'
        f'<math xmlns="http://www.w3.org/1998/Math/MathML">{math}</math></dataGenerator>'
    )


A = TARGET.format("Species", "species", "A")
FULL = '<listOfParameters><parameter id="full" value="100"/></listOfParameters>'
DATA = "".join(
    [
        generator("t", "one", "time", "<ci>v_t</ci>"),
        generator("share", "one", A, "<apply><divide/><ci>v_share</ci><ci>full</ci></apply>", FULL),
        generator("many", "scan", A, "<ci>v_many</ci>"),
        generator("crossed", "both", A, "<ci>v_crossed</ci>"),
        generator("count", "chance", A, "<ci>v_count</ci>"),
    ]
)
TEXT = SEDML.replace("PARAMETER", TARGET.format("Parameters", "parameter", "k"))
TEXT = TEXT.replace("SPECIES", A).replace("DATA", DATA)


@pytest.fixture
def archive(tmp_path):
    ergode.write_sbml(ergode.read_antimony(MODEL), tmp_path / "decay.xml")
    (tmp_path / "run.sedml").write_text(TEXT)
    with zipfile.ZipFile(tmp_path / "all.omex", "w") as packed:
        packed.write(tmp_path / "decay.xml", "models/decay.xml")
        packed.write(tmp_path / "run.sedml", "models/run.sedml")
    return tmp_path


@pytest.mark.parametrize("name", ["run.sedml", "all.omex"])
def test_courses_sweeps_data_reports_and_plots(archive, name):
    experiment = ergode.read_sedml(archive / name)
    assert {n: task.method for n, task in experiment.tasks.items()} == {
        "one": "hybrid", "base": "hybrid", "chance": "auto", "scan": "hybrid",
        "both": "hybrid",
    }  # fmt: skip
    found = experiment.run(replicates=200, seed=1, device="cpu")
    table = found.reports["table"]
    assert list(table) == ["time", "A share"]
    times = np.linspace(1, 5, 5)
    np.testing.assert_allclose(table["time"], [times])
    np.testing.assert_allclose(table["A share"], [np.exp(-times)], rtol=2e-5)
    rates = np.array([0.1, 0.2, 0.3])
    expected = 100 * np.exp(-rates[:, None, None] * times)
    np.testing.assert_allclose(found.data["many"], expected, rtol=2e-5)
    crossed = np.array([11.0, 41.0])[:, None, None, None] / 100 * expected
    np.testing.assert_allclose(found.data["crossed"], crossed, rtol=2e-5)
    counts = found.data["count"]
    assert counts.shape == (200, 3) and (counts % 1 == 0).all()
    for k, p in enumerate(np.exp([-1.0, -2.0]), 1):
        assert abs(counts[:, k].mean() - 100 * p) < 5.5 * np.sqrt(100 * p * (1 - p) / 200)
    (figure,) = found.plot().values()
    assert figure.axes[0].get_yscale() == "log"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("uniformTimeCourse", "analysis", "analysis 'ode' is not supported"),
        ("changeAttribute", "removeXML", "removeXML is not supported"),
        ("uniformRange", "functionalRange", "range of functionalRange 'r' is 'None', no range"),
        ('task="base"', 'task="both"', "'(scan|both)' repeats itself"),
        ("<ci>old</ci>", "<ci>new</ci>", "computeChange 'None': .* 'new', which has no value"),
        ("<ci>v</ci>", "<ci>w</ci>", "functionalRange 'q': .* 'w', which has no value"),
        ('resetModel="true"', 'resetModel="false"', "'scan' does not reset its model, and is nes"),
        ("plot2D", "plot3D", "plot3D 'figure' is not supported"),
        ('dataReference="t"', 'dataReference="x"', "'x', which is missing"),
        ("</sedML>", "", "not XML"),
        ("symbol:time", "symbol:other", "symbol 'urn:sedml:symbol:other'"),
        ('numberOfPoints="', 'numberOfPoints="1e999', "has inf steps"),
        ('source="decay.xml"', 'source="#fast"', "is made of itself"),
        (
            '<uniformRange id="r" start="0.1" end="0.3" numberOfPoints="2" type="linear"/>',
            '<vectorRange id="r"><value>two</value></vectorRange>',
            "vectorRange 'r': could not",
        ),
    ],
)
def test_what_is_not_supported_is_named(archive, old, new, message):
    (archive / "run.sedml").write_text(TEXT.replace(old, new))
    with pytest.raises(ergode.ReadError, match=message):
        ergode.read_sedml(archive / "run.sedml")


def in_turn(tmp_path, model, simulation, values, resets, names):
    """Data of repetitions with these values of the parameter v."""
    ergode.write_sbml(ergode.read_antimony(model), tmp_path / "model.xml", overwrite=True)
    parameter = TARGET.format("Parameters", "parameter", "v")
    (tmp_path / "repeated.sedml").write_text(
        '<sedML level="1" version="3"><listOfSimulations>' + simulation + "</listOfSimulations>"
        '<listOfModels><model id="m" language="sbml" source="model.xml"/></listOfModels>'
        '<listOfTasks><task id="one" modelReference="m" simulationReference="s"/>'
        f'<repeatedTask id="all" range="r" resetModel="{str(resets).lower()}"><listOfRanges>'
        '<vectorRange id="r">' + "".join(f"<value>{v}</value>" for v in values) + "</vectorRange>"
        f'</listOfRanges><listOfChanges><setValue target="{parameter}" range="r">'
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><ci>r</ci></math></setValue>'
        '</listOfChanges><listOfSubTasks><subTask order="1" task="one"/></listOfSubTasks>'
        "</repeatedTask></listOfTasks><listOfDataGenerators>"
        + "".join(
            generator(n, "all", TARGET.format("Species", "species", n), f"<ci>v_{n}</ci>")
            for n in names
        )
        + "</listOfDataGenerators></sedML>"
    )
    experiment = ergode.read_sedml(tmp_path / "repeated.sedml")
    found = experiment.run(device="cpu:1").data
    return {name: one.reshape(len(values)) for name, one in found.items()}


STEADY = '<steadyState id="s"><algorithm kisaoID="KISAO:0000407"/></steadyState>'


@pytest.mark.parametrize("unit", [1.0, 1e-7])
def test_the_steady_state_is_the_one_that_the_begin_leads_to(tmp_path, unit):
    """A switch with memory: between its stable states lies a root that nothing leads to."""
    model = f"""
        substanceOnly species X = 0; v = 1; u = {unit}
        -> X; 0.05 * u + v * u * (X / u)^4 / (1 + (X / u)^4); X ->; 0.5 * X
    """

    def roots(v):
        grid = np.linspace(0, 4 + 4 * v, 40_001)
        slope = 0.05 + v * grid**4 / (1 + grid**4) - 0.5 * grid
        turns = np.flatnonzero(slope[:-1] * slope[1:] < 0)
        return [
            brentq(lambda x: 0.05 + v * x**4 / (1 + x**4) - 0.5 * x, grid[i], grid[i + 1],
                   xtol=1e-13) for i in turns
        ]  # fmt: skip

    values = [0.6, 1.0, 1.6, 600.0, 1.6, 1.0, 0.6]
    assert [len(roots(v)) for v in values[:3]] == [1, 3, 3]
    lower, upper = ([roots(v)[end] if v < 600 else 1200.1 for v in values] for end in (0, -1))
    found = in_turn(tmp_path, model, STEADY, values, True, "X")["X"] / unit
    expected = [*lower[:3], upper[3], *lower[4:]]
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    found = in_turn(tmp_path, model, STEADY, values, False, "X")["X"] / unit
    np.testing.assert_allclose(found, [*lower[:3], *upper[3:]], rtol=1e-7)


def test_steady_states_keep_what_is_conserved(tmp_path):
    """Concentrations, with amounts far below one: A + B and B + C stay what they were."""
    model = """
        compartment c = 2; v = 3
        species A in c = 3e-7, B in c = 0, C in c = 1e-7
        A => B; c * 0.3 * A; B => A; c * v * 0.1 * B; B + C => D; c * 1e6 * B * C
        D => B + C; c * 0.2 * D; species D in c = 0
    """
    found = in_turn(tmp_path, model, STEADY, [1.0, 5.0], True, "ABCD")
    a, b, c, d = (found[name] for name in "ABCD")
    np.testing.assert_allclose(a + b + d, 3e-7, rtol=1e-9)
    np.testing.assert_allclose(c + d, 1e-7, rtol=1e-9)
    np.testing.assert_allclose(3 * a, np.array([1.0, 5.0]) * b, rtol=1e-7)
    np.testing.assert_allclose(1e6 * b * c, 0.2 * d, rtol=1e-7)


@pytest.mark.parametrize("resets", [True, False])
def test_single_steps_go_on_where_the_one_before_ended(tmp_path, resets):
    model = "substanceOnly species A, B = 0; A = 100; decay: A => B; v * A; v = 0.5"
    step = '<oneStep id="s" step="0.5"><algorithm kisaoID="KISAO:0000019"/></oneStep>'
    values = np.array([0.1, 0.2, 0.3])
    found = in_turn(tmp_path, model, step, values, resets, "A")["A"]
    spent = 0.5 * (values if resets else np.cumsum(values))
    np.testing.assert_allclose(found, 100 * np.exp(-spent), rtol=2e-5)


def test_an_archive_without_an_experiment(tmp_path):
    with zipfile.ZipFile(tmp_path / "empty.omex", "w") as packed:
        packed.writestr("manifest.xml", "<omexManifest/>")
    with pytest.raises(ergode.ReadError, match="no SED-ML file"):
        ergode.read_sedml(tmp_path / "empty.omex")
