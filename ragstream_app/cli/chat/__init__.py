"""The interactive chat on a terminal."""
