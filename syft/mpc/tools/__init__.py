"""Tools for authors of encrypted programs: check, validate, profile."""
