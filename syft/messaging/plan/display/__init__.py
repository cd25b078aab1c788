"""Text, tables and graphs of plans."""
