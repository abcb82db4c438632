"""A page: one self-contained HTML file, in light and dark, for wide and narrow screens."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def framed(title: str, lead: str, body: str, facts: Mapping[str, str]) -> str:
    """The page, as HTML.

    Parameters
    ----------
    title, lead : str
        Heading, and the sentence below it.
    body : str
        HTML.
    facts : mapping of str to str
        Versions and device, shown at the end.
    """
    template = Template(files("ergode.report").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(title), lead=html.escape(lead), body=body, facts=rows_of(facts)
    )


def rows_of(facts: Mapping[str, str]) -> str:
    """Names and values, for a list of definitions."""
    return "\n".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>"
        for name, value in facts.items()
    )


@dataclass(frozen=True)
class Picture:
    """A figure, drawn four times: for light and dark pages on wide and narrow screens.

    Attributes
    ----------
    drawings : dict of str to str
        SVG by the media for which it is meant; the last one is for all others.
    caption : str
    """

    drawings: dict[str, str]
    caption: str

    @classmethod
    def of(cls, draw: Callable[[Axes], Any], caption: str) -> Picture:
        """The picture that `draw` draws on axes."""
        drawings = {
            " and ".join(filter(None, (narrow, dark))) or "all": _svg(draw, ink, size)
            for narrow, size in (("(max-width: 40rem)", (4.1, 3.6)), ("", (8.2, 4.4)))
            for dark, ink in (("(prefers-color-scheme: dark)", "#e4e8ee"), ("", "#1d2430"))
        }
        return cls(drawings, caption)

    def element(self) -> str:
        """The picture in HTML."""
        caption = html.escape(self.caption)
        *others, (_, plain) = self.drawings.items()
        sources = "\n".join(
            f'<source media="{media}" srcset="{_data(svg)}">' for media, svg in others
        )
        return f"""\
<figure>
<picture>
{sources}
<img src="{_data(plain)}" alt="{caption}">
</picture>
<figcaption>{caption}</figcaption>
</figure>"""


def _data(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _svg(draw: Callable[[Axes], Any], ink: str, size: tuple[float, float]) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    inks = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: dict[Any, Any] = dict.fromkeys(inks, ink) | {"axes.facecolor": "none", "grid.color": ink}
    with matplotlib.rc_context({**style, "font.size": 10.5}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return file.getvalue()
