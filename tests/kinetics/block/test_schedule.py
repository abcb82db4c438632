"""Tables for blocks: every term once, and in an order that threads can follow."""

import numpy as np
import pytest

from ergode.kinetics.block.schedule import CHUNK, program_of, rounds_of, segments_of


@pytest.mark.parametrize("long", [0, 300])
def test_segments_cover_every_term_once(long):
    rng = np.random.default_rng(2)
    rows = [*rng.integers(0, 7, 160).tolist(), *[3] * long]
    banks = rng.integers(0, 50, len(rows)).tolist()
    sums, order = segments_of(rows, range(9), 4, banks)
    count = len(rows)
    np.testing.assert_array_equal(np.sort(order), np.arange(count))
    weight = np.append(order + 1, 0)  # the term that is none weighs nothing
    totals, partial = np.zeros(9), np.zeros(sums.place_count)
    owned = np.zeros(sums.label.size, int)
    for segment, label in enumerate(sums.label.tolist()):
        target, turns, rest = label >> 8, label >> 5 & 7, label & 31
        assert segment // 32 == (segment + rest) // 32
        assert rest < 1 << turns and turns == sums.label[segment // 32 * 32] >> 5 & 7
        total = weight[sums.item[:, segment : segment + rest + 1]].sum()
        if target != -1:
            owned[segment : segment + rest + 1] += 1
        if target >= 0:
            totals[target] = total
        elif target < -1:
            partial[-2 - target] = total
    assert owned.max() == 1 and (sums.item[:, owned == 0] == count).all()
    for row, start, stop in zip(sums.row, sums.start, sums.stop, strict=True):
        totals[row] = partial[start:stop].sum()
    assert sums.row.tolist() == ([3] if long else [])
    np.testing.assert_array_equal(totals, np.bincount(rows, np.arange(count) + 1, minlength=9))


def test_neighbours_read_different_banks():
    """Half a warp reads sixteen numbers at once if they lie in different banks."""
    rng = np.random.default_rng(5)
    rows = np.repeat(np.arange(64), 12).tolist()
    banks = rng.integers(0, 500, len(rows)).tolist()

    def turns(given):
        sums, order = segments_of(rows, range(64), 13, given)
        read = np.append(np.array(banks)[order], -1)[sums.item].reshape(13, -1, 16)
        halves = [set(half) - {-1} for row in read for half in row]
        return np.mean([max(np.bincount([a % 16 for a in half], minlength=1)) for half in halves])

    assert turns(banks) < 1.35
    assert turns(None) > 2.5


def test_rounds_of_substitution_wait_for_what_they_use():
    rng = np.random.default_rng(4)
    items = [(i, 1 + 40 * i + k, k, 0) for i in range(40) for k in range(i) if rng.uniform() < 0.15]
    nothing = (40, 0, 0, 0)
    rounds = rounds_of(items, nothing, 8).reshape(-1, 8)
    assert len(rounds) % CHUNK == 0 and (rounds[-CHUNK:] & 0xFFFF == 40).all()
    last_change = {i: -1 for i in range(40)}
    fields = [(rounds >> (16 * k)) & 0xFFFF for k in range(3)]
    found = []
    for r, row in enumerate(zip(*fields, strict=True)):
        targets = [int(i) for i in row[0] if i != 40]
        assert len(set(targets)) == len(targets)
        for i, entry, k in zip(*row, strict=True):
            if i != 40:
                found.append((int(i), int(entry), int(k), 0))
                last_change[int(i)] = r
    assert sorted(found) == sorted(items)
    for r, row in enumerate(zip(*fields, strict=True)):
        for i, _, k in zip(*row, strict=True):
            assert i == 40 or last_change[int(k)] < r


def test_a_thread_keeps_what_it_adds_to():
    rng = np.random.default_rng(3)
    items = [(int(t), k, 0, 0) for k, t in enumerate(rng.integers(0, 5, 40))]
    program = program_of([items[:25], items[25:]], (9, 99, 0, 0), 8)
    rounds = program.item.reshape(-1, 8)
    found, begin = [], 0
    for count in program.level:
        owner = {}
        chunks = -(-count // CHUNK) * CHUNK
        assert (rounds[begin + count : begin + chunks] & 0xFFFF == 9).all()
        for step in range(begin, begin + count):
            for lane in range(8):
                item = int(rounds[step, lane])
                target, number = item & 0xFFFF, (item >> 16) & 0xFFFF
                if target != 9:
                    assert owner.setdefault(target, lane) == lane
                    found.append(number)
        begin += chunks
    assert sorted(found) == list(range(40))
    assert len(rounds) == begin + CHUNK and (rounds[begin:] & 0xFFFF == 9).all()
