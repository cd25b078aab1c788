"""Program processes: run programs that an owner allowed, and describe or verify copies for an owner."""

from syft.grid.isolation.programs.rules import save_plan as save_plan
