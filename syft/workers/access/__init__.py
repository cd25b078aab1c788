"""What a worker lets out, and what a call would give, worked out without running it: release policies, fake execution.

Not here: the execution of calls (`execution`), and the policies of nodes (`syft.grid.rights`).
"""
