"""A Skill Service on this machine: a directory of skills, over the wire that `SkillServiceClient` speaks."""
