"""The stages of the chain, A0 to A5, as pure functions."""
