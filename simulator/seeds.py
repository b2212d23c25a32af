"""One named random generator per component, all from one root seed.

A generator depends on the root seed and on its own name only, never on the order in which
components are made: adding a source leaves what every other source draws as it was. The name
is hashed with SHA-256, since Python's own ``hash`` of text differs from run to run.

>>> Seeds(7).generator("link/s1/up").integers(0, 100, 3).tolist()
[74, 35, 61]
"""

from __future__ import annotations

import hashlib

import numpy as np

from slackwater.engine.core.errors import ContractViolation, UserError


class Seeds:
    """Hands out the generators of one run.

    Args:
        root: the run's seed, >= 0; with the options and versions it repeats the run.

    Raises:
        UserError: a negative seed.
    """

    def __init__(self, root: int) -> None:
        if root < 0:
            raise UserError(f"seed: {root} is negative; give a whole number from 0 on")
        self.root = root
        self._names: set[str] = set()

    def generator(self, name: str) -> np.random.Generator:
        """The generator called ``name``; every name is given out once.

        Raises:
            ContractViolation: ``name`` was given out before: two components would draw from
                equal streams and be correlated unawares.
        """
        if name in self._names:
            raise ContractViolation(f"random generator {name!r} was handed out twice")
        self._names.add(name)
        digest = hashlib.sha256(name.encode()).digest()
        words = tuple(int.from_bytes(digest[at : at + 4], "little") for at in range(0, 32, 4))
        sequence = np.random.SeedSequence(self.root, spawn_key=words)
        return np.random.Generator(np.random.PCG64(sequence))
