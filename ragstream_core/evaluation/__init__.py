"""Measured retrieval quality."""
