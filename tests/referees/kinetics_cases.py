"""Random descriptions of kinetics: networks with every rate law, and conditions that change."""

import numpy as np

import ergode

NUCLEI = {
    "n": (1, 0, 8.071, 0.5), "p": (1, 1, 7.289, 0.5), "d": (2, 1, 13.136, 1.0),
    "he4": (4, 2, 2.425, 0.0), "c12": (12, 6, 0.0, 0.0), "o16": (16, 8, -4.737, 0.0),
    "ne20": (20, 10, -7.042, 0.0), "mg24": (24, 12, -13.934, 0.0),
    "si28": (28, 14, -21.493, 0.0),
}  # fmt: skip
NUCLEAR = [
    ({"p": 1, "n": 1}, {"d": 1}), ({"d": 2}, {"he4": 1}), ({"he4": 3}, {"c12": 1}),
    ({"c12": 1, "he4": 1}, {"o16": 1}), ({"c12": 2}, {"mg24": 1}),
    ({"c12": 2}, {"ne20": 1, "he4": 1}), ({"o16": 1, "he4": 1}, {"ne20": 1}),
    ({"ne20": 1, "he4": 1}, {"mg24": 1}), ({"mg24": 1, "he4": 1}, {"si28": 1}),
    ({"o16": 1, "c12": 1}, {"si28": 1}), ({"o16": 2}, {"si28": 1, "he4": 1}),
]  # fmt: skip
ATOMS = {
    "H": {"H": 1}, "O": {"O": 1}, "OH": {"O": 1, "H": 1}, "H2": {"H": 2}, "O2": {"O": 2},
    "H2O": {"H": 2, "O": 1}, "Ar": {"Ar": 1},
}  # fmt: skip
ENTHALPY = {"H": 26e3, "O": 29e3, "OH": 4e3, "H2": -1e3, "O2": -1e3, "H2O": -30e3, "Ar": -750.0}
MOLECULAR = [
    ({"H": 2}, {"H2": 1}), ({"H": 1, "OH": 1}, {"H2O": 1}), ({"O": 2}, {"O2": 1}),
    ({"O": 1, "H": 1}, {"OH": 1}), ({"H2": 1, "OH": 1}, {"H2O": 1, "H": 1}),
    ({"O": 1, "H2": 1}, {"OH": 1, "H": 1}), ({"OH": 2}, {"H2O": 1, "O": 1}),
    ({"H": 1, "O2": 1}, {"OH": 1, "O": 1}),
]  # fmt: skip


def scaled(rng, hot, speed, steep):
    """An Arrhenius law that is `speed` at the hot end."""
    b, e = rng.uniform(-1, 1), rng.uniform(0, steep) * hot
    return [float(speed / (hot**b * np.exp(-e / hot))), float(b), float(e)]


def law_of(rng, kind, hot, speed, amount, names, cold):
    """A law that is about `speed` at the temperature `hot` and the concentration `amount`."""
    law = {"kind": kind}
    partners = {str(k): float(rng.uniform(0, 5)) for k in rng.choice(names, 2, replace=False)}
    if kind in ("three-body", "falloff"):
        law["partners"] = (partners, float(rng.choice([1.0, 0.5])))
    if kind == "constant":
        law["k"] = float(speed)
    elif kind == "arrhenius":
        law["law"] = scaled(rng, hot, speed, 15)
    elif kind == "three-body":
        law["law"] = scaled(rng, hot, speed / amount, 10)
    elif kind == "falloff":
        law["high"] = scaled(rng, hot, speed, 8)
        law["low"] = scaled(rng, hot, speed / amount * 10 ** rng.uniform(-2, 2), 8)
        which = rng.integers(4)
        if which in (1, 2):
            law["troe"] = [float(rng.uniform(0.2, 0.9)), 100.0, 2000.0, 5000.0][: 2 + which]
        elif which == 3:
            law["sri"] = [0.45, 797.0, 979.0, 1.2, 0.05]
    elif kind == "plog":
        middle = amount * 8.31e7 * hot
        points = 10 ** np.sort(rng.uniform(-2, 2, 3)) * middle
        law["points"] = [(float(p), scaled(rng, hot, speed * 10 ** rng.uniform(-1, 1), 8))
                         for p in points]  # fmt: skip
    elif kind == "mixture":
        falling = ["falloff", "plog", "chebyshev"]
        some = rng.choice(names, int(rng.integers(1, 4)), replace=False)
        law["efficiencies"] = {str(k): scaled(rng, hot, 10 ** rng.uniform(-1, 1), 1) for k in some}
        law["rates"] = {
            k: law_of(rng, str(rng.choice(falling)), hot, speed, amount, names, cold)
            for k in ("M", *law["efficiencies"]) if k == "M" or rng.random() < 0.6
        }  # fmt: skip
    elif kind == "chebyshev":
        middle = amount * 8.31e7 * hot
        law["T"], law["p"] = (0.5 * cold, 2.0 * hot), (1e-3 * middle, 1e3 * middle)
        rows = rng.normal(0, 0.3, (3, 2))
        rows[0, 0] = np.log10(speed) - 1
        law["rows"] = rows.tolist()
    elif kind == "reaclib":
        sets = []
        for _ in range(rng.integers(1, 3)):
            a = np.zeros(7)
            a[1:] = [-rng.uniform(0, 15), -rng.uniform(0, 30), rng.normal(0, 1),
                     rng.normal(0, 0.1), rng.normal(0, 0.01),
                     rng.choice([-1.5, -2 / 3, 0.0])]  # fmt: skip
            t9 = hot / 1e9
            x = a[1] / t9 + a[2] / t9 ** (1 / 3) + a[3] * t9 ** (1 / 3) + a[4] * t9
            a[0] = np.log(speed) - (x + a[5] * t9 ** (5 / 3) + a[6] * np.log(t9))
            sets.append(a.tolist())
        law |= {"sets": sets, "prefactor": float(rng.choice([1.0, 0.5]))}
    elif kind == "weak":
        rho, grid = [3.0, 6.0, 9.0], [7.0, 8.5, 9.8]
        law["table"] = (rho, grid, (np.log10(speed) + rng.normal(0, 0.5, (3, 3))).tolist())
    return law


def table_of(rng, begin, span, cold, hot):
    """Knots of a value between `cold` and `hot`: what a tracer may do."""
    shape = rng.choice(["pulse", "rise", "step", "walk", "expansion", "late knots"])
    if shape == "pulse":
        t = np.linspace(0, 1, int(rng.integers(20, 60)))
        centre, width = rng.uniform(0.3, 0.8), rng.uniform(0.02, 0.08)
        t = np.unique(np.concatenate([t, centre + width * np.linspace(-3, 3, 25)]))
        v = cold + (hot - cold) * np.exp(-(((t - centre) / width) ** 2))
    elif shape == "rise":
        t = np.array([0.0, rng.uniform(0.2, 0.6), rng.uniform(0.7, 0.9), 1.2])
        v = np.array([cold, cold, hot, hot])
    elif shape == "step":
        a, b = np.sort(rng.uniform(0.1, 0.9, 2))
        t = np.array([0.0, a, a + 1e-7, b, b + 1e-9, 1.0])
        v = np.array([cold, cold, hot, hot, 0.6 * hot, 0.6 * hot])
    elif shape == "walk":
        t = np.linspace(-0.1, 1.1, 9)
        v = cold * (hot / cold) ** rng.uniform(0, 1, 9)
    elif shape == "expansion":
        t = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 25)])
        v = np.maximum(hot / (1 + t / rng.uniform(0.05, 0.5)) ** rng.uniform(0.5, 2), cold)
    else:
        t, v = np.array([0.97, 0.985, 0.99]), np.array([cold, hot, hot])
    return (begin + span * t).tolist(), [float(x) for x in v]


def times_of(rng, begin, span):
    if rng.random() < 0.5:
        grid = np.array([0.0, 1.0])
    else:
        grid = np.concatenate([[0.0], np.sort(rng.uniform(0, 1, int(rng.integers(1, 6)))), [1.0]])
    return (begin + span * grid).tolist()


def clock_of(rng, span):
    """When it begins: at zero or, in spans, far from it."""
    return float(span * rng.choice([0.0, 0.0, 1.0, -0.5, 17.3, 1e3]))


def random_case(seed, kind=None):
    """A description drawn from a seed."""
    rng = np.random.default_rng(seed)
    kind = kind or str(rng.choice(["plain", "molecules", "nuclei", "heated"]))
    span = float(10 ** rng.uniform(-6, 3))
    begin = clock_of(rng, span)
    case = {"seed": seed, "times": times_of(rng, begin, span)}
    make = {
        "plain": _plain,
        "molecules": _mixed,
        "nuclei": _nuclei,
        "heated": _heated,
        "powers": _powers,
        "tank": _tank,
        "tube": _tube,
        "sun": _sun,
        "mixture": _mixtures,
        "formulas": _formulas,
    }[kind]
    make(rng, case, begin, span)
    case["rtol"] = float(10 ** rng.uniform(-7, -2.5))
    return case


def _speeds(rng, span, orders, amount):
    return [10 ** rng.uniform(-0.5, 3.5) / span / amount ** (order - 1) for order in orders]


def _plain(rng, case, begin, span):
    n = int(rng.integers(2, 7))
    names = [f"s{i}" for i in range(n)]
    amount = float(10 ** rng.uniform(-8, 2))
    cold, hot = 300.0, 2500.0
    reactions = []
    kinds = ["constant", "arrhenius", "three-body", "falloff", "plog", "chebyshev"]
    # One with third bodies, so that all cases share their kernels.
    kinds = ["three-body", *rng.choice(kinds, int(rng.integers(1, 9)))]
    for which in kinds:
        order = int(rng.choice([1, 1, 2, 2, 3]))
        left, right = ({}, {})
        for k in rng.choice(names, order):
            left[str(k)] = left.get(str(k), 0) + 1
        for k in rng.choice(names, int(rng.integers(0, order + 1))):
            right[str(k)] = right.get(str(k), 0) + 1
        speed = _speeds(rng, span, [order], amount)[0]
        law = law_of(rng, str(which), hot, speed, amount, names, cold)
        if which == "chebyshev":  # all may decay: one that rises without end at no pressure
            for row in law["rows"]:  # would end it in a finite time, and have no solution after
                row[1] = abs(row[1])
            law["rows"][0][1] += sum(row[1] for row in law["rows"][1:])
        reactions.append({"left": left, "right": right, "law": law})
    case |= {
        "kind": "plain", "species": [{"name": name} for name in names], "reactions": reactions,
        "initial": {name: float(amount * rng.uniform(0, 1) * (rng.random() < 0.7))
                    for name in names[1:]} | {names[0]: amount},
        "temperature": table_of(rng, begin, span, cold, hot),
    }  # fmt: skip


def _powers(rng, case, begin, span):
    """Orders that are fractions, negative, or of others than reactants; many reactants."""
    heated = case["seed"] % 4 == 3
    (_molecules if heated else _plain)(rng, case, begin, span, *["constant-pressure"] * heated)
    names = [one["name"] for one in case["species"]]
    amount = sum(case["initial"].values()) / len(names)
    if heated:
        amount = case["pressure"] / (8.31e7 * case["temperature"]) / len(names)
    for _ in range(3):
        if heated:
            left, right = MOLECULAR[rng.integers(len(MOLECULAR))]
            left, right = ({k: 2 * v for k, v in side.items()} for side in (left, right))
        else:
            left = {str(k): float(rng.choice([0.5, 1, 2, 3])) for k in rng.choice(names, 2)}
            right = {str(rng.choice(names)): 0.5}  # less than is taken: no explosion
        orders = dict(left)
        for name in rng.choice(names, 2):
            orders[str(name)] = float(rng.choice([0.5, 1.0, 1.5, 2.0]))
        orders["Ar" if heated else "z"] = float(rng.choice([-0.5, 0.3, 1.0]))
        # Species that may run out would stop at zero in a finite time: they have an order of 1.
        orders = {k: max(v, 1.0) if k in left else v for k, v in orders.items()}
        speed = _speeds(rng, span, [sum(orders.values())], amount)[0]
        law = {"kind": "arrhenius", "law": scaled(rng, 2500.0, speed, 5)}
        case["reactions"].append({"left": left, "right": right, "law": law, "orders": orders})
    if not heated:  # inert, so that a negative order does not diverge
        case["species"].append({"name": "z"})
        names.append("z")
    case["initial"] |= {name: case["initial"].get(name, 0.0) + amount for name in names}
    case["kind"] = "molecules" if heated else "plain"


def _tank(rng, case, begin, span):
    """A stirred tank, filled with something else than what flows in."""
    heatings = ["constant-volume", "constant-pressure", "isothermal-constant-pressure", None]
    heating = heatings[case["seed"] % 4]
    _molecules(rng, case, begin, span, heating)
    inflow = {name: float(rng.uniform(0, 1) * (rng.random() < 0.6)) for name in ATOMS}
    tank = {"inflow": inflow | {"H2": 1.0}, "residence_time": span * 10 ** rng.uniform(-1.5, 0.5)}
    if heating and not heating.startswith("isothermal"):
        tank["temperature"] = float(rng.uniform(500.0, 2500.0))
    case["tank"] = tank


def _tube(rng, case, begin, span):
    """Plug flow; times are positions."""
    heatings = ["constant-pressure", "isothermal-constant-pressure"]
    _molecules(rng, case, begin, span, heatings[case["seed"] % 2])
    case["velocity"] = float(10 ** rng.uniform(-2, 5))
    case["times"] = [case["velocity"] * t for t in case["times"]]


def _sun(rng, case, begin, span):
    """Coefficients that follow the sunlight, which may be zero."""
    _plain(rng, case, begin, span)
    if rng.random() < 0.5:
        case["temperature"] = float(rng.uniform(300.0, 2500.0))
    times, values = table_of(rng, begin, span, 1e-3, 1.0)
    case["sunlight"] = times, [max(float(v - 2e-3), 0.0) for v in values]
    for one in case["reactions"]:
        if one is case["reactions"][0] or rng.random() < 0.5:
            one["sun"] = float(rng.choice([1.0, 1.0, 2.0, 0.5]))


def _formulas(rng, case, begin, span):
    """Formulas of time, temperature, concentrations, sums and a parameter that changes in time."""
    heated = [None, "constant-volume", "constant-pressure"][case["seed"] % 3]
    (_molecules if heated else _plain)(rng, case, begin, span, *[heated] * bool(heated))
    names = [one["name"] for one in case["species"]]
    amount = sum(case["initial"].values()) / len(names)
    if heated:
        amount = case["pressure"] / (8.31e7 * case["temperature"]) / len(names)
    last = case["times"][-1]
    left, right = MOLECULAR[0] if heated else ({names[0]: 1}, {names[1]: 1})
    case["reactions"].append({"left": left, "right": right, "law": {"kind": "constant"}})
    case["drives"] = {"drive": table_of(rng, begin, span, 0.1, 1.0), "still": 2.0}
    for one in case["reactions"]:
        if one["law"]["kind"] == "balance" or any(
            other["law"] == {"kind": "balance", "of": case["reactions"].index(one)}
            for other in case["reactions"]
        ):
            continue
        if one is not case["reactions"][-1] and rng.random() < 0.4:
            continue
        speed = _speeds(rng, span, [sum(one["left"].values())], amount)[0]
        a, b, c = (str(k) for k in rng.choice(names, 3))
        texts = [
            f"(1.5 + sin({2 * np.pi / span!r} * (time - {begin!r})))",
            "still * exp(-500.0 / temperature)", f"({a} + 2.0 * {b}) / ({amount!r} + {c})",
            f"sqrt({a} / {amount!r} + 0.01)", "drive", f"max({a}, {b}) / {amount!r}",
            f"piecewise(1.0, time < {0.5 * (begin + last)!r}, 0.5)" if case["seed"] % 2 else "1.0",
        ]  # fmt: skip
        some = rng.choice(texts, 3, replace=False)
        one["law"] = {"kind": "formula", "text": " * ".join([repr(speed), *some, "drive"])}
    case["breaks"] = [0.5 * (begin + last)]
    case["times"] = sorted({*case["times"], *case["breaks"]})


def _mixed(rng, case, begin, span, heating=None):
    """Molecules, some of whose laws are falloff in mixtures, by the rule of Burke and Song."""
    _molecules(rng, case, begin, span, heating)
    # Drawn apart: the other numbers of a seed stay.
    other, amount = np.random.default_rng([case["seed"], 2]), case["pressure"] / (8.31e7 * 2500.0)
    for one in case["reactions"]:
        first = one is case["reactions"][0]
        if one["law"]["kind"] != "balance" and (first or other.random() < 0.3):
            speed = _speeds(other, span, [sum(one["left"].values())], amount)[0]
            one["law"] = law_of(other, "mixture", 2500.0, speed, amount, list(ATOMS), 600.0)


def _mixtures(rng, case, begin, span):
    """Mixtures that heat themselves, or keep their temperature."""
    heatings = ["constant-volume", "constant-pressure", "isothermal-constant-pressure"]
    _mixed(rng, case, begin, span, heatings[case["seed"] % 3])


def _gas(rng):
    species = []
    for name, atoms in ATOMS.items():
        heat = 2.5 + 0.8 * (sum(atoms.values()) - 1)
        row = [heat, float(rng.uniform(0, 3e-4)), 0.0, 0.0, 0.0, ENTHALPY[name],
               float(rng.uniform(0, 5))]  # fmt: skip
        species.append({"name": name, "nasa": row, "atoms": atoms})
    return species


def _molecules(rng, case, begin, span, heated=None):
    cold, hot = (900.0, 2500.0) if heated else (600.0, 2500.0)
    pressure = float(10 ** rng.uniform(5, 7))
    amount = pressure / (8.31e7 * hot)
    names = list(ATOMS)
    picked = rng.choice(len(MOLECULAR), int(rng.integers(3, len(MOLECULAR) + 1)), replace=False)
    reactions = []
    for place, k in enumerate(picked):
        left, right = MOLECULAR[k]
        speed = _speeds(rng, span, [sum(left.values())], amount)[0]
        kinds = ["arrhenius", "three-body", "falloff", "plog", "chebyshev"]
        which = "three-body" if place == 0 else str(rng.choice(kinds))
        law = law_of(rng, which, hot, speed, amount, names, cold)
        reactions.append({"left": left, "right": right, "law": law})
        if place == 0 or rng.random() < 0.6:
            back = {"kind": "balance", "of": len(reactions) - 1}
            reactions.append({"left": right, "right": left, "law": back})
    case |= {
        "kind": "molecules", "species": _gas(rng), "reactions": reactions, "pressure": pressure,
        "initial": {name: float(rng.uniform(0, 1)) for name in names},
        "temperature": float(rng.uniform(cold, hot)) if heated
        else table_of(rng, begin, span, cold, hot),
    }  # fmt: skip
    if heated:
        case["heating"] = heated


def _nuclei(rng, case, begin, span, heated=None):
    cold, hot = (5e8, 4e9) if heated else (1e8, 4e9)
    dense = float(10 ** rng.uniform(5, 8))
    names = list(NUCLEI)
    picked = rng.choice(len(NUCLEAR), int(rng.integers(4, len(NUCLEAR) + 1)), replace=False)
    table = [[3.0, 6.0, 9.0], [7.0, 8.5, 9.8]]
    law = law_of(rng, "weak", hot, 10 ** rng.uniform(-1, 1) / span, 1.0, names, cold)
    law["table"] = (*table, law["table"][2])
    reactions = [{"left": {"n": 1}, "right": {"p": 1}, "law": law}]
    for place, k in enumerate(picked):
        left, right = NUCLEAR[k]
        speed = _speeds(rng, span, [sum(left.values())], 0.1 * dense)[0]
        law = law_of(rng, "reaclib", hot, speed, dense, names, cold)
        reactions.append({"left": left, "right": right, "law": law})
        if place == 0 or rng.random() < 0.4:
            back = {"kind": "balance", "of": len(reactions) - 1}
            reactions.append({"left": right, "right": left, "law": back})
    # Drawn apart: the other numbers of a seed stay.
    other = np.random.default_rng([case["seed"], 1])
    speed = 10 ** other.uniform(-1, 1) / span / dense
    law = law_of(other, "reaclib", hot, speed, dense, names, cold) | {"electrons": True}
    reactions.append({"left": {"p": 1}, "right": {"n": 1}, "law": law})
    species = []
    for name, (a, z, excess, spin) in NUCLEI.items():
        one = {"name": name, "A": a, "Z": z, "excess": excess, "spin": spin}
        if a >= 20:
            one["partition"] = ([1e9, 3e9, 6e9], [1.0, 1.1, 1.4])
        species.append(one)
    x = rng.dirichlet(np.ones(len(names)))
    if rng.random() < 0.5:
        x = np.where(rng.random(len(names)) < 0.5, 0.0, x)
        x[4] += 0.1
        x /= x.sum()
    case |= {
        "kind": "nuclei", "species": species, "reactions": reactions,
        "initial": dict(zip(names, x.tolist(), strict=True)),
        "temperature": float(rng.uniform(cold, hot)) if heated
        else table_of(rng, begin, span, cold, hot),
        "density": dense if heated or rng.random() < 0.5
        else table_of(rng, begin, span, 0.1 * dense, dense),
    }  # fmt: skip
    if heated:
        case["heating"] = heated


def _heated(rng, case, begin, span):
    mode = str(rng.choice(["constant-volume", "constant-pressure"]))
    if rng.random() < 0.5:
        _nuclei(rng, case, begin, span, mode)
    else:
        _molecules(rng, case, begin, span, mode)


# --- what a user writes ---------------------------------------------------------------------------


def _law(law, reactions):
    kind = law["kind"]
    arrhenius = ergode.Arrhenius
    if kind == "formula":
        return ergode.RateExpression(law["text"])
    if kind == "constant":
        return law["k"]
    if kind == "arrhenius":
        return arrhenius(*law["law"])
    if kind == "three-body":
        return ergode.ThreeBody(arrhenius(*law["law"]), *law["partners"])
    if kind == "falloff":
        return ergode.Falloff(
            arrhenius(*law["low"]), arrhenius(*law["high"]), *law["partners"],
            troe=tuple(law["troe"]) if "troe" in law else None,
            sri=tuple(law["sri"]) if "sri" in law else None,
        )  # fmt: skip
    if kind == "plog":
        return ergode.PressureLog([(p, arrhenius(*one)) for p, one in law["points"]])
    if kind == "mixture":
        rates = {k: _law(one | {"partners": ()}, reactions) for k, one in law["rates"].items()}
        efficiencies = {k: arrhenius(*one) for k, one in law["efficiencies"].items()}
        return ergode.LinearBurke(rates.pop("M"), efficiencies, rates)
    if kind == "chebyshev":
        return ergode.Chebyshev(law["T"], law["p"], law["rows"])
    if kind == "reaclib":
        return ergode.Reaclib(law["sets"], law["prefactor"], law.get("electrons", False))
    if kind == "weak":
        return ergode.models.reactions.rates.WeakTable(*law["table"])
    return ergode.DetailedBalance(_law(reactions[law["of"]]["law"], reactions))


def _ordered(one, reactions):
    law = _law(one["law"], reactions)
    if "sun" in one:
        law = ergode.Photolysis(law, one["sun"])
    return ergode.PowerLaw(law, one["orders"]) if "orders" in one else law


def network_of(case):
    """The network as a user describes it."""
    species = []
    for one in case["species"]:
        if case["kind"] == "nuclei":
            grid, values = one.get("partition", ((), ()))
            nucleus = ergode.Nucleus(one["excess"], one["spin"], tuple(grid), tuple(values))
            species.append(
                ergode.Species(one["name"], mass_number=one["A"], charge_number=one["Z"],
                               thermochemistry=nucleus)
            )  # fmt: skip
        elif case["kind"] == "molecules":
            row = tuple(one["nasa"])
            gas = ergode.NasaPolynomials(row, row, 1000.0, one["atoms"])
            species.append(ergode.Species(one["name"], thermochemistry=gas))
        else:
            species.append(ergode.Species(one["name"]))
    reactions = [
        ergode.Reaction(f"{_side(one['left'])} -> {_side(one['right'])}",
                        rate_constant=_ordered(one, case["reactions"]), name=f"r{k}")
        for k, one in enumerate(case["reactions"])
    ]  # fmt: skip
    parameters = {name: 1.0 if name == "drive" else v for name, v in case.get("drives", {}).items()}
    return ergode.ReactionNetwork(species, reactions, parameters)


def _side(amounts):
    return " + ".join(f"{v} {k}" for k, v in amounts.items()) or "0"


def conditions_of(case):
    """Options of `integrate`."""
    found = {"times": case["times"], "initial": case["initial"]}
    for name in ("temperature", "density", "pressure", "sunlight"):
        if name in case:
            value = case[name]
            found[name] = value if np.isscalar(value) else ergode.kinetics.Trajectory(*value)
    if "drives" in case:
        found["parameters"] = {"drive": ergode.kinetics.Trajectory(*case["drives"]["drive"])}
    if "heating" in case:
        found["heating"] = case["heating"]
    if "tank" in case:
        found["reactor"] = ergode.kinetics.StirredTank(**case["tank"])
    if "velocity" in case:
        found["reactor"] = ergode.kinetics.PlugFlow(case["velocity"])
    return found
