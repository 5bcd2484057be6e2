"""Where each thing lies below gs://STATE/FEED/. Nothing else builds these names."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_clone.contract.delivery import Delivery


@dataclass(frozen=True)
class FeedLayout:
    """Object names of one feed (without bucket)."""

    feed: str

    @property
    def current(self) -> str:
        return f"{self.feed}/CURRENT"

    @property
    def staging(self) -> str:
        return f"{self.feed}/STAGING"

    @property
    def index(self) -> str:
        return f"{self.feed}/index.json"

    @property
    def arrivals(self) -> str:
        return f"{self.feed}/arrivals/"

    @property
    def refused(self) -> str:
        return f"{self.feed}/refused/"

    @property
    def ledger(self) -> str:
        return f"{self.feed}/ledger/"

    @property
    def data(self) -> str:
        return f"{self.feed}/data/"

    @property
    def attempts(self) -> str:
        return f"{self.feed}/attempts/"

    def arrival(self, delivery: Delivery) -> str:
        return f"{self.arrivals}{delivery.name}.json"

    def refusal(self, delivery: Delivery) -> str:
        return f"{self.refused}{delivery.name}.json"

    def manifest(self, generation: int) -> str:
        return f"{self.feed}/manifests/{generation:08d}.json"

    def file_list(self, generation: int) -> str:
        return f"{self.feed}/manifests/{generation:08d}.files.json"

    def data_folder(self, attempt: str) -> str:
        return f"{self.data}{attempt}/"

    def attempt_folder(self, attempt: str) -> str:
        return f"{self.attempts}{attempt}/"

    def request(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}request.json"

    def candidate(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}candidate.json"

    def swap_order(self, attempt: str) -> str:
        return f"{self.attempt_folder(attempt)}swap.json"

    def verdicts(self, attempt: str, phase: str) -> str:
        return f"{self.attempt_folder(attempt)}checks_{phase}.json"

    def ledger_record(self, attempt: str) -> str:
        return f"{self.ledger}{attempt}.json"
