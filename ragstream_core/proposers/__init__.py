"""Stores that propose candidates: exact, FAISS and Chroma."""
