"""Dagster's web server and daemon behind a guard."""
