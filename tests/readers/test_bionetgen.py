"""read_bionetgen: every block of a .net file, its arithmetic, and complaints with their line."""

import numpy as np
import pytest

from ergode import ReadError, read_bionetgen
from ergode.models.expressions import Expression
from ergode.models.reactions.reaction import Law

from .networks import propensities

NET = """# Created by BioNetGen 2.9.1
setOption("SpeciesLabel","HNauty")
substanceUnits("Number")
begin parameters
    1 kp    0.01  # Constant
    2 km    2*kp + if(kp > 1, 3, ln(exp(0.5)))  # ConstantExpression
    3 A0    100
    4 _InitialConc1  A0/2
end parameters
begin molecule types
    1 A(b,s~U~P)
end molecule types
begin functions
    1 f() km*Total/(10+Total)
    2 _rateLaw1() if((Total>=3)&&!(time()<2), f(), 0)
end functions
begin species
    1 A(b,s~U) A0
    2 A(b!1,s~U).A(b!1,s~U) 0
    3 $Source() 1
    4 A(b,s~P) _InitialConc1
end species
begin reactions
    1 1,1 2 0.5*kp #_R1
    2 2 1,1 km #_reverse__R1
    3 3 3,1 kp #_R2
    4 1,4 2 2*_rateLaw1 #_R3
    5 4 0 1.5
    6 0 4 kp
    7 4,4 2 f
end reactions
begin groups
    1 Total   1,2*2, \\
       4
    2 Nothing
end groups
"""


@pytest.fixture
def read(tmp_path):
    def read(text, name="model.net"):
        path = tmp_path / name
        path.write_text(text)
        return read_bionetgen(path)

    return read


def test_a_network(read):
    network = read(NET)
    assert network.name == "model" and list(network.index) == ["S1", "S2", "S3", "S4"]
    assert network.species[1].label == "A(b!1,s~U).A(b!1,s~U)"
    assert network.held.tolist() == [False, False, True, False]
    assert network.species[3].initial == Expression("_InitialConc1")
    values = network.evaluate_parameters()
    assert values["km"] == pytest.approx(0.52) and values["_InitialConc1"] == 50
    assert [str(r) for r in network.reactions] == [
        "2 S1 -> S2", "S2 -> 2 S1", "S3 -> S3 + S1", "S1 + S4 -> S2", "S4 -> 0", "0 -> S4",
        "2 S4 -> S2",
    ]  # fmt: skip
    whole = [r.law == Law.RATE for r in network.reactions]
    assert whole == [False, False, False, True, False, False, True]


def test_rates_are_those_of_its_simulator(read):
    network = read(NET)
    s1, s2, s4 = 30.0, 7.0, 5.0
    total = s1 + 2 * s2 + s4
    f = 0.52 * total / (10 + total)
    for time, on in ((1.0, 0), (2.0, 1)):
        rates = propensities(network, {"S1": s1, "S2": s2, "S3": 1.0, "S4": s4}, time)
        expected = [0.5 * 0.01 * s1 * (s1 - 1), 0.52 * s2, 0.01, on * 2 * f * s1 * s4]
        assert rates == pytest.approx([*expected, 1.5 * s4, 0.01, f * s4 * (s4 - 1)])
    assert network.rules["Nothing"].evaluate({}) == 0


def test_built_in_laws(read):
    network = read(
        """begin parameters
        kcat 3
        K 20
        h 2
        end parameters
        begin species
        S() 30
        E() 5
        P() 0
        end species
        begin reactions
        1 1 3 Sat kcat K
        2 1,2 3,2 Sat kcat K
        3 1,2 3,2 2*Sat kcat K h
        4 1,2 3,2 MM kcat K
        5 1 3 Hill kcat K h
        6 2,1 3,1 0.5*Hill kcat K h
        end reactions"""
    )
    assert all(r.law == Law.RATE for r in network.reactions)
    assert str(network.reactions[3]) == "S1 + S2 -> S3 + S2"
    for s, e in ((30.0, 5.0), (3.0, 50.0), (0.0, 4.0)):
        # Free substrate f: s = f + e f / (K + f), the total minus what the enzyme has bound.
        free = max(np.roots([1.0, e + 20 - s, -20 * s]).real)
        assert propensities(network, {"S1": s, "S2": e, "S3": 0.0}, 0.0) == pytest.approx(
            [
                3 * s / (20 + s),
                3 * s * e / (20 + s),
                2 * 3 * s * e / (20 + s) / (2 + e),
                3 * e * free / (20 + free),
                3 * s**2 / (400 + s**2),
                0.5 * 3 * s * e**2 / (400 + e**2),
            ]
        )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("log2(8) + log10(100) + ln(_e)", 6),
        ("rint(2.6) + abs(-2) + 2^3", 13),
        ("sum(1,2,3) * avg(2,4)", 18),
        ("min(3,2) + max(3,7)", 9),
        ("sinh(asinh(2)) + cosh(acosh(3)) + tanh(atanh(0.5))", 5.5),
        ("if(1 > 2 || 3 ~= 4, if(2 != 2, 1, 5), 7)", 5),
        ("sin(_pi/2)", 1),
    ],
)
def test_arithmetic(read, text, value):
    network = read(
        f"begin parameters\n1 k {text}\nend parameters\nbegin species\n1 A 0\nend species"
    )
    assert network.parameters["k"] == pytest.approx(value)


def test_a_group_of_thousands(read):
    species = "\n".join(f"{i} A{i} 1" for i in range(1, 3001))
    members = ",".join(f"2*{i}" for i in range(1, 3001))
    network = read(
        f"begin species\n{species}\nend species\nbegin groups\n1 all {members}\nend groups"
    )
    assert network.rules["all"].evaluate(dict.fromkeys(network.index, 1.0)) == 6000


def test_names_that_are_taken(read):
    network = read("begin parameters\n1 S1 2\nend parameters\nbegin species\n1 A S1\nend species")
    assert network.species[0].name == "S_1"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1,1 2 0.5*kp", "1,9 2 0.5*kp", "line 24: '9' is not a species; expected 1 to 4"),
        ("1,1 2 0.5*kp", "1,1 2 Sat kp km", "line 24: 'Sat' needs one reactant or more"),
        ("1,1 2 0.5*kp", "1,4 2 MM kp", "line 24: 'MM' has 2 reactants and 1 constants"),
        ("1,1 2 0.5*kp", "1 2 MM kp km", "line 24: 'MM' has 1 reactants and 2 constants"),
        ("1,1 2 0.5*kp", "1 2 Hill kp km", "line 24: 'Hill' has 1 reactants and 2 constants"),
        ("1,1 2 0.5*kp", "1,1 2 Arrhenius kp km", "line 24: the built-in rate law 'Arrhenius'"),
        ("1,1 2 0.5*kp", "1,1 2", "line 24: expected reactants, products and a rate"),
        ("1,1 2 0.5*kp", "1,1 2 tfun('x')", "line 24: .*tfun"),
        ("1,1 2 0.5*kp", "1,1 2 0.5*kq", "uses 'kq', which the network does not have"),
        ("begin groups", "begin guesses", "the block 'guesses' is unknown"),
        ("end groups", "", "the block 'groups' does not end"),
        ("end groups", "end species", "expected 'end groups'"),
        ("f() km", "f(x) km", "function 'f' has arguments"),
        ("kp    0.01", "kp", "parameter 'kp' has no value"),
        ("$Source() 1", "$Source()", "species '\\$Source\\(\\)' has no amount"),
        ("$Source() 1", "$Source() -1", "line 20: initial of species 'S3' is -1"),
        ("ln(exp(0.5))", "ln(exp(0.5)", "line 6: "),
        ('substanceUnits("Number")', 'substanceUnits("Concentration")', "line 3: .*is an action"),
        ('setOption("SpeciesLabel","HNauty")', "simulate({})", "line 2: .*is an action"),
    ],
)
def test_what_is_refused(read, old, new, message):
    assert old in NET
    with pytest.raises(ReadError, match=message):
        read(NET.replace(old, new))


def test_files_that_are_none(read, tmp_path):
    with pytest.raises(ReadError, match="no such file"):
        read_bionetgen(tmp_path / "none.net")
    with pytest.raises(ReadError, match="no species"):
        read("")


def test_what_a_file_says_twice_or_out_of_order_is_refused(read, refusal, tmp_path):
    path = tmp_path / "model.net"
    for old, new, message in (
        ("    3 A0    100", "    3 kp 100", "line 7: 'kp' is listed twice"),
        ("    2 Nothing", "    2 Total 1", "'Total' is listed twice"),
        ("    2 A(b!1,s~U).A(b!1,s~U) 0", "    3 A(b!1,s~U).A(b!1,s~U) 0", "the index 3, not 2"),
        ("    1 f() km", "    1 f\\ km", "line 14"),
        ("end groups\n", "end groups \\", "backslash"),
    ):
        assert old in NET
        path.write_text(NET.replace(old, new))
        assert message in refusal(read_bionetgen, path)


def test_calls_in_calls_are_written_out(read):
    text = NET.replace("ln(exp(0.5))", "asinh(if(kp > 1, 2, acosh(3)))")
    value = read(text).evaluate_parameters()["km"]
    assert value == pytest.approx(0.02 + np.arcsinh(np.arccosh(3)))
