"""The view *Chat*."""
