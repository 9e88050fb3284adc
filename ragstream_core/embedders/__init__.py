"""Adapters that turn texts into vectors; the homes of onnxruntime and torch."""
