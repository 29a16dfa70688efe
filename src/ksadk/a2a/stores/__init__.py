"""Where a server keeps its tasks, what they wait for, and which session a caller's context is."""
