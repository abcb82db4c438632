"""Mechanisms of the Kinetic PreProcessor: Chapman's ozone, as its manual writes it."""

import math
import re
import shutil

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ergode

SPECIES = """
#INCLUDE atoms
#DEFVAR
O = O; {Oxygen atomic ground state}
O1D = O; // excited
O3 = O + O + O;
NO = N + O; NO2 = N + 2O;
#DEFFIX
O2 = O + O; M = IGNORE;
"""
EQUATIONS = """
#EQUATIONS { Small stratospheric mechanism }
<R1>  O2   + hv = 2O            : (2.643E-10) * SUN*SUN*SUN;
<R2>  O    + O2 = O3            : (8.018E-17);
<R3>  O3   + hv = O   + O2      : (6.120E-04) * SUN;
<R4>  O    + O3 = 2O2           : ARR_ab(8.0D-12, 2060.0_dp);
<R5>  O3   + hv = O1D + O2      : (1.070E-03) * SUN;
<R6>  O1D  + M  = O   + M       : 1.8e-11 * EXP(110/TEMP);
<R7>  O1D  + O3 = 2O2           : (1.200E-10);
<R8>  NO   + O3 = NO2 + O2      : ARR_abc(1.8E-12,
                                          1370.0, -0.5);
<R9>  NO2  + O  = NO  + O2      : (1.069E-11);
<R10> NO2  + hv = NO  + O       : (1.289E-02) * SUN;
"""
DEFINITION = """
#include small.spc
#include small.eqn
#LOOKATALL
#INITVALUES
CFACTOR = 2.0;
VAR_SPEC = 5.0; FIX_SPEC = 8.0E+15;
O3 = 2.5E+11; M = 4.0E+16; NO = 4.0E+8; NO2 = 1.0D+8;
#INLINE F90_INIT
  TSTART = (12*3600)
#ENDINLINE
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small.spc").write_text(SPECIES)
    (tmp_path / "small.eqn").write_text(EQUATIONS)
    (tmp_path / "small.def").write_text(DEFINITION)
    return tmp_path


def test_a_mechanism_of_several_files(folder):
    network = ergode.read_kpp(folder / "small.def", parameters={"SUN": 0.5})
    assert [one.name for one in network.species] == ["O", "O1D", "O3", "NO", "NO2", "O2", "M"]
    assert [one.boundary for one in network.species] == [False] * 5 + [True] * 2
    assert [one.initial for one in network.species] == [10, 10, 5e11, 8e8, 2e8, 1.6e16, 8e16]
    first = network.reactions[0]
    assert (first.name, dict(first.reactants), dict(first.products)) == ("R1", {"O2": 1}, {"O": 2})
    cold, hot = (
        ergode.kinetics.reaction_rates(network, temperature=t)["coefficient"].values[0]
        for t in (220.0, 300.0)
    )
    np.testing.assert_allclose(cold[[0, 1, 2]], [2.643e-10 / 8, 8.018e-17, 3.06e-4], rtol=1e-12)
    for t, found in ((220.0, cold), (300.0, hot)):
        assert found[3] == pytest.approx(8e-12 * np.exp(-2060 / t), rel=1e-9)
        assert found[5] == pytest.approx(1.8e-11 * np.exp(110 / t), rel=1e-9)
        exact = 1.8e-12 * np.exp(-1370 / t) * (t / 300) ** -0.5
        assert found[7] == pytest.approx(exact, rel=1e-9)


def test_it_runs(folder):
    network = ergode.read_kpp(folder / "small.def", parameters={"SUN": 1.0})
    result = ergode.kinetics.integrate(
        network, times=[0, 3600.0], temperature=[220.0, 300.0], device="cpu"
    )
    amounts = result["concentration"]
    np.testing.assert_array_equal(amounts.sel(species="M"), 8e16)
    np.testing.assert_allclose(amounts.sel(species=["NO", "NO2"]).sum("species"), 1e9, rtol=1e-9)
    # Noon lasts: excited oxygen is in balance with what makes and quenches it.
    last = amounts.isel(time=1)
    made = 1.07e-3 * last.sel(species="O3")
    quenched = 1.8e-11 * np.exp(110 / np.array([220.0, 300.0])) * 8e16
    np.testing.assert_allclose(last.sel(species="O1D"), made / quenched, rtol=1e-3)
    assert result["status"].values.tolist() == [0, 0]


def test_photolysis_follows_the_sunlight(folder):
    network = ergode.read_kpp(folder / "small.def")
    laws = {one.name: one.value for one in network.reactions}
    assert laws["R1"] == ergode.Photolysis(2.643e-10, 3.0)
    assert laws["R3"] == ergode.Photolysis(6.12e-4)
    found = ergode.kinetics.reaction_rates(network, temperature=250.0, sunlight=[0.5, 0.0])
    noon = ergode.read_kpp(folder / "small.def", parameters={"SUN": 0.5})
    expected = ergode.kinetics.reaction_rates(noon, temperature=250.0)["coefficient"][0]
    np.testing.assert_allclose(found["coefficient"][0], expected, rtol=1e-12)
    dark = [isinstance(law, ergode.Photolysis) for law in laws.values()]
    np.testing.assert_array_equal(found["coefficient"][1] == 0.0, dark)


def test_other_functions_of_the_sun(tmp_path):
    path = tmp_path / "one.eqn"
    path.write_text("#EQUATIONS\nA = B : 0.1 * SUN + 0.2 ;\n")
    dark, light = ergode.read_kpp(path).reactions
    assert dark.value == 0.2 and light.value.exponent == 1.0
    assert light.value.rate == pytest.approx(0.1)
    path.write_text("#EQUATIONS\nA = B : 0.1 * SUN / (1 + SUN) ;\n")
    found = ergode.kinetics.reaction_rates(
        ergode.read_kpp(path), initial={"A": 1.0}, sunlight=[0.0, 0.5]
    )
    np.testing.assert_allclose(found["coefficient"].values[:, 0], [0.0, 0.05 / 1.5])
    path.write_text("#EQUATIONS\nA = B : 3. * SUN**2 * EXP(-500 / TEMP) ;\n")
    (law,) = [one.value for one in ergode.read_kpp(path).reactions]
    assert law.exponent == 2.0 and law.rate.activation_temperature == 500.0


def test_falloff_follows_the_temperature(tmp_path):
    path = tmp_path / "one.eqn"
    path.write_text("#EQUATIONS\nA = B : FALL(1e-31, 0.0, -1.6, 3e-11, 0.0, -0.3, 0.6);\n")
    network = ergode.read_kpp(path, parameters={"CFACTOR": 2.5e13})
    warm = ergode.kinetics.reaction_rates(network, temperature=280.0)["coefficient"].item()
    with pytest.warns(ergode.AccuracyWarning, match="hold from 180 to 350 K"):
        ergode.kinetics.reaction_rates(network, temperature=500.0)
    network = ergode.read_kpp(path, parameters={"TEMP": 280.0, "CFACTOR": 2.5e13})
    low = 1e-31 * (280 / 300) ** -1.6 * 2.5e19
    ratio = low / (3e-11 * (280 / 300) ** -0.3)
    exact = low / (1 + ratio) * 0.6 ** (1 / (1 + np.log10(ratio) ** 2))
    found = ergode.kinetics.reaction_rates(network)["coefficient"].item()
    assert found == pytest.approx(exact, rel=1e-12)
    assert warm == pytest.approx(exact, rel=1e-6)


# --- KPP's own examples ---------------------------------------------------------------------------


def falling_off(temp, air, *a):
    low, high = (
        factor * math.exp(-energy / temp) * (temp / 300.0) ** power
        for factor, energy, power in (a[:3], a[3:6])
    )
    ratio = low * air / high
    return low * air / (1.0 + ratio) * a[6] ** (1.0 / (1.0 + math.log10(ratio) ** 2))


def semantics(temp, sun, factor):
    """What KPP's Fortran functions return."""
    air = 1e6 * factor

    def ep2(a0, c0, a2, c2, a3, c3):
        k0, k2 = a0 * math.exp(-c0 / temp), a2 * math.exp(-c2 / temp)
        k3 = a3 * math.exp(-c3 / temp) * air
        return k0 + k3 / (1.0 + k3 / k2)

    return {
        "SUN": sun, "TEMP": temp, "EXP": math.exp, "LOG10": math.log10, "CFACTOR": factor,
        "ARR_ab": lambda a, b: a * math.exp(-b / temp),
        "ARR_ac": lambda a, c: a * (temp / 300.0) ** c,
        "ARR_abc": lambda a, b, c: a * math.exp(-b / temp) * (temp / 300.0) ** c,
        "EP2": ep2,
        "EP3": lambda a, b, c, d: a * math.exp(-b / temp) + c * math.exp(-d / temp) * air,
        "FALL": lambda *a: falling_off(temp, air, *a),
    }  # fmt: skip


def rates_of(path):
    """Rates of an equation file, in order, as Python writes them."""
    text = re.sub(r"\{[^}]*\}|//[^\n]*", "", path.read_text(errors="replace"))
    text = re.sub(r"#INLINE.*?#ENDINLINE", "", text, flags=re.S)
    laws = re.findall(r"=[^:;]*:([^;]+);", text[text.index("#EQUATIONS") :])
    return [re.sub(r"(?<=\d)[dD](?=[+-]?\d)", "e", one).strip() for one in laws]


def change_of(network, laws, names_at):
    """Right-hand side and Jacobian for SciPy: rates of `laws`, and mass action by name."""
    codes = [compile(law, "law", "eval") for law in laws]
    index = {one.name: i for i, one in enumerate(network.species)}
    change = np.zeros((len(index), len(laws)))
    left = []
    for k, one in enumerate(network.reactions):
        for sign, side in ((-1, one.reactants), (1, one.products)):
            for name, count in side.items():
                if not network.species[index[name]].boundary:
                    change[index[name], k] += sign * count
        left.append([index[name] for name, n in one.reactants.items() for _ in range(int(n))])
    width = max(map(len, left))
    slots = np.array([one + [len(index)] * (width - len(one)) for one in left])

    def coefficients(t):
        names = names_at(t)
        return np.array([eval(code, names) for code in codes])

    def slope(t, y):
        return change @ (coefficients(t) * np.append(y, 1.0)[slots].prod(axis=1))

    def jacobian(t, y):
        k, values = coefficients(t), np.append(y, 1.0)[slots]
        rows = np.zeros((len(laws), len(index) + 1))
        for j in range(width):
            others = np.delete(values, j, axis=1).prod(axis=1)
            np.add.at(rows, (np.arange(len(laws)), slots[:, j]), k * others)
        return change @ rows[:, :-1]

    return slope, jacobian


MECHANISMS = {"small_strato": 10, "saprc99": 211, "saprcnov": 233, "carbon": 5}


@pytest.mark.parametrize("name", MECHANISMS)
def test_rates_of_the_examples_follow_temperature_and_sunlight(name, shared_data):
    folder = shared_data / "kpp"
    network = ergode.read_kpp(folder / f"{name}.def")
    laws = rates_of(folder / f"{name}.eqn")
    assert len(laws) == len(network.reactions)
    factor = float(network.parameters.get("CFACTOR", 1.0))
    hot, sun = np.array([180.0, 233.0, 298.0, 350.0]), 0.7
    light = {"sunlight": sun} if name != "carbon" else {}
    found = ergode.kinetics.reaction_rates(network, temperature=hot, **light)["coefficient"]
    for temp, row in zip(hot, found.values, strict=True):
        expected = [eval(law, semantics(temp, sun, factor)) for law in laws]
        np.testing.assert_allclose(row, expected, rtol=2e-6)


@pytest.mark.slow
def test_three_days_of_smog_by_zone_and_time(shared_data):
    """Temperatures by zone and time; what SciPy finds at a constant one."""
    network = ergode.read_kpp(shared_data / "kpp" / "saprc99.def")
    times = np.array([12.0, 18.0, 84.0]) * 3600.0
    light = ergode.kinetics.daylight
    cold = ergode.kinetics.Trajectory(times[[0, -1]], [[300.0, 300.0], [300.0, 260.0]])
    found = ergode.kinetics.integrate(
        network, times=times, temperature=cold, sunlight=light, rtol=1e-6, device="cpu"
    )
    assert (found["status"] == 0).all()
    warm, cooling = found["concentration"].sel(species="O3").values[:, -1]
    assert warm > 0 and abs(cooling / warm - 1) > 0.02
    start = found["concentration"].values[0, 0]
    laws = rates_of(shared_data / "kpp" / "saprc99.eqn")
    factor = float(network.parameters["CFACTOR"])
    slope, _ = change_of(network, laws, lambda t: semantics(300.0, light(t), factor))

    exact = solve_ivp(slope, times[:2], start, method="LSODA", rtol=1e-8, atol=1e-2).y[:, -1]
    ours = found["concentration"].values[0, 1]
    np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-6 * exact.max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small_strato", "carbon", "saprc99", "saprcnov"])
def test_three_days_of_the_examples_against_radau(name, shared_data):
    """At constant temperature, from noon, with the sun of KPP."""
    network = ergode.read_kpp(shared_data / "kpp" / f"{name}.def")
    light = ergode.kinetics.daylight
    sunlit = {} if name == "carbon" else {"sunlight": light}
    times = np.array([12.0, 36.0, 60.0, 84.0]) * 3600.0
    floor = 1e-10 * max(one.initial for one in network.species if not one.boundary)
    found = ergode.kinetics.integrate(
        network, times=times, temperature=298.0, rtol=1e-7, atol=1e-3 * floor, device="cpu",
        **sunlit,
    )  # fmt: skip
    laws = rates_of(shared_data / "kpp" / f"{name}.eqn")
    factor = float(network.parameters.get("CFACTOR", 1.0))
    slope, jacobian = change_of(network, laws, lambda t: semantics(298.0, light(t), factor))
    corners = np.array([12.0, 19.5, 28.5, 36.0, 43.5, 52.5, 60.0, 67.5, 76.5, 84.0]) * 3600.0
    state = found["concentration"].values[0, 0]
    for start, stop in zip(corners[:-1], corners[1:], strict=True):
        state = solve_ivp(
            slope, (start, stop), state, "Radau", jac=jacobian, rtol=1e-10, atol=1e-4 * floor
        ).y[:, -1]
        if stop in times:
            ours = found["concentration"].sel(time=stop).values[0]
            np.testing.assert_allclose(ours, state, rtol=2e-5, atol=1e-2 * floor)


# Of the Master Chemical Mechanism: what its module of constants defines, here for tests alone.
MCM = {
    "M": 2.5e19, "N2": 1.9e19, "O2": 5e18, "RO2NO": 1.0, "KRO2NO": "2.7e-12 * exp(360 / TEMP)",
    "KRO2HO2": "2.91e-13 * exp(1300 / TEMP)", "KAPHO2": "5.2e-13 * exp(980 / TEMP)",
    "KAPNO": "7.5e-12 * exp(290 / TEMP)", "KRO2NO3": 2.3e-12, "KDEC": 1e6,
    "KNO3AL": "1.4e-12 * exp(-1860 / TEMP)",
    "KROPRIM": "2.5e-14 * exp(-300 / TEMP)", "KROSEC": "2.5e-14 * exp(-300 / TEMP)",
    "KCH3O2": "1.03e-13 * exp(365 / TEMP)", "K298CH3O2": 3.5e-13,
    "K14ISOM1": "3e7 * exp(-5300 / TEMP)",
}  # fmt: skip


def master_mechanism(shared_data):
    """The mechanism, what is given for it, and amounts to start from."""
    path = shared_data / "kpp" / "examples" / "mcm" / "mcm.kpp"
    text = (path.parent / "mcm_isoprene.eqn").read_text(errors="replace")
    given = dict(MCM)
    for one in set(re.findall(r"J\(\w+\)", text)):
        given[one] = "1e-5 * SUN"
    for one in set(re.findall(r"\b(?:KMT\d+|KFPAN|KBPAN|KBPPN)\b", text)):
        given[one] = "1e-12 * (TEMP / 300)^-1.5 / (1 + exp(-300 / TEMP))"
    initial = {"O3": 7e11, "NO": 5e9, "NO2": 5e9, "C5H8": 2e10, "H2O": 4e17, "CH4": 4e13,
               "CO": 3e12, "CH3O2": 1e8, "C51O2": 2e8}  # fmt: skip
    return path, text, given, initial


@pytest.mark.slow
def test_the_master_chemical_mechanism(shared_data, tmp_path):
    """Sums of peroxy radicals from inlined code; frequencies and constants from the caller."""
    path, text, given, initial = master_mechanism(shared_data)
    network = ergode.read_kpp(path, parameters=given)
    assert len({one.name.removesuffix(" by sunlight") for one in network.reactions}) == 1944
    (peroxy,) = (one for one in network.reactions if one.name == "67")
    members = dict(peroxy.value.efficiencies)
    inline = re.search(r"RO2 = (.*?)CALL", text, re.S)[1]
    assert set(members) == set(re.findall(r"ind_(\w+)", inline))
    rates = (
        ergode.kinetics.reaction_rates(
            network, temperature=[298.0, 250.0], sunlight=1.0, initial=initial
        )["coefficient"]
        .sel(reaction="67")
        .values
    )
    np.testing.assert_allclose(rates, 8.40e-13 * 0.6 * 3e8, rtol=1e-9)
    # The other example includes the same equations.
    shutil.copy(path.parents[1] / "mcm_h211b" / "mcm.kpp", tmp_path)
    shutil.copy(path.parent / "mcm_isoprene.eqn", tmp_path)
    assert ergode.read_kpp(tmp_path / "mcm.kpp", parameters=given).digest == network.digest


@pytest.mark.exhaustive
def test_three_days_of_the_master_chemical_mechanism(shared_data):
    path, _, given, initial = master_mechanism(shared_data)
    network = ergode.read_kpp(path, parameters=given)
    start = initial | {"N2": 1.9e19} if "N2" in network.index else initial
    days = np.array([6.0, 7.0, 12.0, 78.0]) * 3600.0
    ran = ergode.kinetics.integrate(
        network, times=days, temperature=298.0, sunlight=ergode.kinetics.daylight, initial=start,
        rtol=1e-6, atol=1.0, device="cpu",
    )  # fmt: skip
    assert (ran["status"] == 0).all()
    amounts = ran["concentration"].values[0]
    loose = ergode.kinetics.integrate(
        network, times=days, temperature=298.0, sunlight=ergode.kinetics.daylight, initial=start,
        rtol=1e-4, atol=1.0, device="cpu",
    )["concentration"].values[0]  # fmt: skip
    np.testing.assert_allclose(loose, amounts, rtol=1e-2, atol=1e-8 * amounts.max())


def test_what_a_rate_lacks_is_named(tmp_path, refusal):
    path = tmp_path / "one.eqn"
    for law, name in (("J(4)", "J(4)"), ("2. * PHOTOL( 3 )", "PHOTOL( 3 )"), ("2. * KMT", "KMT")):
        path.write_text(f"#EQUATIONS\nA + hv = B : {law} ;\n")
        said = refusal(ergode.read_kpp, path)
        assert f"uses '{name}'" in said and f"parameters={{'{name}': ...}}" in said
    path.write_text("#EQUATIONS\nA + hv = B : J(4) ;\nB = A : 1e-3 * RO2 ;\n")
    network = ergode.read_kpp(path, parameters={"J(4)": 2e-3}, sums={"RO2": ["A", "B"]})
    rates = ergode.kinetics.reaction_rates(network, initial={"A": 1.0, "B": 3.0}, temperature=300.0)
    np.testing.assert_allclose(rates["coefficient"][0], [2e-3, 4e-3])
    assert network.parameters["J_4"] == 2e-3
    with pytest.raises(ergode.ReadError, match="'C', of the sum RO2, is not a species"):
        ergode.read_kpp(path, parameters={"J(4)": 2e-3}, sums={"RO2": ["C"]})
    path.write_text("#EQUATIONS\nA = B : 1e-3 * RO2 * RO2 ;\n")
    network = ergode.read_kpp(path, sums={"RO2": ["A", "B"]})
    rates = ergode.kinetics.reaction_rates(network, initial={"A": 1.0, "B": 3.0})
    np.testing.assert_allclose(rates["coefficient"][0], [16e-3])


def test_parameters_stay_parameters(tmp_path):
    """Frequencies by a table in time, air by zone; functions and several sums of the caller."""
    path = tmp_path / "two.eqn"
    path.write_text(
        "#EQUATIONS\n"
        "<1> A + hv = B : 2.*J(4)*EXP(-100./TEMP) ;\n"
        "<2> B = A : k_troe(2.0D-31, 3.0D-12) ;\n"
        "<3> A = B : 1.E-3*RO2*C(ind_A) + HO2S ;\n"
    )
    network = ergode.read_kpp(
        path, parameters={"J(4)": 1e-3, "M": 2.5e19}, sums={"RO2": ["A", "B"], "HO2S": ["B"]},
        functions={"k_troe(low, high)": "low * M / (1 + low * M / high) * (TEMP / 300)**-1.2"},
    )  # fmt: skip
    table = ergode.kinetics.Trajectory([0.0, 3600.0], [1e-3, 3e-3])
    found = ergode.kinetics.reaction_rates(
        network, initial={"A": 1.0, "B": 3.0}, temperature=280.0, time=900.0,
        parameters={"J_4": table, "M": 1e19},
    )["coefficient"].values[0]  # fmt: skip
    low = 2e-31 * 1e19
    wanted = [2 * 1.5e-3 * math.exp(-100 / 280), low / (1 + low / 3e-12) * (280 / 300) ** -1.2,
              4e-3 * 1.0 + 3.0]  # fmt: skip
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    for bad, said in (({"k(": "1"}, "expected such as"), ({"k_troe(a)": "a"}, "expected 1")):
        with pytest.raises(ergode.ErgodeError, match=said):
            ergode.read_kpp(path, parameters={"J(4)": 1, "M": 1}, functions=bad)


def test_functions_of_mecca(tmp_path):
    """Against the formulas of IUPAC and Troe; k_arr follows the temperature of the zone."""
    path = tmp_path / "mecca.eqn"
    path.write_text(
        "#EQUATIONS\n"
        "<R1> A + B = C : k_3rd(temp,cair,4.4E-32_dp,1.3_dp,7.5E-11_dp,-0.2_dp,0.6_dp);\n"
        "<R2> A + C = B : k_3rd_iupac(temp,cair,3.3E-30_dp,3.0_dp,6.0E-11_dp,0._dp,0.4_dp);\n"
        "<R3> C = A : k_arr(3.0E-4_dp,-6500._dp,temp);\n"
        "<R4> B = A : 2.*K_3RD(temp,cair,1.2E-32,0.,1.E-12,0.,0.6)*EXP(-100./temp);\n"
    )
    hot, air = 260.0, 1.9e19
    network = ergode.read_kpp(path, parameters={"TEMP": hot, "cair": air})
    found = ergode.kinetics.reaction_rates(network, initial={"A": 1.0})["coefficient"].values[0]

    def limits(k0, n, high, m):
        return k0 * (300 / hot) ** n * air, high * (300 / hot) ** m

    def troe(low, high, centre, width=1.0):
        return low / (1 + low / high) * centre ** (1 / (1 + (np.log10(low / high) / width) ** 2))

    exact = [
        troe(*limits(4.4e-32, 1.3, 7.5e-11, -0.2), 0.6),
        troe(*limits(3.3e-30, 3.0, 6.0e-11, 0.0), 0.4, 0.75 - 1.27 * np.log10(0.4)),
        3.0e-4 * np.exp(-6500.0 * (1 / hot - 3.3540e-3)),
        2 * troe(*limits(1.2e-32, 0.0, 1e-12, 0.0), 0.6) * np.exp(-100 / hot),
    ]
    np.testing.assert_allclose(found, exact, rtol=1e-12)
    path.write_text("#EQUATIONS\nC = A : k_arr(3.0E-4,-6500.,temp);\n")
    law = ergode.read_kpp(path).reactions[0].value
    assert isinstance(law, ergode.Arrhenius) and law.activation_temperature == 6500.0
    path.write_text("#EQUATIONS\nC = A : k_3rd(temp,cair,1E-31,1.,1E-11,0.,0.6);\n")
    with pytest.raises(ergode.ReadError, match="uses '(TEMP|cair)'; give its value"):
        ergode.read_kpp(path)
    path.write_text("#EQUATIONS\nC = A : k_3rd(temp,cair,1E-31,1.);\n")
    with pytest.raises(ergode.ReadError, match="has 4 arguments; expected 7"):
        ergode.read_kpp(path, parameters={"TEMP": 300.0, "cair": 1e19})


def test_malformed_mechanisms(tmp_path, refusal):
    path = tmp_path / "one.eqn"

    def error(text, **options):
        path.write_text(text)
        return refusal(ergode.read_kpp, path, **options)

    assert "no #EQUATIONS" in error("#DEFVAR\nA = IGNORE;\n")
    assert "line 2: 'A -> B'" in error("#EQUATIONS\nA -> B;\n")
    assert "line 4: 'X' is not a species" in error("#DEFVAR\nA = IGNORE;\n#EQUATIONS\nA = X : 1;\n")
    assert "line 2: the rate 'k' uses 'k'" in error("#EQUATIONS\nA = B : k;\n")
    assert "has 1 arguments; expected 2" in error("#EQUATIONS\nA = B : ARR_ab(1);\n")
    assert "#FOO is not known" in error("#FOO\n")
    assert "'Z', which is not a species" in error("#INITVALUES\nZ = 1;\n#EQUATIONS\nA = B : 1;\n")
    assert "expected 'NAME = number'" in error("#INITVALUES\nZ = x;\n#EQUATIONS\nA = B : 1;\n")
    assert "small.spc: there is no such file" in error("#INCLUDE small.spc\n")
    with pytest.raises(ergode.ReadError, match="no such file"):
        ergode.read_kpp(tmp_path / "none.def")


def test_a_species_may_be_held_or_let_go_later(tmp_path, refusal):
    path = tmp_path / "set.kpp"
    text = "#DEFVAR\nA = N; B = N;\n#DEFFIX\nC = N;\n#EQUATIONS\nA = B + C : 1;\n"
    path.write_text(text)
    fixed = {one.name: one.boundary for one in ergode.read_kpp(path).species}
    assert fixed == {"A": False, "B": False, "C": True}
    path.write_text(text + "#SETFIX\nB;\n#SETVAR\nC;\n")
    fixed = {one.name: one.boundary for one in ergode.read_kpp(path).species}
    assert fixed == {"A": False, "B": True, "C": False}
    path.write_text(text + "#SETFIX ALL_SPEC;\n")
    assert all(one.boundary for one in ergode.read_kpp(path).species)
    path.write_text(text + "#SETFIX\nX;\n")
    assert "line 8: 'X' is not a species" in refusal(ergode.read_kpp, path)
