"""A2A Spaces: agents that a control plane lists, and calls that it prepares and records.

`client` is what callers use; its `backend`, `control_plane` or `public_actions`, is asked for agents and
permits, `gateway` and `egress` say how an agent is reached, `events` and the outbox keep what came of it.
"""
