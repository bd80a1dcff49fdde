//! Staging work of an engine: it requests the blobs of a context's files, and makes the context's tasks wait.

use std::sync::Arc;

use gristmill_core::StartFailure;
use gristmill_wire::{BlobName, ContextId, Digest, PeerId, TaskId};

use super::stager::StagingEvent;
use super::{FetchedFiles, Stage, StagingTable};
use crate::blobs::BlobHome;
use crate::blobs::BlobReceiverWork as _;
use crate::peers::{EngineParts, LinkPort as _};

/// Staging work of an engine that receives blobs.
pub(crate) trait StagingWork: BlobHome {
    /// Records that a peer has defined a context with files.
    fn record_staging(&mut self, peer: PeerId, context: ContextId) {
        let Some(definition) = self.port().contexts().get(context) else { return };
        let setup = Arc::clone(&definition.setup);
        if let Some(table) = self.staged() {
            table.enter(context, peer, setup);
        }
    }

    /// Returns the promise of a context's files, which a task that names the context has to wait for. The first such task
    /// starts the staging.
    fn promise_of_files(&mut self, context: ContextId) -> Option<TaskId> {
        if self.staged()?.is_defined(context) {
            self.begin_staging(context);
        }
        self.staged()?.promise_of(context)
    }

    fn begin_staging(&mut self, context: ContextId) {
        let promise = self.parts().core.promise();
        let Some(table) = self.staged() else { return };
        if let Err(text) = table.begin(context, promise) {
            self.fail_staging(context, &text);
        }
    }

    /// Handles the events of the file stager, and the blobs that have come for it.
    fn take_staging_events(&mut self) {
        let event = self.staged().map(|table| table.take_events());
        for event in event.unwrap_or_default() {
            self.on_staging_event(event);
        }
        let settled = self.staged().map(StagingTable::take_settled);
        for (context, files) in settled.unwrap_or_default() {
            self.make_ready(context, files);
        }
    }

    /// Handles one event of the file stager.
    fn on_staging_event(&mut self, event: StagingEvent) {
        let (StagingEvent::Lacks(ticket, _)
        | StagingEvent::Ready(ticket, _)
        | StagingEvent::Failed(ticket, _)) = &event;
        let Some(context) = self.staged().and_then(|one| one.find(*ticket)) else { return };
        match event {
            StagingEvent::Lacks(_, lacking) => self.have_files_come(context, &lacking),
            StagingEvent::Ready(_, setup) => {
                self.port_mut().contexts_mut().set_up_as(context, setup.into());
                self.end_staging(context);
            }
            StagingEvent::Failed(_, text) => self.fail_staging(context, &text),
        }
    }

    /// Requests the files of a context that are not here.
    fn have_files_come(&mut self, context: ContextId, lacking: &[Digest]) {
        let Some(definition) = self.port().contexts().get(context) else { return };
        let names: Vec<Digest> = definition.files.to_vec();
        let Some(peer) = self.staged().and_then(|one| Some(one.table.get(&context)?.peer)) else {
            return;
        };
        let mut files = Vec::new();
        for digest in names.into_iter().filter(|digest| lacking.contains(digest)) {
            let Some(receiver) = self.blobs().receiver else { return };
            match receiver.take(BlobName { digest, size: digest.size() }) {
                Ok(part) => files.push((digest, part)),
                Err(text) => {
                    // The files that were requested before this one still come, but are not used.
                    self.promise_blobs(peer);
                    return self.fail_staging(context, &text);
                }
            }
        }
        let waits = self.promise_blobs(peer);
        let Some(table) = self.staged() else { return };
        // All of the files may be here already: `take_settled` has to look at this context once.
        table.has_settled = true;
        if let Some(provision) = table.table.get_mut(&context) {
            provision.stage = Stage::Coming { files, waits, failure: None };
        }
    }

    /// Requests that the file stager make the fetched files of a context ready, or fails the context.
    fn make_ready(&mut self, context: ContextId, files: Result<FetchedFiles, String>) {
        match files {
            Ok(files) => {
                if let Some(table) = self.staged() {
                    table.make(context, files);
                }
            }
            Err(text) => self.fail_staging(context, &text),
        }
    }

    /// Fails a context that cannot have its files here.
    fn fail_staging(&mut self, context: ContextId, text: &str) {
        let name = self.port().contexts().name(context).to_owned();
        let text = format!("the files of context {name:?} cannot be staged: {text}").into();
        let failure = StartFailure { text, permanent: true, is_expiry: false };
        let EngineParts { core, port, .. } = self.parts();
        core.give_up_context(context, failure, port.now(), port);
        self.end_staging(context);
    }

    /// Ends the wait of a context's tasks for its files.
    fn end_staging(&mut self, context: ContextId) {
        let promise = self.staged().and_then(|table| table.end(context));
        self.keep_promise_of_files(promise);
    }

    fn keep_promise_of_files(&mut self, promise: Option<TaskId>) {
        if let Some(promise) = promise {
            let EngineParts { core, port, .. } = self.parts();
            core.keep_promise(promise, port.now(), port);
        }
    }

    /// Drops the staged files of a context that is not needed any more.
    fn drop_staging(&mut self, context: ContextId) {
        let promise = self.staged().and_then(|table| table.let_go(context));
        self.keep_promise_of_files(promise);
    }

    fn staged(&mut self) -> Option<&mut StagingTable> {
        self.blobs().receiver.map(|receiver| &mut receiver.staged)
    }
}

impl<H: BlobHome> StagingWork for H {}
