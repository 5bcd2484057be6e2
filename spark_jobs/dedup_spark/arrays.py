"""Names for the types of numpy arrays in hashing, comparison and plans, and empty arrays of three of these types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
# Hashes, and packed keys (comparison/keys.py): integers that are equal if and only if the keys are.
U64Array = npt.NDArray[np.uint64]
# Row numbers within a file, counted from 0, and update_ids.
I64Array = npt.NDArray[np.int64]
# Positions in an array, or bucket numbers.
Indices = npt.NDArray[np.intp]

# In place of a position: there is none.
ABSENT = -1

EMPTY_U64: U64Array = np.zeros(0, dtype=np.uint64)
EMPTY_I64: I64Array = np.zeros(0, dtype=np.int64)
NO_INDICES: Indices = np.zeros(0, dtype=np.intp)
