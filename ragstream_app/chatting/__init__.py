"""A chat on the command line: its loop, its commands and how it looks."""
