"""Candidates for a prompt: dense and lexical lists over pinned generations."""
