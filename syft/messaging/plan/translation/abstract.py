"""AbstractPlanTranslator: the name of PlanTranslator in later 0.2 releases."""

from __future__ import annotations

from syft.messaging.plan.translation.translator import PlanTranslator

AbstractPlanTranslator = PlanTranslator
