"""How the bytes of a file become pages of text; engines run in a limited child process."""
