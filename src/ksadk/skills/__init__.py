"""Agent Skills: found on disk or in a Skill Service, verified, and run in isolation."""
