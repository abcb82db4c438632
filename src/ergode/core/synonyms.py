"""What other packages and textbooks call the values and arguments of public functions.

A message about an unknown name suggests ours (`core.arguments.did_you_mean`).
"""

from __future__ import annotations

from collections.abc import Collection

_OTHERS = {
    # arguments
    "times": "t tspan teval saveat tout timepoints timegrid",
    "replicates": "n nruns runs nsim simulations realizations repeats numberoftrajectories",
    "initial": "y0 u0 x0 x init initialstate initialvalues initialconditions",
    "parameters": "p params args theta constants",
    "step": "dt h stepsize tau timestep",
    "rtol": "reltol tolerance relativetolerance",
    "atol": "abstol absolutetolerance",
    "method": "solver algorithm alg integrator",
    "scheme": "method solver algorithm",
    "device": "backend platform target gpu",
    "precision": "dtype",
    "seed": "rng randomstate randomseed key",
    "progress": "verbose progressbar showprogress",
    "executor": "workers njobs pool client",
    "max_steps": "maxiters mxstep nsteps",
    "count": "n particles nparticles",
    # arguments of models
    "transmission_rate": "beta infectionrate transmissionprobability",
    "infectious": "gamma recoveryrate recovery recoverytime infectiousperiod",
    "latent": "sigma incubation incubationperiod latentperiod exposed",
    "contacts": "graph network g",
    "interventions": "npis measures policies",
    "rate_constant": "k kf rateconst",
    "rate": "propensity propensityfunction kineticlaw ratelaw",
    "fuel": "initial mixture composition x",
    "equivalence_ratio": "phi",
    "process_noise": "q noise diffusion",
    "mean_degree": "averagedegree degree",
    # methods of differential equations
    "rk4": "rungekutta rungekutta4 rk classical",
    "dopri5": "rk45 ode45 dormandprince dp5 rkdp rkf45 fehlberg cashkarp rk23 ode23 bs3 adaptive",
    "dop853": "rk8 dp8 vern7 vern8 vern9 ode78 ode89",
    "rkc2": "rkc rock2 rock4 chebyshev",
    "bdf": "lsoda cvode vode ode15s fbdf qndf",
    "rodas5p": "stiff implicit rodas rodas5 rosenbrock backwardeuler impliciteuler",
    "radau5": "radau radauiia5 esdirk sdirk kencarp3 kencarp4 kencarp5 trbdf2 kvaerno3 kvaerno5",
    "rodas4": "radau radau5 radauiia5 stiff implicit rodas rodas5 rosenbrock backwardeuler "
    "impliciteuler",
    "rosenbrock23": "ode23s ros2 ros3",
    "rodas5p-krylov": "newtonkrylov gmres jfnk krylov",
    "verlet": "leapfrog velocityverlet stormerverlet symplectic",
    "kahan-li6": "yoshida yoshida6",
    "euler-maruyama": "em sde ito maruyama",
    "implicit-euler-maruyama": "implicitem driftimplicit",
    "milstein": "rkmil rkmilgeneral levyarea",
    "platen2": "pl1wm dri1 weak",
    "sra1": "sra sosra",
    # methods of reaction networks
    "direct": "ssa gillespie exact directmethod sortingdirect firstreaction ssadirect",
    "next-reaction": "nrm gibsonbruck",
    "partial-propensity": "pdm spdm pssa",
    "composition-rejection": "cr ssacr ssacrp",
    "rejection-bounds": "rssa rssacr rejection",
    "tau-leap": "tau tauleaping leap leaping poisson",
    "langevin": "cle sde chemicallangevin diffusionapproximation",
    "hybrid": "tauhybrid pdmp haseltinerawlings",
    # methods of stiff kinetics
    "asymptotic": "asy explicit qss qssa pe",
    # methods of epidemics
    "gillespie": "ssa direct gillespiesir gillespiesis markovian",
    "first-passage": "exact fastsir fastsis fpt firstpassagetime hittingtime",
    "sellke": "eventdriven nextreaction fastnonmarkovsir fastnonmarkovsis nonmarkovian",
    "markov-leap": "tau tauleap tauleaping leap leaping discretesir discretetime",
    # schemes of densities
    "split": "strang splitting dst3",
    "corner-transport": "ctu gbees upwind godunov",
    "flow": "characteristics lagrangian pushforward liouville",
    # outputs, and which times of them are kept
    "trajectories": "paths samplepaths timeseries full",
    "counts": "trajectories timeseries curves",
    "statistics": "moments mean means summary averages stats",
    "line_list": "cases infections transmissions events",
    "final": "last end endpoint",
    "histogram": "distribution pdf hist",
    "events": "log firings reactions jumps",
    "last": "final end latest",
    "all": "everything full",
    # devices and types
    "cuda": "gpu nvidia",
    "cpu": "host threads",
    "auto": "automatic default any",
    "float32": "single float fp32 f32 f4 half float16",
    "float64": "double fp64 f64 f8 longdouble float128",
    # kinds of reactors, and of matter
    "constant-volume": "isochoric cv",
    "constant-pressure": "isobaric cp",
    "isothermal-constant-pressure": "isothermal",
    "weak": "salpeter debyehuckel",
    "chugunov": "strong chugunov2007",
    "helmholtz": "timmes helmeos",
    "ideal": "idealgas perfectgas",
    "degenerate": "fermi fermigas",
}

OTHERS = {ours: frozenset(text.split()) for ours, text in _OTHERS.items()}
"""Other names by ours, in the letters and digits of `plain`."""


def plain(name: object) -> str:
    """The letters and digits of a name, in small letters."""
    return "".join(filter(str.isalnum, str(name).lower()))


def ours_for(name: object, known: Collection[str]) -> str | None:
    """The one of the `known` names that is equal in letters and digits, or called so elsewhere."""
    wanted = plain(name)
    alike = (one for one in known if wanted and plain(one) == wanted)
    called = (ours for ours, others in OTHERS.items() if wanted in others and ours in known)
    return next(alike, None) or next(called, None)
