"""Computes FARM_FINGERPRINT, which DuckDB does not have: FarmHash's Fingerprint64, in Python integers.

Source: BigQuery's "Hash functions", FARM_FINGERPRINT: "This function … output never changes for a given input".
"""

from __future__ import annotations

import duckdb

FUNCTION = "_bigquery_farm_fingerprint"  # the name of `farm_fingerprint` in DuckDB
# Constants and one-letter names are those of FarmHash's source, farmhashna.
_MASK = (1 << 64) - 1
_K = (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Adds the function to the connection. NULL gives NULL."""
    connection.create_function(FUNCTION, farm_fingerprint, ["BLOB"], "BIGINT")


def farm_fingerprint(content: bytes) -> int:
    """The fingerprint as a signed 64-bit integer."""
    size = len(content)
    if size <= 16:
        number = _short(content, size)
    elif size <= 64:
        number = _medium(content, size)
    else:
        number = _long(content, size)
    return number - (1 << 64) if number >> 63 else number


def _uint(content: bytes, position: int, size: int = 8) -> int:
    return int.from_bytes(content[position : position + size], "little")


def _rotate_right(number: int, bits: int) -> int:
    number &= _MASK
    return (number >> bits | number << (64 - bits)) & _MASK


def _shift_mix(number: int) -> int:
    number &= _MASK
    return number ^ number >> 47


def _mix(one: int, other: int, factor: int) -> int:
    half = _shift_mix(((one ^ other) & _MASK) * factor)
    return _shift_mix((other ^ half) * factor) * factor & _MASK


def _short(content: bytes, size: int) -> int:
    if size == 0:
        return _K[2]
    if size < 4:
        one = content[0] + (content[size >> 1] << 8)
        other = size + (content[-1] << 2)
        return _shift_mix(one * _K[2] ^ other * _K[0]) * _K[2] & _MASK
    factor = _K[2] + size * 2 & _MASK
    if size < 8:
        return _mix(size + (_uint(content, 0, 4) << 3), _uint(content, size - 4, 4), factor)
    one, other = _uint(content, 0) + _K[2], _uint(content, size - 8)
    return _mix(_rotate_right(other, 37) * factor + one, (_rotate_right(one, 25) + other) * factor & _MASK, factor)


def _medium(content: bytes, size: int) -> int:
    factor = _K[2] + size * 2 & _MASK
    one, two = _uint(content, 0) * _K[1 if size <= 32 else 2], _uint(content, 8)
    three, four = _uint(content, size - 8) * factor, _uint(content, size - 16) * _K[2]
    low = _rotate_right(one + two, 43) + _rotate_right(three, 30) + four & _MASK
    hashed = _mix(low, one + _rotate_right(two + _K[2], 18) + three & _MASK, factor)
    if size <= 32:
        return hashed
    five, six = _uint(content, 16) * factor, _uint(content, 24)
    seven, eight = (low + _uint(content, size - 32)) * factor, (hashed + _uint(content, size - 24)) * factor
    other = five + _rotate_right(six + one, 18) + seven & _MASK
    return _mix(_rotate_right(five + six, 43) + _rotate_right(seven, 30) + eight & _MASK, other, factor)


def _long(content: bytes, size: int) -> int:
    y = 81 * _K[1] + 113 & _MASK
    state = (81 * _K[2] + _uint(content, 0), y, _shift_mix(y * _K[2] + 113) * _K[2], (0, 0), (0, 0))
    for position in range(0, (size - 1) // 64 * 64, 64):
        state = _block(content, position, state, _K[1], 1)
    x, y, z, v, w = state
    factor = _K[1] + ((z & 0xFF) << 1)
    w = (w[0] + (size - 1) % 64, w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _block(content, size - 64, (x, y, z, v, w), factor, 9)
    low = _mix(v[0], w[0], factor) + _shift_mix(y) * _K[0] + z
    return _mix(low & _MASK, _mix(v[1], w[1], factor) + x & _MASK, factor)


_State = tuple[int, int, int, tuple[int, int], tuple[int, int]]


def _block(content: bytes, position: int, state: _State, factor: int, carry: int) -> _State:
    """Mixes 64 bytes into the state. The last block has a `factor` of its own, and `carry` 9 instead of 1."""
    x, y, z, v, w = state
    x = _rotate_right(x + y + v[0] + _uint(content, position + 8), 37) * factor & _MASK
    y = _rotate_right(y + v[1] + _uint(content, position + 48), 42) * factor
    x ^= w[1] * carry & _MASK
    y += v[0] * carry + _uint(content, position + 40)
    z = _rotate_right(z + w[0], 33) * factor
    v = _weak_hash_32_bytes(content, position, v[1] * factor, x + w[0])
    w = _weak_hash_32_bytes(content, position + 32, z + w[1], y + _uint(content, position + 16))
    return z & _MASK, y & _MASK, x, v, w


def _weak_hash_32_bytes(content: bytes, position: int, one: int, other: int) -> tuple[int, int]:
    first, second, third, fourth = (_uint(content, position + 8 * i) for i in range(4))
    one += first
    other = _rotate_right(other + one + fourth, 21)
    total = one + second + third
    return total + fourth & _MASK, other + _rotate_right(total, 44) + one & _MASK
