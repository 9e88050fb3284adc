"""The servers of `ragstream up` and their supervision, and what `--dagster` executes here."""
