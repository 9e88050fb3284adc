"""What is on disk: the relational catalog, the vector file and the views readers hold."""
