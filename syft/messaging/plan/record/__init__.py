"""Recording of plans: runs a function on placeholders and keeps its operations, state and symbolic sizes.

Not here: running a plan (`executor`), and showing it (`display`).
"""
