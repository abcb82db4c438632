"""The tour: every engine on one small problem that theory can check.

Each engine has a module here with a function ``visit() -> Stop``; `STOPS` lists them in order.
"""

STOPS = tuple(
    f"ergode.tour.{engine}"
    for engine in ("epidemics", "stochastic", "kinetics", "trajectories", "density")
)
