"""The chat view: questions one after the other, each answered from the documents."""
