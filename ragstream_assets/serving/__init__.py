"""Dagster's own servers as `ragstream up` starts them: guarded, and revived when they die."""
