"""Runs the chain and the ingest for people and records both as Dagster runs."""
