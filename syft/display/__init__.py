"""How objects show themselves in notebooks and terminals: tables in HTML and text, and lists that are tables.

They are built from what this process knows: showing an object sends no message, and shows no values of tensors.
"""

from syft.display.facts import Shown as Shown
from syft.display.objects import chain_html as chain_html
from syft.display.objects import pointer_html as pointer_html
from syft.display.objects import worker_html as worker_html
from syft.display.rows import Found as Found
from syft.display.rows import FoundByWorker as FoundByWorker
from syft.display.rows import Rows as Rows
from syft.display.tables import grid_html as grid_html
from syft.display.tables import grid_text as grid_text
from syft.display.tables import table_html as table_html
