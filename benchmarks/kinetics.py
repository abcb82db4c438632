"""Networks a second, against SciPy, Cantera, pynucastro and the figures of the explicit methods.

``--data FOLDER`` says where the 150-nuclide network is: CUDAnet_150.inp and rateLibrary_150.data.
``--figure FILE`` draws what the cases "wave" measured: time against the number of networks.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from harness import Rows, arguments, medians
from scipy.integrate import solve_ivp

import ergode
from ergode.core import devices
from ergode.kinetics import launch
from ergode.kinetics.conditions import zones_of
from ergode.kinetics.methods import METHODS
from ergode.kinetics.network.to_tables import to_tables

TYPE_IA = {"temperature": 7e9, "density": 1e8, "initial": {"12C": 0.49992, "16O": 0.5}}
CASES = (
    "type-ia implicit", "type-ia explicit", "methods", "wave", "alpha", "ignition", "pynucastro",
)  # fmt: skip
# What one network took by version of the code that this engine began with, on a K40c [s].
VERSIONS = {"version 1": 12.5, "version 2": 5.1, "near the memory limit": 1.3}


def option(name):
    """Value of an option that only this benchmark has, or None."""
    if name not in sys.argv:
        return None
    place = sys.argv.index(name)
    value = Path(sys.argv[place + 1])
    del sys.argv[place : place + 2]
    return value


def data_folder():
    """Where the 150-nuclide network is, or None."""
    folder = option("--data")
    if folder is not None:
        return folder
    folder = Path(__file__).resolve().parents[2] / "shared" / "data" / "kinetics"
    return folder if folder.is_dir() else None


def burner(network, count, device, method, rtol=1e-3):
    """A function that burns `count` equal zones, everything checked and laid out before."""
    mechanism = to_tables(network)
    zones = zones_of(
        network, mechanism, temperature=np.full(count, 7e9), density=1e8, pressure=None,
        initial=TYPE_IA["initial"], heating=None,
    )  # fmt: skip
    grid = np.array([0.0, 1e-9])
    options = launch.Options(METHODS[method].runner, rtol, None, True, 10**6)

    def work():
        outcome = launch.empty_outcome(zones, grid)
        launch.run_zones(mechanism, zones, grid, options, device, outcome, lambda _: None)
        return outcome

    return work


def implicit(options, rows, network, device):
    """One network on one core, and SciPy's BDF with the same right-hand side and Jacobian."""
    ours = burner(network, 1, device, "rodas4")
    if options.no_peers:
        (seconds,) = medians([ours], cpu=True)
        rows.add("type-ia implicit", "seconds a network", seconds, "s")
        return
    change, jacobian, start = right_hand_side(network)

    def peer(kind):
        solve_ivp(change, (0, 1e-9), start, method=kind, jac=jacobian, rtol=1e-3, atol=1e-8 / 12)

    seconds, *theirs = medians([ours, lambda: peer("BDF"), lambda: peer("Radau")], cpu=True)
    for kind, taken in zip(("BDF", "Radau"), theirs, strict=True):
        rows.add(
            "type-ia implicit", "seconds a network", seconds, "s", peer=f"scipy {kind}",
            peer_value=taken,
        )  # fmt: skip


def right_hand_side(network):
    """dY/dt and its Jacobian in NumPy, from the same tables."""
    mechanism = to_tables(network)
    structure = mechanism.structure
    t9 = 7.0
    powers = np.array([1, 1 / t9, t9 ** (-1 / 3), t9 ** (1 / 3), t9, t9 ** (5 / 3), np.log(t9)])
    rates = mechanism.rates
    terms = rates.prefactor * np.exp(powers @ rates.parameters)
    slots = np.add.reduceat(terms, rates.slot_start[:-1].astype(int))
    slots *= 1e8 ** (rates.order.astype(float) - 1)
    flows, complexes = structure.net_flows, structure.complexes
    values = np.add.reduceat(
        flows.weight * slots[flows.source], flows.source_start[:-1].astype(int)
    )
    count = structure.species_count
    rows = np.repeat(np.arange(count), np.diff(flows.start.astype(int)))
    matrix = np.zeros((count, complexes.first.size))
    matrix[rows, flows.complex] = values

    def change(_, y):
        y = np.append(y, 1.0)
        return matrix @ (y[complexes.first] * y[complexes.second] * y[complexes.third])

    def jacobian(_, y):
        y = np.append(y, 1.0)
        found = np.zeros((complexes.first.size, count + 1))
        each = np.arange(complexes.first.size)
        a, b, c = (y[slot] for slot in complexes)
        np.add.at(found, (each, complexes.first), b * c)
        np.add.at(found, (each, complexes.second), a * c)
        np.add.at(found, (each, complexes.third), a * b)
        return matrix @ found[:, :count]

    start = np.zeros(count)
    start[mechanism.names.index("12C")] = 0.49992 / 12
    start[mechanism.names.index("16O")] = 0.5 / 16
    return change, jacobian, start


def methods(options, rows, network):
    """Steps, time and error of every method at two temperatures."""
    options_of = {
        "rodas4": (1e-2, 1e-3, 1e-4),
        "rosenbrock23": (1e-3,),
        "asymptotic": (1e-3,),
        "quasi-steady-state": (1e-2, 1e-3, 1e-4),
        "partial-equilibrium": (1e-3,),
        "partial-equilibrium-quasi-steady-state": (1e-3,),
    }
    for t9 in (7.0, 5.0):
        given = TYPE_IA | {"temperature": t9 * 1e9, "times": [0.0, 1e-9], "device": "cpu:1"}
        given["conservation_tolerance"] = 1.0
        exact = ergode.kinetics.integrate(network, rtol=1e-9, atol=1e-13, **given)
        for method, tolerances in options_of.items():
            for rtol in tolerances[:1] if options.quick else tolerances:

                def ours(method=method, rtol=rtol, given=given):
                    return ergode.kinetics.integrate(network, method=method, rtol=rtol, **given)

                found = ours()
                error = abs(found["mass_fraction"] - exact["mass_fraction"])[0, -1].sum().item()
                off = found["mass_fraction"][0, -1].sum().item() - 0.99992
                case = f"methods T9 {t9:g} {method} {rtol:g}"
                rows.add(case, "steps", found["step_count"].item(), "1")
                (seconds,) = medians([ours], 3, cpu=True)
                rows.add(case, "seconds", seconds, "s")
                rows.add(case, "sum of errors", error, "1")
                rows.add(case, "mass gained", off, "1")


def wave(options, rows, network, device):
    """Time against the number of networks."""
    for method in ("rodas4", "asymptotic"):
        most = 100_000 if device.is_cuda else 64
        if options.quick:
            most = min(most, 8 if method == "rodas4" else 2)
        count = 1
        while count <= most:
            work = burner(network, count, device, method)
            if count < 1_000:
                (seconds,) = medians([work], 3)
            else:  # long, and everything is compiled
                started = time.perf_counter()
                work()
                seconds = time.perf_counter() - started
            rows.add(f"wave {method} {count}", "seconds", seconds, "s")
            rows.add(
                f"wave {method} {count}", "networks a second", count / seconds, "1/s",
                smaller_is_better=False,
            )  # fmt: skip
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


def alpha(options, rows, network, device):
    """Many zones of a small network."""
    small = alpha_chain(network)
    mechanism = to_tables(small)
    count = 1_000_000 if device.is_cuda else 500 if options.quick else 4_000
    zones = zones_of(
        small, mechanism, temperature=np.linspace(2e9, 6e9, count), density=1e7, pressure=None,
        initial={"4He": 0.2, "12C": 0.4, "16O": 0.4}, heating=None,
    )  # fmt: skip
    grid = np.array([0.0, 1e-3])
    how = launch.Options(METHODS["rodas4"].runner, 1e-3, None, False, 10**6)

    def ours():
        outcome = launch.empty_outcome(zones, grid)
        launch.run_zones(mechanism, zones, grid, how, device, outcome, lambda _: None)

    (seconds,) = medians([ours], 3)
    rows.add("alpha", "zones a second", count / seconds, "1/s", smaller_is_better=False)


def pynucastro(options, rows):
    """Networks of pynucastro, and its own right-hand side under SciPy's BDF and Radau."""
    try:
        import pynucastro as pyna
    except ImportError:
        print("pynucastro is not installed: no networks to compare with")
        return
    import importlib.util
    import tempfile

    chain = ["he4", "c12", "o16", "ne20", "mg24", "si28", "s32", "ar36", "ca40", "ti44", "cr48",
             "fe52", "ni56"]  # fmt: skip
    density, hot, end = 1e7, 4e9, 1e-3
    protons = ["p", "al27", "p31", "cl35", "k39", "sc43", "v47", "mn51", "co55"]
    others = ["n", "c13", "n13", "n14", "o15", "o17", "f18", "f19", "ne21", "ne22", "na22", "na23",
              "mg25", "mg26", "al26", "si29", "si30", "p30", "s33", "s34", "cl36", "ar37", "ar38",
              "k40", "ca41", "ca42", "fe54", "ni58"]  # fmt: skip
    sizes = [chain, chain + protons, chain + protons + others]
    for nuclei in sizes[:1] if options.quick else sizes:
        ours_network = ergode.read_reaclib(nuclei)
        library = pyna.ReacLibLibrary().linking_nuclei(nuclei, print_warning=False)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "peer_network.py"
            pyna.PythonNetwork(libraries=[library]).write_network(str(path))
            specification = importlib.util.spec_from_file_location("peer_network", path)
            peer = importlib.util.module_from_spec(specification)
            specification.loader.exec_module(peer)
        start = np.zeros(peer.nnuc)
        start[peer.jhe4], start[peer.jc12], start[peer.jo16] = 0.2 / 4, 0.4 / 12, 0.4 / 16

        def ours(network=ours_network):
            return ergode.kinetics.integrate(
                network, times=[0, end], temperature=hot, density=density, rtol=1e-6, atol=1e-10,
                initial={"he4": 0.2, "c12": 0.4, "o16": 0.4}, device="cpu:1",
            )  # fmt: skip

        def theirs(kind, peer=peer, start=start):
            return solve_ivp(
                peer.rhs, (0, end), start, method=kind, jac=peer.jacobian, args=(density, hot),
                rtol=1e-6, atol=1e-11,
            )  # fmt: skip

        works = [ours, lambda: theirs("BDF"), lambda: theirs("Radau")]
        started = time.perf_counter()
        last = theirs("Radau").y[:, -1]
        rows.add(
            f"pynucastro {len(nuclei)} nuclei", "seconds of the peer's first call",
            time.perf_counter() - started, "s",
        )  # fmt: skip
        found = ours()["mass_fraction"][0, -1]
        apart = sum(
            abs(float(found.sel(species=name)) - last[getattr(peer, f"j{name}")] * mass)
            for name, mass in zip(found["species"].values, found["mass_number"].values, strict=True)
        )
        rows.add(f"pynucastro {len(nuclei)} nuclei", "sum of differences", apart, "1")
        seconds = medians(works, 3, cpu=True)
        for kind, taken in zip(("BDF", "Radau"), seconds[1:], strict=True):
            rows.add(
                f"pynucastro {len(nuclei)} nuclei", "seconds a network", seconds[0], "s",
                peer=f"pynucastro, scipy {kind}", peer_value=taken,
            )  # fmt: skip


def ignition(options, rows, device):
    """Delays of 64 reactors, and the same of Cantera driven step by step."""
    try:
        import cantera as ct
    except ImportError:
        print("cantera is not installed (pip install cantera): no mechanisms to read")
        return
    cases = {
        "h2o2": ("H2", {"O2": 1.0, "AR": 3.76}, np.linspace(1000, 1200, 8)),
        "gri30": ("CH4", {"O2": 1.0, "N2": 3.76}, np.linspace(1400, 1700, 8)),
    }
    for name, (fuel, oxidizer, hot) in cases.items():
        network = ergode.read_cantera(Path(ct.__file__).parent / "data" / f"{name}.yaml")

        def ours(network=network, fuel=fuel, oxidizer=oxidizer, hot=hot):
            return ergode.kinetics.ignition_delay(
                network, temperature=hot, pressure=[1e6, 1e7], fuel=fuel, oxidizer=oxidizer,
                equivalence_ratio=[0.5, 0.75, 1.0, 1.5], duration=0.1, rtol=1e-4, device=device,
            )  # fmt: skip

        def peer(name=name, fuel=fuel, oxidizer=oxidizer, hot=hot):
            gas = ct.Solution(f"{name}.yaml")
            gas.set_equivalence_ratio(1.0, fuel, oxidizer)
            gas.TP = hot[4], 1e5
            reactor = ct.IdealGasReactor(gas)
            network = ct.ReactorNet([reactor])
            network.rtol = 1e-6
            while network.time < 0.1:
                network.step()

        seconds, theirs = medians([ours, peer], 3 if options.quick else 5)
        rows.add(
            f"ignition {name}", "seconds a reactor", seconds / 64, "s", peer="Cantera",
            peer_value=theirs,
        )  # fmt: skip


def main():
    folder, figure = data_folder(), option("--figure")
    options = arguments("kinetics", list(CASES))
    device = devices.resolve("cuda" if options.device == "cuda" else "cpu:1")
    rows = Rows("kinetics", options.device)
    if folder is None:
        print("the 150-nuclide network is not here (--data FOLDER)")
    else:
        network = ergode.read_fern(folder / "CUDAnet_150.inp", folder / "rateLibrary_150.data")
        if "type-ia implicit" in options.case:
            implicit(options, rows, network, device)
        if "type-ia explicit" in options.case:
            (seconds,) = medians([burner(network, 1, device, "asymptotic")])
            rows.add("type-ia explicit", "seconds a network", seconds, "s")
        if "methods" in options.case and not device.is_cuda:
            methods(options, rows, network)
        if "wave" in options.case:
            wave(options, rows, network, device)
            if figure:
                draw(rows.rows, figure)
        if "alpha" in options.case:
            alpha(options, rows, network, device)
    if "ignition" in options.case and not options.no_peers:
        ignition(options, rows, device)
    if "pynucastro" in options.case and not options.no_peers and not device.is_cuda:
        pynucastro(options, rows)
    rows.write(options.json)


if __name__ == "__main__":
    main()
