"""What is remembered beside the conversation: cached answers, a digest, facts."""
