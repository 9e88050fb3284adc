"""What a Super-Prompt is made of: fences, renderers, citations, token counters; all of it pure."""
