"""The agents A0…A5, one module a stage; each takes a `SuperPrompt` and returns another."""
