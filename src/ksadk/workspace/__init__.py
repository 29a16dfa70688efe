"""The engine behind the workspace tools: functions that take a root and return a tool's result."""
