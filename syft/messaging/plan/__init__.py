"""Plans: functions turned into data that a worker runs with one message."""

from syft.messaging.plan.plan import Plan as Plan
from syft.messaging.plan.plan import func2plan as func2plan
from syft.messaging.plan.plan import method2plan as method2plan
from syft.messaging.plan.state import State as State
