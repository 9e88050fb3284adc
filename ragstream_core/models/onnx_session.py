"""The one way in which onnxruntime is opened: on a processor, one thread a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def open_session(model: Path | bytes, *, arena: bool = True, **entries: str) -> Any:
    """Return a session that computes the same bits whatever else this machine does.

    A score or a vector is never a function of the threads: sums in another order have other bits.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = arena
    options.log_severity_level = 3
    for name, value in entries.items():
        options.add_session_config_entry(f"session.{name}", value)
    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model),
        sess_options=options,
        providers=["CPUExecutionProvider"],
    )
