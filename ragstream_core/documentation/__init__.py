"""Test specifications written from requirements: records, schema, coverage, Markdown."""
