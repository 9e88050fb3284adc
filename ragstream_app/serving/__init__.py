"""What `ragstream up` starts, keeps running and protects."""
