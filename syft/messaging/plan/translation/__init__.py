"""Translations of plans into what plain torch runs, for workers without this library."""

from syft.messaging.plan.translation.export import PlanTranslatorExport as PlanTranslatorExport
from syft.messaging.plan.translation.torchscript import PlanTranslatorTorchscript as PlanTranslatorTorchscript
