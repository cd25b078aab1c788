"""Text, tables and drawings of plans."""
