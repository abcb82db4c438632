"""Physical constants in CGS units (CODATA 2018)."""

from __future__ import annotations

AVOGADRO = 6.02214076e23  # 1/mol
BOLTZMANN = 1.380649e-16  # erg/K
GAS_CONSTANT = 8.31446261815324e7  # erg/(mol K)
PLANCK = 6.62607015e-27  # erg s
REDUCED_PLANCK = 1.054571817646156e-27  # erg s
ELEMENTARY_CHARGE = 4.803204712570263e-10  # statC
DALTON = 1.66053906660e-24  # g
DALTON_MEV = 931.49410242  # MeV
MEV = 1.602176634e-6  # erg
RADIATION = 7.565733250280007e-15  # a = 4 sigma / c [erg/(cm3 K4)]
ELECTRON_REST = 8.1871057769e-7  # m c^2 [erg]
COMPTON = 3.8615926796e-11  # reduced Compton wavelength of electrons [cm]
STANDARD_ATMOSPHERE = 1.01325e6  # dyn/cm2
