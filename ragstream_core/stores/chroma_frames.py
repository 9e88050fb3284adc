"""What parent and child say to each other: a line of JSON, then rows of float32."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragstream_core.ports import F32

FLOAT_BYTES = 4


def write_frame(pipe: IO[bytes], header: dict[str, Any], rows: F32 | None = None) -> None:
    """Write one frame and flush it.

    Args:
        pipe: Where to.
        header: JSON values only; ``shape`` is added for the rows.
        rows: Shape (n, dimension), float32.

    Raises:
        OSError: The other side is gone.
    """
    if rows is not None:
        header = {**header, "shape": list(rows.shape)}
    pipe.write(json.dumps(header).encode("ascii") + b"\n")
    if rows is not None:
        pipe.write(rows.astype("<f4", copy=False).tobytes())
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[dict[str, Any], F32 | None] | None:
    """Return the next frame, or None where the other side has ended."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        return None
    header: dict[str, Any] = json.loads(line)
    if "shape" not in header:
        return header, None
    import numpy as np

    n, dimension = header.pop("shape")
    data = pipe.read(n * dimension * FLOAT_BYTES)
    if len(data) < n * dimension * FLOAT_BYTES:
        return None
    return header, np.frombuffer(data, dtype="<f4").reshape(n, dimension).astype(np.float32)
