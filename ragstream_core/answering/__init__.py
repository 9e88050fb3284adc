"""What happens to an answer: who may give one, which words are shown, which citations hold."""
