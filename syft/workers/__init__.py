"""Who holds objects and answers messages."""

from syft.workers.abstract import AbstractWorker as AbstractWorker
from syft.workers.base import BaseWorker as BaseWorker
from syft.workers.virtual import VirtualWorker as VirtualWorker
