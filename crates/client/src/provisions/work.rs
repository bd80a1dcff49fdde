//! What an engine does about the files of contexts: it has their blobs come, and their tasks wait.

use std::sync::Arc;

use gristmill_core::StartFailure;
use gristmill_wire::{BlobName, ContextId, Digest, PeerId, TaskId};

use super::steward::News;
use super::{Brought, Provisions, Stage};
use crate::blobs::BlobHome;
use crate::blobs::TakingWork as _;
use crate::peers::{LinkPort as _, Parts};

/// Of an engine that takes blobs.
pub(crate) trait ProvisionWork: BlobHome {
    /// A peer has defined a context with files.
    fn note_provision(&mut self, peer: PeerId, context: ContextId) {
        let Some(definition) = self.port().contexts().get(context) else { return };
        let setup = Arc::clone(&definition.setup);
        if let Some(provisions) = self.provisions() {
            provisions.enter(context, peer, setup);
        }
    }

    /// What a task has to wait for that names a context: its files, which begin to come with the first one.
    fn promise_of_files(&mut self, context: ContextId) -> Option<TaskId> {
        if self.provisions()?.is_defined(context) {
            self.begin_provision(context);
        }
        self.provisions()?.promise_of(context)
    }

    fn begin_provision(&mut self, context: ContextId) {
        let promise = self.parts().core.promise();
        let Some(provisions) = self.provisions() else { return };
        if let Err(text) = provisions.begin(context, promise) {
            self.fail_provision(context, &text);
        }
    }

    /// Takes in what the steward has told, and what has come for it.
    fn take_provision_news(&mut self) {
        let news = self.provisions().map(|provisions| provisions.take_news());
        for news in news.unwrap_or_default() {
            self.take_provision_word(news);
        }
        let settled = self.provisions().map(Provisions::take_settled);
        for (context, files) in settled.unwrap_or_default() {
            self.make_ready(context, files);
        }
    }

    fn take_provision_word(&mut self, news: News) {
        let (News::Lacks(ticket, _) | News::Ready(ticket, _) | News::Failed(ticket, _)) = &news;
        let Some(context) = self.provisions().and_then(|one| one.find(*ticket)) else { return };
        match news {
            News::Lacks(_, lacking) => self.have_files_come(context, &lacking),
            News::Ready(_, setup) => {
                self.port_mut().contexts_mut().set_up_as(context, setup.into());
                self.end_provision(context);
            }
            News::Failed(_, text) => self.fail_provision(context, &text),
        }
    }

    /// Asks for the files of a context that are not here.
    fn have_files_come(&mut self, context: ContextId, lacking: &[Digest]) {
        let Some(definition) = self.port().contexts().get(context) else { return };
        let names: Vec<Digest> = definition.files.to_vec();
        let Some(peer) = self.provisions().and_then(|one| Some(one.table.get(&context)?.peer))
        else {
            return;
        };
        let mut files = Vec::new();
        for digest in names.into_iter().filter(|digest| lacking.contains(digest)) {
            let Some(taking) = self.blobs().taking else { return };
            match taking.take(BlobName { digest, size: digest.size() }) {
                Ok(part) => files.push((digest, part)),
                Err(text) => {
                    // What was asked for before it comes, and is of no use.
                    self.promise_blobs(peer);
                    return self.fail_provision(context, &text);
                }
            }
        }
        let waits = self.promise_blobs(peer);
        let Some(provisions) = self.provisions() else { return };
        provisions.has_settled = true;
        if let Some(provision) = provisions.table.get_mut(&context) {
            provision.stage = Stage::Coming { files, waits, failure: None };
        }
    }

    fn make_ready(&mut self, context: ContextId, files: Result<Brought, String>) {
        match files {
            Ok(files) => {
                if let Some(provisions) = self.provisions() {
                    provisions.make(context, files);
                }
            }
            Err(text) => self.fail_provision(context, &text),
        }
    }

    /// A context cannot have its files here.
    fn fail_provision(&mut self, context: ContextId, text: &str) {
        let name = self.port().contexts().name(context).to_owned();
        let text = format!("the files of context {name:?} cannot be had: {text}").into();
        let failure = StartFailure { text, permanent: true, is_expiry: false };
        let Parts { core, port, .. } = self.parts();
        core.give_up_context(context, failure, port.now(), port);
        self.end_provision(context);
    }

    /// The tasks of a context need not wait for its files any more.
    fn end_provision(&mut self, context: ContextId) {
        let promise = self.provisions().and_then(|provisions| provisions.end(context));
        self.keep_promise_of_files(promise);
    }

    fn keep_promise_of_files(&mut self, promise: Option<TaskId>) {
        if let Some(promise) = promise {
            let Parts { core, port, .. } = self.parts();
            core.keep_promise(promise, port.now(), port);
        }
    }

    /// Nobody needs a context any more.
    fn drop_provision(&mut self, context: ContextId) {
        let promise = self.provisions().and_then(|provisions| provisions.let_go(context));
        self.keep_promise_of_files(promise);
    }

    fn provisions(&mut self) -> Option<&mut Provisions> {
        self.blobs().taking.map(|taking| &mut taking.provisions)
    }
}

impl<H: BlobHome> ProvisionWork for H {}
