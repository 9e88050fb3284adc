"""The journal of all conversations: an append-only log with checksums."""
