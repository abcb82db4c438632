"""Pages of the tour and of results: self-contained HTML files."""

from ergode.report.frame import Picture
from ergode.report.result import report
from ergode.report.stops import Comparison, Stop, dataset_name, page

__all__ = ["Comparison", "Picture", "Stop", "dataset_name", "page", "report"]
