"""Access control: release policies, and fake execution, which predicts the result of a call without running it.

Not here: the execution of calls (`execution`), and the policies of nodes (`syft.grid.rights`).
"""
