"""Recording of plans: runs a function with examples and writes down its operations, state and symbolic sizes.

Running a plan is in `executor`, showing it in `display`.
"""
