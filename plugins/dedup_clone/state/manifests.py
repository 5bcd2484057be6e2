"""Candidates of attempts, and manifests of committed generations."""

from __future__ import annotations

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.contract.records import to_json
from dedup_clone.contract.request import DedupRequest, ParentGeneration
from dedup_clone.state.layout import FeedLayout
from dedup_clone.state.store import ObjectStore


class Manifests:
    """Reads and writes the proofs of one feed."""

    def __init__(self, store: ObjectStore, feed: str) -> None:
        self._store = store
        self._layout = FeedLayout(feed)

    def write_request(self, request: DedupRequest) -> str:
        """Returns the request's URI, which is all that the dedup job is told."""
        name = self._layout.request(request.attempt)
        self._store.put(name, to_json(request))
        return self._store.uri(name)

    def request(self, attempt: str) -> DedupRequest | None:
        """What `attempt` was asked to do; None for one that died before, and for a rollback."""
        return self._store.read_record(DedupRequest, self._layout.request(attempt))

    def candidate(self, attempt: str) -> Candidate | None:
        """What the dedup job of `attempt` handed back; None when it did not finish."""
        return self._store.read_record(Candidate, self._layout.candidate(attempt))

    def candidate_files(self, candidate: Candidate) -> FileList | None:
        """The file list that a candidate names, None when it names none. Raises ContractViolation when it is gone."""
        uri = candidate.file_list_uri
        if uri is None:
            return None
        files = self._store.read_record(FileList, uri.removeprefix(self._store.uri("")))
        if files is None:
            raise ContractViolation(f"File list [{uri}] is gone: clear the run from its first task.")
        return files

    def commit(self, manifest: Manifest, files: FileList | None) -> None:
        """Write header and file list (if any) of a generation; harmless when they are there already."""
        if files is not None:
            self._store.create(self._layout.file_list(manifest.generation), to_json(files))
        self._store.create(self._layout.manifest(manifest.generation), to_json(manifest))

    def files(self, generation: int) -> FileList | None:
        """The committed file list of a generation, None where it has no files."""
        return self._store.read_record(FileList, self._layout.file_list(generation))

    def files_are_there(self, manifest: Manifest) -> bool:
        """Whether every file of the committed generation still lies in its data folder, in its size."""
        files = self.files(manifest.generation)
        if manifest.data_folder is None or files is None:
            return False
        folder = manifest.data_folder.removeprefix(self._store.uri(""))
        sizes = {info.name.removeprefix(folder): info.size for info in self._store.objects(folder)}
        return all(sizes.get(file.path) == file.size for file in files.files)

    def write_candidate(self, attempt: str, candidate: Candidate) -> None:
        """Hand back what an attempt is to publish; the first candidate of an attempt stays."""
        self._store.create(self._layout.candidate(attempt), to_json(candidate))

    def read(self, generation: int) -> Manifest:
        name = self._layout.manifest(generation)
        manifest = self._store.read_record(Manifest, name)
        if manifest is None:
            raise ContractViolation(
                f"[{self._store.uri(name)}] is gone although CURRENT names generation [{generation}]: "
                f"restore the object (soft delete keeps it for seven days), then retry."
            )
        return manifest

    def parent(self, generation: int | None) -> ParentGeneration | None:
        """How a request names the generation that it builds on."""
        if generation is None:
            return None
        manifest = self.read(generation)
        if manifest.data_folder is None:
            raise ContractViolation(f"Generation [{generation}] has no data files: export target first.")
        return ParentGeneration(
            generation=generation,
            manifest_uri=self._store.uri(self._layout.manifest(generation)),
            file_list_uri=self._store.uri(self._layout.file_list(generation)),
            file_list_digest=manifest.file_list_digest,
            data_uri=manifest.data_folder,
        )
