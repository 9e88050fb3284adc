"""The two faces of RAGstream: the command line and the page."""
