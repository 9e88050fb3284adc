"""Answers to a Super-Prompt and the citations in them."""
