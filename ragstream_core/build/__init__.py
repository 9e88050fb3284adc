"""The composition root: settings in, connected adapters and stages out."""
