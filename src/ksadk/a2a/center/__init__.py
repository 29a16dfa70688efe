"""A local A2A Center: the control plane and the gateway of Spaces, for a machine or a team.

`app` is the whole of it. `actions` answers what clients ask, out of `registry` (agents) and `ledger` (tasks,
permits and events), both in one `database`. `keys`, `workload_tokens` and `permits` say who may do what,
`credentials` holds what external agents are shown, `gateway` forwards calls of hosted ones.
"""
