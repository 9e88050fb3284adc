"""The weather tool: two fixed hosts, checked answers, analytics; no stage of a prompt calls it."""
