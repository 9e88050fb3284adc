"""Conversation history: the durable journal, Layer G (its tail) and Layer E (what is selected)."""
