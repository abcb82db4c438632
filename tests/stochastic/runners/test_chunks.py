"""What Ctrl-C leaves of a run is what the realizations that ended did."""

import numpy as np
import pytest

import ergode
from ergode import Reaction, ReactionNetwork
from ergode.core.devices import cpu
from ergode.core.errors import Abandoned
from ergode.core.status import Status
from ergode.stochastic.runners import chunks
from ergode.stochastic.runners.compiled_direct import CompiledDirectRunner

DECAY = ReactionNetwork({"X": 100}, [Reaction("X -> 0", rate_constant=1.0)])
WITH_RULE = ReactionNetwork(DECAY.species, list(DECAY.reactions), rules={"twice": "2 * X"})
OPTIONS = {"times": [0, 0.5, 1], "replicates": 60, "seed": 1, "device": "cpu:2"}


@pytest.mark.parametrize("output", ["trajectories", "final", "statistics"])
def test_what_an_interruption_left_out_is_missing(monkeypatch, output):
    options = {"times": [0, 1], "replicates": 60, "seed": 1, "device": "cpu:1", "output": output}
    whole = ergode.stochastic.simulate(DECAY, **options)
    done = CompiledDirectRunner.run

    def stopped(self, first, count, wanted, report):
        found = done(self, first, count, wanted, report)
        if first > 0:  # as Ctrl-C leaves it
            for name, unseen in (("status", Status.NOT_RUN), ("rows", 0)):
                found[name][:] = unseen
            for name in set(found) - {"status", "rows"}:
                found[name][:] = 0
        return found

    monkeypatch.setattr(CompiledDirectRunner, "run", stopped)
    monkeypatch.setattr(chunks, "chunk_size", lambda *_: 20)
    with pytest.warns(ergode.InterruptionWarning, match="20 of 60"):
        cut = ergode.stochastic.simulate(DECAY, **options)
    if output == "statistics":
        assert cut["count"].values.tolist() == [20, 20]
        return
    np.testing.assert_array_equal(cut["amount"][:20], whole["amount"][:20])
    assert np.isnan(cut["amount"][20:]).all()


def interrupt_after(monkeypatch, ranges, error):
    """Ctrl-C after so many ranges of realizations have ended, in the midst of the next."""
    run = cpu.run

    def interrupted(compiled, spans, arguments, threads, finished=None, **options):
        spans = list(spans)
        run(compiled, spans[:ranges], arguments, threads, finished)
        # The next range has begun, and ends unseen.
        begun = spans[ranges : ranges + 1]
        run(compiled, begun, arguments, threads, None)
        raise Abandoned(begun) if isinstance(error, Abandoned) else error

    monkeypatch.setattr(cpu, "run", interrupted)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Abandoned()])
@pytest.mark.parametrize("method", ["direct", "composition-rejection", "langevin"])
@pytest.mark.parametrize("network", [DECAY, WITH_RULE])
def test_interrupted_statistics_are_those_of_the_realizations_that_ended(
    monkeypatch, network, method, error
):
    options = {**OPTIONS, "method": method}
    rows = ergode.stochastic.simulate(network, **options)
    interrupt_after(monkeypatch, 5, error)
    with pytest.warns(ergode.InterruptionWarning, match="of 60 realizations"):
        found = ergode.stochastic.simulate(network, output="statistics", **options)
    done = found["status"].values != Status.NOT_RUN
    assert 0 < done.sum() < 60
    assert found.attrs["interrupted"] == 1
    assert (found["count"] == done.sum()).all()
    amounts = rows["amount"].values[done].astype(float)
    np.testing.assert_allclose(found["mean"], amounts.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found["variance"], amounts.var(axis=0, ddof=1), rtol=1e-9)
    if "value_mean" in found:
        np.testing.assert_allclose(found["value_mean"], 2 * amounts.mean(axis=0), rtol=1e-12)
    assert found.attrs["firings"] == rows["firing_count"].values[done].sum()


def test_chunks_that_ended_before_an_interruption_are_returned(monkeypatch):
    """As on a GPU, where a chunk that was interrupted returns nothing."""
    done = CompiledDirectRunner.run

    def stopped(self, first, count, wanted, report):
        if first >= 40:
            raise KeyboardInterrupt
        return done(self, first, count, wanted, report)

    whole = ergode.stochastic.simulate(DECAY, **OPTIONS)
    monkeypatch.setattr(CompiledDirectRunner, "run", stopped)
    monkeypatch.setattr(chunks, "chunk_size", lambda *_: 20)
    with pytest.warns(ergode.InterruptionWarning, match="40 of 60"):
        found = ergode.stochastic.simulate(DECAY, output="statistics", **OPTIONS)
    assert (found["count"] == 40).all()
    np.testing.assert_allclose(found["mean"], whole["amount"][:40].mean("replicate"), rtol=1e-12)


def test_a_run_of_which_nothing_ended_is_interrupted(monkeypatch):
    interrupt_after(monkeypatch, 0, Abandoned())
    with pytest.raises(KeyboardInterrupt):
        ergode.stochastic.simulate(DECAY, output="statistics", **OPTIONS)


@pytest.mark.parametrize("run", [1, 2, 3, 4])
def test_a_log_of_firings_is_of_the_realizations_that_ended(monkeypatch, run):
    """Interrupted in the first or second run of the first or second chunk."""
    whole = ergode.stochastic.simulate(DECAY, output="events", **OPTIONS)
    original, calls = cpu.run, []

    def interrupted(compiled, spans, arguments, threads, finished=None, **options):
        spans = list(spans)
        calls.append(len(spans))
        if len(calls) < run:
            return original(compiled, spans, arguments, threads, finished)
        original(compiled, spans[:2], arguments, threads, finished)
        raise KeyboardInterrupt

    monkeypatch.setattr(cpu, "run", interrupted)
    if run == 1:
        with pytest.raises(KeyboardInterrupt):
            ergode.stochastic.simulate(DECAY, output="events", **OPTIONS)
        return
    with pytest.warns(ergode.InterruptionWarning, match="of 60 realizations"):
        found = ergode.stochastic.simulate(DECAY, output="events", **OPTIONS)
    done = found["status"].values != Status.NOT_RUN
    assert 0 < done.sum() < 60
    kept = done[whole["realization"].values]
    for name in ("firing_time", "reaction", "realization"):
        np.testing.assert_array_equal(found[name], whole[name].values[kept])
    assert found.attrs["firings"] == kept.sum()
    assert (found["firing_count"].values[~done] == 0).all()
