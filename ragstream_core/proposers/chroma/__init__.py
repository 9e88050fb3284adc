"""Sealed Chroma collections, built and queried in a child process."""
