"""Translucent surfaces on three-dimensional axes, with every pixel in the order of depth.

Matplotlib sorts whole triangles by their middle, and draws their common edges twice. Here triangles
are divided into pixels, and each pixel adds up what is behind it, from near to far. A surface is
more opaque where it is seen along itself, as a thin shell of glass is, so that its outline shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist

_FINEST = 320.0  # pixels per inch, at least
_CHUNK = 1 << 22  # pixels tried at once
_GRAZING = 0.12  # least cosine between a surface and the line of sight
_AMBIENT, _DIFFUSE, _GLOSS = 0.55, 0.45, 0.25
_SHARPNESS = 24  # of the highlight
_LAMP = np.array([-0.45, 0.65, 0.61])  # direction to it: right, up, towards the viewer

BOX = np.array([4.0, 4.0, 3.0])
"""Sides of the box of three-dimensional axes."""


@dataclass(frozen=True)
class Shell:
    """One surface: triangles, a colour and its opacity seen from the front."""

    vertices: np.ndarray  # [vertex, 3]
    faces: np.ndarray  # [face, 3]
    color: tuple[float, float, float]
    opacity: float


class Shells(Artist):
    """Surfaces of one or several densities, drawn together.

    Attributes
    ----------
    shells : list of Shell
    """

    def __init__(self, shells: list[Shell], **options: Any) -> None:
        super().__init__()
        self.shells = shells
        self.set_in_layout(False)
        self.set(**options)

    def draw(self, renderer: Any) -> None:
        """Draw the surfaces as an image, as the axes are turned now."""
        if not self.get_visible() or self.axes is None:
            return
        magnified = renderer.get_image_magnification()
        fine = magnified * max(1, int(np.ceil(_FINEST / (self.figure.dpi * magnified))))
        times = round(fine / magnified)
        pieces = [self._seen(shell, fine) for shell in self.shells]
        corners = np.concatenate([one[0] for one in pieces])
        colours = np.concatenate([one[1] for one in pieces])
        box = self.axes.bbox
        low = np.floor(np.array([box.x0, box.y0]) * magnified).astype(int)
        high = np.ceil(np.array([box.x1, box.y1]) * magnified).astype(int)
        size = (high - low) * times
        corners[..., :2] -= low * times
        picture = _composed(corners, colours, int(size[0]), int(size[1]))
        picture = picture.reshape(high[1] - low[1], times, high[0] - low[0], times, 4)
        picture = picture.mean(axis=(1, 3))  # of premultiplied colours
        opacity = picture[..., 3:]
        picture[..., :3] /= np.where(opacity > 0, opacity, 1.0)
        bytes_ = np.rint(255 * np.clip(picture, 0, 1)).astype(np.uint8)
        context = renderer.new_gc()
        context.set_clip_rectangle(box)
        renderer.draw_image(context, low[0] / magnified, low[1] / magnified, bytes_)
        context.restore()

    def _seen(self, shell: Shell, fine: float) -> tuple[np.ndarray, np.ndarray]:
        """Corners of triangles [face, corner, 3] in pixels, and their colours and opacities."""
        from mpl_toolkits.mplot3d import proj3d

        axes: Any = self.axes
        x, y, depth = proj3d.proj_transform(*shell.vertices.T, axes.get_proj())
        flat = axes.transData.transform(np.column_stack([x, y])) * fine
        places = np.column_stack([flat, np.asarray(depth)])
        spans = np.array([np.ptp(getattr(axes, f"get_{key}lim")()) for key in "xyz"])
        up, around = np.radians([axes.elev, axes.azim])
        eye = np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
        right = np.array([-np.sin(around), np.cos(around), 0.0])
        view = np.stack([right, np.cross(eye, right), eye], axis=1)
        normal = _normals(shell.vertices / spans * BOX, shell.faces) @ view
        normal *= np.where(normal[:, 2:] < 0, -1.0, 1.0)  # towards the viewer
        facing = np.maximum(normal[:, 2], _GRAZING)
        light = np.maximum(normal @ _LAMP, 0.0)
        half = _LAMP + np.array([0.0, 0.0, 1.0])
        shine = _GLOSS * np.maximum(normal @ half / np.linalg.norm(half), 0.0) ** _SHARPNESS
        colour = np.asarray(shell.color) * (_AMBIENT + _DIFFUSE * light)[:, None]
        colour += shine[:, None] * (1 - colour)
        opacity = 1 - (1 - shell.opacity) ** (1 / facing)
        return places[shell.faces], np.column_stack([colour, opacity])[shell.faces]


def _normals(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Unit normal [vertex, 3] at each vertex of a surface: the mean of those of its triangles."""
    corners = vertices[faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    found = np.stack(
        [np.bincount(faces.ravel(), np.repeat(normal[:, k], 3), len(vertices)) for k in range(3)],
        axis=1,
    )
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-300))


def _composed(corners: np.ndarray, colours: np.ndarray, width: int, height: int) -> np.ndarray:
    """A picture [height, width, 4] of triangles, in premultiplied colours, its first row lowest."""
    pixel, depth, colour = (
        np.concatenate(one)
        for one in zip(*_fragments(corners, colours, width, height), strict=True)
    )
    order = np.lexsort((depth, pixel))  # the nearest first
    pixel, colour = pixel[order], colour[order].astype(float)
    picture = np.zeros((height * width, 4))
    if len(pixel):
        first = np.flatnonzero(np.diff(pixel, prepend=-1))
        thinned = np.log1p(-np.minimum(colour[:, 3], 0.999))
        before = np.cumsum(thinned) - thinned
        before -= np.repeat(before[first], np.diff(first, append=len(pixel)))
        seen = colour[:, 3] * np.exp(before)
        colour[:, 3] = 1.0
        picture[pixel[first]] = np.add.reduceat(colour * seen[:, None], first)
    return picture.reshape(height, width, 4)


def _fragments(corners: np.ndarray, colours: np.ndarray, width: int, height: int) -> Any:
    """Pixels of triangles: their places in the picture, depths and colours, a few at a time."""
    low = np.ceil(corners[..., :2].min(axis=1) - 0.5)
    size = np.floor(corners[..., :2].max(axis=1) - 0.5) - low + 1
    good = (size > 0).all(axis=1) & (low < (width, height)).all(axis=1) & (low + size > 0).all(1)
    yield np.empty(0, np.int64), np.empty(0), np.empty((0, 4), np.float32)
    classes = np.ceil(np.log2(np.maximum(size, 1))).astype(int)
    for across, along in np.unique(classes[good], axis=0):
        shape = 1 << across, 1 << along
        x, y = (one.ravel() for one in np.meshgrid(np.arange(shape[0]), np.arange(shape[1])))
        own = np.flatnonzero(good & (classes == (across, along)).all(axis=1))
        for part in np.array_split(own, 1 + len(own) * len(x) // _CHUNK):
            at_x = low[part, 0, None] + x
            at_y = low[part, 1, None] + y
            a, b, c = np.moveaxis(corners[part], 1, 0)[..., None]
            area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (
                c[:, 0] - a[:, 0]
            )
            right, above = at_x + 0.5 - a[:, 0], at_y + 0.5 - a[:, 1]
            area[area == 0] = np.nan  # seen along itself
            with np.errstate(invalid="ignore"):
                second = (right * (c[:, 1] - a[:, 1]) - above * (c[:, 0] - a[:, 0])) / area
                third = (above * (b[:, 0] - a[:, 0]) - right * (b[:, 1] - a[:, 1])) / area
                first = 1 - second - third
            inside = (second >= 0) & (third >= 0) & (first >= 0)
            inside &= (at_x >= 0) & (at_x < width) & (at_y >= 0) & (at_y < height)
            face, _ = np.nonzero(inside)
            share = np.stack([first[inside], second[inside], third[inside]], axis=1)
            yield (
                (at_y[inside] * width + at_x[inside]).astype(np.int64),
                np.einsum("fk,fk->f", share, corners[part[face], :, 2]),
                np.einsum("fk,fkc->fc", share, colours[part[face]]).astype(np.float32),
            )
