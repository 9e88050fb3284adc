"""The Super-Prompt: chain, inputs, key, record, replay, rendering and parsing."""
