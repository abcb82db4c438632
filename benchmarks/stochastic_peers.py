"""Hybrid simulation beside COPASI's, and rules beside NFsim: the law, and the time.

COPASI runs its three hybrid methods in a process of its own; the quickest is compared.  NFsim and
the program that translates rules for it are those of the package bionetgen.  Both measure their own
processor time.  Equal law is that no mean or variance of the last amounts differs by more than
chance allows: the largest difference is a row, in standard errors.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from harness import Rows, Seconds, arguments, installed

import ergode

REPEATS = 5
RUNS = 40  # realizations in a call of ours, and in all calls of COPASI together
NFSIM_RUNS = 100  # for its law

COPASI = """
import sys, time
import numpy as np, basico
path, method, end, runs, seed, lower, upper = sys.argv[1:]
model = basico.load_model(path)
basico.set_model_unit(quantity_unit="#", model=model)
basico.set_task_settings("Time-Course", {"method": {
    "name": {"hybrid": "Hybrid (Runge-Kutta)", "hybridlsoda": "Hybrid (LSODA)",
             "hybridode45": "Hybrid (RK-45)"}[method],
    "Max Internal Steps": 10**8, "Lower Limit": float(lower), "Upper Limit": float(upper)}})
start, last = time.process_time(), []
for k in range(int(runs)):
    found = basico.run_time_course(
        duration=float(end), intervals=20, method=method, model=model, use_seed=True,
        update_model=False, use_numbers=True, seed=int(seed) + k,
    )
    last.append(found.to_numpy()[-1, :3])
print(time.process_time() - start)
print(*np.ravel(last))
"""
PATIENCE = 150


def distance(ours, theirs):
    """The largest difference of means and of second moments, in standard errors.

    Both are last values of all realizations, [realization, name].
    """
    found = 0.0
    for power in (1, 2):
        a, b = ours**power, theirs**power
        spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        far = np.abs(a.mean(axis=0) - b.mean(axis=0))
        found = max(found, np.max(far[spread > 0] / spread[spread > 0], initial=0.0))
    return float(found)


# ---- a hybrid


def hill_cascade():
    """Three genes, each made as a Hill function of the one before, from no molecules at all."""
    return ergode.ReactionNetwork(
        dict.fromkeys("ABC", 0),
        [
            ergode.Reaction("0 -> A", rate_constant=50.0),
            ergode.Reaction("A -> 0", rate_constant=1.0),
            ergode.Reaction("0 -> B", rate="1e4 * A^2 / (50^2 + A^2)"),
            ergode.Reaction("B -> 0", rate_constant=1.0),
            ergode.Reaction("0 -> C", rate="2e6 * B^4 / (5000^4 + B^4)"),
            ergode.Reaction("C -> 0", rate_constant=1.0),
        ],
        name="Hill cascade",
    )


def copasi_of(path, end, last):
    import basico  # noqa: F401

    def run(method, runs, seed):
        command = [sys.executable, "-c", COPASI, str(path), method, str(end), str(runs), str(seed),
                   "500", "1000"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        seconds, values = done.stdout.splitlines()[-2:]
        return float(seconds) / runs, np.array(values.split(), float).reshape(-1, 3)

    found = {}
    for method in ("hybrid", "hybridlsoda", "hybridode45"):
        try:
            found[method], values = run(method, 1, 1)
            print(f"COPASI {method}: {found[method]:.3g} s, ends with {values[0]}")
        except (subprocess.SubprocessError, ValueError) as error:
            print(f"COPASI's method {method} is not compared: {type(error).__name__}")
    best = min(found, key=found.get)
    runs = max(RUNS // REPEATS, 2)

    def work():
        seconds, values = run(best, runs, 1000 * len(last) + 1)
        last.append(values)
        return Seconds(seconds)

    return work


def hybrid(options, rows):
    """A Hill cascade from zero; the exact method beside, on the same core."""
    network, end, theirs = hill_cascade(), 10.0, []
    path = Path(tempfile.mkdtemp()) / "model.xml"
    ergode.write_sbml(network, path)
    call = partial(
        ergode.stochastic.simulate, network, times=np.linspace(0, end, 21), replicates=RUNS,
        seed=1, device=options.place,
    )  # fmt: skip
    works = installed(options, {"COPASI": partial(copasi_of, path, end, theirs)})
    ours = partial(call, method="hybrid", continuous_above=1000)
    found = rows.measure(network.name, ours, works, repeats=REPEATS)
    rows.add(
        network.name, "time of a realization", 1e3 * found.seconds / RUNS, "ms",
        peers={name: 1e3 * seconds for name, seconds in found.peers.items()},
    )  # fmt: skip
    exact, last = call(), found.result["amount"].values[:, -1]
    rows.add(network.name, "exact: a realization", 1e3 * exact.attrs["run_seconds"] / RUNS, "ms")
    rows.add(network.name, "law, and exact", distance(last, exact["amount"][:, -1].values), "sigma")
    if theirs:
        rows.add(network.name, "law, and COPASI", distance(last, np.concatenate(theirs)), "sigma")


# ---- rules: examples that NFsim and BioNetGen publish

RULES = {
    "simple system": ("""begin parameters
kon 10
koff 5
kcat 0.7
dephos 0.5
end parameters
begin molecule types
X(y,p~0~1)
Y(x)
end molecule types
begin seed species
X(y,p~0) 5000
Y(x) 500
end seed species
begin observables
Molecules X_free X(p~0,y)
Molecules X_p_total X(p~1)
Molecules XY X(y!1).Y(x!1)
end observables
begin reaction rules
X(y,p~0) + Y(x) -> X(y!1,p~0).Y(x!1) kon
X(y!1,p~0).Y(x!1) -> X(y,p~0) + Y(x) koff
X(y!1,p~0).Y(x!1) -> X(y,p~1) + Y(x) kcat
X(p~1) -> X(p~0) dephos
end reaction rules
""", 20.0),
    "trivalent ligands": ("""begin parameters
kp1 0.001
kp2 0.010
koff 0.100
end parameters
begin molecule types
R(l,l)
L(r,r,r)
end molecule types
begin seed species
R(l,l) 300
L(r,r,r) 1200
end seed species
begin observables
Molecules L0 L(r,r,r)
Molecules L3 L(r!+,r!+,r!+)
Molecules R2 R(l!+,l!+)
end observables
begin reaction rules
R(l) + L(r,r,r) <-> R(l!1).L(r!1,r,r) kp1, koff
R(l) + L(r,r,r!+) <-> R(l!1).L(r!1,r,r!+) kp2, koff
R(l) + L(r,r!+,r!+) <-> R(l!1).L(r!1,r!+,r!+) kp2, koff
end reaction rules
""", 20.0),
}  # fmt: skip


def nfsim_of(path, end, last):
    """Work of NFsim: one realization of its translated rules, without its start."""
    place = importlib.util.find_spec("bionetgen")
    if place is None:
        raise ImportError("there is no bionetgen")
    folder = Path(next(iter(place.submodule_search_locations))) / "bng-linux"
    path.write_text(f"{path.read_text()}writeXML()\n")
    translate = ["perl", str(folder / "BNG2.pl"), path.name]
    subprocess.run(translate, cwd=path.parent, capture_output=True, check=True)
    counter = iter(range(1, 10**6))

    def work():
        # Bonds join molecules of different complexes only, as a + between reactants says.
        command = [folder / "bin" / "NFsim", "-xml", path.with_suffix(".xml"), "-sim", str(end),
                   "-oSteps", "20", "-bscb", "-cb", "-seed", str(next(counter)),
                   "-o", path.with_suffix(".gdat")]  # fmt: skip
        done = subprocess.run(
            list(map(os.fspath, command)), capture_output=True, text=True, check=True
        )
        last.append(np.loadtxt(path.with_suffix(".gdat"))[-1:, 1:])
        said = re.search(r"simulated (\d+) reactions in ([\d.e+-]+)s", done.stdout)
        return Seconds(float(said[2]) / float(said[1]))

    for _ in range(NFSIM_RUNS):
        work()
    return work


def rules(options, rows):
    """Time of a firing."""
    for name, (text, end) in RULES.items():
        path, theirs = Path(tempfile.mkdtemp()) / "model.bngl", []
        path.write_text(text)
        model = ergode.read_rules(path)
        works = installed(options, {"NFsim": partial(nfsim_of, path, end, theirs)})
        ours = partial(
            ergode.stochastic.simulate_rules, model, times=np.linspace(0, end, 21),
            replicates=RUNS, seed=1, device=options.place,
        )  # fmt: skip
        found = rows.measure(name, ours, works, repeats=REPEATS)
        rows.add(
            name, "time per firing", 1e9 * found.seconds / found.result.attrs["firings"], "ns",
            peers={one: 1e9 * seconds for one, seconds in found.peers.items()},
        )  # fmt: skip
        if theirs:
            last = found.result["value"].values[:, -1]
            rows.add(name, "law, and NFsim", distance(last, np.concatenate(theirs)), "sigma")


def main():
    works = {"hybrid": hybrid, "rules": rules}
    options = arguments("stochastic", list(works))
    rows = Rows("stochastic", options.device, options.json)
    for name, work in works.items():
        if name in options.case and options.device == "cpu":
            work(options, rows)


if __name__ == "__main__":
    main()
