"""Translations of plans to torch files, for programs without this library."""

from syft.messaging.plan.translation.export import PlanTranslatorExport as PlanTranslatorExport
from syft.messaging.plan.translation.torchscript import PlanTranslatorTorchscript as PlanTranslatorTorchscript
from syft.messaging.plan.translation.translator import TranslationTarget as TranslationTarget
