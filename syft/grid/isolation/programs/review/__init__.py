"""Review of a requested result for the data owner: warnings and a preview. Runs in a program process.

Contains the influence of rows on a result, the checks built on it, and the preview. Does not contain decisions.
"""
