"""Entry points of the confined processes of a node, by role.

They are named by strings because the template process, not the supervisor, imports them.
"""

ENTRY_POINTS: dict[str, str] = {
    "session": "syft.grid.isolation.session.process:main",
    "vault": "syft.grid.isolation.vault.process:main",
    "program": "syft.grid.isolation.programs.jobs:main",
}
