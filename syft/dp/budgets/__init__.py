"""Privacy budgets: a ledger of what was spent, and where it is stored."""
