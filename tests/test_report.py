"""The pages of the tour and of a result."""

import json
import os
import subprocess
import sys

import pytest
from command_line import invoke

import ergode
from ergode.report import Comparison, Picture, Stop, page, report


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


def decay(names=("X",)):
    return ergode.stochastic.simulate(
        ergode.ReactionNetwork(
            dict.fromkeys(names, 9),
            [ergode.Reaction(f"{name} -> 0", rate_constant=1.0) for name in names],
        ),
        times=[0, 1], seed=31, device="cpu",
    )  # fmt: skip


def test_the_page_of_a_result_says_what_was_run():
    found = report(decay(), "run <3>.nc")
    for text in ("run &lt;3&gt;.nc", "seed: 31", "ergode.stochastic.simulate", "direct", "DONE",
                 "<figure>", "firing_count", "A result of stochastic"):  # fmt: skip
        assert text in found, text
    assert "<3>" not in found


def test_a_result_without_figure_or_inputs_has_a_page():
    found = decay().isel(replicate=0, time=0)
    found.attrs.pop("inputs")
    found["status"] = found["status"] * 0 + ergode.Status.NOT_FINITE
    text = report(found, "one")
    assert "<figure>" not in text and "What was run" not in text
    assert "1 member of 1 failed." in text and "A value became infinite" in text


def test_the_command_writes_a_page_and_overwrites_nothing(tmp_path):
    ergode.save(decay(), tmp_path / "run.nc")
    assert invoke("report", str(tmp_path / "run.nc")).exit_code == 0
    page = tmp_path / "run.html"
    assert "<h1>run.nc</h1>" in page.read_text()
    assert invoke("report", str(tmp_path / "run.nc")).exit_code != 0
    again = invoke("report", str(tmp_path / "run.nc"), "--overwrite")
    assert again.exit_code == 0 and "wrote" in again.output
    lost = invoke("report", str(tmp_path / "no.nc"))
    assert lost.exit_code == 1 and "does not exist" in lost.output


@pytest.mark.exhaustive
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("of", ["tour", "result"])
def test_the_page_in_a_browser(of, dark, tmp_path):
    """On a phone and a screen: nothing sticks out, nothing is faint, pictures fit, no errors."""
    pytest.importorskip("PySide6")
    dataset = decay()
    stop = Stop(
        "stochastic", "A problem", ["What it is."], "import ergode\n" + "x" * 150,
        Picture.of(lambda ax: ax.plot([0, 1], [1e5, 2e5]), "A line."), "Molecules at the end",
        [Comparison("a name of several words that is long", 1234567.1, 0.5, 1234567.0, "km")],
        "Remark.", 1.0, 2.0, "180,665,355 firings in 10,000 realizations", dataset,
    )  # fmt: skip
    path = tmp_path / "tour.html"
    facts = {"version": "1", "device": "a processor of some maker"}
    path.write_text(page([stop], facts) if of == "tour" else report(dataset, "a_long_name" * 8))
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
