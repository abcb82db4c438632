"""The page of the tour: a section for each engine, with numbers that theory knows."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ergode.report.frame import Picture, framed

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Comparison:
    """A computed number and its theoretical value.

    Attributes
    ----------
    name : str
    computed : float
    error : float
        Twice the standard error of a mean; zero for a number that is not random.
    expected : float
    unit : str
        Unit after the numbers; with ``"%"`` the numbers are fractions.
    """

    name: str
    computed: float
    error: float
    expected: float
    unit: str = ""

    @classmethod
    def of_mean(cls, name: str, values: np.ndarray, expected: float, unit: str = "") -> Comparison:
        """Compare the mean of random values with its expectation."""
        error = 2 * values.std(ddof=1) / np.sqrt(values.size)
        return cls(name, float(values.mean()), float(error), float(expected), unit)

    def texts(self) -> tuple[str, str, str]:
        """Computed value, expected value and difference, formatted."""
        scale = 100.0 if self.unit == "%" else 1.0
        difference = scale * (self.computed - self.expected)
        # Show two digits of the error; without an error, two digits of the difference.
        last = scale * self.error or difference or 1e-6 * scale * self.expected or 1.0
        decimals = min(max(0, 1 - math.floor(math.log10(abs(last)))), 12)
        unit = f"\N{NO-BREAK SPACE}{self.unit}" if self.unit else ""
        error = f" ± {scale * self.error:.{decimals}f}" if self.error else ""
        return (
            f"{scale * self.computed:,.{decimals}f}{error}{unit}",
            f"{scale * self.expected:,.{decimals}f}{unit}",
            f"{difference:+.{decimals}f}",
        )


@dataclass(frozen=True)
class Stop:
    """One section of the page: the demonstration of one engine.

    Attributes
    ----------
    engine, title : str
    about : sequence of str
        Paragraphs of text.
    code : str
        Python code of the demonstration.
    picture : Picture
    heading : str
        Heading of the comparisons.
    columns : tuple of str
        Column names for the two numbers of a comparison.
    comparisons : sequence of Comparison
    remark : str
        Text below the comparisons.
    ready_seconds, run_seconds : float
        Time until the engine was compiled and warm [s], and time of the run [s].
    work : str
        Short description of the run.
    dataset : xarray.Dataset
        The result, written to the page's folder.
    """

    engine: str
    title: str
    about: Sequence[str]
    code: str
    picture: Picture
    heading: str
    comparisons: Sequence[Comparison]
    remark: str
    ready_seconds: float
    run_seconds: float
    work: str
    dataset: xarray.Dataset
    columns: tuple[str, str] = ("simulated", "theory")

    @property
    def dataset_name(self) -> str:
        """Name of the file with the result."""
        return dataset_name(self.engine)


def dataset_name(engine: str) -> str:
    """Name of the file with the result of an engine."""
    return f"tour_{engine}.nc"


def page(stops: Sequence[Stop], facts: Mapping[str, str]) -> str:
    """The page, as HTML.

    Parameters
    ----------
    stops : sequence of Stop
        In the order of the page.
    facts : mapping of str to str
        Versions and device, shown at the end.
    """
    timings = "\n".join(map(_timing, stops))
    sections = "\n".join(map(_stop, stops))
    return framed(
        "A tour of ergode",
        "Every engine on one small problem, computed on this machine and compared with theory.",
        f"""\
<table>
<thead><tr><th scope="col">engine</th><th scope="col">problem</th>
<th scope="col" class="number">run</th>
<th scope="col" class="number">compile or load</th></tr></thead>
<tbody>
{timings}
</tbody>
</table>
<p class="remark">Kernels are compiled once on a machine and stored on disk. The next tour only
loads them.</p>
{sections}""",
        facts,
    )


def _timing(stop: Stop) -> str:
    name = html.escape(stop.engine)
    return (
        f'<tr><th scope="row"><a href="#{name}">{name}</a></th>'
        f"<td>{html.escape(stop.work)}</td>"
        f"{_number('run', f'{stop.run_seconds:.2f} s')}"
        f"{_number('compile or load', f'{stop.ready_seconds:.1f} s')}</tr>"
    )


def _stop(stop: Stop) -> str:
    about = "\n".join(f"<p>{html.escape(text)}</p>" for text in stop.about)
    names = (*stop.columns, "difference")
    rows = "\n".join(_comparison(row, names) for row in stop.comparisons)
    columns = "".join(f'<th scope="col" class="number">{html.escape(name)}</th>' for name in names)
    return f"""\
<section id="{html.escape(stop.engine)}">
<h2><span class="engine">{html.escape(stop.engine)}</span> {html.escape(stop.title)}</h2>
{about}
{stop.picture.element()}
<table>
<thead><tr><th scope="col">{html.escape(stop.heading)}</th>{columns}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
<p class="remark">{html.escape(stop.remark)}</p>
<details><summary>The same in Python</summary><pre><code>{html.escape(stop.code)}</code></pre>
</details>
<p class="remark">The whole result is in <code>{html.escape(stop.dataset_name)}</code>, beside this
page.</p>
</section>"""


def _comparison(row: Comparison, columns: Sequence[str]) -> str:
    cells = "".join(map(_number, columns, row.texts()))
    return f'<tr><th scope="row">{html.escape(row.name)}</th>{cells}</tr>'


def _number(column: str, text: str) -> str:
    """A cell that knows the name of its column: on a phone the head of the table is not shown."""
    return f'<td class="number" data-column="{html.escape(column)}">{html.escape(text)}</td>'
