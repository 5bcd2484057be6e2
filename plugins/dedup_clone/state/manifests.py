"""Stores attempts, candidates, manifests and file lists."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.contract.records import from_json, to_json
from dedup_clone.state.layout import FeedLayout, generation_of
from dedup_clone.state.store import ObjectStore


class Manifests:
    """Reads and writes the attempts, candidates, file lists and manifests of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)

    def write_attempt(self, attempt: Attempt) -> None:
        self._store.put(self._layout.attempt(attempt.id), to_json(attempt))

    def find_attempt(self, attempt: str) -> Attempt | None:
        """What `attempt` does; None for a retirement, and if the run ended before it wrote the record."""
        return self._store.read_record(Attempt, self._layout.attempt(attempt))

    def attempt(self, attempt: str) -> Attempt:
        """What `attempt` does. Raises ContractViolation when the record is gone."""
        found = self.find_attempt(attempt)
        if found is None:
            name = self._store.uri(self._layout.attempt(attempt))
            raise ContractViolation(f"[{name}] is gone: clear the run from its first task.")
        return found

    def candidate(self, attempt: str) -> Candidate | None:
        """The candidate of `attempt`; None if the dedup job has not finished."""
        return self._store.read_record(Candidate, self._layout.candidate(attempt))

    def candidate_files(self, candidate: Candidate) -> FileList | None:
        """The candidate's file list; None when it has none. Raises ContractViolation when the list is gone."""
        uri = candidate.file_list_uri
        return None if uri is None else self.file_list(uri)

    def file_list(self, uri: str) -> FileList:
        """The file list with this URI. Raises ContractViolation when it is gone."""
        stored = self._store.read(self._name_of(uri))
        if stored is None:
            raise ContractViolation(f"File list [{uri}] is gone: clear the run from its first task.")
        return from_json(FileList, stored.text, where=uri)

    def commit(self, manifest: Manifest, file_list_uri: str | None) -> None:
        """Write the manifest of a generation, and a copy of its file list if it has one. Existing objects stay.

        The list is copied as text, so that the digest in the manifest stays valid. If it is gone, the next publish
        exports target.
        """
        files = None if file_list_uri is None else self._store.read(self._name_of(file_list_uri))
        if files is not None:
            self._store.create(self._layout.file_list(manifest.generation), files.text)
        self._store.create(self._layout.manifest(manifest.generation), to_json(manifest))

    def _name_of(self, uri: str) -> str:
        return uri.removeprefix(self._store.uri(""))

    def committed_files(self, generation: int) -> FileList | None:
        """The file list of a committed generation; None when it has none."""
        return self._store.read_record(FileList, self._layout.file_list(generation))

    def files_exist(self, manifest: Manifest, files: FileList | None = None) -> bool:
        """Whether all `files` still exist with their sizes; None: those of the committed generation."""
        files = files or self.committed_files(manifest.generation)
        if manifest.data_folder is None or files is None:
            return False
        folder = self._name_of(manifest.data_folder)
        sizes = {info.name.removeprefix(folder): info.size for info in self._store.objects(folder)}
        return all(sizes.get(file.path) == file.size for file in files.files)

    def write_candidate(self, attempt: str, candidate: Candidate) -> None:
        """Write the candidate of an attempt. If there is one already, it stays as it is."""
        self._store.create(self._layout.candidate(attempt), to_json(candidate))

    def generations(self) -> list[int]:
        """The committed generations that have manifests, ascending."""
        names = [info.name for info in self._store.objects(self._layout.manifests)]
        found = {generation for name in names if (generation := generation_of(name)) is not None}
        return sorted(generation for generation in found if self._layout.manifest(generation) in names)

    def find(self, generation: int) -> Manifest | None:
        """The manifest of a committed generation; None when it is gone."""
        return self._store.read_record(Manifest, self._layout.manifest(generation))

    def read(self, generation: int) -> Manifest:
        """The manifest of a committed generation. Raises ContractViolation when it is gone."""
        manifest = self.find(generation)
        if manifest is None:
            raise ContractViolation(
                f"[{self._store.uri(self._layout.manifest(generation))}] is gone, although generation [{generation}] "
                f"was committed: restore a former version of it (docs/runbook.md, lost records), then retry."
            )
        return manifest


@dataclass(frozen=True)
class StreamedChanges:
    """The number of rows that an attempt streamed, and their bytes (`size`).

    A task that streams all rows again replaces the record. `began_at`: when the last try of the task began.
    `acknowledged_at`: a time by BigQuery's clock after the last acknowledgement. `applied_at`: when the task saw that
    BigQuery had applied all rows; None until then. `is_overdue`: whether the task gave up waiting for that.
    """

    rows: int
    size: int
    began_at: datetime
    acknowledged_at: datetime
    applied_at: datetime | None = None
    is_overdue: bool = False
