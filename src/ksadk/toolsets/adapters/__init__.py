"""One module for each agent framework; each imports its framework at the top."""
