"""Connects test specifications with the index, the chain and the language model."""
