"""Loading skills, and running them."""
