"""The page of a run that is in progress, served on this machine only."""
