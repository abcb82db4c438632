"""The page of the tour: how its numbers read."""

import json
import os
import subprocess
import sys

import pytest

import ergode
from ergode.report import Comparison, Picture, Stop, page


@pytest.mark.parametrize(
    ("comparison", "computed", "expected", "difference"),
    [
        (Comparison("a", 0.5012, 0.0023, 0.5, "%"), "50.12 ± 0.23 %", "50.00 %", "+0.12"),
        (Comparison("a", 12345.6, 210.0, 12000.0), "12,346 ± 210", "12,000", "+346"),
        (Comparison("a", 1.00000123, 0.0, 1.0), "1.0000012", "1.0000000", "+0.0000012"),
        (Comparison("a", 2.0, 0.0, 2.0, "s"), "2.0000000 s", "2.0000000 s", "+0.0000000"),
        (Comparison("a", 0.0, 0.0, 0.0), "0.0", "0.0", "+0.0"),
    ],
)
def test_figures_follow_the_error(comparison, computed, expected, difference):
    texts = [text.replace("\N{NO-BREAK SPACE}", " ") for text in comparison.texts()]
    assert texts == [computed, expected, difference]


# Run by a browser (Qt's Chromium) in a process of its own: prints what it finds as JSON.
BROWSER = r"""
import json, sys
from PySide6.QtCore import QEventLoop, QTimer, QUrl
from PySide6.QtWebEngineCore import QWebEnginePage
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication

QUESTIONS = '''
(() => {
  const channels = s => [...s.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => c.slice(0, 3).map(v => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c[3] == 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const faint = [...document.querySelectorAll("body *")]
    .filter(e => [...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim()))
    .filter(e => { const [a, b] = [channels(getComputedStyle(e).color), behind(e)].map(light);
      return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5; });
  return JSON.stringify({
    dark: matchMedia("(prefers-color-scheme: dark)").matches, width: innerWidth,
    needed: document.documentElement.scrollWidth, faint: faint.map(e => e.textContent),
    pictures: [...document.images].map(i => i.naturalWidth > 0 && i.alt != ""),
    shown: [...document.images].map(i => i.naturalWidth / i.clientWidth),
  });
})()
'''


class Page(QWebEnginePage):
    def javaScriptConsoleMessage(self, level, message, line, source):
        said.append(message)


app, said, found = QApplication([]), [], []
for width in (390, 1280):
    view, loop = QWebEngineView(), QEventLoop()
    view.setPage(Page(view))
    view.resize(width, 900)
    view.show()
    view.loadFinished.connect(lambda ok: QTimer.singleShot(1000, loop.quit))
    view.load(QUrl.fromLocalFile(sys.argv[1]))
    loop.exec()
    view.page().runJavaScript(QUESTIONS, lambda text: (found.append(json.loads(text)), loop.quit()))
    loop.exec()
    view.close()
print(json.dumps({"pages": found, "said": said}))
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_in_a_browser(dark, tmp_path):
    """On a phone and a screen: nothing sticks out, nothing is faint, pictures fit, no errors."""
    pytest.importorskip("PySide6")
    dataset = ergode.stochastic.simulate(
        ergode.ReactionNetwork({"X": 9}, [ergode.Reaction("X -> 0", rate_constant=1.0)]),
        times=[0, 1], device="cpu",
    )  # fmt: skip
    stop = Stop(
        "stochastic", "A problem", ["What it is."], "import ergode\n" + "x" * 150,
        Picture.of(lambda ax: ax.plot([0, 1], [1e5, 2e5]), "A line."), "Molecules at the end",
        [Comparison("a name of several words that is long", 1234567.1, 0.5, 1234567.0, "km")],
        "Remark.", 1.0, 2.0, "180,665,355 firings in 10,000 realizations", dataset,
    )  # fmt: skip
    path = tmp_path / "tour.html"
    path.write_text(page([stop], {"version": "1", "device": "a processor of some maker"}))
    flags = "--no-sandbox --disable-gpu" + " --blink-settings=preferredColorScheme=0" * dark
    browser = subprocess.run(
        [sys.executable, "-c", BROWSER, str(path)], check=True, capture_output=True, text=True,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": flags},
    )  # fmt: skip
    seen = json.loads(browser.stdout.splitlines()[-1])
    assert seen["said"] == []
    for one in seen["pages"]:
        assert one["dark"] is dark
        assert one["needed"] <= one["width"]
        assert one["faint"] == []
        assert one["pictures"] == [True]
        assert 0.8 < one["shown"][0] < 1.4  # letters have about the size that they were drawn in
