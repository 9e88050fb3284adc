"""The Debug Logger: traces and variables for developers, off by default, apart from all else."""
