"""The tour: every engine on one small problem that theory can check.

Each engine has a module here with a function ``visit() -> Stop``; `STOPS` lists them in order.
"""

STOPS = (
    "ergode.tour.epidemics",
    "ergode.tour.stochastic",
    "ergode.tour.trajectories",
    "ergode.tour.density",
)
