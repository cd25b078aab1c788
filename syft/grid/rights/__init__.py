"""Access control of a node: readers of data sets, requests and grants, privacy budgets and the audit log."""

from syft.grid.rights import budget_calls as _budget_calls  # noqa: F401  (registers the handlers of budget calls)
from syft.grid.rights import handlers as _handlers  # noqa: F401  (registers the handlers of messages about rights)
from syft.grid.rights.audit import AuditError as AuditError
from syft.grid.rights.audit import AuditFile as AuditFile
from syft.grid.rights.audit import AuditLog as AuditLog
from syft.grid.rights.budget import Budget as Budget
from syft.grid.rights.policy import NodePolicy as NodePolicy
from syft.grid.rights.requests import Requests as Requests
from syft.grid.rights.row_store import RowStore as RowStore
