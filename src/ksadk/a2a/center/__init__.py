"""A local A2A Center: the control plane and the gateway of Spaces, for a machine or a team.

`app` is the whole of it. `actions` answers what clients ask, out of `registry` (agents), `ledger` (tasks and
what is permitted with them) and `event_log`, all in one `database`. `workload_tokens` and `permits` say who
may do what, `credentials` holds what agents are shown of their owners, `gateway` forwards calls.
"""
