"""Privacy budgets: a ledger of charges and limits, and its storage."""
