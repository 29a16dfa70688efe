"""The SDK for agents: tools behind one gateway, approval by people, and A2A 1.0."""
