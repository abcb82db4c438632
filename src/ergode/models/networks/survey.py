"""Contact matrices of surveys: their age groups, and whether the two statements of a pair agree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ergode.core.arguments import as_numbers
from ergode.core.errors import ModelError
from ergode.models.networks.mixing import group_edges, labels_of

if TYPE_CHECKING:
    import xarray

_NUMBER = re.compile(r"\d+(\.\d+)?")


def contact_survey(contacts: Any, people: Any, age_groups: Any = None) -> xarray.Dataset:
    """The contact matrix of a survey beside the nearest reciprocal one.

    People of group i report c[i, j] contacts with group j. In a population of N[i] people, the
    contacts between two groups are N[i] c[i, j] by the statements of one group, and N[j] c[j, i] by
    those of the other. In a survey these differ. The reciprocal matrix has their mean.

    Parameters
    ----------
    contacts : DataFrame, DataArray or array_like of float, shape [group_count, group_count]
        Mean contacts of a person of the group of a row with people of the group of a column: of
        `ergode.read_contact_matrix`, pandas or xarray.
    people : array_like of float, shape [group_count], or mapping of str to float
        People of each group, or their shares; a mapping has the labels of the groups.
    age_groups : array_like of float, shape [group_count], optional
        Lowest age of each group [years]. The default is the first number of each label, such as 5
        in ``"5-17"`` and ``"[5,18)"``.

    Returns
    -------
    xarray.Dataset, dims (group, contact_group)
        ``asked``; ``reciprocal``; ``imbalance``, the statement of `group` divided by that of
        `contact_group`, which is 1 where they agree, and NaN where both are zero; ``people``; and
        ``age``, the lowest age of each group. The attribute ``largest_imbalance`` is the largest
        ratio of two statements, 1 or more.

    Raises
    ------
    ModelError
        The matrix is not square, has negative numbers or other labels of rows than of columns, or
        people are missing for a group.

    Examples
    --------
    Children report four contacts with adults, twice as many as adults report with them:

    >>> import ergode
    >>> survey = ergode.contact_survey([[6, 4], [1, 8]], people=[2000, 4000], age_groups=[0, 18])
    >>> survey["imbalance"].values.tolist()
    [[1.0, 2.0], [0.5, 1.0]]
    >>> survey["reciprocal"].values.tolist()
    [[6.0, 3.0], [1.5, 8.0]]
    """
    import xarray

    matrix, lows = labelled(contacts, "contacts")
    edges = group_edges(_lows(lows) if age_groups is None else age_groups, "age_groups")
    if edges.size != len(matrix):
        raise ModelError(f"contacts has {len(matrix)} rows for {edges.size} age groups")
    labels = labels_of(edges)
    number = _people(people, lows, labels)
    total = number[:, None] * matrix
    with np.errstate(divide="ignore", invalid="ignore"):
        imbalance = total / total.T
        reciprocal = (total + total.T) / 2 / number[:, None]
    ratios = imbalance[~np.isnan(imbalance)]
    dims = ("group", "contact_group")
    return xarray.Dataset(
        {
            "asked": (dims, matrix), "reciprocal": (dims, reciprocal),
            "imbalance": (dims, imbalance), "people": ("group", number), "age": ("group", edges),
        },
        coords={"group": labels, "contact_group": labels},
        attrs={"largest_imbalance": float(ratios.max(initial=1.0))},
    )  # fmt: skip


def labelled(contacts: Any, name: str) -> tuple[np.ndarray, list[str] | None]:
    """A square matrix, and the labels of its rows; None if it has none.

    Raises a ModelError if it is not square, has negative numbers, or labels of rows and columns
    differ.
    """
    rows: list[Any] | None = None
    columns: list[Any] | None = None
    values = contacts
    if hasattr(contacts, "dims") and hasattr(contacts, "coords"):
        values = contacts.values
        if len(contacts.dims) == 2 and all(dim in contacts.coords for dim in contacts.dims):
            rows, columns = (contacts.coords[dim].values.tolist() for dim in contacts.dims)
    elif hasattr(contacts, "columns") and hasattr(contacts, "index"):
        values = contacts.to_numpy()
        rows, columns = list(contacts.index), list(contacts.columns)
    matrix = as_numbers(values)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        shape = "" if matrix is None else f", shape {matrix.shape}"
        raise ModelError(f"{name}: expected a square matrix of numbers{shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ModelError(f"{name} has numbers that are negative or not finite; expected 0 or more")
    if rows is None or all(isinstance(one, int) for one in rows):
        return matrix, None
    found = [str(one) for one in rows]
    if columns is not None and [_low(str(one)) for one in columns] != [_low(one) for one in found]:
        raise ModelError(f"{name} has the rows {found}, but the columns {list(map(str, columns))}")
    return matrix, found


def lowest_ages(contacts: Any) -> list[float] | None:
    """The lowest age of each group of a matrix with labels; None if it has none."""
    if not hasattr(contacts, "coords") and not hasattr(contacts, "columns"):
        return None
    _, labels = labelled(contacts, "mixing")
    return None if labels is None else _lows(labels)


def _lows(labels: list[str] | None) -> list[float]:
    if labels is None:
        raise ModelError("contacts has no labels of age groups; give age_groups")
    found = [_low(one) for one in labels]
    if None in found:
        raise ModelError(f"age groups are {labels}; expected labels with ages, or age_groups")
    return found  # type: ignore[return-value]


def _low(label: str) -> float | None:
    number = _NUMBER.search(label)
    return None if number is None else float(number[0])


def _people(given: Any, rows: list[str] | None, labels: list[str]) -> np.ndarray:
    if isinstance(given, Mapping):
        names = rows if rows is not None and set(rows) <= set(given) else labels
        missing = [name for name in names if name not in given]
        if missing:
            raise ModelError(f"people has no number for {missing[0]!r}; it has {list(given)}")
        given = [given[name] for name in names]
    found = as_numbers(given)
    if found is None or found.shape != (len(labels),):
        raise ModelError(f"people is {given!r:.60}; expected a number for each of {labels}")
    if not np.isfinite(found).all() or (found <= 0).any():
        raise ModelError("people has numbers that are not positive and finite")
    return np.asarray(found, float)
