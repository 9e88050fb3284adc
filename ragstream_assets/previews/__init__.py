"""Metadata that people look at in the Dagster UI."""
