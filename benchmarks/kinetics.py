"""Networks a second, against SciPy, Cantera, pynucastro and the figures of the explicit methods.

``--data FOLDER`` says where the 150-nuclide network is: CUDAnet_150.inp and rateLibrary_150.data.
``--figure FILE`` draws what the cases "wave" measured: time against the number of networks.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from harness import Rows, arguments
from kinetics_ignition import ignition, many_reactors
from scipy.integrate import solve_ivp

import ergode

integrate = ergode.kinetics.integrate
TYPE_IA = {"temperature": 7e9, "density": 1e8, "initial": {"12C": 0.49992, "16O": 0.5}}
# What one network took by version of the code that this engine began with, on a K40c [s].
VERSIONS = {"version 1": 12.5, "version 2": 5.1, "near the memory limit": 1.3}


def type_ia(options, network, count, method):
    """A public call that burns `count` equal zones, in steps as the published codes take them."""
    return partial(
        integrate, network, times=[0.0, 1e-9], rtol=1e-3, method=method,
        reference_control=method == "asymptotic",
        max_steps=10**6, conservation_tolerance=1.0, device=options.place,
        **TYPE_IA | {"temperature": np.full(count, 7e9)},
    )  # fmt: skip


def implicit(options, rows, network):
    """One network, and SciPy's BDF and Radau with the same right-hand side and Jacobian."""
    works = {}
    if not options.no_peers:
        change, jacobian, start = right_hand_side(network)
        for kind in ("BDF", "Radau"):
            works[f"scipy {kind}"] = partial(
                solve_ivp, change, (0, 1e-9), start, method=kind, jac=jacobian, rtol=1e-3,
                atol=1e-8 / 12,
            )  # fmt: skip
    found = rows.measure("type-ia implicit", type_ia(options, network, 1, "rodas4"), works)
    rows.add("type-ia implicit", "seconds a network", found.seconds, "s", peers=found.peers)


def explicit(options, rows, network):
    """One network by the asymptotic method."""
    found = rows.measure("type-ia explicit", type_ia(options, network, 1, "asymptotic"))
    rows.add("type-ia explicit", "seconds a network", found.seconds, "s")


def right_hand_side(network):
    """dY/dt and its Jacobian in NumPy, reactions of the same reactants taken together."""
    rates = ergode.kinetics.reaction_rates(network, **TYPE_IA)["coefficient"].values[0]
    index = {member.name: place for place, member in enumerate(network.species)}
    nothing = len(index)
    columns, entries = {}, []
    for reaction, rate in zip(network.reactions, rates, strict=True):
        left = [index[name] for name, n in reaction.reactants.items() for _ in range(int(n))]
        key = tuple(sorted(left) + [nothing] * (3 - len(left)))
        column = columns.setdefault(key, len(columns))
        flow = rate * TYPE_IA["density"] ** (len(left) - 1)
        entries += [(index[name], column, -n * flow) for name, n in reaction.reactants.items()]
        entries += [(index[name], column, n * flow) for name, n in reaction.products.items()]
    matrix = np.zeros((nothing, len(columns)))
    rows, places, values = zip(*entries, strict=True)
    np.add.at(matrix, (rows, places), values)
    slots = np.array(list(columns)).T

    def change(_, y):
        return matrix @ np.append(y, 1.0)[slots].prod(axis=0)

    def jacobian(_, y):
        a, b, c = np.append(y, 1.0)[slots]
        found = np.zeros((len(columns), nothing + 1))
        each = np.arange(len(columns))
        for slot, others in zip(slots, (b * c, a * c, a * b), strict=True):
            np.add.at(found, (each, slot), others)
        return matrix @ found[:, :nothing]

    start = np.zeros(nothing)
    start[index["12C"]] = 0.49992 / 12
    start[index["16O"]] = 0.5 / 16
    return change, jacobian, start


METHODS = {
    "rodas4": (1e-2, 1e-3, 1e-4),
    "rosenbrock23": (1e-3,),
    "asymptotic": (1e-3,),
}


def methods(options, rows, network):
    """Steps, time and error of every method at two temperatures, on a CPU."""
    if options.device == "cuda":
        return
    for t9 in (7.0, 5.0):
        given = TYPE_IA | {"temperature": t9 * 1e9, "times": [0.0, 1e-9], "device": options.place}
        given["conservation_tolerance"] = 1.0
        exact = integrate(network, rtol=1e-9, atol=1e-13, **given)
        for method, tolerances in METHODS.items():
            for rtol in tolerances[:1] if options.quick else tolerances:
                case = f"methods T9 {t9:g} {method} {rtol:g}"
                ours = partial(integrate, network, method=method, rtol=rtol, **given)
                found = rows.measure(case, ours, repeats=1 if options.quick else 3)
                burnt = found.result["mass_fraction"][0, -1]
                error = abs(burnt - exact["mass_fraction"][0, -1]).sum().item()
                rows.add(case, "steps", found.result["step_count"].item(), "1")
                rows.add(case, "seconds", found.seconds, "s")
                rows.add(case, "sum of errors", error, "1")
                rows.add(case, "mass gained", burnt.sum().item() - 0.99992, "1")


def wave(options, rows, network):
    """Time against the number of networks."""
    for method in ("rodas4", "asymptotic"):
        most = 100_000 if options.device == "cuda" else 64
        if options.quick:
            most = min(most, 8 if method == "rodas4" else 2)
        count = 1
        while count <= most:
            case = f"wave {method} {count}"
            few = count < 1_000
            found = rows.measure(
                case, type_ia(options, network, count, method), repeats=3 if few else 1, warm=few
            )
            rows.add(case, "seconds", found.seconds, "s")
            rows.rate(case, "networks a second", found, count)
            count = most if count < most < 8 * count else 8 * count


def draw(rows, path):
    """Figure of the wave: time against the number of networks."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2))
    for method in ("asymptotic", "rodas4"):
        points = [
            (int(row["case"].split()[-1]), row["value"])
            for row in rows
            if row["case"].startswith(f"wave {method} ") and row["metric"] == "seconds"
        ]
        axes.loglog(*zip(*points, strict=True), "o-", label=method)
    for name, seconds in VERSIONS.items():
        axes.axhline(seconds, color="0.7", linewidth=0.8)
        axes.text(1, 1.05 * seconds, f"one network on a K40c, {name}", fontsize=7, color="0.4")
    axes.set(xlabel="networks of 150 nuclei at once", ylabel="seconds")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def alpha_chain(network):
    """The 13 nuclei from helium to nickel that helium makes of one another."""
    wanted = {(4 * k, 2 * k) for k in (1, *range(3, 15))}
    species = [one for one in network.species if (one.mass_number, one.charge_number) in wanted]
    names = {one.name for one in species}
    reactions = [
        reaction
        for reaction in network.reactions
        if {*reaction.reactants, *reaction.products} <= names
    ]
    return ergode.ReactionNetwork(species, reactions)


def alpha(options, rows, network):
    """Many zones of a small network: as `integrate` has them, and as a hydrodynamics code does."""
    small = alpha_chain(network)
    count = 500 if options.quick else 4_000
    if options.device == "cuda":
        count = 100_000 if options.quick else 1_000_000
    hot = np.linspace(2e9, 6e9, count)
    start = {"4He": 0.2, "12C": 0.4, "16O": 0.4}
    given = {"rtol": 1e-3, "device": options.place}
    found = rows.measure(
        "alpha",
        partial(
            integrate, small, times=[0.0, 1e-3], temperature=hot, density=1e7, initial=start,
            **given,
        ),
        repeats=3,
    )  # fmt: skip
    rows.rate("alpha", "zones a second", found, count)
    fractions = np.tile([start.get(one.name, 0.0) for one in small.species], (count, 1))
    dense = np.full(count, 1e7)
    found = rows.measure(
        "alpha burn",
        partial(ergode.kinetics.burn, small, hot, dense, fractions, 1e-3, **given),
        repeats=3,
    )  # fmt: skip
    rows.rate("alpha burn", "zones a second", found, count)


def pynucastro(options, rows, _):
    """Networks of pynucastro, and its own right-hand side under SciPy's BDF and Radau."""
    if options.no_peers or options.device == "cuda":
        return
    try:
        import pynucastro as pyna
    except ImportError:
        print("pynucastro is not installed: no networks to compare with")
        return
    import importlib.util
    import tempfile
    import time

    chain = ["he4", "c12", "o16", "ne20", "mg24", "si28", "s32", "ar36", "ca40", "ti44", "cr48",
             "fe52", "ni56"]  # fmt: skip
    density, hot, end = 1e7, 4e9, 1e-3
    protons = ["p", "al27", "p31", "cl35", "k39", "sc43", "v47", "mn51", "co55"]
    others = ["n", "c13", "n13", "n14", "o15", "o17", "f18", "f19", "ne21", "ne22", "na22", "na23",
              "mg25", "mg26", "al26", "si29", "si30", "p30", "s33", "s34", "cl36", "ar37", "ar38",
              "k40", "ca41", "ca42", "fe54", "ni58"]  # fmt: skip
    sizes = [chain, chain + protons, chain + protons + others]
    for nuclei in sizes[:1] if options.quick else sizes:
        library = pyna.ReacLibLibrary().linking_nuclei(nuclei, print_warning=False)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "peer_network.py"
            pyna.PythonNetwork(libraries=[library]).write_network(str(path))
            specification = importlib.util.spec_from_file_location("peer_network", path)
            peer = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(peer)
        start = np.zeros(peer.nnuc)
        start[peer.jhe4], start[peer.jc12], start[peer.jo16] = 0.2 / 4, 0.4 / 12, 0.4 / 16

        ours = partial(
            integrate, ergode.read_reaclib(nuclei), times=[0, end], temperature=hot,
            density=density, rtol=1e-6, atol=1e-10, device=options.place,
            initial={"he4": 0.2, "c12": 0.4, "o16": 0.4},
        )  # fmt: skip
        works = {
            f"pynucastro, scipy {kind}": partial(
                solve_ivp, peer.rhs, (0, end), start, method=kind, jac=peer.jacobian,
                args=(density, hot), rtol=1e-6, atol=1e-11,
            )
            for kind in ("BDF", "Radau")
        }  # fmt: skip
        case = f"pynucastro {len(nuclei)} nuclei"
        started = time.perf_counter()
        last = works["pynucastro, scipy Radau"]().y[:, -1]
        taken = time.perf_counter() - started
        rows.add(case, "seconds of the peer's first call", taken, "s")
        found = rows.measure(case, ours, works, repeats=3)
        burnt = found.result["mass_fraction"][0, -1]
        apart = sum(
            abs(float(burnt.sel(species=name)) - last[getattr(peer, f"j{name}")] * mass)
            for name, mass in zip(burnt["species"].values, burnt["mass_number"].values, strict=True)
        )
        rows.add(case, "sum of differences", apart, "1")
        rows.add(case, "seconds a network", found.seconds, "s", peers=found.peers)


OF_NUCLEI = {
    "type-ia implicit": implicit, "type-ia explicit": explicit, "methods": methods, "wave": wave,
    "alpha": alpha,
}  # fmt: skip
OTHERS = {
    "ignition": lambda options, rows, _: ignition(options, rows, ("h2o2", "gri30")),
    "many reactors": lambda options, rows, _: many_reactors(options, rows),
    "large ignition": lambda options, rows, _: ignition(options, rows, ("n-hexane",)),
    "pynucastro": pynucastro,
}

QUICK = [name for name in OF_NUCLEI | OTHERS if name != "large ignition"]


def main():
    options = arguments(
        "kinetics", [*OF_NUCLEI, *OTHERS], QUICK, data="where the 150-nuclide network is",
        figure="draw the wave into this file",
    )  # fmt: skip
    rows = Rows("kinetics", options.device, options.json)
    folder = options.data or Path(__file__).resolve().parents[2] / "shared" / "data" / "kinetics"
    network = None
    if folder.is_dir():
        network = ergode.read_fern(folder / "CUDAnet_150.inp", folder / "rateLibrary_150.data")
    else:
        print("the 150-nuclide network is not here (--data FOLDER)")
    for name, work in (OF_NUCLEI | OTHERS).items():
        if name in options.case and (network or name in OTHERS):
            work(options, rows, network)
    if options.figure and "wave" in options.case:
        draw(rows.rows, options.figure)


if __name__ == "__main__":
    main()
