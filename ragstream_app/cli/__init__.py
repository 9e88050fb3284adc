"""The command line `ragstream`."""
