"""Program processes: run programs that an owner allowed, and describe or verify copies for an owner."""
