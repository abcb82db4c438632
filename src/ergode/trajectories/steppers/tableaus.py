"""Butcher tableaus of the explicit Runge-Kutta methods; a new method is one more tableau.

    k_s = h f(t + c_s h, y + a_s1 k_1 + ... + a_s,s-1 k_s-1),    y' = y + b_1 k_1 + ...

Every method has one stage more than its rows: k at the end of the step, which is also the first
stage of the next step.  The error estimate is ``error . k``.  The dense output at the fraction x of
a step is ``y + sum_j w_j(x) k_j``; the w_j are polynomials without constant term.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed. (1993),
chapters II.1 (eq. 1.8), II.5 (table 5.2), II.6 (eqs. 6.12, 6.20) and II.10; L. F. Shampine, Math.
Comp. 46, 135 (1986); Ch. Tsitouras, Comput. Math. Appl. 62, 770 (2011), table 1 and section 4.

Symplectic methods: S. Blanes, P. C. Moan, J. Comput. Appl. Math. 142, 313 (2002), table 2;
W. Kahan, R.-C. Li, Math. Comp. 66, 1089 (1997); M. Suzuki, K. Umeno (1993) and R. I. McLachlan,
SIAM J. Sci. Comput. 16, 151 (1995); all in E. Hairer, Ch. Lubich, G. Wanner, "Geometric Numerical
Integration", 2nd ed. (2006), chapter V.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

Row = tuple[float, ...]
Rows = tuple[Row, ...]


@dataclass(frozen=True)
class Tableau:
    """One explicit Runge-Kutta method.

    Attributes
    ----------
    order : int
        The global error is O(step^order).
    a : tuple of tuple of float
        Row s has the s weights of the stages before stage s.
    b : tuple of float
        Weights of the step.
    c : tuple of float
        Position of each stage in the step, 0 to 1.
    error : tuple of float
        Weights of the error estimate for all stages and the end; empty without an estimate.
    correction : tuple of float
        Weights of a second estimate of lower order, which guards against an accidental zero of the
        first.
    dense : tuple of tuple of float
        Dense output: coefficients of x, x^2, ... of every stage's weight; default: cubic Hermite.
    extra_a, extra_c : tuple
        Additional stages of the dense output, after the stage at the end.
    drifts, kicks : tuple of float
        Of a symplectic method, see `splitting`; its second stage is the average slope of a step.
    """

    order: int
    a: Rows
    b: Row
    c: Row
    error: Row = ()
    correction: Row = ()
    dense: Rows = ()
    extra_a: Rows = ()
    extra_c: Row = ()
    drifts: Row = ()
    kicks: Row = ()

    def __post_init__(self) -> None:
        if not self.dense:
            object.__setattr__(self, "dense", hermite_dense(self.b))


def hermite_dense(b: Row) -> Rows:
    """Weights of the cubic Hermite interpolant; first and last stage are the slopes at the ends."""
    weights = [(0.0, 3.0 * weight, -2.0 * weight) for weight in b]
    first = tuple(one + other for one, other in zip(weights[0], (1.0, -2.0, 1.0), strict=True))
    return (first, *weights[1:], (0.0, -1.0, 1.0))


def _nested_weights(b: Row, rest: Rows) -> Rows:
    """Weights of x (F0 + (1 - x) (F1 + x (F2 + (1 - x) (F3 + ...)))), DOP853's dense output.

    F0 is the step.  F1 and F2 match the slopes at both ends.  `rest` holds F3, F4, ...
    """
    x, count = Polynomial([0.0, 1.0]), len(rest[0])
    step = np.zeros(count)
    step[: len(b)] = b
    begin, end = np.eye(count)[0], np.eye(count)[len(b)]
    factors = [step, begin - step, 2.0 * step - begin - end, *np.array(rest)]
    weights = []
    for j in range(count):
        nested = Polynomial([0.0])
        for number in reversed(range(len(factors))):
            nested = (x if number % 2 == 0 else 1.0 - x) * (factors[number][j] + nested)
        weights.append(tuple(float(value) for value in nested.coef[1:]))
    return tuple(weights)


EULER = Tableau(order=1, a=((),), b=(1.0,), c=(0.0,))

RK4 = Tableau(
    order=4,
    a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    c=(0.0, 0.5, 0.5, 1.0),
)

TSIT5 = Tableau(
    order=5,
    a=(
        (),
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (
            5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401,
            -0.028269050394068383,
        ),
    ),
    b=(
        0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081,
        2.324710524099774,
    ),
    c=(0.0, 0.161, 0.327, 0.9, 0.9800255409045097, 1.0),
    error=(
        -0.00178001105222577714, -0.0008164344596567469, 0.007880878010261995, -0.1447110071732629,
        0.5823571654525552, -0.45808210592918697, 0.015151515151515152,
    ),
    dense=(
        (1.0, -2.763706197274826, 2.9132554618219126, -1.0530884977290216),
        (0.0, 0.13169999999999998, -0.2234, 0.1017),
        (0.0, 3.9302962368947516, -5.941033872131505, 2.490627285651253),
        (0.0, -12.411077166933676, 30.33818863028232, -16.548102889244902),
        (0.0, 37.50931341651104, -88.1789048947664, 47.37952196281928),
        (0.0, -27.896526289197286, 65.09189467479366, -34.87065786149661),
        (0.0, 1.5, -4.0, 2.5),
    ),
)  # fmt: skip

DOPRI5 = Tableau(
    order=5,
    a=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    b=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    c=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    error=(
        71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40,
    ),
    dense=(
        (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
        (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
        (
            0.0, 127303824393 / 49829197408, -318862633887 / 49829197408,
            701980252875 / 199316789632,
        ),
        (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
        (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
    ),
)  # fmt: skip

DOP853 = Tableau(
    order=8,
    a=(
        (),
        (0.05260015195876773,),
        (0.0197250569845379, 0.0591751709536137),
        (0.02958758547680685, 0.0, 0.08876275643042054),
        (0.2413651341592667, 0.0, -0.8845494793282861, 0.924834003261792),
        (0.037037037037037035, 0.0, 0.0, 0.17082860872947386, 0.12546768756682242),
        (0.037109375, 0.0, 0.0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
        (
            0.03709200011850479, 0.0, 0.0, 0.17038392571223998, 0.10726203044637328,
            -0.015319437748624402, 0.008273789163814023,
        ),
        (
            0.6241109587160757, 0.0, 0.0, -3.3608926294469414, -0.868219346841726,
            27.59209969944671, 20.154067550477894, -43.48988418106996,
        ),
        (
            0.47766253643826434, 0.0, 0.0, -2.4881146199716677, -0.590290826836843,
            21.230051448181193, 15.279233632882423, -33.28821096898486, -0.020331201708508627,
        ),
        (
            -0.9371424300859873, 0.0, 0.0, 5.186372428844064, 1.0914373489967295,
            -8.149787010746927, -18.52006565999696, 22.739487099350505, 2.4936055526796523,
            -3.0467644718982196,
        ),
        (
            2.273310147516538, 0.0, 0.0, -10.53449546673725, -2.0008720582248625,
            -17.9589318631188, 27.94888452941996, -2.8589982771350235, -8.87285693353063,
            12.360567175794303, 0.6433927460157636,
        ),
    ),
    b=(
        0.054293734116568765, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003,
        -5.801203960010585, 0.3111643669578199, -0.1521609496625161, 0.20136540080403034,
        0.04471061572777259,
    ),
    c=(
        0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726,
        0.3333333333333333, 0.25, 0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571,
        1.0,
    ),
    error=(
        0.01312004499419488, 0.0, 0.0, 0.0, 0.0, -1.2251564463762044, -0.4957589496572502,
        1.6643771824549864, -0.35032884874997366, 0.3341791187130175, 0.08192320648511571,
        -0.022355307863886294, 0.0,
    ),
    correction=(
        -0.18980075407240762, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003,
        -5.801203960010585, -0.4226823213237919, -0.1521609496625161, 0.20136540080403034,
        0.02265179219836082, 0.0,
    ),
    extra_a=(
        (
            0.056167502283047954, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25350021021662483,
            -0.2462390374708025, -0.12419142326381637, 0.15329179827876568, 0.00820105229563469,
            0.007567897660545699, -0.008298,
        ),
        (
            0.03183464816350214, 0.0, 0.0, 0.0, 0.0, 0.028300909672366776, 0.053541988307438566,
            -0.05492374857139099, 0.0, 0.0, -0.00010834732869724932, 0.0003825710908356584,
            -0.00034046500868740456, 0.1413124436746325,
        ),
        (
            -0.42889630158379194, 0.0, 0.0, 0.0, 0.0, -4.697621415361164, 7.683421196062599,
            4.06898981839711, 0.3567271874552811, 0.0, 0.0, 0.0, -0.0013990241651590145,
            2.9475147891527724, -9.15095847217987,
        ),
    ),
    extra_c=(0.1, 0.2, 0.7777777777777778),
    dense=_nested_weights(
        (
            0.054293734116568765, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003,
            -5.801203960010585, 0.3111643669578199, -0.1521609496625161, 0.20136540080403034,
            0.04471061572777259,
        ),
        (
            (
                -8.428938276109013, 0.0, 0.0, 0.0, 0.0, 0.5667149535193777, -3.0689499459498917,
                2.38466765651207, 2.117034582445028, -0.871391583777973, 2.2404374302607883,
                0.6315787787694688, -0.08899033645133331, 18.148505520854727, -9.194632392478356,
                -4.436036387594894,
            ),
            (
                10.427508642579134, 0.0, 0.0, 0.0, 0.0, 242.28349177525817, 165.20045171727028,
                -374.5467547226902, -22.113666853125306, 7.733432668472264, -30.674084731089398,
                -9.332130526430229, 15.697238121770845, -31.139403219565178, -9.35292435884448,
                35.81684148639408,
            ),
            (
                19.985053242002433, 0.0, 0.0, 0.0, 0.0, -387.0373087493518, -189.17813819516758,
                527.8081592054236, -11.57390253995963, 6.8812326946963, -1.0006050966910838,
                0.7777137798053443, -2.778205752353508, -60.19669523126412, 84.32040550667716,
                11.99229113618279,
            ),
            (
                -25.69393346270375, 0.0, 0.0, 0.0, 0.0, -154.18974869023643, -231.5293791760455,
                357.6391179106141, 93.40532418362432, -37.45832313645163, 104.0996495089623,
                29.8402934266605, -43.53345659001114, 96.32455395918828, -39.17726167561544,
                -149.72683625798564,
            ),
        ),
    ),
)  # fmt: skip


# ---- symplectic methods


def _composed(order: int, weights: Row) -> Tableau:
    """A composition of Stoermer-Verlet steps."""
    halves = [0.5 * weight for weight in weights]
    inner = [one + other for one, other in zip(halves[:-1], halves[1:], strict=True)]
    return _symplectic(order, (halves[0], *inner, halves[-1]), weights)


def _symplectic(order: int, drifts: Row, kicks: Row) -> Tableau:
    return Tableau(order, ((), (0.0,)), (0.0, 1.0), (0.0, 1.0), drifts=drifts, kicks=kicks)


def _mirrored(*half: float) -> Row:
    """A symmetric sequence from its first half; its middle makes the sum one."""
    return (*half, 1.0 - 2.0 * sum(half), *reversed(half))


VERLET = _composed(2, (1.0,))

BLANES_MOAN4 = _symplectic(
    4,
    _mirrored(0.0792036964311957, 0.353172906049774, -0.0420650803577195),
    (
        0.209515106613362, -0.143851773179818, 0.434336666566456, 0.434336666566456,
        -0.143851773179818, 0.209515106613362,
    ),
)  # fmt: skip

KAHAN_LI6 = _composed(
    6,
    _mirrored(
        0.39216144400731413928, 0.33259913678935943860, -0.70624617255763935981,
        0.082213596293550800230,
    ),
)  # fmt: skip

SUZUKI_UMENO8 = _composed(
    8,
    _mirrored(
        0.74167036435061295345, -0.40910082580003159400, 0.19075471029623837995,
        -0.57386247111608226666, 0.29906418130365592384, 0.33462491824529818378,
        0.31529309239676659663,
    ),
)  # fmt: skip
