"""Ids of records (UUIDv7) and names of new conversations; time and chance come in as arguments."""

from __future__ import annotations

import datetime as dt
import uuid


def uuid7(ms: int, chance: bytes) -> str:
    """Return a UUIDv7 (RFC 9562): 48 bits of time, then chance.

    Args:
        ms: Milliseconds since the epoch; only the lowest 48 bits count.
        chance: 10 bytes.

    Raises:
        ValueError: Not 10 bytes.
    """
    if len(chance) != 10:
        raise ValueError(f"10 random bytes are needed, not {len(chance)}")
    value = (ms & (1 << 48) - 1) << 80 | int.from_bytes(chance, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62))


def session_name(now: dt.datetime, nth: int = 1) -> str:
    """Return the name of a new conversation, ``YYYYMMDD-HHMMSS``, with a number from the 2nd on."""
    name = now.strftime("%Y%m%d-%H%M%S")
    return name if nth < 2 else f"{name}-{nth}"
