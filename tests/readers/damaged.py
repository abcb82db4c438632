"""Reads damaged copies of good files, in a process of its own with little memory and time.

    python damaged.py READER FOLDER FIRST COUNT        (READER may be "all")

prints what came out of every copy from seed FIRST on that was no `ReadError` or `ModelError` in
one line.  The process is ended by the system where a file costs too much.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ergode
from ergode.models.expressions import Expression
from ergode.models.fields.equations import field_from_equations
from ergode.runfile.read import read as read_run_file

MEMORY = 6 << 30  # bytes of address space; libraries alone take two
SECONDS = 5  # of one file

_NASA = [[2.5, 0, 0, 0, 0, -700.0, 1.0], [2.5, 0, 0, 0, 0, -700.0, 1.0]]
_CANTERA = {
    "units": {"length": "cm", "quantity": "mol", "activation-energy": "cal/mol"},
    "phases": [{"name": "g", "thermo": "ideal-gas", "kinetics": "gas", "species": ["H", "H2"]}],
    "species": [
        {
            "name": name, "composition": {"H": n},
            "thermo": {"model": "NASA7", "temperature-ranges": [200, 1000, 3500], "data": _NASA},
        }
        for n, name in ((1, "H"), (2, "H2"))
    ],
    "reactions": [
        {
            "equation": "H + H (+M) <=> H2 (+M)", "type": "falloff",
            "low-P-rate-constant": {"A": 1e18, "b": -1.0, "Ea": "1 kcal/mol"},
            "high-P-rate-constant": {"A": 1e13, "b": 0, "Ea": 0},
            "efficiencies": {"H": 2}, "Troe": {"A": 0.5, "T3": 1, "T1": 2},
        },
        {"equation": "H2 + M => 2 H + M", "rate-constant": ["1e3 m^3/kmol/s", 0, 1]},
    ],
}  # fmt: skip
_YAML = """units: {length: cm}
phases:
- name: g
  thermo: ideal-gas
  kinetics: gas
  species: [H, H2]
species:
- name: H
  composition: &one {H: 1}
  thermo: &thermo
    model: NASA7
    temperature-ranges: [200.0, 1000.0]
    data:
    - [2.5, 1e-4, 0, 0, 0, -700.0, 1.0]
- name: H2
  composition: {H: 2}
  thermo: *thermo
reactions:
- equation: H + H => H2
  rate-constant: {A: 1.0e+10, b: 0.5, Ea: 10.0}
"""
_BIONETGEN = """begin parameters
    1 kp    0.01  # Constant
    2 km    2*kp + if(kp > 1, 3, ln(exp(0.5)))
end parameters
begin functions
    1 _rateLaw1() if((Total>=3)&&!(time()<2), 1, 0)
end functions
begin species
    1 A(b,s~U) 100
    2 A(b!1,s~U).A(b!1,s~U) 0
end species
begin reactions
    1 1,1 2 0.5*kp #_R1
    2 2 1,1 km #_reverse__R1
    3 1 0 \\
      _rateLaw1
end reactions
begin groups
    1 Total   1,2*2
end groups
"""
_ANTIMONY = """model pairs
  J0: 2 A -> B; k * A^2
  J1: B => ; 0.1 * B
  A = 10; B = 0; k = 0.01
  at (time > 2): A = A + 5
end
"""
_KPP = """#DEFVAR
O = O; O3 = O + O + O;
#DEFFIX
O2 = O + O; M = IGNORE;
#EQUATIONS
<R1> O2 + hv = 2O : 2.6E-10;
<R2> O + O2 = O3 : ARR_ab(8.0D-12, 2060.0_dp);
<R3> O3 + O = 2O2 : ARR_ac(6e-34, -2.4);
#INITVALUES
CFACTOR = 2.0; ALL_SPEC = 5.0; O3 = 2.5E+11;
"""
_WEAK = """!17F (5/2+, 1/2+) -> 17O    e-capture
!Log(rhoY)  Log(T)  mu dQ Vs  Log(rate) nu gamma
7.0 7.0 0 0 0 -1.25 -6 -23
7.0 8.0 0 0 0 -1.00 -6 -23
9.0 7.0 0 0 0 -0.50 -6 -23
9.0 8.0 0 0 0  0.25 -6 -23
"""
_PDF = "0.4\n" + "".join(f"1.0e-01 {-11 + k / 2} {k % 3} 9.5\n" for k in range(6))
_ESTIMATE = "x (LU) y (LU)\n1 2\n\nCovariance(x, y)\n1 0.5\n0.5 1\n\nT (TU)\n0.25\n"
_ONES = "1.0 1.0 1.0 1.0 1.0 1.0 1.0 1.0\n" * 3
_FERN = f"1n 1 0 1 0.0 8.071\n{_ONES}1H 1 1 0 0.5 7.289\n{_ONES}"
_FERN_RATES = """n-->p+e+nubar 1 0 1 1 1 0 0 1.00000000 0.78234
-6.78814000 0.0 0.0 0.0 0.0 0.0 0.0
0 
1 
1 
0 
0 
1 
"""  # noqa: W291
_REACLIB = """1
         n    p                            wc12w     7.82300e-01          
-6.786180e+00 0.000000e+00 0.000000e+00 0.000000e+00
 0.000000e+00 0.000000e+00 0.000000e+00                                   
"""  # noqa: W291
_RUN_FILE = """engine = "stochastic"
title = "A switch"
[network]
species = { X = 250, Y = 0 }
parameters = { k = 0.03 }
reactions = [
    { reaction = "2 X -> 3 X", stochastic_rate_constant = "k" },
    { reaction = "X -> Y", rate = "0.1 * X / (1 + X^2)" },
]
[simulate]
times = { start = 0, stop = 10, step = 5 }
replicates = 50
seed = 1
"""
_EPIDEMIC = """engine = "epidemics"
[model]
kind = "sir"
transmission_rate = 0.25
infectious = { distribution = "log-normal", mean = 7.5, median = 5 }
[contacts]
generator = "erdos-renyi"
node_count = 50
mean_degree = 4
[simulate]
initial = { I = 5 }
times = [0, 1, 2]
[[interventions]]
kind = "vaccination"
start = 3
fraction = 0.1
"""
_EQUATIONS = '{"x": "a * x - x(t - tau) ** 3 / (1 + y)", "y": "sin(2 * t) if x > 0 else -y"}'
_EDGES = "source,target,weight\n" + "".join(f"{k},{k + 1},0.5\n" for k in range(9))
_MEETINGS = "".join(f"{20 * k}\t{k % 3}\t{3 + k % 2}\n" for k in range(9))


def _text(content: str) -> Callable[[Path], bytes]:
    return lambda folder: content.encode()


def _sbml(folder: Path) -> bytes:
    network = ergode.ReactionNetwork(
        {"A": 10, "B": 0},
        [
            ergode.Reaction("2 A -> B", stochastic_rate_constant="k"),
            ergode.Reaction("B -> 0", rate="0.1 * B / (1 + B)"),
        ],
        {"k": 0.01},
        events=[ergode.Event("time > 2", {"A": "A + 5"}, delay=1.0)],
    )
    path = folder / "written.xml"
    ergode.write_sbml(network, path, overwrite=True)
    return path.read_bytes()


def _matrix(folder: Path) -> bytes:
    import scipy.sparse

    path = folder / "written.npz"
    scipy.sparse.save_npz(path, scipy.sparse.eye_array(6, k=1).tocsr())
    return path.read_bytes()


def _parquet(folder: Path) -> bytes:
    import pandas

    path = folder / "written.parquet"
    pandas.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]}).to_parquet(path)
    return path.read_bytes()


def _result(folder: Path) -> bytes:
    import xarray

    path = folder / "written.nc"
    content = {
        "count": (("replicate", "time"), np.arange(6).reshape(2, 3)),
        "name": ("time", ["a"] * 3),
    }
    ergode.save(xarray.Dataset(content, attrs={"seed": 1}), path, overwrite=True)
    return path.read_bytes()


def _fern(path: Path) -> Any:
    rates = path.with_name("rates.data")
    rates.write_text(_FERN_RATES)
    return ergode.read_fern(path, rates)


def _fern_rates(path: Path) -> Any:
    species = path.with_name("species.inp")
    species.write_text(_FERN)
    return ergode.read_fern(species, path)


def _equations(path: Path) -> Any:
    try:
        equations = json.loads(path.read_text(errors="replace"))
    except ValueError:
        return None
    if isinstance(equations, dict) and all(isinstance(v, str) for v in equations.values()):
        return field_from_equations(equations)
    return None


def _formula(path: Path) -> Any:
    found = Expression(path.read_text(errors="replace"))
    return found.evaluate(dict.fromkeys(found.names, 2.0))


# Of each reader: the name of the file, what a good one has, and how it is read.
READERS: dict[str, tuple[str, Callable[[Path], bytes], Callable[[Path], Any]]] = {
    "cantera": ("x.yaml", _text(json.dumps(_CANTERA, indent=1)), ergode.read_cantera),
    "cantera-blocks": ("x.yaml", _text(_YAML), ergode.read_cantera),
    "bionetgen": ("x.net", _text(_BIONETGEN), ergode.read_bionetgen),
    "antimony": ("x.ant", _text(_ANTIMONY), ergode.read_antimony),
    "sbml": ("x.xml", _sbml, ergode.read_sbml),
    "kpp": ("x.kpp", _text(_KPP), ergode.read_kpp),
    "weak": ("x.dat", _text(_WEAK), ergode.read_weak_rates),
    "gbees": ("x.txt", _text(_PDF), ergode.read_gbees),
    "gbees-estimate": ("x.txt", _text(_ESTIMATE), ergode.read_gbees_estimate),
    "fern": ("x.inp", _text(_FERN), _fern),
    "fern-rates": ("x.data", _text(_FERN_RATES), _fern_rates),
    "reaclib": (
        "x", _text(_REACLIB), lambda path: ergode.read_reaclib(["n", "p"], library=path),
    ),
    "edges": ("x.csv", _text(_EDGES), ergode.read_contacts),
    "edges-gz": (
        "x.csv.gz", lambda folder: gzip.compress(_EDGES.encode(), mtime=0), ergode.read_contacts,
    ),
    "meetings": ("x.tsv", _text(_MEETINGS), ergode.read_meetings),
    "matrix": ("x.npz", _matrix, ergode.read_contacts),
    "parquet": ("x.parquet", _parquet, ergode.read_contacts),
    "run-file": ("x.toml", _text(_RUN_FILE), read_run_file),
    "run-file-epidemic": ("x.toml", _text(_EPIDEMIC), read_run_file),
    "result": ("x.nc", _result, ergode.open_dataset),
    "equations": ("x.json", _text(_EQUATIONS), _equations),
    "formula": ("x.txt", _text("v * A^2 / (K + A^2) + piecewise(1, A > 2, 3 / B)"), _formula),
}  # fmt: skip

_HUGE = (
    b"1e999", b"-1e999", b"nan", b"-inf", b"9**9**9", b"9" * 400, b"9" * 5000, b"-1", b"0",
    b"1e-320", b"99999999999", b"4294967296", b"0x10", b"1_000", b"true", b"1/0", b"''", b"1.5",
)  # fmt: skip
_PIECES = (
    *(bytes([one]) for one in b"\\\x00\r{}[]()'\"#;,<>&%$*-:=^!"), b"\xff\xfe", "é".encode(),
    "β".encode(), b"\n\n", b"(" * 300, b"[" * 3000, b"x" * 5000, b"+x" * 2000, b"-" * 3000,
    b"<a>" * 2000, b"\xef\xbb\xbf",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][+-]?\d+)?")


def damage(content: bytes, seed: int) -> bytes:
    """A copy of a file with one to four things wrong."""
    draw = random.Random(seed)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        where = draw.randrange(len(content) + 1)
        kind = draw.randrange(9)
        if kind == 0 and content:
            place = min(where, len(content) - 1)
            content = content[:place] + bytes([draw.randrange(256)]) + content[place + 1 :]
        elif kind == 1:
            content = content[:where]
        elif kind == 2:
            content = content[:where] + draw.choice(_PIECES) + content[where:]
        elif kind in (3, 4):
            numbers = list(_NUMBER.finditer(content))
            if numbers:
                one = draw.choice(numbers)
                content = content[: one.start()] + draw.choice(_HUGE) + content[one.end() :]
        elif kind == 5:
            content = content[:where] + content[where + draw.randrange(1, 30) :]
        elif kind == 6:
            lines = content.split(b"\n")
            draw.shuffle(lines) if draw.random() < 0.2 else lines.pop(draw.randrange(len(lines)))
            content = b"\n".join(lines)
        elif kind == 7:
            lines = content.split(b"\n")
            one = draw.randrange(len(lines))
            content = b"\n".join([*lines[:one], lines[one], *lines[one:]])
        else:
            words = list(re.finditer(rb"\w+", content))
            if words:
                one, other = draw.choice(words), draw.choice(words)
                content = content[: one.start()] + other[0] + content[one.end() :]
    return content


def main(name: str, folder: Path, first: int, count: int) -> None:
    file, make, read = READERS[name]
    good = make(folder)
    path = folder / file
    path.write_bytes(good)
    read(path)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    for seed in range(first, first + count):
        used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (used + SECONDS + 1, resource.RLIM_INFINITY))
        path.write_bytes(damage(good, seed))
        print(seed, end=" ", flush=True)
        try:
            read(path)
        except ergode.ErgodeError as error:
            if "\n" in str(error) or len(str(error)) > 2000:
                print(f"\n{seed}: {name}: a message of {len(str(error))}: {str(error)[:200]!r}")
        except BaseException as error:
            print(f"\n{seed}: {name}: {type(error).__name__}: {str(error)[:300]}")
        sys.stdout.flush()
    print(f"\n{name}: done")


if __name__ == "__main__":
    for one in READERS if sys.argv[1] == "all" else [sys.argv[1]]:
        main(one, Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
