"""RAGstream's library: documents in, cited and replayable Super-Prompts out.

Knows neither Dagster nor Streamlit. Importing the package loads nothing heavy: `RAGstream` is
imported when it is first asked for, and every adapter imports its engine (numpy, onnxruntime,
torch) at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragstream_core.library import RAGstream

__all__ = ["RAGstream"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Return `RAGstream`, imported when it is first asked for.

    Raises:
        AttributeError: It is another name.
    """
    if name != "RAGstream":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found: object = importlib.import_module("ragstream_core.library").RAGstream
    return found
