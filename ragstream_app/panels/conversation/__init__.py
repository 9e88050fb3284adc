"""The conversation tab: turns, replies from outside, tags, clearing, and what a prompt sees."""
