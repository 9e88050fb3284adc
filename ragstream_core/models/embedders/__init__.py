"""Embedding backends: text in, unit vectors out."""
