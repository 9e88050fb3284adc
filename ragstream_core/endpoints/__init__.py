"""OpenAI-compatible endpoints: which may be contacted, what is sent, how long anybody waits."""
