"""Selective memory: what is worth remembering of what the user said, and the files that hold it."""
