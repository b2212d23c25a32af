"""Smooth motion: positions with their exact first and second derivatives.

Seconds since the kick-off are floats here, for the sine's sake; event times stay int64 ns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.scenarios.soccer.pitch import SECOND


class Motion(NamedTuple):
    """Arrays of shape (3, n): position [mm], velocity [mm/s], acceleration [mm/s^2]."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray


def seconds(times_ns: np.ndarray, origin_ns: int) -> np.ndarray:
    """Seconds (float64) since ``origin_ns``."""
    return np.asarray((times_ns - origin_ns) / SECOND)


def ease(share: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """From 0 to 1 over ``share`` 0..1 with velocity and acceleration 0 at both ends.

    Gives 6u^5 - 15u^4 + 10u^3 and its first two derivatives by ``share``.

    >>> [part.round(4).tolist() for part in ease(np.array([0.25, 0.75]))]
    [[0.1035, 0.8965], [1.0547, 1.0547], [5.625, -5.625]]
    """
    u = np.clip(share, 0.0, 1.0)
    return (
        u**3 * (u * (6 * u - 15) + 10),
        30 * u**2 * (u - 1) ** 2,
        60 * u * (u - 1) * (2 * u - 1),
    )


def approach(
    motion: Motion, time_s: np.ndarray, at_s: float, target: np.ndarray, half_s: float
) -> Motion:
    """``motion`` led smoothly to ``target`` (3,) at ``at_s`` and back, within ``half_s``."""
    since = time_s - at_s
    weight, slope, bend = ease(1 - np.abs(since) / half_s)
    slope = -np.sign(since) * slope / half_s
    bend = bend / half_s**2
    way = target[:, None] - motion.position
    return Motion(
        motion.position + weight * way,
        (1 - weight) * motion.velocity + slope * way,
        (1 - weight) * motion.acceleration - 2 * slope * motion.velocity + bend * way,
    )


def debs_columns(sid: np.ndarray, motion: Motion) -> dict[str, np.ndarray]:
    """The DEBS 2013 columns (R19 Table 5.1) without ``ts``, all int64."""
    columns = {"sid": sid.astype(np.int64)}
    columns |= dict(zip("xyz", _whole(motion.position), strict=True))
    for letter, vectors in (("v", motion.velocity), ("a", motion.acceleration)):
        size = np.sqrt((vectors**2).sum(axis=0))
        direction = vectors / np.maximum(size, 1e-9)
        columns[letter] = _whole(size * 1000)
        names = [letter + axis for axis in "xyz"]
        columns |= dict(zip(names, _whole(direction * 10_000), strict=True))
    return columns


def _whole(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.rint(values), np.int64)
