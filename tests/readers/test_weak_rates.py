import pytest

import ergode

TABLE = """!17F (5/2+, 1/2+) -> 17O    e-capture   with screening effects
!Log(rhoY)  Log(T)  mu dQ Vs  Log(rate) nu gamma
7.0 7.0 0 0 0 -1.25 -6 -23
7.0 8.0 0 0 0 -1.00 -6 -23
9.0 7.0 0 0 0 -0.50 -6 -23
9.0 8.0 0 0 0  0.25 -6 -23
"""


def test_a_table(tmp_path):
    path = tmp_path / "17f-17o.dat"
    path.write_text(TABLE)
    (one,) = ergode.read_weak_rates(path)
    assert (dict(one.reactants), dict(one.products)) == ({"f17": 1}, {"o17": 1})
    assert one.value == ergode.WeakTable((7, 9), (7, 8), ((-1.25, -1.0), (-0.5, 0.25)))


def test_malformed_tables(tmp_path, refusal):
    path = tmp_path / "table.dat"

    def error(text):
        path.write_text(text)
        return refusal(ergode.read_weak_rates, [path])

    assert "line 1: expected two nuclei" in error("")
    assert "line 3: '7.0 x'" in error("\n".join([*TABLE.splitlines()[:2], "7.0 x"]))
    assert "3 rows for 2 electron densities" in error(TABLE.rsplit("9.0 8.0", 1)[0])
    with pytest.raises(ergode.ReadError, match="no such file"):
        ergode.read_weak_rates(tmp_path / "none.dat")
