"""A detonation in carbon and oxygen: gas dynamics and a network in every zone, in turns.

A hot spot at a wall ignites degenerate matter of 1e7 g/cm3, as in a supernova of Type Ia. In every
step of time the gas moves (Euler's equations, finite volumes with HLLC fluxes), then each zone
burns on its own for as long, which heats it (E. F. Toro, Riemann Solvers and Numerical Methods for
Fluid Dynamics, 3rd ed. (2009), chapters 10 and 14).  Nuclei and radiation make the pressure here.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import ergode

NUCLEI = [
    "p", "he4", "c12", "o16", "ne20", "na23", "mg24", "al27", "si28", "p31", "s32", "cl35", "ar36",
    "k39", "ca40", "sc43", "ti44", "v47", "cr48", "mn51", "fe52", "co55", "ni56",
]  # fmt: skip
GAS, RADIATION = 8.31446261815324e7, 7.565733250280007e-15
ZONES, LENGTH, AMBIENT = 160, 8e3, 1e7  # cm, g/cm3

network = ergode.read_reaclib(NUCLEI)
mass = np.array([one.mass_number for one in network.species], float)
charge = np.array([one.charge_number for one in network.species], float)


def particles(x):
    """Moles of nuclei and electrons in a gram."""
    return (x / mass) @ (1 + charge)


def temperature_of(density, energy, n, guess):
    """Temperature at which gas and radiation have this energy [erg/g], by Newton's method."""
    t = guess.copy()
    for _ in range(30):
        off = 1.5 * GAS * n * t + RADIATION * t**4 / density - energy
        t -= off / (1.5 * GAS * n + 4 * RADIATION * t**3 / density)
        t = np.maximum(t, 1e6)
    return t


def pressure_of(density, t, n):
    return GAS * density * n * t + RADIATION * t**4 / 3


def fluxes(rho, u, p, e, x):
    """HLLC fluxes of mass, momentum, energy and nuclei through the faces between zones."""
    left, right = slice(0, -1), slice(1, None)
    sound = np.sqrt(5 / 3 * p / rho)
    slow = np.minimum(u[left] - sound[left], u[right] - sound[right])
    fast = np.maximum(u[left] + sound[left], u[right] + sound[right])
    a, b = rho[left] * (slow - u[left]), rho[right] * (fast - u[right])
    middle = (p[right] - p[left] + a * u[left] - b * u[right]) / (a - b)
    from_left = middle > 0
    pick = np.where
    r, v, q, w = (pick(from_left, s[left], s[right]) for s in (rho, u, p, e))
    edge, factor = pick(from_left, slow, fast), pick(from_left, a, b)
    inside = np.where(from_left, slow < 0, fast > 0)  # within the fan of waves
    r_star = factor / (edge - middle)
    e_star = r_star * (w + v**2 / 2 + (middle - v) * (middle + q / factor))
    total = r * (w + v**2 / 2)
    mass_flux = r * v + inside * edge * (r_star - r)
    momentum = r * v**2 + q + inside * edge * (r_star * middle - r * v)
    energy = (total + q) * v + inside * edge * (e_star - total)
    nuclei = mass_flux[:, None] * pick((mass_flux > 0)[:, None], x[left], x[right])
    return mass_flux, momentum, energy, nuclei


dx = LENGTH / ZONES
place = (np.arange(ZONES) + 0.5) * dx
x = np.zeros((ZONES, len(NUCLEI)))
x[:, NUCLEI.index("c12")] = x[:, NUCLEI.index("o16")] = 0.5
rho = np.full(ZONES, AMBIENT)
hot = np.where(place < 800.0, 6e9, 1e8)
u = np.zeros(ZONES)
e = 1.5 * GAS * particles(x) * hot + RADIATION * hot**4 / rho

time, steps, front, fronts = 0.0, 0, 0.0, []
while front < 0.85 * LENGTH and steps < 1500:
    p = pressure_of(rho, hot, particles(x))
    dt = 0.4 * dx / np.max(np.abs(u) + np.sqrt(5 / 3 * p / rho))
    # Two zones more at each end: a wall on the left, an open end on the right.
    padded = [np.pad(s, 1, mode="edge") for s in (rho, u, p, e)]
    padded[1][0] *= -1
    flux = fluxes(*padded, np.pad(x, ((1, 1), (0, 0)), mode="edge"))
    momentum, total = rho * u, rho * (e + u**2 / 2)
    contents = rho[:, None] * x - dt / dx * np.diff(flux[3], axis=0)
    rho = rho - dt / dx * np.diff(flux[0])
    u = (momentum - dt / dx * np.diff(flux[1])) / rho
    e = (total - dt / dx * np.diff(flux[2])) / rho - u**2 / 2
    x = np.maximum(contents / rho[:, None], 0.0)
    x /= x.sum(axis=1, keepdims=True)
    hot = temperature_of(rho, e, particles(x), hot)

    burnt = ergode.kinetics.burn(
        network, hot, rho, x, float(dt), heating="constant-volume", rtol=1e-3
    )
    assert not burnt.status.any()
    x, e = burnt.mass_fraction, e + burnt.energy
    hot = temperature_of(rho, e, particles(x), hot)
    time, steps = time + dt, steps + 1
    front = place[np.flatnonzero(hot > 1.5e9)[-1]]
    fronts.append((time, front))

late = np.array(fronts)[len(fronts) // 2 :]
speed = np.polyfit(*late.T, 1)[0]
print(f"{steps} steps, {time * 1e9:.1f} ns; the detonation runs at {speed / 1e5:,.0f} km/s")

figure, (top, bottom) = plt.subplots(
    2, 1, sharex=True, figsize=(7.2, 6), dpi=160, layout="constrained"
)
colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6B6B6B"]
for k, name in enumerate(sorted(NUCLEI, key=lambda one: -x[:, NUCLEI.index(one)].max())[:9]):
    element, mass = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    top.plot(
        place, x[:, NUCLEI.index(name)], color=colours[k % 7], linestyle="-" if k < 7 else "--",
        label=f"$^{{{mass}}}${element.capitalize()}",
    )  # fmt: skip
top.set(yscale="log", ylim=(1e-4, 1), ylabel="mass fraction")
top.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
bottom.plot(place, hot / 1e9, color="#D55E00", label="temperature [GK]")
bottom.plot(place, rho / 1e7, color="#0072B2", label="density [10$^7$ g/cm³]")
bottom.set(xlabel="distance from the wall [cm]", ylim=(0, None))
bottom.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
for axes in (top, bottom):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig("carbon_detonation.png")
