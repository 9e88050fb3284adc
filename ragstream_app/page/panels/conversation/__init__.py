"""The view *Conversation*."""
