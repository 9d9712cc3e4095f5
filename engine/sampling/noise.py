"""Random numbers without a generator: a pure function of (seed, choice, position, token id), whatever the company."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, odd: the stride between neighbouring counters."""
_FACTOR_1 = 0xBF58476D1CE4E5B9
_FACTOR_2 = 0x94D049BB133111EB


def mix64(value: int) -> int:
    """Scatter the bits of a 64-bit integer; one to one, so different inputs stay different.

    The finaliser of SplitMix64 (Steele, Lea, Flood 2014, with Stafford's constants), after one stride, so that
    0 is not mapped to itself.
    """
    value = (value + _STEP) & _MASK
    value = ((value ^ (value >> 30)) * _FACTOR_1) & _MASK
    value = ((value ^ (value >> 27)) * _FACTOR_2) & _MASK
    return value ^ (value >> 31)


def choice_key(seed: int, choice: int) -> int:
    """The 64-bit key of one choice; one to one in the seed (0..2^64-1)."""
    return mix64(mix64(seed) ^ mix64(choice))


def exponential_noise(key: int, position: int, token_ids: Tensor) -> Tensor:
    """One Exponential(1) number per token id.

    The noise of a token depends on nothing but the key, the position and that token's id: which other candidates are
    kept, and in what order they come, changes nothing.

    Args:
        key: from :func:`choice_key`.
        position: tokens that this choice generated before, >= 0.
        token_ids: int64 ``[k]``.

    Returns:
        float64 ``[k]``, each above 0 and finite.
    """
    # 52 bits and a half: never 0 and never 1, so the logarithm is finite and not 0.
    uniform = (_bits(token_ids, _begin(key, position)).to(torch.float64) + 0.5) * 2.0**-52
    return -torch.log(uniform)


def log_exponential_noise(keys: Sequence[tuple[int, int]], token_ids: Tensor) -> Tensor:
    """The logarithms of the same numbers in float32, for devices that have no float64, with an error below 2^-21.

    Near 1 a uniform number has too few digits in float32; its distance from 1 is exact in integers and has all of them.

    Args:
        keys: (key, position) of each row.
        token_ids: int64 ``[k]``.

    Returns:
        float32 ``[rows, k]``, finite.
    """
    begins = torch.tensor([[_begin(key, position)] for key, position in keys], dtype=torch.int64)
    bits = _bits(token_ids[None], begins.to(token_ids.device, non_blocking=True))  # [rows, k], 0..2^52-1
    low = bits < 1 << 51
    uniform = (bits.to(torch.float32) + 0.5) * 2.0**-52
    distance = (((1 << 52) - bits).to(torch.float32) - 0.5) * 2.0**-52
    noise = torch.where(low, -torch.log(uniform), -torch.log1p(-distance))
    return torch.log(noise)


def _begin(key: int, position: int) -> int:
    """What a draw's counters begin with, as a signed integer of 64 bits."""
    return _signed((mix64(key ^ mix64(position)) + _STEP) & _MASK)


def _bits(token_ids: Tensor, begin: int | Tensor) -> Tensor:
    """52 scattered bits of each token id."""
    # int64 products wrap modulo 2^64, which is the arithmetic wanted; only the right shifts must be made unsigned.
    state = token_ids * _signed(_STEP) + begin
    state = (state ^ _shift_right(state, 30)) * _signed(_FACTOR_1)
    state = (state ^ _shift_right(state, 27)) * _signed(_FACTOR_2)
    return _shift_right(state ^ _shift_right(state, 31), 12)


def _shift_right(value: Tensor, bits: int) -> Tensor:
    """Right shift of int64 ``value`` that fills with zeros."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same bits as an unsigned 64-bit integer."""
    return value - (1 << 64) if value >> 63 else value
