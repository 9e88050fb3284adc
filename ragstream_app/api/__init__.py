"""The HTTP server for programs: an OpenAI-compatible endpoint, and what else is mounted in it."""
