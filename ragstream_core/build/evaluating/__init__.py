"""Connects the evaluations with the models, stages, settings and records that prompts use."""
