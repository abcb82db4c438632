"""Kinetics from a plain description: rates by textbook formulas, SciPy's Radau between knots.

Nothing here comes from the engine.  A description is a dictionary of numbers, from which
`network_of` makes what a user would write, and `solve` the answer.
"""

import numpy as np
from scipy.integrate import solve_ivp

R = 8.31446261815324e7
WEIGHT = {"H": 1.008, "O": 15.999, "Ar": 39.95}
ATM = 1.01325e6
MEV = 1.602176634e-6 * 6.02214076e23
RADIATION = 7.565733250280007e-15


# --- coefficients ---------------------------------------------------------------------------------


def arrhenius(law, t):
    a, b, e = law
    return a * t**b * np.exp(-e / t)


def reaclib(sets, t):
    t9 = t / 1e9
    third = t9 ** (1 / 3)
    return sum(
        np.exp(a[0] + a[1] / t9 + a[2] / third + a[3] * third + a[4] * t9 + a[5] * t9 ** (5 / 3)
               + a[6] * np.log(t9))
        for a in sets
    )  # fmt: skip


def troe(numbers, t, reduced):
    a, t3, t1 = numbers[:3]
    centre = (1 - a) * np.exp(-t / t3) + a * np.exp(-t / t1)
    if len(numbers) == 4:
        centre += np.exp(-numbers[3] / t)
    f = np.log10(centre)
    x = np.log10(max(reduced, 1e-300)) - 0.4 - 0.67 * f
    return 10 ** (f / (1 + (x / (0.75 - 1.27 * f - 0.14 * x)) ** 2))


def sri(numbers, t, reduced):
    a, b, c, d, e = numbers
    x = 1 / (1 + np.log10(max(reduced, 1e-300)) ** 2)
    return d * (a * np.exp(-b / t) + np.exp(-t / c)) ** x * t**e


def pressure_log(points, t, pressure):
    at = {}
    for p, law in points:
        at[p] = at.get(p, 0.0) + arrhenius(law, t)
    grid = sorted(at)
    logs = np.log([at[p] for p in grid])
    return np.exp(np.interp(np.log(pressure), np.log(grid), logs))


def chebyshev(ranges, pressures, rows, t, pressure):
    x = (2 / t - 1 / ranges[0] - 1 / ranges[1]) / (1 / ranges[1] - 1 / ranges[0])
    low, high = np.log10(pressures)
    y = (2 * np.log10(pressure) - low - high) / (high - low)
    return 10 ** np.polynomial.chebyshev.chebval2d(x, y, np.array(rows))


def falling_off(law, t, partners):
    """Of a law that depends on the concentration of collision partners [mol/cm3]."""
    if law["kind"] == "plog":
        return pressure_log(law["points"], t, partners * R * t)
    if law["kind"] == "chebyshev":
        return chebyshev(law["T"], law["p"], law["rows"], t, partners * R * t)
    high = arrhenius(law["high"], t)
    reduced = arrhenius(law["low"], t) * partners / high
    value = high * reduced / (1 + reduced)
    if law.get("troe"):
        value *= troe(law["troe"], t, reduced)
    if law.get("sri"):
        value *= sri(law["sri"], t, reduced)
    return value


def weak(table, t, electrons):
    """Bilinear in logarithms, the nearest edge beyond the table."""
    rho, hot, rate = (np.array(one, float) for one in table)
    x = np.clip(np.log10(electrons), rho[0], rho[-1])
    y = np.clip(np.log10(t), hot[0], hot[-1])
    along = [np.interp(y, hot, row) for row in rate]
    return 10 ** np.interp(x, rho, along)


def nasa(row, t):
    """Enthalpy and entropy of a molecule over RT and R, and its heat capacity over R."""
    a = row
    h = a[0] + a[1] * t / 2 + a[2] * t**2 / 3 + a[3] * t**3 / 4 + a[4] * t**4 / 5 + a[5] / t
    s = a[0] * np.log(t) + a[1] * t + a[2] * t**2 / 2 + a[3] * t**3 / 3 + a[4] * t**4 / 4 + a[6]
    return h, s, a[0] + a[1] * t + a[2] * t**2 + a[3] * t**3 + a[4] * t**4


def log_states(one, t):
    """ln of the states of a nucleus per volume [mol/cm3]."""
    grams = (one["A"] + one["excess"] / 931.49410242) * 1.66053906660e-24
    wave = 2 * np.pi * grams * 1.380649e-16 * t / 6.62607015e-27**2
    states = (2 * one["spin"] + 1) * wave**1.5 / 6.02214076e23
    if "partition" in one:
        grid, values = one["partition"]
        states *= np.exp(np.interp(t, grid, np.log(values)))
    return np.log(states) - one["excess"] * MEV / (R * t)


class Model:
    """Rates of change of a description."""

    def __init__(self, case):
        self.case, self.light, self.time = case, 1.0, case["times"][0]
        texts = [r["law"].get("text") for r in case["reactions"]]
        self.codes = [text and compile(text, "formula", "eval") for text in texts]
        self.names = [one["name"] for one in case["species"]]
        index = {name: i for i, name in enumerate(self.names)}
        self.left = [
            {index[k]: v for k, v in r.get("orders", r["left"]).items()} for r in case["reactions"]
        ]
        self.change = np.zeros((len(index), len(self.left)))
        for k, r in enumerate(case["reactions"]):
            for name, v in r["left"].items():
                self.change[index[name], k] -= v
            for name, v in r["right"].items():
                self.change[index[name], k] += v
        self.nuclear = case["kind"] == "nuclei"
        self.charge = np.array([one.get("Z", 0) for one in case["species"]], float)
        if self.nuclear:
            self.excess = np.array([one["excess"] for one in case["species"]]) * MEV
        if self.nuclear and case.get("heating") == "constant-pressure":
            y = start_of(case)
            amount, hot = (y[:-1] * (1 + self.charge)).sum(), y[-1]
            self.pressure = case["density"] * R * hot * amount + RADIATION * hot**4 / 3

        if "tank" in case:
            amounts = np.array([case["tank"]["inflow"][name] for name in self.names])
            mass = np.array(
                [sum(WEIGHT[a] * n for a, n in one["atoms"].items()) for one in case["species"]]
            )
            y = start_of(case)[: len(self.names)]
            self.inflow = amounts * (mass @ y) / (mass @ amounts)

    def partners(self, law, c):
        named, default = law["partners"]
        return sum(named.get(name, default) * c[i] for i, name in enumerate(self.names))

    def mixture(self, law, t, c):
        """Burke and Song's sum over single molecules, each with a coefficient in its own gas."""
        strength = np.ones(len(c))
        for name, one in law["efficiencies"].items():
            strength[self.names.index(name)] = arrhenius(one, t)
        whole = strength @ c
        value = 0.0
        for i, name in enumerate(self.names):
            own = law["rates"].get(name)
            pure = falling_off(own, t, whole / strength[i]) if own else None
            if own is None:
                pure = falling_off(law["rates"]["M"], t, whole)
            value += strength[i] * c[i] / whole * pure
        return value

    def coefficients(self, t, c):
        """Of every reaction, in mol/cm3 and s; `c` are concentrations [mol/cm3]."""
        found = np.empty(len(self.left))
        for k, r in enumerate(self.case["reactions"]):
            law = r["law"]
            kind = law["kind"]
            if kind == "formula":
                value = self.formula(k, t, c)
            elif kind == "constant":
                value = law["k"]
            elif kind == "arrhenius":
                value = arrhenius(law["law"], t)
            elif kind == "reaclib":
                value = law["prefactor"] * reaclib(law["sets"], t)
                if law.get("electrons"):
                    value *= (self.charge * c).sum()
            elif kind == "three-body":
                value = arrhenius(law["law"], t) * self.partners(law, c)
            elif kind == "falloff":
                value = falling_off(law, t, self.partners(law, c))
            elif kind in ("plog", "chebyshev"):
                value = falling_off(law, t, max(c.sum(), 1e-300 / (R * t)))
            elif kind == "mixture":
                value = self.mixture(law, t, c)
            elif kind == "weak":
                value = weak(law["table"], t, max((self.charge * c).sum(), 1e-300))
            elif kind == "balance":
                value = found[law["of"]] * np.exp(-self.log_equilibrium(law["of"], t))
            found[k] = value * self.light ** r["sun"] if "sun" in r else value
        return found

    def formula(self, k, t, c):
        """A formula, by Python itself."""
        drives = {name: course(v, self.time) for name, v in self.case["drives"].items()}
        known = {"exp": np.exp, "sin": np.sin, "max": max, "sqrt": lambda x: max(x, 0.0) ** 0.5,
                 "piecewise": lambda a, yes, b: a if yes else b}  # fmt: skip
        known |= {"time": self.time, "temperature": t} | drives
        return eval(self.codes[k], known | dict(zip(self.names, c, strict=True)))

    def log_equilibrium(self, k, t):
        """ln K_c of reaction k."""
        total = 0.0
        for i, one in enumerate(self.case["species"]):
            v = self.change[i, k]
            if not v:
                continue
            if self.nuclear:
                total += v * log_states(one, t)
            else:
                h, s, _ = nasa(one["nasa"], t)
                total += v * (s - h + np.log(ATM / (R * t)))
        return total

    def rates(self, t, c):
        """Change of concentrations [mol/(cm3 s)]."""
        found = self.coefficients(t, c)
        for k, left in enumerate(self.left):
            for i, v in left.items():
                found[k] *= c[i] ** v if v == int(v) > 0 else max(c[i], 1e-300) ** v
        return self.change @ found

    def amounts_change(self, t, y, temperature, density):
        """Of what `solve` integrates: Y [mol/g], or concentrations; and T where it is heated."""
        heating = self.case.get("heating")
        if not heating:
            if self.nuclear:
                return self.rates(temperature, density * y) / density
            return self.rates(temperature, y) + self.flow(y)
        amounts, hot = y[:-1], y[-1]
        if self.nuclear and heating == "constant-pressure":
            # Of an ideal gas with radiation: the specific volume, and the enthalpy u + P V.
            amount = (amounts * (1 + self.charge)).sum()
            light = RADIATION * hot**4
            gas = self.pressure - light / 3
            volume = R * hot * amount / gas
            change = self.rates(hot, amounts / volume) * volume
            by_heat = volume / hot + volume * 4 * light / (3 * hot * gas)
            capacity = (
                1.5 * R * amount + 4 * light * volume / hot + (light + self.pressure) * by_heat
            )
            per = 1.5 * R * hot + (light + self.pressure) * volume / amount
            return np.append(
                change, -((self.excess + per * (1 + self.charge)) * change).sum() / capacity
            )
        if self.nuclear:
            change = self.rates(hot, density * amounts) / density
            electrons = (self.charge * amounts).sum()
            capacity = 1.5 * R * (amounts.sum() + electrons) + 4 * RADIATION * hot**3 / density
            per = self.excess + 1.5 * R * hot * (1 + self.charge)
            return np.append(change, -(per * change).sum() / capacity)
        table = np.array([nasa(one["nasa"], hot) for one in self.case["species"]])
        if heating == "constant-volume":
            change = self.rates(hot, amounts)
            capacity = (amounts * (table[:, 2] - 1)).sum() * R
            energy = (table[:, 0] - 1) * R * hot
            heat = -(energy * change).sum() + self.heat_of_flow(energy)
            if "tank" in self.case:  # what flows out is pushed out
                heat -= amounts.sum() * R * hot / self.case["tank"]["residence_time"]
            return np.append(change + self.flow(amounts), heat / capacity)
        volume = amounts.sum() * R * hot / self.case["pressure"]
        change = self.rates(hot, amounts / volume) * volume
        capacity = (amounts * table[:, 2]).sum() * R
        energy = table[:, 0] * R * hot
        heat = -(energy * change).sum() + self.heat_of_flow(energy)
        if heating.startswith("isothermal"):
            heat = 0.0
        found = np.append(change + self.flow(amounts), heat / capacity)
        # Along a tube, by the time to move on; the volume was 1 cm3 at the inlet.
        return found / (self.case["velocity"] * volume) if "velocity" in self.case else found

    def flow(self, amounts):
        """What flows into a tank less what flows out."""
        if "tank" not in self.case:
            return np.zeros(len(self.names))
        return (self.inflow - amounts) / self.case["tank"]["residence_time"]

    def heat_of_flow(self, energy):
        """Enthalpy that flows in, less the energy of this mixture in the tank."""
        if "temperature" not in self.case.get("tank", {}):
            return 0.0
        hot = self.case["tank"]["temperature"]
        enthalpy = np.array([nasa(one["nasa"], hot)[0] for one in self.case["species"]]) * R * hot
        return (self.inflow * (enthalpy - energy)).sum() / self.case["tank"]["residence_time"]


def course(value, t):
    """A number, or (times, values) straight between knots."""
    return value if np.isscalar(value) else float(np.interp(t, *value))


def start_of(case):
    """What is integrated, at the first time."""
    initial = np.array([case["initial"].get(one["name"], 0.0) for one in case["species"]])
    t0 = case["times"][0]
    if case["kind"] == "nuclei":
        y = initial / np.array([one["A"] for one in case["species"]], float)
    elif case["kind"] == "molecules":
        hot = course(case["temperature"], t0)
        y = initial / initial.sum() * case["pressure"] / (R * hot)
    else:
        y = initial
    return np.append(y, case["temperature"]) if case.get("heating") else y


def solve(case, rtol=1e-8):
    """Amounts (mass fractions of nuclei) at the times of a case, and temperatures where heated."""
    model, times, y = Model(case), np.array(case["times"], float), start_of(case)
    knots = [times]
    for name in ("temperature", "density", "sunlight"):
        if name in case and not np.isscalar(case[name]):
            knots.append(np.array(case[name][0], float))
    if "drives" in case:
        knots += [np.array(case["drives"]["drive"][0], float), np.array(case["breaks"])]
    every = np.unique(np.concatenate(knots))
    every = every[(every >= times[0]) & (every <= times[-1])]
    scale = np.abs(y[: len(model.names)]).max()
    allowed = np.full(y.size, 1e-13 * scale)
    if case.get("heating"):
        allowed[-1] = 1e-6
    found = [y]
    for a, b in zip(every[:-1], every[1:], strict=True):
        hot = [course(case.get("temperature", 1e3), t) for t in (a, b)]
        dense = [course(case.get("density", 1.0), t) for t in (a, b)]
        light = [course(case.get("sunlight", 1.0), t) for t in (a, b)]
        span = b - a

        def change(s, y, hot=hot, dense=dense, light=light, span=span, start=a):
            x = s / span
            model.light = light[0] + x * (light[1] - light[0])
            model.time = start + np.clip(s, 1e-9 * span, span * (1.0 - 1e-9))
            return model.amounts_change(
                s, y, hot[0] + x * (hot[1] - hot[0]), dense[0] + x * (dense[1] - dense[0])
            )

        # Time since the knot; a temperature that multiplies may not be passed in one step.
        moves = max(abs(np.log(hot[1] / hot[0])), abs(np.log(dense[1] / dense[0])))
        moves = max(moves, abs(light[1] - light[0]))
        if "drives" in case:
            moves = max(moves, *(abs(np.diff([course(v, t) for t in (a, b)])[0])
                                 for v in case["drives"].values()))  # fmt: skip
        run = solve_ivp(
            change, (0.0, span), y, method="Radau", rtol=rtol, atol=allowed,
            max_step=span / max(1.0, 10 * moves),
        )  # fmt: skip
        if not run.success:
            raise RuntimeError(run.message)
        y = run.y[:, -1]
        if b in times:
            found.append(y)
    found = np.array(found)
    count = len(model.names)
    if case["kind"] == "nuclei":
        found[:, :count] *= np.array([one["A"] for one in case["species"]])
    if case.get("heating", "").endswith("constant-pressure") and "pressure" in case:
        volume = found[:, :count].sum(axis=1) * R * found[:, -1] / case["pressure"]
        found[:, :count] /= volume[:, None]
    return found[:, :count], found[:, count] if case.get("heating") else None
