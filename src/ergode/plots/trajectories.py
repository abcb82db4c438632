"""Trajectories over time, or in phase space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ergode.core.arguments import names_in
from ergode.core.errors import PlanError
from ergode.core.status import has_failed
from ergode.plots.frame import (
    COLOURS,
    DPI,
    SIZE,
    curve_style,
    draw_band,
    label_time,
    new_axes,
    quiet,
    time_label,
    with_dims,
)

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_CURVES = 200


def trajectories(
    dataset: xarray.Dataset,
    *,
    variables: Sequence[str] | None = None,
    phase: tuple[str, str] | None = None,
    bands: bool = False,
    time_unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw trajectories over time, or one variable against another.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.trajectories.integrate`. At most 200 trajectories of a sweep are drawn, evenly
        spaced; failed ones are omitted. A few trajectories of one variable have different colours.
    variables : sequence of str, optional
        Variables to draw over time; all if not given.
    phase : (str, str), optional
        Instead of time series, draw the second variable against the first.
    bands : bool
        Instead of every trajectory, draw their median, and bands of the middle 50 % and 95 %: as of
        draws from a posterior.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Its figure is ``ax.figure``, as in ``ax.figure.savefig("trajectories.png")``.

    Raises
    ------
    PlanError
        The dataset has no states, no such variable, or only failed trajectories; or is a fit, which
        `ergode.plots.fitted` draws.

    Examples
    --------
    >>> import ergode
    >>> def decay(t, y, p):
    ...     return (-p[0] * y[0],)
    >>> result = ergode.trajectories.integrate(
    ...     ergode.VectorField(decay, ["y"], ["rate"]), times=[0, 1, 2], initial={"y": 1},
    ...     parameters={"rate": [0.5, 1.0]}, step=0.1, device="cpu",
    ... )
    >>> from ergode.plots import trajectories
    >>> len(trajectories(result).lines)
    2
    """
    if "state" not in dataset:
        raise PlanError("the dataset has no variable 'state'; expected one from trajectories")
    if "status" not in dataset:
        raise PlanError(
            "the dataset has no variable 'status'; expected one from trajectories.integrate (a fit "
            "is drawn by plots.fitted)"
        )
    dataset = with_dims(dataset, "time", "variable")
    known = [str(name) for name in dataset["variable"].values]
    if bands and phase is not None:
        raise PlanError("bands has no effect on a phase portrait")
    chosen = names_in("variable", list(phase or variables or known), known)
    well = ~has_failed(dataset["status"].values.ravel())
    states = dataset["state"].values.reshape(-1, dataset.sizes["time"], len(known))[well]
    if not len(states):
        raise PlanError("no trajectory of the dataset ended well")
    few = len(chosen) == 1 < len(states) <= len(COLOURS) and not bands
    labels = np.array(_labels(dataset))[well] if few else None
    whole = states
    states = states[np.unique(np.linspace(0, len(states) - 1, _MOST_CURVES).astype(int))]
    time = np.asarray(dataset["time"], float)

    ax = quiet(new_axes() if ax is None else ax)
    fade = max(0.15, len(states) ** -0.5)
    if phase is not None:
        x, y = (known.index(name) for name in phase)
        for state in states:
            ax.plot(state[:, x], state[:, y], linewidth=0.8, alpha=fade, color=COLOURS[0])
        ax.set_xlabel(phase[0])
        ax.set_ylabel(phase[1])
        return ax
    if bands:
        levels = np.quantile(whole, (0.025, 0.25, 0.5, 0.75, 0.975), axis=0)
        for number, name in enumerate(chosen):
            low, lower, middle, upper, high = levels[:, :, known.index(name)]
            draw_band(ax, time, middle, (low, high), number, name)
            draw_band(ax, time, middle, (lower, upper), number, "_")
    elif labels is not None:
        for state, label, color in zip(states, labels, COLOURS, strict=False):
            ax.plot(time, state[:, known.index(chosen[0])], linewidth=1.2, color=color, label=label)
    else:
        for number, name in enumerate(chosen):
            for index, state in enumerate(states):
                ax.plot(
                    time, state[:, known.index(name)], linewidth=1.2, alpha=fade,
                    label=name if index == 0 else None, **curve_style(number),
                )  # fmt: skip
    label_time(ax, time_label(dataset, time_unit))
    if len(chosen) > 1 or labels is not None:
        for handle in ax.legend(frameon=False).get_lines():
            handle.set_alpha(1.0)
    if len(chosen) == 1:
        ax.set_ylabel(chosen[0])
    return ax


def fitted(
    dataset: xarray.Dataset,
    *,
    variables: Sequence[str] | None = None,
    time_unit: str | None = None,
    figure: Figure | None = None,
) -> Figure:
    """Draw a fit: measured values, fitted curves, and the residuals below them.

    Each variable that was measured has a column, and each trajectory a colour. Residuals are in
    standard deviations; where none were given, in the unit of the data. Curves join the times of
    the fit. For smooth ones give `fit` more times, with NaN in the data where nothing was measured.

    Parameters
    ----------
    dataset : xarray.Dataset
        From `ergode.trajectories.fit`.
    variables : sequence of str, optional
        Variables to draw; all measured ones if not given.
    time_unit : str, optional
        Unit of the axis of time; that of the model if not given.
    figure : matplotlib.figure.Figure, optional
        Figure to draw on; a new one if not given.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    PlanError
        The dataset is not from a fit, or has no such variable.

    Examples
    --------
    >>> import ergode
    >>> found = ergode.trajectories.fit(
    ...     ergode.field_from_equations({"x": "-rate * x"}), times=[0, 1, 2], initial={"x": 1.0},
    ...     data={"x": [1.0, 0.6, 0.4]}, parameters={"rate": 0.5}, estimate=["rate"], device="cpu",
    ... )
    >>> len(ergode.plots.fitted(found).axes)
    2
    """
    from matplotlib import pyplot

    if not {"residual", "measured"} <= set(dataset):
        raise PlanError("the dataset has no residuals; expected one from trajectories.fit")
    dataset = with_dims(dataset, "time", "variable")
    known = [str(name) for name in dataset["variable"].values]
    seen = [name for name in known if dataset["measured"].sel(variable=name).notnull().any()]
    chosen = names_in("variable", list(variables or seen), seen)
    time = np.asarray(dataset["time"], float)
    if figure is None:
        width = SIZE[0] if len(chosen) < 3 else 0.4 * SIZE[0] * len(chosen)
        figure = pyplot.figure(figsize=(width, SIZE[1]), dpi=DPI, layout="constrained")
    axes = figure.subplots(
        2, len(chosen), sharex=True, squeeze=False, gridspec_kw={"height_ratios": [2.2, 1]}
    )
    label = time_label(dataset, time_unit)
    for (above, below), name in zip(axes.T, chosen, strict=True):
        values = {
            what: one.sel(variable=name).transpose(..., "time").values.reshape(-1, len(time))
            for what, one in dataset[["state", "measured", "residual"]].items()
        }
        for number in range(len(values["state"])):
            color = COLOURS[number % len(COLOURS)]
            above.plot(time, values["state"][number], linewidth=1.2, color=color)
            above.plot(time, values["measured"][number], "o", markersize=3.5, color=color)
            below.plot(time, values["residual"][number], "o", markersize=3.5, color=color)
        below.axhline(0.0, color="black", linewidth=0.8, alpha=0.5)
        most = 1.15 * np.nanmax(np.abs(values["residual"])) or 1.0
        below.set_ylim(-most, most)
        above.set_ylabel(name)
        label_time(below, label)
        for ax in (above, below):
            quiet(ax)
    axes[1, 0].set_ylabel("residual")
    return figure


def _labels(dataset: xarray.Dataset) -> list[str]:
    """Labels of trajectories: the parameter values that differ between them."""
    status = dataset["status"]
    swept = {str(name): value for name, value in status.coords.items() if value.ndim}
    told = {name: value for name, value in swept.items() if name != "trajectory"} or swept
    values = {
        name: value.broadcast_like(status).values.ravel()
        for name, value in told.items()
        if np.ptp(value.values) > 0
    }
    return [
        ", ".join(f"{name} {value[i]:.3g}" for name, value in values.items())
        for i in range(status.size)
    ]
