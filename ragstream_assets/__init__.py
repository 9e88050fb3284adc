"""Dagster and nothing else: assets, ops, jobs, sensors, checks, resources."""
