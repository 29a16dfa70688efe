"""What runs an agent for a server, whatever framework it is written in."""
