"""Chunks as points of a plane."""
