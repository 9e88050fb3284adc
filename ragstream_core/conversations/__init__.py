"""Conversations: the journal, what is derived from it, and what prompts read of it."""
