"""RAGstream's library: documents in, cited and replayable Super-Prompts out.

Knows neither Dagster nor Streamlit. Importing the package loads nothing heavy: every adapter
imports its engine (numpy, onnxruntime, torch) at first use.
"""

from __future__ import annotations

__version__ = "0.1.0"
