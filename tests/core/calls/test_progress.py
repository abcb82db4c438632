"""Progress where there is no terminal: a plain line for every tenth."""

import pytest

from ergode.core.calls import progress


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def lines(capsys, total, amounts, **options):
    with progress.track("runs", total, unit="replicates", **options) as report:
        for amount in amounts:
            report(amount)
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


def test_a_line_for_every_tenth_and_no_more(capsys):
    assert lines(capsys, 1000, [1] * 1000) == [
        f"runs: {k} of 1000 replicates" for k in range(100, 1001, 100)
    ]


def test_large_steps_make_one_line_each(capsys):
    assert lines(capsys, 7, [3, 4]) == ["runs: 3 of 7 replicates", "runs: 7 of 7 replicates"]
    assert lines(capsys, 100, [9, 1, 0, 90]) == [
        "runs: 10 of 100 replicates", "runs: 100 of 100 replicates",
    ]  # fmt: skip


def test_nothing_to_do_is_no_error(capsys):
    assert lines(capsys, 0, []) == []
    assert lines(capsys, 0, [0]) == []


def test_it_can_be_silent(capsys):
    assert lines(capsys, 10, [5, 5], show=False) == []


def test_an_error_passes_through(capsys):
    with pytest.raises(ValueError, match="stop"), progress.track("runs", 10, unit="x") as report:
        report(5)
        raise ValueError("stop")
    assert capsys.readouterr().err == "runs: 5 of 10 x\n"


def test_a_notebook_without_widgets_gets_lines(capsys, monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    assert lines(capsys, 10, [5, 5]) == ["runs: 5 of 10 replicates", "runs: 10 of 10 replicates"]


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich's own word for "this is a terminal"
    with progress.track("runs", 4, unit="replicates") as report:
        report(4)
    assert "4 of 4 replicates" in capsys.readouterr().err
