"""Language models behind one protocol, and what they cost."""
