"""The HTTP API of a node. It never carries data values; those use the stream."""

from syft.grid.node.api.accounts import make_accounts
from syft.grid.node.api.budget import make_budget
from syft.grid.node.api.objects import make_objects
from syft.grid.node.api.programs import make_programs
from syft.grid.node.api.rights import make_rights
from syft.grid.node.api.status import make_page, make_status

# Functions that return a router for a node.
ROUTERS = (make_accounts, make_objects, make_rights, make_programs, make_budget, make_status, make_page)
