"""`SuperPrompt` under the path of the seeds (R-111); it is defined in `ragstream_core.records`."""

from __future__ import annotations

from ragstream_core.records import SuperPrompt

__all__ = ["SuperPrompt"]
