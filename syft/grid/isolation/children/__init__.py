"""Shared code of session, vault and program processes: their worker, and calls to the supervisor."""
