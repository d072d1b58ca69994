//! What questions have in common, read once for each configuration.

use std::sync::{Mutex, PoisonError};

use super::answers::{Configured, Question};
use crate::cache::{AnyCache, Units};
use crate::model::{Decoder, DecoderBackend, ModelError};

/// Caches that hold a prefix, one set a cache and map: that of the question asked last, since questions that begin
/// alike follow each other.
///
/// A prefix is a prompt unit of its own, so what its queries read depends on nothing that follows, and a fork of its
/// caches is what a question would have made for itself.
pub(super) struct Prefixes<'a, B: DecoderBackend, R> {
    decoder: &'a Decoder<B>,
    configurations: &'a [Configured<'a, R>],
    /// Of each configuration the first that has the same caches: it holds them for all, since what is done to logits
    /// does not reach a prefix.
    first: Vec<usize>,
    held: Vec<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    tokens: Vec<u32>,
    caches: Vec<AnyCache>,
}

impl<'a, B: DecoderBackend, R> Prefixes<'a, B, R> {
    pub(super) fn new(decoder: &'a Decoder<B>, configurations: &'a [Configured<'a, R>]) -> Self {
        let first = |own: &Configured<'_, R>| {
            configurations.iter().position(|other| other.has_caches_of(own)).unwrap_or_default()
        };
        let held = configurations.iter().map(|_| Mutex::default()).collect();
        Self { decoder, configurations, first: configurations.iter().map(first).collect(), held }
    }

    /// Caches of a configuration with the question's prefix in them.
    ///
    /// Waits for another thread that reads the same prefix. That one hands work to the thread pool, whose threads
    /// never come here.
    pub(super) fn fork(
        &self,
        configuration: usize,
        question: &Question,
    ) -> Result<Vec<AnyCache>, ModelError> {
        let configuration = self.first[configuration];
        let mut held = self.held[configuration].lock().unwrap_or_else(PoisonError::into_inner);
        if held.tokens != question.prefix {
            *held = self.read(configuration, &question.prefix)?;
        }
        let prefill = self.configurations[configuration].simulation.scheme().prefill;
        let units = Units::with_prefix(question.prefix.len(), question.prompt_len(), prefill);
        Ok(held.caches.iter().map(|cache| cache.fork(&units)).collect())
    }

    fn read(&self, configuration: usize, prefix: &[u32]) -> Result<Held, ModelError> {
        let Configured { simulation, kind, map, .. } = self.configurations[configuration];
        let units = Units::open_prefix(prefix.len(), simulation.scheme().prefill);
        let mut caches = simulation.any(kind, map, &units)?;
        self.decoder.forward(prefix, &mut caches)?;
        Ok(Held { tokens: prefix.to_vec(), caches })
    }
}
