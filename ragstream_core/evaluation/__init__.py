"""Measures of retrieval, gates and answers."""
