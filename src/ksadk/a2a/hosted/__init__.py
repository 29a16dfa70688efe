"""A2A inside of other applications: in a runtime that the platform hosts, and in an app of one's own.

`mounting` puts the routes into an app; `identity`, `verifiers` and `contexts` say who is calling, `bootstrap`
joins what a hosted runtime has, and `app_routes` is for everybody else's apps.
"""
