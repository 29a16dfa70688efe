"""An agent of Google ADK that is another agent, somewhere else, by ADK's own client.

The other agent's address is in REMOTE_AGENT.
"""

import os

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent

REMOTE_AGENT = os.environ.get("REMOTE_AGENT", "http://127.0.0.1:8081")

root_agent = RemoteA2aAgent(name="remote", agent_card=f"{REMOTE_AGENT}/.well-known/agent-card.json")
