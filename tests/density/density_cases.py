"""Fields and settings that the tests share, so that their kernels are compiled once."""

import numpy as np

import ergode


def linear(t, y, p):
    """y' = A y + b in the plane."""
    return p[0] * y[0] + p[1] * y[1] + p[4], p[2] * y[0] + p[3] * y[1] + p[5]


def third(y, t, p):
    return (y[2],)


def first(y, t, p):
    return (y[0],)


LINEAR = ergode.VectorField(linear, ["x", "y"], ["a", "b", "c", "d", "e", "f"])
LORENZ = ergode.fields.lorenz63(centred=True)
LORENZ_PARAMETERS = {"sigma": 4, "b": 1, "r": 48}
LORENZ_PRIOR = ergode.Gaussian([-11.5, -10, 9.5], [1, 1, 1])
ROTATION = dict(zip("abcdef", (0, -2 * np.pi, 2 * np.pi, 0, 0, 0), strict=True))


def lorenz(scheme, times=(0, 1, 2), value=-8.0, **options):
    """The published run of Lorenz '63, or a part of it."""
    settings = {
        "width": 0.5, "threshold": 5e-6, "device": "cpu:1", "parameters": LORENZ_PARAMETERS,
    } | options  # fmt: skip
    measurements = [ergode.Measurement(1.0, third, value, 1.0)] if times[-1] >= 1 else []
    return ergode.density.propagate(
        LORENZ, LORENZ_PRIOR, times=times, measurements=measurements,
        scheme=scheme, **settings,
    )  # fmt: skip


def on_plane(A, b, prior, times, **options):
    """A linear field of the plane."""
    settings = {"device": "cpu:1", "threshold": 1e-9} | options
    values = dict(zip("abcdef", (*np.ravel(A), *b), strict=True))
    return ergode.density.propagate(LINEAR, prior, times=times, parameters=values, **settings)
