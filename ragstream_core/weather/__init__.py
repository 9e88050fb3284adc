"""The weather tool; no stage of a prompt knows it."""
