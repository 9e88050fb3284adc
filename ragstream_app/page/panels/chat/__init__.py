"""The view *Chat*: asking now, an answer at a time."""
