"""What a call returns: labelled arrays, their registry, and what is made of several."""

from ergode.core.results.labelled import (
    PLACES,
    STRATA,
    SWEPT,
    Variable,
    check_dataset_path,
    check_new_dataset,
    dataset,
    names,
    open_dataset,
    provenance,
    register,
    registered,
    save,
)

__all__ = [
    "PLACES", "STRATA", "SWEPT", "Variable", "check_dataset_path", "check_new_dataset", "dataset",
    "names", "open_dataset", "provenance", "register", "registered", "save",
]  # fmt: skip
