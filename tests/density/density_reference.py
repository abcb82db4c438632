"""Plain implementations to hold the sparse grid against: dense arrays, a Kalman filter."""

import numpy as np


def corner_transport(p, rates, step):
    """One step of corner transport on a dense array that is empty near its edges.

    `rates[d]` is the rate on the face above each cell along dimension d.
    """

    def up(a, d):
        return np.roll(a, -1, d)

    def down(a, d):
        return np.roll(a, 1, d)

    dims = range(p.ndim)
    c = [step * rate for rate in rates]
    T = [
        0.5
        * (np.maximum(down(c[d], d), 0) * (p - down(p, d)) + np.minimum(c[d], 0) * (up(p, d) - p))
        for d in dims
    ]
    S = sum(T)
    new = p.copy()
    for d in dims:
        jump = up(p, d) - p
        before = np.where(c[d] > 0, p - down(p, d), up(up(p, d), d) - up(p, d))
        theta = np.divide(before, jump, out=np.zeros_like(jump), where=jump != 0)
        limiter = np.maximum(0, np.minimum(np.minimum((1 + theta) / 2, 2), 2 * theta))
        flux = (
            np.maximum(c[d], 0) * (p - S + T[d])
            + np.minimum(c[d], 0) * (up(p, d) - up(S, d) + up(T[d], d))
            + 0.5 * np.abs(c[d]) * (1 - np.abs(c[d])) * limiter * jump
        )
        new -= flux - down(flux, d)
    new = np.maximum(new, 0)
    return new / new.sum()


def split(p, rates, step, backward):
    """One Strang step of the limited third-order scheme on a dense array empty near its edges."""
    dims = range(p.ndim)
    for d in reversed(dims) if backward else dims:
        c = step * rates[d]
        gradient = np.where(c > 0, c - np.roll(c, 1, d), np.roll(c, -1, d) - c)
        c = c * (1 - 0.5 * gradient)
        size = np.abs(c)
        right, left, far = np.roll(p, -1, d), np.roll(p, 1, d), np.roll(p, -2, d)
        upwind = np.where(c > 0, p, right)
        ahead = np.where(c > 0, right - p, p - right)
        before = np.where(c > 0, p - left, right - far)
        theta = np.divide(before, ahead, out=np.zeros_like(p), where=ahead != 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            third = (2 - size) * (1 - size) / 6 + (1 - size**2) / 6 * theta
            most = np.where(size > 0, (1 - size) / size * theta, np.inf)
        psi = np.where(theta > 0, np.maximum(0, np.minimum(1, np.minimum(third, most))), 0)
        flux = c * (upwind + psi * ahead)
        p = p - (flux - np.roll(flux, 1, d))
    return p


def kalman(mean, covariance, transition, shift, noise, measurements):
    """Means and covariances of a linear filter after each step and, if there is one, correction.

    `measurements[k]` is None or (H, value, R).
    """
    results = []
    for measurement in measurements:
        mean = transition @ mean + shift
        covariance = transition @ covariance @ transition.T + noise
        if measurement is not None:
            H, value, R = measurement
            S = H @ covariance @ H.T + R
            gain = covariance @ H.T @ np.linalg.inv(S)
            mean = mean + gain @ (value - H @ mean)
            covariance = covariance - gain @ S @ gain.T
        results.append((mean, covariance))
    return results
