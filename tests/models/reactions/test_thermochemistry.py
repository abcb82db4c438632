import pytest

import ergode


def test_laws_refuse_what_is_not_a_number():
    with pytest.raises(ergode.ModelError, match="expected seven numbers in each"):
        ergode.Reaclib([(1.0, 2.0)])
    with pytest.raises(ergode.ModelError, match="factor of an Arrhenius coefficient is nan"):
        ergode.Arrhenius(float("nan"))
    with pytest.raises(ergode.ModelError, match="three or four"):
        ergode.Falloff(ergode.Arrhenius(1), ergode.Arrhenius(1), troe=(1.0,))


def test_nuclei_refuse_partition_functions_that_cannot_be():
    with pytest.raises(ergode.ModelError, match="1 temperature and 0 values"):
        ergode.Nucleus(1.0, temperatures=(1e9,))
    with pytest.raises(ergode.ModelError, match="more than 0"):
        ergode.Nucleus(1.0, temperatures=(1e9,), partition=(0.0,))


def test_polynomials_have_seven_coefficients():
    with pytest.raises(ergode.ModelError, match="low of NASA polynomials"):
        ergode.NasaPolynomials((1.0,), (1.0,) * 7, 1000.0, {"H": 1})
