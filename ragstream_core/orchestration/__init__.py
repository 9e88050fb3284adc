"""The chain, its inputs and keys, the prompt store, replay and explain."""
